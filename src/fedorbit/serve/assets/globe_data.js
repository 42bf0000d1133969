// What a globe shows, from the server: what stays, accuracies, and positions and contacts by the hour.
const KEPT_PARTS = 4;
const name = document.querySelector("main").dataset.name;
const parts = new Map();
const hops = new Map();

async function ask(what, more = {}) {
  const answer = await fetch(`/globe/${what}?${new URLSearchParams({ name, ...more })}`);
  if (answer.ok) return answer;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  throw new Error(page.querySelector(".note")?.textContent);
}

export const fetchAbout = async () => (await ask("about")).json();
export const fetchAccuracies = async () => (await ask("accuracies")).json();

// Hops of a method in a part; null until they have arrived. After a change the old ones are shown until the new ones have.
export function hopsOf(method, part, arrived, failed) {
  const key = `${part} ${method}`, known = hops.get(key);
  if (known && !known.isOld) return known.rows;
  if (hops.size > KEPT_PARTS) hops.clear();
  const asked = { rows: known ? known.rows : null, isOld: false };
  hops.set(key, asked);
  ask("hops", { part, method }).then(async (answer) => {
    asked.rows = new Float32Array(await answer.arrayBuffer());
    arrived();
  }).catch(failed);
  return asked.rows;
}

export function renewHops() {
  for (const known of hops.values()) known.isOld = true;
}

export function partAt(about, seconds) {
  return Math.min(Math.floor(seconds / about.part_s), Math.ceil(about.duration_s / about.part_s) - 1);
}

// Positions and contacts of a part; null while they are on their way.
export const partOf = (number) => parts.get(number) || null;

// Fetches a part and the one after it, unless they are here or on their way; calls `arrived` for each that arrives.
export async function fetchParts(about, number, arrived) {
  for (const wanted of [number, number + 1]) {
    if (parts.has(wanted) || wanted > partAt(about, about.duration_s)) continue;
    parts.set(wanted, null);
    try {
      const [positions, contacts] = await Promise.all(["positions", "contacts"].map(async (what) => new Float32Array(await (await ask(what, { part: wanted })).arrayBuffer())));
      parts.set(wanted, { positions, contacts });
    } catch (error) {
      parts.delete(wanted);
      throw error;
    }
    for (const other of parts.keys()) if (parts.size > KEPT_PARTS && Math.abs(other - wanted) > 1) parts.delete(other);
    arrived();
  }
}
