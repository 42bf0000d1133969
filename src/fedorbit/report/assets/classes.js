// Classes: which are taken for which, and how well each is recognised in each orbit.
"use strict";

// What the pickers above the two figures choose: a row of the report, an orbit or -1 for all, a measure.
function chosenConfusion(place, setting) {
  const pickers = place.closest(".class-view").querySelector(".pickers");
  const value = (name) => pickers.querySelector(`.${name}`).value;
  return [setting.confusion.rows[Number(value("confusion-method"))], Number(value("confusion-orbit")), value("class-measure")];
}

const summed = (values) => values.reduce((a, b) => a + b, 0);

function drawConfusion(place, setting) {
  const { names } = setting.confusion, [row, orbit] = chosenConfusion(place, setting);
  const counts = orbit < 0 ? row.total : row.orbits[orbit];
  if (!counts) {
    place.replaceChildren();
    html("p", { class: "small" }, place, "No test sample of this orbit was evaluated.");
    return;
  }
  const totals = counts.map(summed);
  heatMap(place, {
    rows: names.length, columns: names.length, rowLabels: names, cell: 56, rowHeight: names.length > 45 ? 12 : 24,
    value: (r, c) => (totals[r] ? counts[r][c] / totals[r] : null),
    text: (r, c) => (counts[r][c] ? `${counts[r][c]}` : ""),
    title: (r, c) => `${names[r]} taken for ${names[c]}: ${counts[r][c]} of ${totals[r]} (${((100 * counts[r][c]) / totals[r]).toFixed(1)} %)`,
    columnLabels: (c) => names[c], columnName: "predicted class", namesColumns: true,
  });
}

// In percent, as scikit-learn defines them: recall of a class, or its F1 score; null where it has neither samples nor predictions.
function classFigure(counts, c, measure) {
  const right = counts[c][c], samples = summed(counts[c]), named = summed(counts.map((line) => line[c]));
  if (measure === "accuracy") return samples ? (100 * right) / samples : null;
  return samples + named ? (200 * right) / (samples + named) : null;
}

function drawPerClass(place, setting) {
  const { names } = setting.confusion, [row, , measure] = chosenConfusion(place, setting);
  const columns = [["all", row.total], ...row.orbits.map((counts, orbit) => [`${orbit}`, counts])];
  const figure = (r, c) => (columns[c][1] ? classFigure(columns[c][1], r, measure) : null);
  heatMap(place, {
    rows: names.length, columns: columns.length, rowLabels: names, cell: 56, rowHeight: names.length > 45 ? 12 : 24,
    value: (r, c) => (figure(r, c) === null ? null : figure(r, c) / 100),
    text: (r, c) => figure(r, c).toFixed(0),
    title: (r, c) => `${names[r]}, ${c ? `orbit ${columns[c][0]}` : "all orbits"}: ${measure === "accuracy" ? "accuracy" : "F1"} ${figure(r, c).toFixed(1)} % (${summed(columns[c][1][r])} samples)`,
    columnLabels: (c) => columns[c][0], columnName: "orbit",
  });
}
