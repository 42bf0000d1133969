// A run on a globe: satellites in the colour of their orbit's accuracy, stations, open links, and models that move.
import { fetchAbout, fetchAccuracies, fetchParts, renewHops, hopsOf, partAt, partOf } from "./globe_data.js";
import { GlobeScene } from "./globe_scene.js";

const LINK_NAMES = { ground: "link with the ground", platform: "link with a platform", isl: "link between satellites" };
const DESCRIBE_EVERY_MS = 500, SLOW_FRAME_MS = 50, QUICK_FRAME_MS = 20, LEAST_RATIO = 0.5, STILL_MS = 400, LONGEST_FRAME_MS = 250;
const MODEL_SHOWN_MS = 800, LEAST_MODEL_S = 60; // a model moves within seconds: at any speed its dot takes long enough to be seen

const byId = (id) => document.getElementById(id);
const canvas = byId("globe"), slider = byId("time"), picker = byId("method");
const view = { longitude: 0.2, latitude: 0.5, distance: 3.4 };
let about, accuracies, globe;
let time = 0, playing = false, scale = [0, 100], described = 0;
let until = null; // while it follows the run: the moment up to which the globe moves, a round per second
let drawn = null; // the moment, part and hops that are drawn: a turn moves the camera alone

// The last accuracies of orbits that were known at a moment; null before the first.
function accuraciesAt(seconds) {
  const chosen = accuracies[picker.selectedIndex];
  if (!chosen) return null;
  let last = -1;
  while (last + 1 < chosen.time_s.length && chosen.time_s[last + 1] <= seconds) last++;
  return last < 0 ? null : chosen.orbits[last];
}

// The ends of the colour scale: what is known of all methods, in steps of 5 %.
function scaleOf() {
  const known = accuracies.flatMap(({ orbits }) => orbits.flat()).filter((value) => value !== null);
  const low = known.reduce((a, b) => Math.min(a, b), 100), high = known.reduce((a, b) => Math.max(a, b), 0);
  return low > high ? [0, 100] : [5 * Math.floor(low / 5), Math.max(5 * Math.ceil(high / 5), 5 * Math.floor(low / 5) + 5)];
}

const speed = () => (until === null ? Number(byId("speed").value) : about.round_s);
const modelShown_s = () => Math.max(LEAST_MODEL_S, (MODEL_SHOWN_MS / 1000) * speed());

function describe(counts, known) {
  const minutes = Math.floor(time / 60), round = Math.min(Math.floor(time / about.round_s), Math.round(about.duration_s / about.round_s) - 1);
  const clock = `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
  const values = (known || []).filter((value) => value !== null);
  const mean = values.length ? `${(values.reduce((a, b) => a + b, 0) / values.length).toFixed(1)} %` : "not known yet";
  return `Round ${round}, ${clock} after the start. Open links: ${counts.ground + counts.platform} with the ground, ${counts.isl} between satellites. Messages shown of the last ${Math.round(modelShown_s() / 60)} min: ${drawn.models}. Mean accuracy of orbits: ${mean}.`;
}

function draw() {
  const number = partAt(about, time), part = partOf(number);
  if (!part) {
    fetchParts(about, number, wake).catch(report);
    return;
  }
  const method = accuracies[picker.selectedIndex]?.method;
  const hops = method === undefined ? null : hopsOf(method, number, wake, report);
  const withFootprints = byId("footprints").checked;
  if (drawn === null || drawn.time !== time || drawn.part !== part || drawn.hops !== hops || drawn.withFootprints !== withFootprints) {
    if (drawn === null || drawn.part !== part) fetchParts(about, number, wake).catch(report);
    const seconds = time - number * about.part_s;
    if (drawn !== null && drawn.time !== time) byId("label").hidden = true; // the satellite is elsewhere now
    globe.placeSatellites(part.positions, seconds);
    globe.placeLinks(part.contacts, seconds);
    globe.placeRings(part.positions, seconds);
    globe.placeFootprints(withFootprints);
    drawn ??= {};
    drawn.models = globe.placeModels(hops, seconds, modelShown_s());
    drawn.time = time;
    drawn.part = part;
    drawn.hops = hops;
    drawn.withFootprints = withFootprints;
  }
  const known = accuraciesAt(time);
  globe.tint(known, scale);
  globe.render(view);
  if (playing && performance.now() - described < DESCRIBE_EVERY_MS) return;
  described = performance.now();
  const text = describe(globe.counts, known);
  byId("state").textContent = text;
  slider.setAttribute("aria-valuetext", text);
  const lines = globe.links.count;
  Object.assign(canvas.dataset, { points: globe.renderer.info.render.points - drawn.models, lines, models: drawn.models, circles: globe.circles });
}

// --- Frames: drawn when something has changed, with as many pixels as there is time for -------------

let ratio = Math.min(devicePixelRatio, 2), used = null; // pixels to one of the page: in motion, and now
let still = 0, frame = 0, asked_ms = 0, before = null, mean_ms = 0, quick = 0;

function use(wanted) {
  if (wanted !== used) globe.resize(wanted);
  used = wanted;
}

function wake() {
  clearTimeout(still);
  if (frame) return;
  asked_ms = performance.now();
  frame = requestAnimationFrame(tick);
}

function tick(now) {
  frame = 0;
  if (before !== null) adapt(Math.min(performance.now() - asked_ms, LONGEST_FRAME_MS));
  if (playing || until !== null) {
    if (before !== null) time += (Math.min(now - before, LONGEST_FRAME_MS) / 1000) * speed();
    if (until !== null && time >= until) [time, until] = [until, null];
    if (time > about.duration_s) time = 0;
    slider.value = time;
  }
  before = now;
  draw();
  if (playing || until !== null) wake();
  else still = setTimeout(rest, STILL_MS);
}

// Where the processor has to draw, fewer pixels make the difference between jerks and motion. A frame waits for those
// before it, so how long it waits says how slow they are.
function adapt(waited_ms) {
  mean_ms = 0.8 * mean_ms + 0.2 * waited_ms;
  if (mean_ms > SLOW_FRAME_MS && ratio > LEAST_RATIO) {
    ratio = Math.max(LEAST_RATIO, 0.75 * ratio);
    mean_ms = 0;
  } else if (mean_ms < QUICK_FRAME_MS && ratio < Math.min(devicePixelRatio, 2) && ++quick > 60) {
    ratio = Math.min(devicePixelRatio, 2, ratio / 0.75); // frames were slow for a time only, as while the page was loaded
    quick = 0;
  }
  use(ratio);
}

// A picture that does not move has all its pixels; where the processor draws, enough to be smooth without antialiasing.
function rest() {
  before = null;
  const sharp = globe.isSoftware ? 2 : Math.min(devicePixelRatio, 2);
  if (used === sharp) return;
  use(sharp);
  draw();
}

function report(error) {
  byId("state").textContent = `The globe cannot be drawn: ${error.message}`;
}

// --- Controls ---------------------------------------------------------------------------------------

function turn(east, north, closer = 1) {
  view.longitude += east;
  view.latitude = Math.min(Math.max(view.latitude + north, -1.5), 1.5);
  view.distance = Math.min(Math.max(view.distance * closer, 1.4), 12);
  wake();
}

function pick(event) {
  const box = canvas.getBoundingClientRect(), label = byId("label");
  const found = globe.nearest(event.clientX - box.left, event.clientY - box.top);
  label.hidden = found === null;
  if (found === null) return;
  const orbit = about.orbit_of_satellite[found.satellite], known = accuraciesAt(time), value = known && known[orbit];
  label.textContent = `${about.satellites[found.satellite]}, orbit ${orbit}${value === null || value === undefined ? "" : `: ${value.toFixed(1)} %`}`;
  label.style.left = `${Math.min(found.x + 10, box.width - label.offsetWidth - 4)}px`;
  label.style.top = `${found.y + 10}px`;
}

function listen() {
  const fingers = new Map();
  canvas.onpointerdown = (event) => { canvas.setPointerCapture(event.pointerId); fingers.set(event.pointerId, event); };
  canvas.onpointerup = canvas.onpointercancel = (event) => {
    fingers.delete(event.pointerId);
    if (event.type === "pointerup") pick(event); // a tap names a satellite, too
  };
  canvas.onpointerleave = (event) => { if (event.pointerType === "mouse") byId("label").hidden = true; };
  canvas.onpointermove = (event) => {
    const last = fingers.get(event.pointerId);
    if (!last) return pick(event);
    if (fingers.size === 1) {
      const rad_per_px = 0.0022 * (view.distance - 0.9);
      turn(-rad_per_px * (event.clientX - last.clientX), rad_per_px * (event.clientY - last.clientY));
    } else {
      const other = [...fingers].find(([id]) => id !== event.pointerId)[1];
      const apart = (one) => Math.max(1, Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY));
      turn(0, 0, apart(last) / apart(event));
    }
    fingers.set(event.pointerId, event);
  };
  canvas.addEventListener("wheel", (event) => { event.preventDefault(); turn(0, 0, Math.exp(0.001 * event.deltaY)); }, { passive: false });
  const keys = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, 0.1], ArrowDown: [0, -0.1], "+": [0, 0, 0.9], "-": [0, 0, 1.1] };
  canvas.onkeydown = (event) => { if (keys[event.key]) { event.preventDefault(); turn(...keys[event.key]); } };
  slider.oninput = () => { time = Number(slider.value); until = null; byId("follow").checked = false; wake(); };
  picker.onchange = byId("footprints").onchange = byId("speed").onchange = () => { drawn = null; wake(); };
  byId("play").onclick = (event) => { playing = !playing; event.target.textContent = playing ? "Pause" : "Play"; wake(); };
  byId("follow").onchange = showNewest;
  document.addEventListener("runs-changed", (event) => {
    event.preventDefault(); // the page stays; only accuracies are new
    renewHops();
    takeAccuracies().catch(report);
  });
  new ResizeObserver(() => { globe.resize(used); wake(); }).observe(canvas);
}

function showNewest() {
  const chosen = accuracies[picker.selectedIndex];
  if (!byId("follow").checked || !chosen || !chosen.time_s.length) return;
  until = Math.min(chosen.time_s[chosen.time_s.length - 1], about.duration_s);
  if (time > until || until - time > 3 * about.round_s) time = Math.max(0, until - about.round_s); // not through all of the run
  wake();
}

// The first picture is of the newest round of the first method, in which orbits have colours; Play begins again after the last.
function begin() {
  const newest = accuracies[0]?.time_s.at(-1) ?? 0;
  time = Math.max(0, Math.min(newest, about.duration_s) - about.round_s / 2);
  slider.value = time;
  wake();
}

async function takeAccuracies() {
  const then = accuracies;
  accuracies = await fetchAccuracies();
  if (!picker.options.length) for (const { method } of accuracies) picker.append(new Option(method));
  scale = scaleOf();
  writeLegend();
  // Methods are trained one after the other; the one that is followed has a new record.
  const moving = accuracies.findIndex(({ time_s }, i) => then && time_s.length > then[i].time_s.length);
  if (byId("follow").checked && moving >= 0 && moving !== picker.selectedIndex) {
    picker.selectedIndex = moving;
    drawn = null;
  }
  wake();
  showNewest();
}

function writeLegend() {
  const legend = byId("legend"), [low, high] = scale;
  const entry = (kind, text) => {
    const item = document.createElement("span"), dot = document.createElement("span");
    dot.className = `dot ${kind}`;
    item.append(dot, text);
    return item;
  };
  const colours = document.createElement("span"), ramp = document.createElement("span");
  ramp.className = "ramp";
  colours.append(`Accuracy of the orbit: ${low} %`, ramp, `${high} %`);
  const kinds = ["isl", ...new Set(about.places.map(({ role }) => role))];
  legend.replaceChildren(colours, entry("unknown", "not known"), ...kinds.map((kind) => entry(kind, LINK_NAMES[kind])), ...(about.has_rings ? [entry("ring", "orbit")] : []), entry("footprint", "footprint"), entry("model", "model that is sent"));
}

// At first the stations are in front: those of Starlink's preset are all in North America.
function lookAtPlaces() {
  const [x, y, z] = [0, 1, 2].map((axis) => about.places.reduce((sum, { r_km }) => sum + r_km[axis], 0));
  if (Math.hypot(x, y) > 1) [view.longitude, view.latitude] = [Math.atan2(y, x), Math.min(Math.max(Math.atan2(z, Math.hypot(x, y)), -0.6), 0.6)];
}

async function start() {
  about = await fetchAbout();
  try {
    globe = new GlobeScene(canvas, about);
  } catch {
    throw new Error("this browser offers no WebGL; the map among the charts shows the same rounds");
  }
  slider.max = about.duration_s;
  lookAtPlaces();
  use(ratio);
  await takeAccuracies();
  begin();
  listen();
}

start().catch(report);
