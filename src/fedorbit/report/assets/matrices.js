// Matrices of coloured cells, and bars.
"use strict";

const INK_TURNS_AT = { light: 66, dark: 52 }; // shares of a cell's colour from which the other ink has more contrast

// A label as far as it fits.
function cut(label, width_px) {
  const fits = Math.floor(width_px / 6.5);
  return label.length > fits ? `${label.slice(0, Math.max(1, fits - 1))}…` : label;
}

// heat: {rows, columns, value(r, c) in 0..1 or null, text(r, c), title(r, c), rowLabels, columnLabels(c), columnName, namesColumns}
function heatMap(place, heat) {
  const full = Math.max(240, place.clientWidth);
  const longest = Math.max(...heat.rowLabels.map((label) => label.length), 1);
  const left = heat.rowLabels.length ? Math.min(full * 0.38, 12 + longest * 6.4) : 34;
  const cell = Math.min(heat.cell || 40, (full - left - 4) / heat.columns);
  const rowHeight = heat.rowHeight || Math.max(4, Math.min(24, cell));
  const every = Math.ceil(26 / cell);
  const longestBelow = Math.max(...Array.from({ length: heat.columns }, (_, c) => heat.columnLabels(c).length));
  // Names that do not fit below their columns are written upwards.
  const upright = heat.namesColumns && longestBelow * 6.5 > every * cell - 4 ? Math.min(110, 8 + 6.4 * longestBelow) : 0;
  const height = rowHeight * heat.rows + 40 + Math.max(0, upright - 14);
  const [svg] = canvas(place, height);
  const step = Math.ceil(12 / rowHeight);
  for (let r = 0; r < heat.rows; r++) {
    const y = 4 + r * rowHeight;
    if (r % step === 0 && heat.rowLabels[r] !== undefined) {
      make("text", { x: left - 6, y: y + rowHeight / 2 + 4, "text-anchor": "end" }, svg, cut(heat.rowLabels[r], left - 8));
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
        const ink = share > INK_TURNS_AT[document.documentElement.dataset.theme] ? "var(--heat-ink-high)" : "var(--heat-ink-low)";
        const at = { x: left + (c + 0.5) * cell - gap / 2, y: y + rowHeight / 2 + 4, "text-anchor": "middle" };
        make("text", { ...at, style: `fill: ${ink}` }, svg, text);
      }
    }
  }
  for (let c = 0; c < heat.columns; c += every) {
    const x = left + (c + 0.5) * cell, top = 4 + rowHeight * heat.rows;
    if (upright) make("text", { "text-anchor": "end", transform: `translate(${x + 4} ${top + 6}) rotate(-90)` }, svg, cut(heat.columnLabels(c), upright));
    else make("text", { x, y: height - 22, "text-anchor": "middle" }, svg, cut(heat.columnLabels(c), every * cell - 4));
  }
  make("text", { x: left + (heat.columns * cell) / 2, y: height - 5, "text-anchor": "middle" }, svg, heat.columnName);
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
      make("text", { x: left - 8, y: top + 12, "text-anchor": "end" }, svg, cut(bar.label, left - 8));
      const length = (Math.max(0, bar.value || 0) / most) * (right - left);
      make("rect", { class: `window ${colourClass(bar.index)}`, x: left, y: top + 1, width: Math.max(length, 0.8), height: 14, rx: 1.5 }, svg);
      make("text", { x: left + length + 7, y: top + 12 }, svg, bar.note);
    });
    y += heights[g];
  });
}
