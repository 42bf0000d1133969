// The figures of a setting: which numbers of the report each draws, and along which axis.
"use strict";

const MANY_ORBITS = 10, MANY_ENDS = 30;
const TRAFFIC = [
  ["to_ground_bytes", "From satellites to the ground"],
  ["from_ground_bytes", "From the ground to satellites"],
  ["isl_bytes", "Between satellites"],
  ["unlinked_bytes", "Moved without a link (where links are assumed)"],
];

const DRAW = {
  sweep: drawSweep,
  accuracy: (place, setting) => overTime(place, setting, setting.accuracy, percentRange, { unit: "%", hasShade: true }),
  spread: (place, setting) => overTime(place, setting, setting.spread, percentRange, { hasShade: true }),
  samples: (place, setting) => overCost(place, setting.samples, "samples trained", "samples"),
  bytes: drawBytes,
  orbits: drawOrbits,
  confusion: drawConfusion,
  "per-class": drawPerClass,
  timeline: drawTimeline,
  map: drawMapOf,
  transfers: drawTransfers,
  classes: drawClasses,
  similarity: drawSimilarity,
  traffic: drawTraffic,
  onboard: (place, setting) => overTime(place, setting, setting.onboard.time, rangeFromZero, { limit: setting.onboard.round_s }),
  charge: (place, setting) => overTime(place, setting, setting.onboard.charge, () => [0, 100], { unit: "%" }),
  staleness: (place, setting) => overTime(place, setting, setting.noted.staleness, rangeFromZero),
  version: (place, setting) => overTime(place, setting, setting.noted.version, rangeFromZero),
  idle_visit: (place, setting) => overTime(place, setting, setting.noted.idle_visit, rangeFromZero),
};

const shown = (rows) => rows.filter((row) => !hiddenSeries.has(row.series));
const labelled = (rows) => shown(rows).map((row) => ({ ...row, index: row.series, label: report.series[row.series], ...ofSetting(row) }));

// Settings in one chart differ in their dashes, and in colour where there is only one method.
const DASHES = ["none", "7 3", "2 3", "9 3 2 3", "14 4", "5 2 1 2 1 2"];
const TOGETHER = ["accuracy", "spread", "samples", "bytes", "ground_bytes"];
const isOneMethod = () => report.series.length === 1;

function ofSetting({ series, setting }) {
  if (setting === undefined) return {};
  return { index: isOneMethod() ? setting : series, dash: DASHES[setting], label: `${report.series[series]}, ${report.settings[setting].label}` };
}

// A setting by its number; the one after the last is all of them together.
function settingAt(number) {
  const { settings } = report;
  if (number < settings.length) return settings[number];
  const rows = (key) => settings.flatMap((one, place) => one[key].map((row) => ({ ...row, half: null, setting: place })));
  return {
    ...Object.fromEntries(TOGETHER.map((key) => [key, rows(key)])), visible: null, round_h: settings[0].round_h,
    rounds: Math.max(...settings.map(({ rounds }) => rounds)), by_clock: settings.some(({ by_clock }) => by_clock),
  };
}

function settingKeys(place, rows) {
  if (!rows.some(({ setting }) => setting !== undefined)) return;
  const list = html("div", { class: "legend" }, place);
  report.settings.forEach(({ label }, number) => {
    const entry = html("span", isOneMethod() ? { class: colourClass(number) } : {}, list);
    const key = make("svg", { class: "key", "aria-hidden": "true" }, entry);
    make("line", { x1: 0, x2: 26, y1: 6, y2: 6, "stroke-dasharray": DASHES[number] }, key);
    entry.append(label);
  });
}

// Rounds or hours. A record of round t is of the moment at which it ends; `edge` is where it begins.
function timeAxis(setting) {
  const { rounds, round_h } = setting, isHours = inHours(setting), unit = isHours ? round_h : 1;
  return {
    key: `time ${current}`, max: rounds * unit, unit, isWhole: !isHours, label: isHours ? "simulated hours" : "round",
    of: (t) => (isHours ? (t + 1) * unit : t), edge: (t) => t * unit,
    title: (x) => {
      const t = Math.round(x / unit) - (isHours ? 1 : 0);
      return `round ${t}, ${+((t + 1) * round_h).toFixed(2)} h`;
    },
  };
}

// The range of an axis in percent: what the curves take, or all of it if a reader wants that.
function percentRange([low, high], isPart) {
  if (fullScale || low > high) return [0, 100];
  const step = isPart ? 1 : 5; // small differences are for those who look closer
  const yMin = Math.min(100 - step, Math.max(0, step * Math.floor(low / step)));
  return [yMin, Math.min(100, Math.max(yMin + step, step * Math.ceil(high / step)))];
}

const rangeFromZero = ([, high]) => [0, Math.max(1, 1.05 * high)];
const including = (limit, [low, high]) => (limit === null ? [low, high] : [Math.min(low, limit), Math.max(high, limit)]);

function overTime(place, setting, rows, range, { unit, hasShade = false, limit = null } = {}) {
  const axis = timeAxis(setting);
  const curves = labelled(rows).map((row) => ({ ...row, x: row.x.map(axis.of) }));
  const windows = hasShade && setting.visible ? shares(setting).map(([a, b, share]) => [axis.edge(a), axis.edge(b), share]) : null;
  lineChart(place, { curves, axis, range: (extremes) => range(including(limit, extremes), zooms.has(axis.key)), unit, windows, limit });
  settingKeys(place, rows);
}

function overCost(place, rows, label, name) {
  const highest = Math.max(...rows.flatMap((row) => row.x.filter((x) => x !== null)), 1);
  const axis = { key: `${name} ${current}`, max: highest, unit: 1, label, title: (x) => `${short(x)} ${name}` };
  lineChart(place, { curves: labelled(rows), axis, unit: "%", range: (extremes) => percentRange(extremes, zooms.has(axis.key)) });
  settingKeys(place, rows);
}

function drawBytes(place, setting) {
  const links = place.closest("figure").querySelector(".bytes-links");
  overCost(place, setting[links.value], `bytes over ${links.selectedOptions[0].text}`, "bytes");
}

// Rounds [begin, end) with the same share of orbits in view, above none.
function shares(setting) {
  const counts = new Array(setting.rounds + 1).fill(0), found = [];
  for (const row of setting.visible)
    for (const [begin, end] of row)
      for (let t = begin; t < Math.min(end, setting.rounds); t++) counts[t]++;
  for (let begin = 0, t = 1; t <= setting.rounds; t++)
    if (counts[t] !== counts[begin] || t === setting.rounds) {
      if (counts[begin]) found.push([begin, t, counts[begin] / setting.visible.length]);
      begin = t;
    }
  return found;
}

function drawSweep(place, setting) {
  const { parameter, values, default: limit, ...lines } = setting.sweeps[place.closest("figure").dataset.number];
  const x = values.map((_, i) => i);
  const curves = ["accuracy", "spread"].map((label, index) => ({ ...lines[label], x, index, label }));
  const axis = { key: null, max: x.length - 1, unit: 1, isWhole: true, label: parameter, title: (v) => `${parameter} ${values[v]}` };
  lineChart(place, { curves, axis, range: (extremes) => percentRange(including(limit, extremes), false), limit, values });
  legend(place, ["accuracy", "spread"]);
}

function drawOrbits(place, setting) {
  const wanted = Number(place.closest("figure").querySelector(".orbit-series").value), axis = timeAxis(setting);
  const chosen = setting.orbits.find((row) => row.series === wanted);
  const orbits = chosen.rows.length, x = chosen.x.map(axis.of);
  if (orbits <= MANY_ORBITS) {
    const curves = chosen.rows.map((mean, orbit) => ({ index: orbit, label: `orbit ${orbit}`, x, mean, half: null }));
    lineChart(place, { curves, axis, unit: "%", range: (extremes) => percentRange(extremes, zooms.has(axis.key)) });
    legend(place, curves.map((curve) => curve.label));
    return;
  }
  const [low, high] = shownPart(axis), columns = x.flatMap((v, i) => (low <= v && v <= high ? [i] : []));
  const text = (value) => (value === null ? "not known" : `${value} %`);
  heatMap(place, {
    rows: orbits, columns: columns.length, rowLabels: chosen.rows.map((_, orbit) => `orbit ${orbit}`),
    rowHeight: Math.max(4, Math.min(18, 460 / orbits)), cell: Infinity,
    value: (r, c) => (chosen.rows[r][columns[c]] === null ? null : chosen.rows[r][columns[c]] / 100),
    title: (r, c) => `orbit ${r}, ${axis.title(x[columns[c]])}: ${text(chosen.rows[r][columns[c]])}`,
    columnLabels: (c) => `${+x[columns[c]].toFixed(2)}`, columnName: axis.label,
  });
  const key = html("div", { class: "legend" }, place, "0 %");
  html("span", { class: "heat-key" }, key);
  key.append("100 %");
}

function drawTimeline(place, setting) {
  const axis = timeAxis(setting);
  setting.mark = timeline(place, setting, axis, axis.edge);
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

// Which orbits and stations have exchanged models: rows send, columns receive.
function drawTransfers(place, setting) {
  const { names, rows } = setting.transfers, pickers = place.closest("figure").querySelector(".pickers");
  const chosen = rows[Number(pickers.querySelector(".transfers-method").value)], measure = pickers.querySelector(".transfers-measure").value;
  const cells = new Map(chosen.cells.map(([from, to, messages, size]) => [from * names.length + to, { messages, bytes: size }]));
  const most = Math.max(...[...cells.values()].map((cell) => cell[measure]), 1);
  const cell = (r, c) => cells.get(r * names.length + c), empty = names.length > MANY_ENDS ? null : 0;
  heatMap(place, {
    rows: names.length, columns: names.length, rowLabels: names, cell: 72, rowHeight: names.length > 45 ? 12 : 24,
    value: (r, c) => (cell(r, c) ? Math.sqrt(cell(r, c)[measure] / most) : empty),
    text: (r, c) => (!cell(r, c) ? "" : measure === "bytes" ? bytes(cell(r, c).bytes) : short(cell(r, c).messages)),
    title: (r, c) => `${names[r]} to ${names[c]}: ${!cell(r, c) ? "none" : `${short(cell(r, c).messages)} messages, ${bytes(cell(r, c).bytes)}`}`,
    columnLabels: (c) => names[c].replace(/^orbit (?=\d+$)/, ""), columnName: "to", namesColumns: true,
  });
}
