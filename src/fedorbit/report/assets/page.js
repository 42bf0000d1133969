// The page: what is shown, and what happens when a reader chooses something else.
"use strict";

const report = JSON.parse(document.getElementById("report-data").textContent);
const hiddenSeries = new Set();
const chosenOrbitSeries = new Map();
let current = 0;
let fullScale = false;
let playing = null;

const MANY_ORBITS = 10;
const TRAFFIC = [
  ["to_ground_bytes", "From satellites to the ground"],
  ["from_ground_bytes", "From the ground to satellites"],
  ["isl_bytes", "Between satellites"],
  ["unlinked_bytes", "Moved without a link (where links are assumed)"],
];

const shown = (rows) => rows.filter((row) => !hiddenSeries.has(row.series));
const labelled = (rows) => shown(rows).map((row) => ({ ...row, index: row.series, label: report.series[row.series] }));

function sharesInView(setting) {
  if (!setting.visible) return null;
  const shares = new Array(setting.rounds).fill(0);
  for (const row of setting.visible)
    for (const [begin, end] of row)
      for (let t = begin; t < Math.min(end, setting.rounds); t++) shares[t] += 1 / setting.visible.length;
  return setting.rounds > 1500 ? null : shares;
}

function highest(rows) {
  const values = rows.flatMap((row) => row.x.filter((x) => x !== null));
  return Math.max(...values, 1);
}

const DRAW = {
  sweep: drawSweep,
  accuracy: (place, setting) => overRounds(place, setting, setting.accuracy),
  spread: (place, setting) => overRounds(place, setting, setting.spread),
  hours: (place, setting) => overCost(place, setting.hours, "simulated hours", "hours"),
  samples: (place, setting) => overCost(place, setting.samples, "samples trained", "samples"),
  bytes: (place, setting) => overCost(place, setting.bytes, "bytes between orbits and ground stations", "bytes"),
  orbits: drawOrbits,
  confusion: drawConfusion,
  timeline: (place, setting) => { setting.mark = timeline(place, setting.visible, setting.in_view, setting.rounds); },
  map: drawMapOf,
  classes: drawClasses,
  similarity: drawSimilarity,
  traffic: drawTraffic,
  onboard: (place, setting) => onBoard(place, setting, setting.onboard.time, setting.onboard.highest_s, setting.onboard.round_s),
  staleness: (place, setting) => overHours(place, setting.noted.staleness),
  version: (place, setting) => overHours(place, setting.noted.version),
  idle_visit: (place, setting) => overHours(place, setting.noted.idle_visit),
  charge: (place, setting) => onBoard(place, setting, setting.onboard.charge, 100, null),
};

// The range of an axis in percent: what the curves take, in steps of 5, or all of it if a reader wants that.
function percentAxis(curves, also = []) {
  const around = (curve) => curve.mean.flatMap((mean, i) => {
    const half = (curve.half && curve.half[i]) || 0;
    return mean === null ? [] : [mean - half, mean + half];
  });
  const values = [...curves.flatMap(around), ...also.filter((v) => v !== null)];
  if (fullScale || !values.length) return { yMin: 0, yMax: 100 };
  const low = values.reduce((a, b) => Math.min(a, b)), high = values.reduce((a, b) => Math.max(a, b));
  const yMin = Math.min(95, Math.max(0, 5 * Math.floor(low / 5)));
  return { yMin, yMax: Math.min(100, Math.max(yMin + 5, 5 * Math.ceil(high / 5))) };
}

function overRounds(place, setting, rows) {
  const shares = sharesInView(setting), curves = labelled(rows);
  lineChart(place, { curves, xLabel: "round", xName: "round", xMax: setting.rounds, ...percentAxis(curves), shares });
}

function onBoard(place, setting, rows, yMax, limit) {
  lineChart(place, { curves: labelled(rows), xLabel: "round", xName: "round", xMax: setting.rounds, yMax, shares: null, limit });
}

function overCost(place, rows, xLabel, xName) {
  const curves = labelled(rows);
  lineChart(place, { curves, xLabel, xName, xMax: highest(rows), ...percentAxis(curves), shares: null });
}

function overHours(place, { curves, highest: yMax }) {
  lineChart(place, { curves: labelled(curves), xLabel: "simulated hours", xName: "hours", xMax: highest(curves), yMax, shares: null });
}

function drawSweep(place, setting) {
  const { parameter, values, default: limit, ...lines } = setting.sweeps[place.closest("figure").dataset.number];
  const x = values.map((_, i) => i);
  const curves = ["accuracy", "spread"].map((label, index) => ({ ...lines[label], x, index, label }));
  lineChart(place, { curves, xLabel: parameter, xName: parameter, xMax: x.length - 1, ...percentAxis(curves, [limit]), shares: null, limit, values });
  legend(place, ["accuracy", "spread"]);
}

function drawOrbits(place, setting, number) {
  const candidates = setting.orbits;
  const wanted = chosenOrbitSeries.get(number);
  const chosen = candidates.find((row) => row.series === wanted) || candidates[candidates.length - 1];
  const orbits = chosen.rows.length;
  if (orbits <= MANY_ORBITS) {
    const curves = chosen.rows.map((mean, orbit) => ({ index: orbit, label: `orbit ${orbit}`, x: chosen.x, mean, half: null }));
    lineChart(place, { curves, xLabel: "round", xName: "round", xMax: setting.rounds, ...percentAxis(curves), shares: null });
    legend(place, curves.map((curve) => curve.label));
    return;
  }
  const text = (value) => (value === null ? "not known" : `${value} %`);
  heatMap(place, {
    rows: orbits, columns: chosen.x.length, rowLabels: chosen.rows.map((_, orbit) => `orbit ${orbit}`),
    rowHeight: Math.max(4, Math.min(18, 460 / orbits)),
    value: (r, c) => (chosen.rows[r][c] === null ? null : chosen.rows[r][c] / 100),
    title: (r, c) => `orbit ${r}, round ${chosen.x[c]}: ${text(chosen.rows[r][c])}`,
    columnLabels: (c) => `${chosen.x[c]}`, columnName: "round",
  });
}

function drawConfusion(place, setting) {
  const { names, rows } = setting.confusion;
  const pickers = place.closest("figure").querySelector(".pickers");
  const value = (name) => Number(pickers.querySelector(`.${name}`).value);
  const row = rows[value("confusion-method")], orbit = value("confusion-orbit");
  const counts = orbit < 0 ? row.total : row.orbits[orbit];
  if (!counts) {
    place.replaceChildren();
    html("p", { class: "small" }, place, "No test sample of this orbit was evaluated.");
    return;
  }
  const totals = counts.map((line) => line.reduce((a, b) => a + b, 0));
  heatMap(place, {
    rows: names.length, columns: names.length, rowLabels: names, cell: 56, rowHeight: names.length > 45 ? 12 : 24,
    value: (r, c) => (totals[r] ? counts[r][c] / totals[r] : null),
    text: (r, c) => (counts[r][c] ? `${counts[r][c]}` : ""),
    title: (r, c) => `${names[r]} taken for ${names[c]}: ${counts[r][c]} of ${totals[r]} (${((100 * counts[r][c]) / totals[r]).toFixed(1)} %)`,
    columnLabels: (c) => (names[c].length > 6 ? `${names[c].slice(0, 5)}…` : names[c]), columnName: "predicted class",
  });
}

function legend(place, labels) {
  const list = html("div", { class: "legend" }, place);
  labels.forEach((label, index) => {
    const entry = html("span", { class: colourClass(index) }, list);
    const key = make("svg", { class: "key", "aria-hidden": "true" }, entry);
    make("line", { x1: 0, x2: 26, y1: 6, y2: 6 }, key);
    make("path", { class: "mark", d: markPath(index, 13, 6) }, key);
    entry.append(label);
  });
}

function drawMapOf(place, setting) {
  const world = report.worlds[setting.world];
  const update = drawMap(place, world, setting.places, report.land);
  const figure = place.closest("figure");
  const slider = figure.querySelector("input[type=range]");
  const output = figure.querySelector("output");
  const show = () => {
    const t = Number(slider.value);
    const text = describeRound(world, t);
    output.textContent = text;
    slider.setAttribute("aria-valuetext", text);
    update(t);
    if (setting.mark) setting.mark(t);
  };
  slider.oninput = show;
  figure.querySelector("button.play").onclick = (event) => play(event.currentTarget, slider);
  show();
}

function play(button, slider) {
  if (stop()) return;
  button.textContent = "Pause";
  const timer = setInterval(() => {
    slider.value = Number(slider.value) >= Number(slider.max) ? 0 : Number(slider.value) + 1;
    slider.oninput(); // of the map as it is now: it may have been drawn again
  }, 180);
  playing = { timer, button };
}

function stop() {
  if (playing === null) return false;
  clearInterval(playing.timer);
  playing.button.textContent = "Play";
  playing = null;
  return true;
}

function drawClasses(place, setting) {
  const { names, counts } = setting.classes;
  const most = Math.max(...counts.flat(), 1);
  heatMap(place, {
    rows: names.length, columns: counts.length, rowLabels: names, cell: 64, rowHeight: names.length > 45 ? 12 : 22,
    value: (r, c) => Math.sqrt(counts[c][r] / most),
    text: (r, c) => (counts[c][r] ? `${counts[c][r]}` : ""),
    title: (r, c) => `${names[r]}, orbit ${c}: ${counts[c][r]} training samples`,
    columnLabels: (c) => `${c}`, columnName: "orbit",
  });
}

function drawSimilarity(place, setting) {
  const matrix = setting.classes.similarity;
  heatMap(place, {
    rows: matrix.length, columns: matrix.length, rowLabels: matrix.map((_, orbit) => `orbit ${orbit}`), cell: 64,
    value: (r, c) => matrix[r][c],
    text: (r, c) => matrix[r][c].toFixed(3),
    title: (r, c) => `orbits ${r} and ${c}: ${matrix[r][c].toFixed(3)}`,
    columnLabels: (c) => `${c}`, columnName: "orbit",
  });
}

function drawTraffic(place, setting) {
  const fedavg = setting.traffic.find((row) => report.series[row.series] === "fedavg");
  const groups = TRAFFIC.map(([key, name]) => ({
    name,
    bars: labelled(setting.traffic).map((row) => {
      const factor = fedavg && fedavg[key] ? `, ${(row[key] / fedavg[key]).toFixed(2)} ×` : "";
      return { index: row.series, label: row.label, value: row[key], note: row[key] === null ? "not known" : `${bytes(row[key])}${factor}` };
    }),
  }));
  barChart(place, groups);
}

function draw() {
  const section = document.querySelector(`section.setting[data-setting="${current}"]`);
  const setting = report.settings[current];
  for (const figure of section.querySelectorAll("figure[data-chart]"))
    DRAW[figure.dataset.chart](figure.querySelector(".plot"), setting, current);
}

function choose(number) {
  stop();
  current = number;
  for (const section of document.querySelectorAll("section.setting"))
    section.hidden = Number(section.dataset.setting) !== number;
  draw();
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  document.getElementById("theme").textContent = theme === "dark" ? "Light" : "Dark";
}

function start() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  setTheme(dark.matches ? "dark" : "light");
  dark.addEventListener("change", () => setTheme(dark.matches ? "dark" : "light"));
  const button = document.getElementById("theme");
  button.hidden = false;
  button.onclick = () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  const bar = document.querySelector(".bar");
  bar.hidden = false;
  for (const toggle of bar.querySelectorAll(".toggle[data-series]"))
    toggle.onclick = () => {
      const index = Number(toggle.dataset.series);
      if (!hiddenSeries.delete(index)) hiddenSeries.add(index);
      toggle.setAttribute("aria-pressed", String(!hiddenSeries.has(index)));
      draw();
    };
  const select = document.getElementById("setting");
  if (select) select.onchange = () => choose(Number(select.value));
  for (const picker of document.querySelectorAll("select.orbit-series")) {
    picker.parentElement.hidden = false;
    picker.onchange = () => { chosenOrbitSeries.set(current, Number(picker.value)); draw(); };
  }
  for (const controls of document.querySelectorAll(".slider, .pickers")) controls.hidden = false;
  for (const picker of document.querySelectorAll(".pickers select")) picker.onchange = draw;
  const scale = document.getElementById("full-scale");
  scale.onclick = () => {
    fullScale = !fullScale;
    scale.setAttribute("aria-pressed", String(fullScale));
    draw();
  };
  choose(0);
  let width = document.documentElement.clientWidth;
  new ResizeObserver(() => {
    if (document.documentElement.clientWidth === width) return;
    width = document.documentElement.clientWidth;
    draw();
  }).observe(document.documentElement);
}

start();
