// A page that follows its runs: on news it fetches itself again and takes over what is new.
"use strict";

const KEPT = "section.setting, figure[data-chart]";

function skeleton(page) {
  const parts = [...page.querySelectorAll(`${KEPT}, .toggle, h1, #setting option, .pickers option`)];
  return parts.map((part) => `${part.tagName} ${part.dataset.chart || part.dataset.setting || part.textContent}`).join("\n");
}

function takeOver(fresh, selector) {
  const now = document.querySelectorAll(selector), then = fresh.querySelectorAll(selector);
  if (now.length !== then.length) return false;
  now.forEach((part, i) => {
    if (part.open) then[i].open = true;
    part.replaceWith(then[i]);
  });
  return true;
}

// The report's page: new numbers into the charts that are there, so that choices of the reader stay.
function updateReport(fresh) {
  const same = skeleton(document) === skeleton(fresh) && ["main > .note", "figure[data-chart] details", "main > section:not(.setting)", "footer"].every((selector) => takeOver(fresh, selector));
  if (!same) return location.reload();
  Object.assign(report, JSON.parse(fresh.getElementById("report-data").textContent));
  draw();
}

function updateList(fresh) {
  const ticked = new Set([...document.querySelectorAll("input[name=name]:checked")].map((box) => box.value));
  for (const box of fresh.querySelectorAll("input[name=name]")) box.checked = ticked.has(box.value);
  document.querySelector("main").replaceWith(fresh.querySelector("main"));
}

async function update() {
  if (!document.dispatchEvent(new Event("runs-changed", { cancelable: true }))) return;
  const answer = await fetch(location.href);
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html"); // runs no script
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
  source.onerror = () => { status.textContent = "no connection; trying again"; };
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
