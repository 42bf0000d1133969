// Looking closer: a part of the x axis, chosen by dragging or by keys, and the values at a point of it.
"use strict";

const CLICK_PX = 5, MOST_ROWS = 14, LEAST_SHARE = 1 / 500;
const zooms = new Map(); // from, to by the key of an axis, in its base unit
const pointed = new WeakMap(); // by place: where the pointer last was, in pixels of the page
const cursors = new WeakMap(); // by place: where keys have put the crosshair, in the base unit

// axis: {key, max, unit, isWhole, label, title(x)}: from 0 to `max`, in multiples of `unit`, such as hours per round.
// Charts with the same key show the same part; an axis without a key shows all of it.
function shownPart(axis) {
  const part = zooms.get(axis.key);
  return part ? part.map((value) => value * axis.unit) : [0, axis.max];
}

function showPart(axis, low, high) {
  if (!axis.key) return;
  const width = Math.min(Math.max(high - low, axis.max * LEAST_SHARE), axis.max);
  const begin = Math.min(Math.max(low, 0), axis.max - width);
  if (width < axis.max) zooms.set(axis.key, [begin / axis.unit, (begin + width) / axis.unit]);
  else zooms.delete(axis.key);
  draw();
}

const showAll = (axis) => showPart(axis, 0, axis.max);

// steps: where values are known, ascending. valuesAt(step): {title, rows: [{index, label, text, y}]}.
function interact(place, svg, box, axis, steps, valuesAt) {
  const [low, high] = shownPart(axis), scale = (box.right - box.left) / (high - low);
  const inBox = (x_px) => Math.min(Math.max(x_px, box.left), box.right);
  const pixel = (event) => event.clientX - svg.getBoundingClientRect().left;
  const value = (x_px) => low + (x_px - box.left) / scale;
  const picked = make("rect", { class: "picked", y: box.top, height: box.bottom - box.top, visibility: "hidden" }, svg);
  const cross = make("g", { visibility: "hidden" }, svg);
  const tip = html("div", { class: "tip", role: "status", hidden: "" }, place);
  const hide = () => { pointed.delete(place); cross.setAttribute("visibility", "hidden"); tip.hidden = true; };
  const point = (at) => showValues(place, cross, tip, box, box.left + (at - low) * scale, valuesAt(at));
  const pointNear = (x_px) => point(steps[nearestIndex(steps, value(x_px))]);
  let begin = null;

  svg.classList.add("closer");
  svg.onpointerdown = (event) => {
    if (event.button !== 0 || !axis.key) return;
    begin = inBox(pixel(event));
    svg.setPointerCapture(event.pointerId);
  };
  svg.onpointermove = (event) => {
    const x = pixel(event);
    pointed.set(place, event.clientX);
    if (begin !== null && Math.abs(x - begin) > CLICK_PX) {
      hide();
      setAll(picked, { visibility: "visible", x: Math.min(begin, inBox(x)), width: Math.abs(inBox(x) - begin) });
    } else if (x < box.left || x > box.right || !steps.length) hide();
    else pointNear(x);
  };
  svg.onpointerup = (event) => {
    const from = begin, to = inBox(pixel(event));
    begin = null;
    picked.setAttribute("visibility", "hidden");
    if (from !== null && Math.abs(to - from) > CLICK_PX) showPart(axis, value(Math.min(from, to)), value(Math.max(from, to)));
    else if (event.pointerType !== "mouse" && steps.length) pointNear(to); // a tap
  };
  svg.onpointercancel = () => { begin = null; picked.setAttribute("visibility", "hidden"); hide(); };
  svg.onpointerleave = (event) => { if (event.pointerType === "mouse") hide(); }; // what a tap shows stays until the next
  svg.ondblclick = () => showAll(axis);

  const cursor = () => cursors.get(place) * axis.unit;
  const move = (by) => {
    const next = cursors.has(place) ? nearestIndex(steps, cursor()) + by : steps.findIndex((step) => step >= low);
    const at = steps[Math.min(Math.max(next, 0), steps.length - 1)];
    if (at === undefined) return;
    cursors.set(place, at / axis.unit);
    if (at < low) showPart(axis, at, at + high - low);
    else if (at > high) showPart(axis, at - high + low, at);
    else point(at);
  };
  const closer = (factor) => {
    const middle = cursors.has(place) ? Math.min(Math.max(cursor(), low), high) : (low + high) / 2, width = (high - low) * factor;
    showPart(axis, middle - width / 2, middle + width / 2);
  };
  const keys = { ArrowLeft: () => move(-1), ArrowRight: () => move(1), "+": () => closer(0.5), "=": () => closer(0.5), "-": () => closer(2), Escape: () => showAll(axis) };
  setAll(place, { tabindex: 0, role: "group" });
  place.onkeydown = (event) => {
    if (event.target !== place || !keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    keys[event.key]();
  };
  place.onblur = hide;
  if (pointed.has(place) && steps.length) pointNear(inBox(pixel({ clientX: pointed.get(place) }))); // drawn anew below the pointer
  if (document.activeElement === place && cursors.has(place) && low <= cursor() && cursor() <= high) point(cursor());
  if (zooms.has(axis.key)) {
    const back = html("button", { type: "button", class: "show-all" }, place, "Show all");
    back.onclick = () => { place.focus(); showAll(axis); };
  }
}

// The crosshair with a dot on every curve, and beside it the values, highest first.
function showValues(place, cross, tip, box, x, { title, rows }) {
  cross.replaceChildren();
  make("line", { class: "cross", x1: x, x2: x, y1: box.top, y2: box.bottom }, cross);
  tip.replaceChildren();
  html("div", {}, tip, title);
  for (const { index, label, text, y } of rows.slice(0, MOST_ROWS)) {
    const row = html("div", { class: `row ${index === null ? "" : colourClass(index)}` }, tip);
    html("span", {}, row, label);
    html("b", {}, row, text);
    if (y !== null) make("circle", { class: `at ${colourClass(index)}`, cx: x, cy: y, r: 3.2 }, cross);
  }
  if (rows.length > MOST_ROWS) html("div", {}, tip, `and ${rows.length - MOST_ROWS} more`);
  cross.setAttribute("visibility", "visible");
  tip.hidden = false;
  const isRight = x > (box.left + box.right) / 2, left = isRight ? x - 12 - tip.offsetWidth : x + 12;
  tip.style.left = `${Math.max(0, Math.min(left, place.clientWidth - tip.offsetWidth))}px`;
  tip.style.top = `${box.top + 6}px`;
}

function nearestIndex(xs, value) {
  let best = 0;
  for (let i = 1; i < xs.length; i++)
    if (Math.abs(xs[i] - value) < Math.abs(xs[best] - value)) best = i;
  return best;
}
