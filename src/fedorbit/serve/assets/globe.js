// A run on a globe: satellites in the colour of their orbit's accuracy, stations, and open links.
// One unit is the Earth's radius; the Earth-fixed axes x, y, z are x, -z, y of the scene.
import {
  BufferAttribute, BufferGeometry, CanvasTexture, Color, DynamicDrawUsage, LineBasicMaterial, LineSegments, Mesh,
  MeshBasicMaterial, PerspectiveCamera, Points, PointsMaterial, Scene, SphereGeometry, SRGBColorSpace, Vector3, WebGLRenderer,
} from "./three.js";

const EARTH_RADIUS_KM = 6371;
const RAMP = ["#9c179e", "#cc4778", "#ed7953", "#fdb42f", "#f0f921"].map((name) => new Color(name));
const UNKNOWN = new Color("#9aa6b3");
const LINKS = { ground: new Color("#5adc78"), platform: new Color("#ffaa3c"), isl: new Color("#6f819d") };
const LINK_NAMES = { ground: "link with the ground", platform: "link with a platform", isl: "link between satellites" };
const SEA = "#16222e", LAND = "#435160", KEPT_PARTS = 4, PICK_PX = 12, DESCRIBE_EVERY_MS = 500, SLOW_FRAME_MS = 100;

const byId = (id) => document.getElementById(id);
const canvas = byId("globe"), slider = byId("time"), picker = byId("method");
const name = document.querySelector("main").dataset.name;
const ask = async (what, part) => {
  const answer = await fetch(`/globe/${what}?${new URLSearchParams({ name, ...(part === undefined ? {} : { part }) })}`);
  if (!answer.ok) throw new Error(new DOMParser().parseFromString(await answer.text(), "text/html").querySelector(".note")?.textContent);
  return answer;
};

let about, accuracies, scene, camera, renderer, satellites, links;
let time = 0, playing = false, dirty = true, drawn = null, scale = [0, 100], described = 0;
const view = { longitude: 0.2, latitude: 0.5, distance: 3.4 };
const parts = new Map();

function buffer(count) {
  const attribute = new BufferAttribute(new Float32Array(3 * count), 3);
  attribute.setUsage(DynamicDrawUsage);
  return attribute;
}

function geometry(count) {
  return new BufferGeometry().setAttribute("position", buffer(count)).setAttribute("color", buffer(count));
}

function earth() {
  const picture = document.createElement("canvas");
  [picture.width, picture.height] = [2048, 1024];
  const pen = picture.getContext("2d");
  pen.fillStyle = SEA;
  pen.fillRect(0, 0, 2048, 1024);
  pen.fillStyle = LAND;
  for (const ring of about.land) {
    pen.beginPath();
    for (const [longitude, latitude] of ring) pen.lineTo(((longitude + 180) / 360) * 2048, ((90 - latitude) / 180) * 1024);
    pen.fill();
  }
  const map = new CanvasTexture(picture);
  map.colorSpace = SRGBColorSpace;
  return new Mesh(new SphereGeometry(1, 96, 48), new MeshBasicMaterial({ map }));
}

function dots(shape, size) {
  const picture = document.createElement("canvas");
  picture.width = picture.height = 32;
  const pen = picture.getContext("2d");
  pen.fillStyle = "white";
  pen.arc(16, 16, 15, 0, 2 * Math.PI);
  pen.fill();
  const map = new CanvasTexture(picture);
  const points = new Points(shape, new PointsMaterial({ size, map, alphaTest: 0.5, vertexColors: true, sizeAttenuation: false }));
  points.frustumCulled = false; // positions change, and its bounds would have to follow
  return points;
}

function put(array, place, x_km, y_km, z_km) {
  array[place] = x_km / EARTH_RADIUS_KM;
  array[place + 1] = z_km / EARTH_RADIUS_KM;
  array[place + 2] = -y_km / EARTH_RADIUS_KM;
}

function stations() {
  const shape = geometry(about.places.length);
  about.places.forEach((place, i) => {
    put(shape.attributes.position.array, 3 * i, ...place.r_km.map((x) => x * 1.004)); // just above the surface
    LINKS[place.role].toArray(shape.attributes.color.array, 3 * i);
  });
  return dots(shape, 9);
}

function newLinks(count) {
  const lines = new LineSegments(geometry(2 * count), new LineBasicMaterial({ vertexColors: true, transparent: true, opacity: 0.6, depthWrite: false }));
  lines.frustumCulled = false;
  return lines;
}

function partAt(seconds) {
  const last = Math.ceil(about.duration_s / about.part_s) - 1;
  return Math.min(Math.floor(seconds / about.part_s), last);
}

async function fetchPart(number) {
  if (parts.has(number) || number > partAt(about.duration_s)) return;
  parts.set(number, null); // is asked for
  try {
    const [positions, contacts] = await Promise.all(["positions", "contacts"].map(async (what) => new Float32Array(await (await ask(what, number)).arrayBuffer())));
    parts.set(number, { positions, contacts });
    for (const other of parts.keys()) if (parts.size > KEPT_PARTS && Math.abs(other - number) > 1) parts.delete(other);
  } catch (error) {
    parts.delete(number);
    throw error;
  }
  dirty = true;
}

// Positions between two samples, on a straight line; a satellite that is away stays inside the Earth.
function placeSatellites({ positions }, seconds) {
  const count = about.satellites.length, steps = about.part_s / about.step_s;
  const step = Math.min(Math.floor(seconds / about.step_s), steps - 1);
  const share = seconds / about.step_s - step;
  const target = satellites.geometry.attributes.position.array;
  for (let s = 0; s < 3 * count; s += 3) {
    const a = 3 * count * step + s, b = a + 3 * count;
    const at = (axis) => positions[a + axis] + share * (positions[b + axis] - positions[a + axis]);
    if (Number.isNaN(positions[a]) || Number.isNaN(positions[b])) put(target, s, 0, 0, 0);
    else put(target, s, at(0), at(1), at(2));
  }
  satellites.geometry.attributes.position.needsUpdate = true;
}

function nodePosition(node, target, place) {
  const count = about.satellites.length;
  if (node >= count) put(target, place, ...about.places[node - count].r_km);
  else target.set(satellites.geometry.attributes.position.array.subarray(3 * node, 3 * node + 3), place);
}

function placeLinks({ contacts }, seconds) {
  const open = [], counts = Object.fromEntries(about.kinds.map((kind) => [kind, 0]));
  for (let i = 0; i < contacts.length; i += 5) if (contacts[i + 3] <= seconds && seconds < contacts[i + 4]) open.push(i);
  if (6 * open.length > links.geometry.attributes.position.array.length) {
    scene.remove(links);
    links.geometry.dispose();
    links.material.dispose();
    links = newLinks(2 * open.length);
    scene.add(links);
  }
  const { position, color } = links.geometry.attributes;
  open.forEach((i, n) => {
    const kind = about.kinds[contacts[i + 2]];
    counts[kind]++;
    for (const end of [0, 1]) {
      nodePosition(contacts[i + end], position.array, 6 * n + 3 * end);
      LINKS[kind].toArray(color.array, 6 * n + 3 * end);
    }
  });
  links.geometry.setDrawRange(0, 2 * open.length);
  position.needsUpdate = color.needsUpdate = true;
  return counts;
}

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

function rampColour(share) {
  const x = Math.min(Math.max(share, 0), 1) * (RAMP.length - 1), i = Math.min(Math.floor(x), RAMP.length - 2);
  return RAMP[i].clone().lerp(RAMP[i + 1], x - i);
}

function colour(known, [low, high]) {
  if (drawn && drawn.known === known && drawn.low === low && drawn.high === high) return;
  drawn = { known, low, high };
  const { color } = satellites.geometry.attributes;
  const tints = known && known.map((value) => (value === null ? UNKNOWN : rampColour((value - low) / (high - low))));
  about.orbit_of_satellite.forEach((orbit, s) => ((tints && tints[orbit]) || UNKNOWN).toArray(color.array, 3 * s));
  color.needsUpdate = true;
}

function describe(counts, known) {
  const minutes = Math.floor(time / 60), round = Math.min(Math.floor(time / about.round_s), Math.round(about.duration_s / about.round_s) - 1);
  const clock = `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
  const values = (known || []).filter((value) => value !== null);
  const mean = values.length ? `${(values.reduce((a, b) => a + b, 0) / values.length).toFixed(1)} %` : "not known yet";
  return `Round ${round}, ${clock} after the start. Open links: ${counts.ground + counts.platform} with the ground, ${counts.isl} between satellites. Mean accuracy of orbits: ${mean}.`;
}

function draw() {
  const number = partAt(time), part = parts.get(number);
  fetchPart(number).then(() => fetchPart(number + 1)).catch(report);
  if (!part) return;
  dirty = false;
  const seconds = time - number * about.part_s, known = accuraciesAt(time);
  placeSatellites(part, seconds);
  const counts = placeLinks(part, seconds);
  colour(known, scale);
  const flat = Math.cos(view.latitude) * view.distance;
  camera.position.set(flat * Math.cos(view.longitude), Math.sin(view.latitude) * view.distance, -flat * Math.sin(view.longitude));
  camera.lookAt(0, 0, 0);
  renderer.render(scene, camera);
  if (!playing || performance.now() - described > DESCRIBE_EVERY_MS) {
    described = performance.now();
    const text = describe(counts, known);
    byId("state").textContent = text;
    slider.setAttribute("aria-valuetext", text);
  }
  canvas.dataset.points = renderer.info.render.points;
  canvas.dataset.lines = renderer.info.render.lines;
}

// Where the processor has to draw, fewer pixels make the difference between jerks and motion.
function lowerResolution(frame_ms) {
  mean_frame_ms = 0.9 * mean_frame_ms + 0.1 * Math.min(frame_ms, 250);
  if (mean_frame_ms < SLOW_FRAME_MS || renderer.getPixelRatio() < 1) return;
  renderer.setPixelRatio(0.6);
  resize();
}

let before = null, mean_frame_ms = 0;
function tick(now) {
  if (playing && before !== null) {
    lowerResolution(now - before);
    time += (Math.min(now - before, 250) / 1000) * Number(byId("speed").value);
    if (time > about.duration_s) time = 0;
    slider.value = time;
    dirty = true;
  }
  before = now;
  if (dirty) draw();
  requestAnimationFrame(tick);
}

function report(error) {
  byId("state").textContent = `The globe cannot be drawn: ${error.message}`;
}

function resize() {
  renderer.setSize(canvas.clientWidth, canvas.clientHeight, false);
  camera.aspect = canvas.clientWidth / canvas.clientHeight;
  // On a narrow screen, too, the whole Earth is seen.
  camera.fov = camera.aspect < 1 ? (2 * Math.atan(Math.tan(0.35) / camera.aspect) * 180) / Math.PI : 40;
  camera.updateProjectionMatrix();
  dirty = true;
}

function turn(east, north, closer = 1) {
  view.longitude += east;
  view.latitude = Math.min(Math.max(view.latitude + north, -1.5), 1.5);
  view.distance = Math.min(Math.max(view.distance * closer, 1.4), 12);
  dirty = true;
}

function pick(event) {
  const box = canvas.getBoundingClientRect(), label = byId("label"), point = new Vector3();
  const array = satellites.geometry.attributes.position.array;
  let best = PICK_PX, found = -1, at = null;
  for (let s = 0; s < about.satellites.length; s++) {
    point.fromArray(array, 3 * s);
    // In front of the Earth's edge: nearer than the horizon, or beside the disc. Good enough to point at.
    if (point.dot(camera.position) < 1 && point.length() > 0) continue;
    point.project(camera);
    const x = ((point.x + 1) / 2) * box.width, y = ((1 - point.y) / 2) * box.height;
    const away = Math.hypot(x - (event.clientX - box.left), y - (event.clientY - box.top));
    if (away < best) [best, found, at] = [away, s, [x, y]];
  }
  label.hidden = found < 0;
  if (found < 0) return;
  const orbit = about.orbit_of_satellite[found], known = accuraciesAt(time), value = known && known[orbit];
  label.textContent = `${about.satellites[found]}, orbit ${orbit}${value === null || value === undefined ? "" : `: ${value.toFixed(1)} %`}`;
  label.style.left = `${Math.min(at[0] + 10, box.width - label.offsetWidth - 4)}px`;
  label.style.top = `${at[1] + 10}px`;
}

function listen() {
  const fingers = new Map();
  canvas.onpointerdown = (event) => { canvas.setPointerCapture(event.pointerId); fingers.set(event.pointerId, event); };
  canvas.onpointerup = canvas.onpointercancel = (event) => fingers.delete(event.pointerId);
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
  slider.oninput = () => { time = Number(slider.value); dirty = true; };
  picker.onchange = () => { dirty = true; };
  byId("play").onclick = (event) => { playing = !playing; event.target.textContent = playing ? "Pause" : "Play"; };
  byId("follow").onchange = showNewest;
  document.addEventListener("runs-changed", (event) => {
    event.preventDefault(); // the page stays; only accuracies are new
    fetchAccuracies().catch(report);
  });
  new ResizeObserver(resize).observe(canvas);
}

function showNewest() {
  const chosen = accuracies[picker.selectedIndex];
  if (!byId("follow").checked || !chosen || !chosen.time_s.length) return;
  time = Math.min(chosen.time_s[chosen.time_s.length - 1], about.duration_s);
  slider.value = time;
  dirty = true;
}

async function fetchAccuracies() {
  accuracies = await (await ask("accuracies")).json();
  if (!picker.options.length) for (const { method } of accuracies) picker.append(new Option(method));
  scale = scaleOf();
  writeLegend();
  dirty = true;
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
  legend.replaceChildren(colours, entry("unknown", "not known"), ...kinds.map((kind) => entry(kind, LINK_NAMES[kind])));
}

async function start() {
  about = await (await ask("about")).json();
  try {
    renderer = new WebGLRenderer({ canvas, antialias: true });
  } catch {
    throw new Error("this browser offers no WebGL; the map among the charts shows the same rounds");
  }
  renderer.setPixelRatio(Math.min(devicePixelRatio, 2));
  scene = new Scene();
  scene.background = new Color("#0b1016");
  camera = new PerspectiveCamera(40, 1, 0.1, 50);
  satellites = dots(geometry(about.satellites.length), about.satellites.length > 300 ? 5 : 9);
  links = newLinks(1024);
  scene.add(earth(), stations(), satellites, links);
  slider.max = about.duration_s;
  await fetchAccuracies();
  listen();
  resize();
  requestAnimationFrame(tick);
}

start().catch(report);
