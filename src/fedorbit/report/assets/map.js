// The map: land, stations, places of the data, and the satellites and their links at one round.
"use strict";

const TRACK_S = 2700, TRACK_MAX_STEP_S = 900, TRACK_PIECES = 6, MAX_TRACKS = 80;
let mapsDrawn = 0;

function drawMap(place, world, places, land) {
  const positions = world.positions;
  const extreme = Math.max(...positions.latitude_deg.flat().map(Math.abs), 50);
  const top = Math.min(90, extreme + 22);
  const width = Math.max(240, Math.floor(place.clientWidth));
  const [svg] = canvas(place, Math.round((width * 2 * top) / 360));
  const scale = width / 360;
  const at = (longitude, latitude) => [(longitude + 180) * scale, (top - latitude) * scale];
  make("rect", { class: "sea", x: 0, y: 0, width, height: 2 * top * scale }, svg);
  const edge = `map-edge-${mapsDrawn++}`; // a hidden setting's edge clips nothing
  const clip = make("clipPath", { id: edge }, make("defs", {}, svg));
  make("rect", { x: 0, y: 0, width, height: 2 * top * scale }, clip);
  const all = make("g", { "clip-path": `url(#${edge})` }, svg);
  const outline = land.map((ring) => `${path(ring.map(([x, y]) => at(x, y)))}Z`).join("");
  make("path", { class: "land", d: outline }, all);
  if (places) drawPlaces(all, places, at, scale);
  for (const station of world.stations) drawReach(all, station, at, width);
  const moving = make("g", {}, all);
  for (const station of world.stations) drawStation(svg, station, at, width, world.stations.length);
  return (t) => drawRound(moving, world, t, at, width);
}

// One disc per square, as large as its samples, in the colour of the orbit that holds most.
function drawPlaces(parent, places, at, scale) {
  const squares = new Map();
  for (const [row, column, orbit, count] of places.rows) {
    const key = `${row} ${column}`;
    const square = squares.get(key) || { row, column, total: 0, most: 0, orbit };
    square.total += count;
    if (count > square.most) { square.most = count; square.orbit = orbit; }
    squares.set(key, square);
  }
  const largest = Math.max(...[...squares.values()].map((square) => square.total));
  const group = make("g", {}, parent);
  for (const square of squares.values()) {
    const size = places.bin_deg;
    const [cx, cy] = at((square.column + 0.5) * size, (square.row + 0.5) * size);
    const r = Math.max(0.8, 0.7 * size * scale * Math.sqrt(square.total / largest));
    make("circle", { class: `place ${colourClass(square.orbit)}`, cx, cy, r }, group);
  }
}

function drawStation(svg, station, at, width, stations) {
  const [x, y] = at(station.longitude_deg, station.latitude_deg);
  make("path", { class: "station", d: `M${x} ${y - 6}l5.5 9.5h-11z` }, svg);
  if (stations > 12) return;
  const left = x > width * 0.75;
  const label = { x: x + (left ? -9 : 9), y: y + 4, class: "strong halo", "text-anchor": left ? "end" : "start" };
  make("text", label, svg, station.name);
}

function drawReach(parent, station, at, width) {
  const rad = Math.PI / 180;
  const [lat, lon, radius] = [station.latitude_deg * rad, station.longitude_deg * rad, station.radius_deg * rad];
  const ring = [];
  for (let i = 0; i <= 120; i++) {
    const bearing = (i / 120) * 2 * Math.PI;
    const sine = Math.sin(lat) * Math.cos(radius) + Math.cos(lat) * Math.sin(radius) * Math.cos(bearing);
    const east = Math.atan2(Math.sin(bearing) * Math.sin(radius) * Math.cos(lat), Math.cos(radius) - Math.sin(lat) * sine);
    ring.push([(((lon + east) / rad + 540) % 360) - 180, Math.asin(sine) / rad]);
  }
  make("path", { class: "reach", d: brokenPath(ring, at, width) }, parent);
}

// A line that leaves the map on one side comes back on the other.
function brokenPath(points, at, width) {
  let before = null;
  return points.map(([longitude, latitude]) => {
    const [x, y] = at(longitude, latitude);
    const jump = before === null || Math.abs(x - before) > width / 2;
    before = x;
    return `${jump ? "M" : "L"}${x.toFixed(1)} ${y.toFixed(1)}`;
  }).join("");
}

function drawRound(group, world, t, at, width) {
  const { positions } = world;
  const row = Math.min(Math.round(t / positions.every_round), positions.latitude_deg.length - 1);
  const seen = new Set(positions.seen[row]);
  const away = new Set(positions.away ? positions.away[row] : []);
  group.replaceChildren();
  const step_s = positions.every_round * world.round_s;
  const count = positions.satellites.length;
  if (step_s <= TRACK_MAX_STEP_S && count <= MAX_TRACKS) {
    const steps = Math.min(Math.round(TRACK_S / step_s), positions.latitude_deg.length - 1);
    const begin = Math.max(0, Math.min(row - steps, positions.latitude_deg.length - 1 - steps));
    for (let s = 0; s < count; s++) {
      if (away.has(s)) continue;
      const points = [];
      for (let i = begin; i < begin + steps; i++) points.push(...between(positions, s, i));
      if (points.length) make("path", { class: `track ${colourClass(positions.orbit_of_satellite[s])}`, d: brokenPath(points, at, width) }, group);
    }
  }
  for (const [a, b] of world.links ? world.links[row] : []) {
    if (away.has(a) || away.has(b)) continue;
    const points = arc(vectorOf(positions, a, row), vectorOf(positions, b, row));
    make("path", { class: "link", d: brokenPath(points, at, width) }, group);
  }
  const r = count > 150 ? 2.4 : width < 480 ? 3.2 : 4.6;
  for (let s = 0; s < count; s++) {
    if (away.has(s)) continue;
    const [cx, cy] = at(positions.longitude_deg[row][s], positions.latitude_deg[row][s]);
    const kind = seen.has(s) ? "satellite seen" : "satellite";
    const mark = make("circle", { class: `${kind} ${colourClass(positions.orbit_of_satellite[s])}`, cx, cy, r: seen.has(s) ? r * 1.3 : r }, group);
    make("title", {}, mark, `${positions.names[s]}, orbit ${positions.orbit_of_satellite[s]}`);
  }
}

// Points of a satellite from one round to the next.
function between(positions, s, i) {
  return arc(vectorOf(positions, s, i), vectorOf(positions, s, i + 1));
}

// Where a satellite is at a row of positions: a vector from the Earth's centre.
function vectorOf(positions, s, row) {
  const rad = Math.PI / 180;
  const lat = positions.latitude_deg[row][s] * rad, lon = positions.longitude_deg[row][s] * rad;
  return [Math.cos(lat) * Math.cos(lon), Math.cos(lat) * Math.sin(lon), Math.sin(lat)];
}

// Points along the great circle from one vector to another.
function arc(a, b) {
  const rad = Math.PI / 180, points = [];
  for (let k = 0; k <= TRACK_PIECES; k++) {
    const v = a.map((value, axis) => value + (k / TRACK_PIECES) * (b[axis] - value));
    points.push([Math.atan2(v[1], v[0]) / rad, Math.atan2(v[2], Math.hypot(v[0], v[1])) / rad]);
  }
  return points;
}

function describeRound(world, seenAs, t) {
  const minutes = Math.round((t * world.round_s) / 60);
  const clock = `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
  const orbits = world.visible.flatMap((row, orbit) => (row.some(([a, b]) => a <= t && t < b) ? [orbit] : []));
  const named = orbits.length > 12 ? `${orbits.length}` : orbits.join(", ");
  return `Round ${t}, ${clock} after the start. Orbits ${seenAs}: ${orbits.length ? named : "none"}.`;
}

function drawMapOf(place, setting) {
  const world = report.worlds[setting.world];
  const update = drawMap(place, world, setting.places, report.land);
  const figure = place.closest("figure");
  const slider = figure.querySelector("input[type=range]");
  const output = figure.querySelector("output");
  const show = () => {
    const t = Number(slider.value);
    const text = describeRound(world, setting.seen_as, t);
    output.textContent = text;
    slider.setAttribute("aria-valuetext", text);
    update(t);
    if (setting.mark) setting.mark(t);
  };
  slider.oninput = show;
  figure.querySelector("button.play").onclick = (event) => play(event.currentTarget, slider);
  show();
}

function play(button, slider) {
  if (stop()) return;
  button.textContent = "Pause";
  const timer = setInterval(() => {
    slider.value = Number(slider.value) >= Number(slider.max) ? 0 : Number(slider.value) + 1;
    slider.oninput(); // of the map as it is now: it may have been drawn again
  }, 180);
  playing = { timer, button };
}

function stop() {
  if (playing === null) return false;
  clearInterval(playing.timer);
  playing.button.textContent = "Play";
  playing = null;
  return true;
}
