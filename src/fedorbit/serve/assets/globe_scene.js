// What is drawn: the Earth, orbits, satellites, footprints, stations, open links and models, with one draw call each.
// One unit is the Earth's radius; the Earth-fixed axes x, y, z are x, -z, y of the scene.
import {
  BufferAttribute, BufferGeometry, CanvasTexture, Color, DynamicDrawUsage, Mesh,
  MeshBasicMaterial, PerspectiveCamera, Points, PointsMaterial, Scene, SphereGeometry, SRGBColorSpace, Vector3, WebGLRenderer,
} from "./three.js";

const EARTH_RADIUS_KM = 6371, SEA = "#16222e", LAND = "#435160", PICK_PX = 12;
const RAMP = ["#9c179e", "#cc4778", "#ed7953", "#fdb42f", "#f0f921"].map((name) => new Color(name));
const UNKNOWN = new Color("#9aa6b3");
const LINKS = { ground: new Color("#5adc78"), platform: new Color("#ffaa3c"), isl: new Color("#86a8d8") };
const RING = new Color("#587394"), FOOTPRINT = new Color("#8fa3bb");
const CONTACT = 5; // numbers of a contact: first node, second, kind, begin, end
const HOP = 3; // numbers of a hop: begin, source, target
const EARTH_RAD_PER_S = 7.2921e-5, MOST_FOOTPRINTS = 100, MOST_MODELS = 2048;
const CORNERS = 64, COSINES = [], SINES = [];
for (let i = 0; i <= CORNERS; i++) {
  COSINES.push(Math.cos((2 * Math.PI * i) / CORNERS));
  SINES.push(Math.sin((2 * Math.PI * i) / CORNERS));
}

function attribute(array) {
  return new BufferAttribute(array, 3).setUsage(DynamicDrawUsage);
}

function geometry(positions) {
  return new BufferGeometry().setAttribute("position", attribute(positions)).setAttribute("color", attribute(new Float32Array(positions.length)));
}

function earth(land) {
  const picture = document.createElement("canvas");
  [picture.width, picture.height] = [2048, 1024];
  const pen = picture.getContext("2d");
  pen.fillStyle = SEA;
  pen.fillRect(0, 0, 2048, 1024);
  pen.fillStyle = LAND;
  for (const ring of land) {
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

// Lines with a width in pixels of the page. Those of WebGL are one pixel of the screen wide, which can hardly be seen on a
// sharp screen; these are two triangles each, which the graphics processor turns to the camera.
class Lines {
  constructor(count, width_px) {
    this.ends = new Float32Array(6 * count);
    this.colours = new Float32Array(6 * count);
    this.width_px = width_px;
    this.share = { value: [0, 0] }; // the width as a share of the canvas
    this.count = 0;
    const shape = new BufferGeometry(), sides = new Float32Array(4 * count), corners = new Uint32Array(6 * count);
    for (let i = 0; i < count; i++) {
      sides.set([1, -1, -1, 1], 4 * i);
      corners.set([4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 1, 4 * i + 3, 4 * i + 2], 6 * i);
    }
    for (const name of ["position", "other", "color"]) shape.setAttribute(name, attribute(new Float32Array(12 * count)));
    shape.setAttribute("side", new BufferAttribute(sides, 1)).setIndex(new BufferAttribute(corners, 1));
    const material = new MeshBasicMaterial({ vertexColors: true, transparent: true, opacity: 0.9, depthWrite: false, side: 2 });
    material.onBeforeCompile = (shader) => {
      shader.uniforms.share = this.share;
      shader.vertexShader = `attribute vec3 other;\nattribute float side;\nuniform vec2 share;\n${shader.vertexShader}`.replace("#include <project_vertex>", `#include <project_vertex>
        vec4 end = projectionMatrix * modelViewMatrix * vec4(other, 1.0);
        vec2 along = (end.xy / max(end.w, 0.01) - gl_Position.xy / gl_Position.w) / share;
        gl_Position.xy += side * normalize(vec2(-along.y, along.x) + 1e-6) * share * gl_Position.w;`);
    };
    this.mesh = new Mesh(shape, material);
    this.mesh.frustumCulled = false;
  }

  // Draws the first so many of the ends.
  show(count) {
    const { position, other, color } = this.mesh.geometry.attributes, { ends, colours } = this;
    const here = position.array, there = other.array, inks = color.array;
    for (let i = 0; i < count; i++) {
      for (let axis = 0; axis < 3; axis++) {
        const from = 6 * i + axis, place = 12 * i + axis, a = ends[from], b = ends[from + 3];
        here[place] = here[place + 3] = there[place + 6] = there[place + 9] = a;
        here[place + 6] = here[place + 9] = there[place] = there[place + 3] = b;
        inks[place] = inks[place + 3] = inks[place + 6] = inks[place + 9] = colours[from]; // one colour from end to end
      }
    }
    this.count = count;
    this.mesh.geometry.setDrawRange(0, 6 * count);
    position.needsUpdate = other.needsUpdate = color.needsUpdate = true;
  }

  // At least a pixel of what is drawn, or there would be gaps.
  fit({ clientWidth, clientHeight }, ratio) {
    const width_px = Math.max(this.width_px, 1 / ratio);
    this.share.value[0] = width_px / clientWidth;
    this.share.value[1] = width_px / clientHeight;
  }

  dispose() {
    this.mesh.geometry.dispose();
    this.mesh.material.dispose();
  }
}

function put(array, place, x_km, y_km, z_km) {
  array[place] = x_km / EARTH_RADIUS_KM;
  array[place + 1] = z_km / EARTH_RADIUS_KM;
  array[place + 2] = -y_km / EARTH_RADIUS_KM;
}

// Antialiasing takes the processor a third of a frame.
function isDrawnByProcessor() {
  const gl = document.createElement("canvas").getContext("webgl2");
  const info = gl?.getExtension("WEBGL_debug_renderer_info");
  const name = info ? gl.getParameter(info.UNMASKED_RENDERER_WEBGL) : "";
  gl?.getExtension("WEBGL_lose_context")?.loseContext();
  return /swiftshader|llvmpipe|software|basic render/i.test(name);
}

function isOpen(contacts, i, seconds) {
  return contacts[i + 3] <= seconds && seconds < contacts[i + 4];
}

function rampColour(share) {
  const x = Math.min(Math.max(share, 0), 1) * (RAMP.length - 1), i = Math.min(Math.floor(x), RAMP.length - 2);
  return RAMP[i].clone().lerp(RAMP[i + 1], x - i);
}

// Methods that run in every frame make no objects, so that no frame waits for their removal.
export class GlobeScene {
  constructor(canvas, about) {
    this.canvas = canvas;
    this.about = about;
    this.isSoftware = isDrawnByProcessor();
    this.renderer = new WebGLRenderer({ canvas, antialias: !this.isSoftware });
    this.scene = new Scene();
    this.scene.background = new Color("#0b1016");
    this.camera = new PerspectiveCamera(40, 1, 0.1, 50);
    this.counts = Object.fromEntries(about.kinds.map((kind) => [kind, 0]));
    this.tinted = null;
    const count = about.satellites.length;
    this.nodes = new Float32Array(3 * (count + about.places.length)); // satellites, then places
    about.places.forEach((place, i) => put(this.nodes, 3 * (count + i), ...place.r_km));
    this.satellites = dots(geometry(this.nodes.subarray(0, 3 * count)), count > 300 ? 5 : 9);
    this.inContact = new Uint8Array(count); // with the ground, as the links say
    this.axes = [new Vector3(), new Vector3(), new Vector3(), new Vector3()]; // of a circle, for use in every frame
    this.linkWidth_px = count > 300 ? 0.7 : 1.4;
    this.links = new Lines(1024, this.linkWidth_px);
    this.rings = this.#circles(about.has_rings ? 1 + Math.max(...about.orbit_of_satellite) : 0);
    this.footprints = this.#circles(Math.min(count, MOST_FOOTPRINTS));
    this.models = dots(geometry(new Float32Array(3 * MOST_MODELS)), 5);
    this.models.geometry.attributes.color.array.fill(1);
    this.models.geometry.setDrawRange(0, 0);
    const masks = (role) => about.places.filter((place) => !role || place.role === role).map((place) => place.min_elevation_deg);
    this.elevation = (Math.min(...(masks("ground").length ? masks("ground") : masks())) * Math.PI) / 180;
    this.scene.add(earth(about.land), this.#stations(), this.rings.mesh, this.footprints.mesh, this.links.mesh, this.satellites, this.models);
  }

  #circles(count) {
    return new Lines(count * CORNERS, 0.9);
  }

  #stations() {
    const shape = geometry(this.nodes.slice(3 * this.about.satellites.length).map((x) => x * 1.004)); // just above the surface
    this.about.places.forEach(({ role }, i) => LINKS[role].toArray(shape.attributes.color.array, 3 * i));
    return dots(shape, 9);
  }

  // Positions between two samples, on a straight line; a satellite that is away stays inside the Earth.
  placeSatellites(positions, seconds) {
    const { satellites, part_s, step_s } = this.about, size = 3 * satellites.length;
    const step = Math.min(Math.floor(seconds / step_s), part_s / step_s - 1), share = seconds / step_s - step;
    for (let s = 0; s < size; s += 3) {
      const a = size * step + s, b = a + size;
      const x = positions[a] + share * (positions[b] - positions[a]);
      if (Number.isNaN(x)) put(this.nodes, s, 0, 0, 0);
      else put(this.nodes, s, x, positions[a + 1] + share * (positions[b + 1] - positions[a + 1]), positions[a + 2] + share * (positions[b + 2] - positions[a + 2]));
    }
    this.satellites.geometry.attributes.position.needsUpdate = true;
  }

  // A circle around the Earth's centre or around `along`: at + cos u + sin v, from the axes of this scene.
  #circle(circles, number, colour, along, across, up, offset, radius) {
    const { ends: position, colours: color } = circles;
    for (let i = 0, place = 6 * CORNERS * number; i < CORNERS; i++) {
      for (let end = i; end <= i + 1; end++, place += 3) {
        const c = radius * COSINES[end], s = radius * SINES[end];
        position[place] = offset * along.x + c * across.x + s * up.x;
        position[place + 1] = offset * along.y + c * across.y + s * up.y;
        position[place + 2] = offset * along.z + c * across.z + s * up.z;
        color[place] = colour.r;
        color[place + 1] = colour.g;
        color[place + 2] = colour.b;
      }
    }
  }

  #shown(circles, count) {
    circles.show(CORNERS * count);
  }

  // The orbits as circles: each through one of its satellites, in the direction in which it flies in space.
  placeRings(positions, seconds) {
    const { has_rings, satellites, orbit_of_satellite, part_s, step_s } = this.about;
    if (!has_rings) return;
    const [here, flight, normal, beside] = this.axes, size = 3 * satellites.length;
    const step = Math.min(Math.floor(seconds / step_s), part_s / step_s - 1);
    let count = 0, last = -1;
    for (let s = 0; s < satellites.length; s++) {
      const a = size * step + 3 * s, b = a + size;
      if (orbit_of_satellite[s] === last || Number.isNaN(positions[a] + positions[b])) continue;
      last = orbit_of_satellite[s];
      here.fromArray(this.nodes, 3 * s);
      const scale = 1 / (step_s * EARTH_RADIUS_KM); // the Earth turns below the orbit
      flight.set((positions[b] - positions[a]) * scale + EARTH_RAD_PER_S * here.z, (positions[b + 2] - positions[a + 2]) * scale, -(positions[b + 1] - positions[a + 1]) * scale - EARTH_RAD_PER_S * here.x);
      const radius = here.length();
      here.divideScalar(radius);
      normal.crossVectors(here, flight).normalize();
      beside.crossVectors(normal, here);
      this.#circle(this.rings, count++, RING, normal, here, beside, 0, radius);
    }
    this.#shown(this.rings, count);
  }

  // From where satellites are high enough for a station: of all, or in a large constellation of those in contact.
  placeFootprints(isWanted) {
    const [up, across, beside] = this.axes, count = this.about.satellites.length;
    let drawn = 0;
    for (let s = 0; isWanted && s < count && drawn < MOST_FOOTPRINTS; s++) {
      if (count > MOST_FOOTPRINTS && !this.inContact[s]) continue;
      up.fromArray(this.nodes, 3 * s);
      const radius = up.length();
      if (radius <= 1) continue;
      up.divideScalar(radius);
      across.set(up.z, 0, -up.x);
      if (across.lengthSq() < 1e-6) across.set(1, 0, 0);
      across.normalize();
      beside.crossVectors(up, across);
      const angle = Math.acos(Math.cos(this.elevation) / radius) - this.elevation;
      this.#circle(this.footprints, drawn++, this.inContact[s] ? LINKS.ground : FOOTPRINT, up, across, beside, 1.003 * Math.cos(angle), 1.003 * Math.sin(angle));
    }
    this.#shown(this.footprints, drawn);
  }

  // Models that were sent in the last seconds, each on its link; returns how many there are.
  placeModels(hops, seconds, shown_s) {
    const { position } = this.models.geometry.attributes;
    let count = 0;
    for (let i = 0; hops && i < hops.length && count < MOST_MODELS; i += HOP) {
      const share = (seconds - hops[i]) / shown_s;
      if (share < 0 || share >= 1) continue;
      const a = 3 * hops[i + 1], b = 3 * hops[i + 2];
      for (let axis = 0; axis < 3; axis++) position.array[3 * count + axis] = this.nodes[a + axis] + share * (this.nodes[b + axis] - this.nodes[a + axis]);
      count++;
    }
    this.models.geometry.setDrawRange(0, count);
    position.needsUpdate = true;
    return count;
  }

  // Draws the links that are open, and returns how many of each kind there are.
  placeLinks(contacts, seconds) {
    const { kinds } = this.about;
    let open = 0;
    for (const kind of kinds) this.counts[kind] = 0;
    this.inContact.fill(0);
    for (let i = 0; i < contacts.length; i += CONTACT) if (isOpen(contacts, i, seconds)) open++;
    this.#makeRoom(open);
    const { ends, colours } = this.links;
    for (let i = 0, place = 0; i < contacts.length; i += CONTACT) {
      if (!isOpen(contacts, i, seconds)) continue;
      const kind = kinds[contacts[i + 2]], { r, g, b } = LINKS[kind];
      this.counts[kind]++;
      if (kind !== "isl") this.inContact[Math.min(contacts[i], contacts[i + 1])] = 1;
      for (let end = 0; end < 2; end++, place += 3) {
        const node = 3 * contacts[i + end];
        for (let axis = 0; axis < 3; axis++) ends[place + axis] = this.nodes[node + axis];
        colours[place] = r;
        colours[place + 1] = g;
        colours[place + 2] = b;
      }
    }
    this.links.show(open);
    return this.counts;
  }

  #makeRoom(open) {
    if (6 * open <= this.links.ends.length) return;
    this.scene.remove(this.links.mesh);
    this.links.dispose();
    this.links = new Lines(2 * open, this.linkWidth_px);
    this.links.fit(this.canvas, this.renderer.getPixelRatio());
    this.scene.add(this.links.mesh);
  }

  // Satellites in the colour of their orbit's accuracy; `known` is null where none is.
  tint(known, [low, high]) {
    if (this.tinted && this.tinted.known === known && this.tinted.low === low && this.tinted.high === high) return;
    this.tinted = { known, low, high };
    const { color } = this.satellites.geometry.attributes;
    const tints = known && known.map((value) => (value === null ? UNKNOWN : rampColour((value - low) / (high - low))));
    this.about.orbit_of_satellite.forEach((orbit, s) => ((tints && tints[orbit]) || UNKNOWN).toArray(color.array, 3 * s));
    color.needsUpdate = true;
  }

  // How many circles are drawn: orbits and footprints.
  get circles() {
    return (this.rings.count + this.footprints.count) / CORNERS;
  }

  render({ longitude, latitude, distance }) {
    const flat = Math.cos(latitude) * distance;
    this.camera.position.set(flat * Math.cos(longitude), Math.sin(latitude) * distance, -flat * Math.sin(longitude));
    this.camera.lookAt(0, 0, 0);
    this.renderer.render(this.scene, this.camera);
  }

  // Fits the picture to its place, with so many pixels to each of the page.
  resize(ratio) {
    const { canvas, camera } = this;
    this.renderer.setPixelRatio(ratio);
    this.renderer.setSize(canvas.clientWidth, canvas.clientHeight, false);
    camera.aspect = canvas.clientWidth / canvas.clientHeight;
    // On a narrow screen, too, the whole Earth is seen.
    camera.fov = camera.aspect < 1 ? (2 * Math.atan(Math.tan(0.35) / camera.aspect) * 180) / Math.PI : 40;
    camera.updateProjectionMatrix();
    for (const lines of [this.links, this.rings, this.footprints]) lines.fit(canvas, ratio);
  }

  // The satellite near a point of the canvas, as {satellite, x, y}; null if there is none.
  nearest(x_px, y_px) {
    const { clientWidth: width, clientHeight: height } = this.canvas, point = new Vector3();
    let best = PICK_PX, found = null;
    for (let satellite = 0; satellite < this.about.satellites.length; satellite++) {
      point.fromArray(this.nodes, 3 * satellite);
      // In front of the Earth's edge: nearer than the horizon, or beside the disc. Good enough to point at.
      if (point.dot(this.camera.position) < 1 && point.length() > 0) continue;
      point.project(this.camera);
      const x = ((point.x + 1) / 2) * width, y = ((1 - point.y) / 2) * height;
      const away = Math.hypot(x - x_px, y - y_px);
      if (away < best) [best, found] = [away, { satellite, x, y }];
    }
    return found;
  }
}
