// The page: what a reader chooses, and what happens then.
"use strict";

const report = JSON.parse(document.getElementById("report-data").textContent);
const hiddenSeries = new Set();
let current = 0;
let fullScale = false;
let chosenHours = null; // as the setting suggests, until a reader chooses
let playing = null;

const inHours = (setting) => chosenHours ?? setting.by_clock;

function draw() {
  const section = document.querySelector(`section.setting[data-setting="${current}"]`);
  const setting = settingAt(current);
  for (const figure of section.querySelectorAll("figure[data-chart]"))
    DRAW[figure.dataset.chart](figure.querySelector(".plot"), setting);
  document.getElementById("hours").setAttribute("aria-pressed", String(inHours(setting)));
  document.getElementById("full-scale").setAttribute("aria-pressed", String(fullScale));
}

function choose(number) {
  stop();
  current = number;
  for (const section of document.querySelectorAll("section.setting"))
    section.hidden = Number(section.dataset.setting) !== number;
  draw();
}

function start() {
  const bar = document.querySelector(".bar");
  bar.hidden = false;
  const toggles = [...bar.querySelectorAll(".toggle[data-series]")];
  const redraw = () => {
    for (const toggle of toggles) toggle.setAttribute("aria-pressed", String(!hiddenSeries.has(Number(toggle.dataset.series))));
    draw();
  };
  // One alone, and all again: 27 methods would otherwise take 26 clicks.
  const alone = (index) => {
    const isAlone = !hiddenSeries.has(index) && hiddenSeries.size === toggles.length - 1;
    hiddenSeries.clear();
    if (!isAlone) report.series.forEach((_, other) => { if (other !== index) hiddenSeries.add(other); });
    redraw();
  };
  for (const toggle of toggles) {
    const index = Number(toggle.dataset.series);
    toggle.title = "Double click, or Shift and Enter: this one alone, or all again";
    toggle.onclick = (event) => {
      if (event.shiftKey) return alone(index);
      if (!hiddenSeries.delete(index)) hiddenSeries.add(index);
      redraw();
    };
    toggle.ondblclick = () => alone(index);
  }
  const select = document.getElementById("setting");
  if (select) select.onchange = () => choose(Number(select.value));
  for (const controls of document.querySelectorAll(".slider, .pickers, .hint")) controls.hidden = false;
  for (const picker of document.querySelectorAll(".pickers select")) picker.onchange = draw;
  document.getElementById("full-scale").onclick = () => { fullScale = !fullScale; draw(); };
  document.getElementById("hours").onclick = () => { chosenHours = !inHours(settingAt(current)); draw(); };
  choose(0);
  document.addEventListener("theme-shown", draw); // texts in cells have other colours
  let width = document.documentElement.clientWidth;
  new ResizeObserver(() => {
    if (document.documentElement.clientWidth === width) return;
    width = document.documentElement.clientWidth;
    draw();
  }).observe(document.documentElement);
}

start();
