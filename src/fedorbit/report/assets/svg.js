// Drawing: a chart is built from plain numbers into an SVG as wide as its place on the page.
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

const UNITS = [[1e9, " G"], [1e6, " M"], [1e3, " k"]];
const unitOf = (value) => UNITS.find(([size]) => Math.abs(value) >= size) || [1, ""];

function short(value) {
  const [size, letter] = unitOf(value);
  return `${+(value / size).toPrecision(3)}${letter}`;
}

function bytes(value) {
  return value < 1000 ? `${Math.round(value)} B` : `${short(value)}B`;
}

// Round values from low to high, about so many, each with its text: as many digits as tell neighbours apart.
function ticks(low, high, about, isWhole = false) {
  const raw = Math.max((high - low) / Math.max(1, about), isWhole ? 1 : 0);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = (isWhole ? [1, 2, 5, 10] : [1, 2, 2.5, 5, 10]).map((m) => m * power).find((s) => s >= raw * 0.999);
  const found = [];
  for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + step * 1e-6; v += step) found.push([v, tickText(v, step)]);
  return found;
}

function tickText(value, step) {
  const [size, letter] = unitOf(value);
  const isWhole = (x) => Math.abs(x - Math.round(x)) < 1e-6;
  let digits = 0;
  while (digits < 6 && !isWhole((step / size) * 10 ** digits)) digits++;
  return `${+(value / size).toFixed(digits)}${letter}`;
}

const path = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

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
