// A page that follows its runs: on news it fetches itself again and takes over what is new.
"use strict";

const KEPT = "section.setting, figure[data-chart]";

function skeleton(page) {
  const parts = [...page.querySelectorAll(`${KEPT}, .toggle, h1, #setting option, .pickers option`)];
  return parts.map((part) => `${part.tagName} ${part.dataset.chart || part.dataset.setting || part.textContent}`).join("\n");
}

let isHeld = false; // a button or finger is down: the element below it must not be replaced
for (const kind of ["pointerdown", "pointermove", "pointerup", "pointercancel"])
  addEventListener(kind, ({ buttons }) => { isHeld = buttons !== 0; }, true);

// Changes what differs and leaves the rest alone: what is open, scrolled, focused or ticked stays so.
function renew(now, then) {
  if (now.isEqualNode(then)) return;
  if (now.nodeName !== then.nodeName) return now.replaceWith(then);
  if (now.nodeType === Node.TEXT_NODE) { now.data = then.data; return; }
  for (const { name, value } of then.attributes) if (now.getAttribute(name) !== value) now.setAttribute(name, value);
  for (const { name } of [...now.attributes]) if (name !== "open" && !then.hasAttribute(name)) now.removeAttribute(name);
  const old = [...now.childNodes], fresh = [...then.childNodes];
  fresh.forEach((child, i) => (i < old.length ? renew(old[i], child) : now.append(child)));
  old.slice(fresh.length).forEach((child) => child.remove());
}

function takeOver(fresh, selector) {
  const now = document.querySelectorAll(selector), then = fresh.querySelectorAll(selector);
  if (now.length !== then.length) return false;
  now.forEach((part, i) => renew(part, then[i]));
  return true;
}

// The notes above the results come and go as methods begin and end.
function takeOverNote(fresh) {
  const now = document.querySelector("main > .note"), then = fresh.querySelector("main > .note");
  if (now && then) renew(now, then);
  else if (then) document.querySelector("main").prepend(then);
  else now?.remove();
}

// A page with other charts than before is loaded anew, with what was chosen on it.
function reload() {
  const chosen = { href: location.href, hidden: [...hiddenSeries].map((i) => report.series[i]), hours: chosenHours, fullScale, setting: current };
  try { sessionStorage.setItem("chosen", JSON.stringify(chosen)); } catch { /* this browser stores nothing */ }
  location.reload();
}

function chooseAgain() {
  let chosen = null;
  try {
    chosen = JSON.parse(sessionStorage.getItem("chosen"));
    sessionStorage.removeItem("chosen");
  } catch { return; /* this browser stores nothing */ }
  if (chosen?.href !== location.href || typeof report === "undefined") return;
  for (const toggle of document.querySelectorAll(".toggle[data-series]"))
    if (chosen.hidden.includes(report.series[toggle.dataset.series])) toggle.click();
  [chosenHours, fullScale] = [chosen.hours, chosen.fullScale];
  const select = document.getElementById("setting");
  if (![...(select?.options ?? [])].some((option) => option.value === String(chosen.setting))) return draw();
  select.value = chosen.setting;
  select.onchange();
}

// The report's page: new numbers into the charts that are there, so that choices of the reader stay.
function updateReport(fresh) {
  const same = skeleton(document) === skeleton(fresh) && ["figure[data-chart] details", "main > section:not(.setting)", "footer"].every((selector) => takeOver(fresh, selector));
  if (!same) return reload();
  takeOverNote(fresh);
  Object.assign(report, JSON.parse(fresh.getElementById("report-data").textContent));
  draw();
}

function updateList(fresh) {
  const ticked = new Set([...document.querySelectorAll("input[name=name]:checked")].map((box) => box.value));
  renew(document.querySelector("main"), fresh.querySelector("main"));
  for (const box of document.querySelectorAll("input[name=name]")) box.checked = ticked.has(box.value);
  countTicked();
}

// The button of the list names how many runs are ticked.
function countTicked() {
  const button = document.querySelector("form button[type=submit]");
  if (!button) return;
  const ticked = document.querySelectorAll("input[name=name]:checked").length;
  button.disabled = ticked === 0;
  button.textContent = ticked ? `Compare ${ticked} ${ticked === 1 ? "run" : "runs"}` : "Compare";
}

async function update() {
  if (!document.dispatchEvent(new Event("runs-changed", { cancelable: true }))) return;
  const answer = await fetch(location.href);
  const text = await answer.text();
  while (isHeld) await new Promise((later) => setTimeout(later, 100));
  const fresh = new DOMParser().parseFromString(text, "text/html"); // runs no script
  const has = (page) => page.getElementById("report-data") !== null;
  if (has(document) && has(fresh)) updateReport(fresh);
  else if (has(document) || has(fresh)) location.reload();
  else updateList(fresh);
}

function follow(address) {
  const status = document.getElementById("live");
  const source = new EventSource(address);
  let busy = false, again = false;
  source.onopen = () => { status.textContent = "live"; };
  source.onerror = () => {
    status.textContent = "no connection; trying again";
    if (source.readyState !== EventSource.CLOSED) return; // after an answer that is no stream, such as 404, a browser does not try again
    setTimeout(() => follow(address), 5000);
  };
  source.addEventListener("changed", async () => {
    again = true;
    if (busy) return;
    busy = true;
    while (again) {
      again = false;
      try { await update(); status.textContent = "live"; } catch { status.textContent = "no connection; trying again"; }
    }
    busy = false;
  });
}

if (document.body.dataset.events) follow(document.body.dataset.events);
addEventListener("change", countTicked);
addEventListener("pageshow", countTicked); // also after a way back, with what was ticked
chooseAgain();
