// Charts along an x axis: curves with bands and marks, and lanes of contacts.
"use strict";

const STRIP_PX = 4;
const ONE_COLOUR_FROM = 12; // orbits: of more, neighbours would share the few colours without a meaning

// Runs of known values; a gap in the records is a gap in the line.
function pieces(curve) {
  const found = [[]];
  curve.mean.forEach((value, i) => {
    if (value === null || curve.x[i] === null) found.push([]);
    else found[found.length - 1].push(i);
  });
  return found.filter((piece) => piece.length);
}

// Lowest and highest value in a part of the axis. Wide bands of few seeds must not flatten the curves: they count as
// far as a quarter of what the means span, or 5.
function extremesWithin(curves, [from, to]) {
  let low = Infinity, high = -Infinity, lower = Infinity, upper = -Infinity;
  for (const { x, mean, half } of curves)
    mean.forEach((value, i) => {
      if (value === null || x[i] < from || x[i] > to) return;
      const around = (half && half[i]) || 0;
      [low, high] = [Math.min(low, value), Math.max(high, value)];
      [lower, upper] = [Math.min(lower, value - around), Math.max(upper, value + around)];
    });
  const margin = Math.max(5, (high - low) / 4);
  return [Math.max(lower, low - margin), Math.min(upper, high + margin)];
}

// chart: {curves: [{index, label, x, mean, half, dash}], axis, range([low, high]): [yMin, yMax], unit, windows, limit, values}
// With `values`, x counts these: places are even, ticks and readout say the value, every point has its mark.
function lineChart(place, chart) {
  const { axis, curves } = chart, part = shownPart(axis), [low, high] = part;
  const height = place.clientWidth < 420 ? 220 : 260;
  const [svg, width] = canvas(place, height);
  const box = { left: chart.unit ? 42 : 34, right: width - 10, top: 10, bottom: height - 40 };
  const lowest = box.bottom - (chart.windows ? STRIP_PX + 4 : 0); // low curves stay clear of the strip of contacts
  const [yMin, yMax] = chart.range(extremesWithin(curves, part));
  const X = (v) => box.left + ((v - low) / (high - low)) * (box.right - box.left);
  const Y = (v) => lowest - ((v - yMin) / (yMax - yMin)) * (lowest - box.top);
  if (chart.windows) visibilityShade(svg, chart.windows, part, X, box);
  ticks(yMin, yMax, 5).forEach(([v, text], i, { length }) => {
    make("line", { class: "grid-line", x1: box.left, x2: box.right, y1: Y(v), y2: Y(v) }, svg);
    const unit = chart.unit && i === length - 1 ? ` ${chart.unit}` : "";
    make("text", { x: box.left - 6, y: Y(v) + 4, "text-anchor": "end" }, svg, `${text}${unit}`);
  });
  xAxis(svg, axis, part, X, box, height, chart.values);
  if (chart.limit != null)
    make("line", { class: "axis", "stroke-dasharray": "5 4", x1: box.left, x2: box.right, y1: Y(chart.limit), y2: Y(chart.limit) }, svg);
  const inside = { x: box.left, y: box.top - 2, width: box.right - box.left, height: box.bottom - box.top + 4 };
  const frame = make("svg", { ...inside, viewBox: `${inside.x} ${inside.y} ${inside.width} ${inside.height}`, class: "frame" }, svg);
  for (const curve of curves) {
    const lines = make("g", { class: colourClass(curve.index), "data-series": curve.label }, frame);
    const marks = make("g", { class: colourClass(curve.index) }, svg);
    for (const whole of pieces(curve)) {
      const first = whole.findIndex((i) => curve.x[i] >= low), after = whole.findIndex((i) => curve.x[i] > high);
      if (first < 0) continue;
      // One point more on either side, so that lines lead to the edges.
      const piece = whole.slice(Math.max(0, first - 1), after < 0 ? undefined : after + 1);
      drawBand(lines, curve, piece, X, Y);
      make("path", { class: "curve", "stroke-dasharray": curve.dash ?? "none", d: path(piece.map((i) => [X(curve.x[i]), Y(curve.mean[i])])) }, lines);
      const points = piece.filter((i) => curve.x[i] >= low && curve.x[i] <= high).map((i) => [X(curve.x[i]), Y(curve.mean[i])]);
      drawMarks(marks, curve.index, points, chart.values ? points.length : MARKS_PER_CURVE);
    }
  }
  const steps = [...new Set(curves.flatMap((curve) => curve.x.filter((x) => x !== null)))].sort((a, b) => a - b);
  interact(place, svg, box, axis, steps, (at) => ({ title: axis.title(at), rows: rowsAt(curves, at, Y) }));
}

function drawBand(group, curve, piece, X, Y) {
  const sure = piece.filter((i) => curve.half && curve.half[i] !== null);
  if (sure.length < 2) return;
  const edge = (sign) => sure.map((i) => [X(curve.x[i]), Y(curve.mean[i] + sign * curve.half[i])]);
  make("path", { class: "band", d: `${path([...edge(1), ...edge(-1).reverse()])}Z` }, group);
}

// The value of each curve at its point that is nearest, of those that have begun and not ended there.
function rowsAt(curves, at, Y) {
  const rows = curves.flatMap((curve) => {
    const i = nearestIndex(curve.x, at), mean = curve.mean[i];
    if (mean === null || mean === undefined || at < curve.x[0] || at > curve.x[curve.x.length - 1]) return [];
    const half = curve.half && curve.half[i] !== null ? ` (${(mean - curve.half[i]).toFixed(1)} to ${(mean + curve.half[i]).toFixed(1)})` : "";
    return [{ index: curve.index, label: curve.label, text: `${mean.toFixed(1)}${half}`, mean, y: Y(mean) }];
  });
  return rows.sort((a, b) => b.mean - a.mean);
}

function xAxis(svg, axis, [low, high], X, box, height, values = null) {
  for (const [v, text] of ticks(low, high, (box.right - box.left) / 80, axis.isWhole))
    make("text", { x: X(v), y: height - 23, "text-anchor": "middle" }, svg, values ? values[v] : text);
  make("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }, svg);
  make("text", { x: (box.left + box.right) / 2, y: height - 5, "text-anchor": "middle" }, svg, axis.label);
}

// Light columns where orbits are in view, and a strip below that says how many; windows: [begin, end, share].
function visibilityShade(svg, windows, [low, high], X, box) {
  const group = make("g", { class: "shade" }, svg);
  for (const [begin, end, share] of windows) {
    if (end <= low || begin >= high) continue;
    const x = X(Math.max(begin, low)), width = Math.max(0.5, X(Math.min(end, high)) - x);
    make("rect", { x, width, y: box.top, height: box.bottom - box.top, opacity: 0.045 }, group);
    make("rect", { x, width, y: box.bottom - STRIP_PX, height: STRIP_PX, opacity: 0.25 + 0.65 * share }, group);
  }
}

// windows: per orbit [begin, end) in rounds; direct: those without other satellites in between, or null.
// at(round): its place on the axis. Returns what marks a round.
function timeline(place, { visible: windows, direct, in_view: inView, seen_as: seenAs, rounds }, axis, at) {
  const [low, high] = shownPart(axis), lanes = windows.length;
  const colour = (orbit) => (lanes < ONE_COLOUR_FROM ? orbit : 0);
  const has = (row, t) => row.some(([begin, end]) => begin <= t && t < end);
  const lane = Math.max(4, Math.min(20, 420 / lanes));
  const height = lane * lanes + 40;
  const [svg, width] = canvas(place, height);
  const box = { left: 64, right: width - 54, top: 0, bottom: lane * lanes };
  const X = (v) => box.left + ((v - low) / (high - low)) * (box.right - box.left);
  const step = Math.ceil(13 / lane);
  windows.forEach((row, orbit) => {
    const y = orbit * lane;
    const thin = Math.max(3, lane - (lane > 8 ? 3 : 1));
    make("rect", { class: "lane", x: box.left, y, width: box.right - box.left, height: thin }, svg);
    for (const [kind, drawn] of direct ? [["relayed", row], ["direct", direct[orbit]]] : [["", row]]) {
      const group = make("g", { class: `window ${kind} ${colourClass(colour(orbit))}` }, svg);
      for (const [begin, end] of drawn) {
        if (at(end) <= low || at(begin) >= high) continue;
        const x = X(Math.max(at(begin), low));
        make("rect", { x, y, width: Math.max(0.7, X(Math.min(at(end), high)) - x - 0.3), height: thin }, group);
      }
    }
    if (orbit % step) return;
    make("text", { x: box.left - 7, y: y + thin / 2 + 4, "text-anchor": "end" }, svg, `orbit ${orbit}`);
    const share = `${((100 * inView[orbit]) / rounds).toFixed(1)} %`;
    make("text", { x: width, y: y + thin / 2 + 4, "text-anchor": "end" }, svg, share);
  });
  xAxis(svg, axis, [low, high], X, box, height);
  const now = make("line", { class: "now", y1: 0, y2: box.bottom, visibility: "hidden" }, svg);
  const middles = Array.from({ length: rounds }, (_, t) => at(t + 0.5));
  interact(place, svg, box, axis, middles, (middle) => {
    const t = nearestIndex(middles, middle);
    const seen = windows.flatMap((row, orbit) => (has(row, t) ? [orbit] : []));
    const how = (orbit) => (direct ? (has(direct[orbit], t) ? "direct" : "relayed") : seenAs);
    const rows = seen.map((orbit) => ({ index: colour(orbit), label: `orbit ${orbit}`, text: how(orbit), y: null }));
    return { title: `round ${t}${seen.length ? "" : `: none ${seenAs}`}`, rows };
  });
  return (t) => {
    const x = at(t + 0.5);
    setAll(now, { visibility: low <= x && x <= high ? "visible" : "hidden", x1: X(x), x2: X(x) });
  };
}
