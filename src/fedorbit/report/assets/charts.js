// Drawing: every chart is built from plain numbers into an SVG as wide as its place on the page.
// Texts reach the page through textContent only, so that no name can become markup.
"use strict";

const COLOURS = 7;
const MARKS = ["circle", "square", "triangle", "diamond", "bar"];
const MARKS_PER_CURVE = 8;
const colourClass = (index) => `c${index % COLOURS}`;
const markClass = (index) => MARKS[index % MARKS.length];

// A style is set as such: where a page may have none inline, an attribute would be refused.
function setAll(element, attributes) {
  const { style, ...others } = attributes;
  if (style) element.style.cssText = style;
  for (const [key, value] of Object.entries(others)) element.setAttribute(key, value);
}

function make(name, attributes = {}, parent = null, text = null) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  setAll(element, attributes);
  if (text !== null) element.textContent = text;
  if (parent) parent.append(element);
  return element;
}

function html(name, attributes = {}, parent = null, text = null) {
  const element = document.createElement(name);
  setAll(element, attributes);
  if (text !== null) element.textContent = text;
  if (parent) parent.append(element);
  return element;
}

function canvas(place, height) {
  place.replaceChildren();
  const width = Math.max(240, Math.floor(place.clientWidth));
  const attributes = { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" };
  return [make("svg", attributes, place), width];
}

function ticks(low, high, about) {
  const raw = (high - low) / Math.max(1, about);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999);
  const found = [];
  for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + step * 1e-6; v += step) found.push(v);
  return found;
}

function bytes(value) {
  return value < 1000 ? `${value} B` : `${short(value)}B`;
}

function short(value) {
  const size = Math.abs(value);
  for (const [unit, letter] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]])
    if (size >= unit) return `${+(value / unit).toPrecision(3)} ${letter}`;
  return `${+value.toPrecision(3)}`;
}

// Runs of known values; a gap in the records is a gap in the line.
function pieces(curve) {
  const found = [[]];
  curve.mean.forEach((value, i) => {
    if (value === null || curve.x[i] === null) found.push([]);
    else found[found.length - 1].push(i);
  });
  return found.filter((piece) => piece.length);
}

// A sign beside the colour, since not everybody can tell colours apart; as in sections.py.
function markPath(index, x, y) {
  const at = `M${x.toFixed(1)} ${y.toFixed(1)}`;
  return {
    circle: `${at}m-3.4 0a3.4 3.4 0 1 0 6.8 0a3.4 3.4 0 1 0 -6.8 0z`,
    square: `${at}m-3 -3h6v6h-6z`,
    triangle: `${at}m0 -4.2l4 7.2h-8z`,
    diamond: `${at}m0 -4.4l3.6 4.4l-3.6 4.4l-3.6 -4.4z`,
    bar: `${at}m-1.3 -4.4h2.6v8.8h-2.6z`,
  }[markClass(index)];
}

function drawMarks(group, index, points, atMost) {
  const every = Math.max(1, Math.ceil(points.length / atMost));
  const first = points.length > atMost ? Math.floor((every * ((index % 4) + 1)) / 5) : 0;
  for (let i = first; i < points.length; i += every)
    make("path", { class: "mark", d: markPath(index, ...points[i]) }, group);
}

const path = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

// chart: {curves: [{index, label, x, mean, half}], xLabel, xName, xMax, yMin, yMax, shares, limit, values}
// With `values`, x counts these: places are even, ticks and readout say the value, every point has its mark.
function lineChart(place, chart) {
  const height = place.clientWidth < 420 ? 220 : 260;
  const [svg, width] = canvas(place, height);
  const box = { left: 34, right: width - 10, top: 10, bottom: height - 40 };
  const X = (v) => box.left + (v / chart.xMax) * (box.right - box.left);
  const yMin = chart.yMin || 0;
  const Y = (v) => box.bottom - ((v - yMin) / (chart.yMax - yMin)) * (box.bottom - box.top);
  if (chart.shares) visibilityShade(svg, chart.shares, X, box);
  for (const v of ticks(yMin, chart.yMax, 5)) {
    make("line", { class: "grid-line", x1: box.left, x2: box.right, y1: Y(v), y2: Y(v) }, svg);
    make("text", { x: box.left - 6, y: Y(v) + 4, "text-anchor": "end" }, svg, short(v));
  }
  const text = chart.values ? (v) => `${chart.values[v]}` : short;
  for (const v of ticks(0, chart.xMax, width / 80).filter((v) => !chart.values || Number.isInteger(v)))
    make("text", { x: X(v), y: box.bottom + 17, "text-anchor": "middle" }, svg, text(v));
  make("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }, svg);
  make("text", { x: (box.left + box.right) / 2, y: height - 5, "text-anchor": "middle" }, svg, chart.xLabel);
  if (chart.limit != null)
    make("line", { class: "axis", "stroke-dasharray": "5 4", x1: box.left, x2: box.right, y1: Y(chart.limit), y2: Y(chart.limit) }, svg);
  const clip = (v) => Math.min(chart.yMax, Math.max(yMin, v));
  for (const curve of chart.curves) {
    const group = make("g", { class: colourClass(curve.index), "data-series": curve.label }, svg);
    for (const piece of pieces(curve)) {
      if (curve.half) {
        const sure = piece.filter((i) => curve.half[i] !== null);
        const upper = sure.map((i) => [X(curve.x[i]), Y(clip(curve.mean[i] + curve.half[i]))]);
        const lower = sure.map((i) => [X(curve.x[i]), Y(clip(curve.mean[i] - curve.half[i]))]);
        if (sure.length > 1) make("path", { class: "band", d: `${path([...upper, ...lower.reverse()])}Z` }, group);
      }
      const points = piece.map((i) => [X(curve.x[i]), Y(clip(curve.mean[i]))]);
      make("path", { class: "curve", d: path(points) }, group);
      drawMarks(group, curve.index, points, chart.values ? points.length : MARKS_PER_CURVE);
    }
  }
  readout(place, svg, chart, X, Y, box);
}

// Light columns where orbits are in view, and a strip below that says how many.
function visibilityShade(svg, shares, X, box) {
  const group = make("g", { class: "shade" }, svg);
  shares.forEach((share, t) => {
    if (!share) return;
    const x = X(t), w = Math.max(0.5, X(t + 1) - x);
    make("rect", { x, width: w, y: box.top, height: box.bottom - box.top, opacity: 0.045 }, group);
    make("rect", { x, width: w, y: box.bottom - 4, height: 4, opacity: 0.25 + 0.65 * share }, group);
  });
}

function readout(place, svg, chart, X, Y, box) {
  const cross = make("line", { class: "cross", y1: box.top, y2: box.bottom, visibility: "hidden" }, svg);
  const tip = html("div", { class: "tip", hidden: "" }, place);
  const hide = () => { cross.setAttribute("visibility", "hidden"); tip.hidden = true; };
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("pointermove", (event) => {
    const x = event.clientX - svg.getBoundingClientRect().left;
    if (x < box.left || x > box.right || !chart.curves.length) return hide();
    const value = ((x - box.left) / (box.right - box.left)) * chart.xMax;
    const whole = Math.round(value);
    tip.replaceChildren();
    html("div", {}, tip, `${chart.xName} ${chart.values ? chart.values[whole] : short(whole)}`);
    for (const curve of chart.curves) {
      const nearest = nearestIndex(curve.x, value);
      if (curve.mean[nearest] === null) continue;
      const row = html("div", { class: "row" }, tip);
      html("span", {}, row, curve.label);
      const half = curve.half && curve.half[nearest] !== null ? ` ± ${curve.half[nearest].toFixed(1)}` : "";
      html("b", {}, row, `${curve.mean[nearest].toFixed(1)}${half}`);
    }
    cross.setAttribute("visibility", "visible");
    cross.setAttribute("x1", x); cross.setAttribute("x2", x);
    tip.hidden = false;
    const right = x > (box.left + box.right) / 2;
    tip.style.left = right ? "auto" : `${x + 12}px`;
    tip.style.right = right ? `${place.clientWidth - x + 12}px` : "auto";
    tip.style.top = `${box.top + 6}px`;
  });
}

function nearestIndex(xs, value) {
  let best = 0;
  for (let i = 1; i < xs.length; i++)
    if (Math.abs(xs[i] - value) < Math.abs(xs[best] - value)) best = i;
  return best;
}

// map: {rows, columns, value(r, c) in 0..1 or null, text(r, c) or null, rowLabel, columnLabel}
function heatMap(place, heat) {
  const full = Math.max(240, place.clientWidth);
  const longest = Math.max(...heat.rowLabels.map((label) => label.length), 1);
  const left = heat.rowLabels.length ? Math.min(full * 0.38, 12 + longest * 6.4) : 34;
  const cell = Math.min(heat.cell || 40, (full - left - 4) / heat.columns);
  const rowHeight = heat.rowHeight || Math.max(4, Math.min(24, cell));
  const height = rowHeight * heat.rows + 40;
  const [svg] = canvas(place, height);
  const step = Math.ceil(12 / rowHeight);
  for (let r = 0; r < heat.rows; r++) {
    const y = 4 + r * rowHeight;
    if (r % step === 0 && heat.rowLabels[r] !== undefined) {
      const fits = Math.floor((left - 8) / 6.2);
      const label = heat.rowLabels[r];
      const text = label.length > fits ? `${label.slice(0, fits - 1)}…` : label;
      make("text", { x: left - 6, y: y + rowHeight / 2 + 4, "text-anchor": "end" }, svg, text);
    }
    for (let c = 0; c < heat.columns; c++) {
      const value = heat.value(r, c);
      if (value === null) continue;
      const share = Math.round(100 * Math.min(1, Math.max(0, value)));
      const fill = `fill: color-mix(in oklab, var(--heat-high) ${share}%, var(--heat-low))`;
      const gap = cell < 12 || rowHeight < 8 ? 0 : 1;
      const rect = { x: left + c * cell, y, width: cell - gap, height: rowHeight - gap, style: fill };
      const drawn = make("rect", rect, svg);
      make("title", {}, drawn, heat.title(r, c));
      const text = heat.text ? heat.text(r, c) : null;
      if (text !== null && text.length * 6.2 < cell) {
        const ink = share > 52 ? "var(--heat-ink-high)" : "var(--heat-ink-low)";
        const at = { x: left + (c + 0.5) * cell - gap / 2, y: y + rowHeight / 2 + 4, "text-anchor": "middle" };
        make("text", { ...at, style: `fill: ${ink}` }, svg, text);
      }
    }
  }
  const every = Math.ceil(26 / cell);
  for (let c = 0; c < heat.columns; c += every)
    make("text", { x: left + (c + 0.5) * cell, y: height - 22, "text-anchor": "middle" }, svg, heat.columnLabels(c));
  make("text", { x: left + (heat.columns * cell) / 2, y: height - 5, "text-anchor": "middle" }, svg, heat.columnName);
}

function timeline(place, windows, inView, rounds) {
  const lanes = windows.length;
  const lane = Math.max(4, Math.min(20, 420 / lanes));
  const height = lane * lanes + 40;
  const [svg, width] = canvas(place, height);
  const box = { left: 64, right: width - 46 };
  const X = (t) => box.left + (t / rounds) * (box.right - box.left);
  const step = Math.ceil(13 / lane);
  windows.forEach((row, orbit) => {
    const y = orbit * lane;
    const thin = Math.max(3, lane - (lane > 8 ? 3 : 1));
    make("rect", { class: "lane", x: box.left, y, width: box.right - box.left, height: thin }, svg);
    const group = make("g", { class: `window ${colourClass(orbit)}` }, svg);
    for (const [begin, end] of row)
      make("rect", { x: X(begin), y, width: Math.max(0.7, X(end) - X(begin) - 0.3), height: thin }, group);
    if (orbit % step) return;
    make("text", { x: box.left - 7, y: y + thin / 2 + 4, "text-anchor": "end" }, svg, `orbit ${orbit}`);
    const share = `${((100 * inView[orbit]) / rounds).toFixed(1)} %`;
    make("text", { x: width, y: y + thin / 2 + 4, "text-anchor": "end" }, svg, share);
  });
  for (const v of ticks(0, rounds, width / 80))
    make("text", { x: X(v), y: height - 22, "text-anchor": "middle" }, svg, short(v));
  make("text", { x: (box.left + box.right) / 2, y: height - 5, "text-anchor": "middle" }, svg, "round");
  const now = make("line", { class: "now", y1: 0, y2: lane * lanes, visibility: "hidden" }, svg);
  return (t) => {
    now.setAttribute("visibility", "visible");
    now.setAttribute("x1", X(t + 0.5)); now.setAttribute("x2", X(t + 0.5));
  };
}

// groups: [{name, bars: [{index, label, value, note}]}]; each group has a scale of its own.
function barChart(place, groups) {
  const line = 21;
  const heights = groups.map((group) => 24 + group.bars.length * line + 8);
  const [svg, width] = canvas(place, heights.reduce((a, b) => a + b, 0));
  const longest = Math.max(...groups.flatMap((g) => g.bars.map((b) => b.label.length)), 1);
  const left = Math.min(width * 0.34, 10 + 6.6 * longest);
  const right = width - 118;
  let y = 0;
  groups.forEach((group, g) => {
    const most = Math.max(...group.bars.map((bar) => bar.value || 0), 1);
    make("text", { x: 0, y: y + 15, class: "strong" }, svg, group.name);
    group.bars.forEach((bar, i) => {
      const top = y + 24 + i * line;
      const fits = Math.floor((left - 8) / 6.2);
      const label = bar.label.length > fits ? `${bar.label.slice(0, fits - 1)}…` : bar.label;
      make("text", { x: left - 8, y: top + 12, "text-anchor": "end" }, svg, label);
      const length = (Math.max(0, bar.value || 0) / most) * (right - left);
      make("rect", { class: `window ${colourClass(bar.index)}`, x: left, y: top + 1, width: Math.max(length, 0.8), height: 14, rx: 1.5 }, svg);
      make("text", { x: left + length + 7, y: top + 12 }, svg, bar.note);
    });
    y += heights[g];
  });
}
