// What can be dragged of a geometry: obstacles with their rims, corners of polygons and curves.
// Geometries are never changed in place; every function returns a new one.

const SQUARE = Math.sqrt(Math.PI / 2); // reach of a square over the radius of its circle
export const LEAST_RADIUS = 0.03;
export const MOST_RADIUS = 0.3;
const MOST_OBSTACLES = 12;
const MOST_CORNERS = 32;

export const isEditable = (geometry) => Boolean(geometry?.obstacles || geometry?.corners);
export const count = (geometry) => (geometry.obstacles ?? geometry.corners ?? []).length;
export const least = (geometry) => (geometry.obstacles ? 1 : geometry.kind === "curve" ? 4 : 3);
export const most = (geometry) => (geometry.obstacles ? MOST_OBSTACLES : MOST_CORNERS);
export const noun = (geometry) =>
  geometry.obstacles ? "obstacle" : geometry.kind === "curve" ? "point" : "corner";

export const reach = (o) => (o.square ? SQUARE * o.radius : o.radius);

/** Where the handles are: one per item, and one on the rim of the chosen obstacle. */
export function places(geometry, chosen) {
  if (geometry.corners) return geometry.corners.map(([x, y], index) => ({ part: "corner", index, x, y }));
  if (!geometry.obstacles) return [];
  const found = geometry.obstacles.map((o, index) => ({ part: "body", index, x: o.x, y: o.y }));
  const o = geometry.obstacles[chosen];
  if (o) found.push({ part: "rim", index: chosen, ...rim(o) });
  return found;
}

function rim(o) {
  const angle = o.square ? o.angle : 0;
  return { x: o.x + reach(o) * Math.cos(angle), y: o.y + reach(o) * Math.sin(angle) };
}

/** What lies under a point, the nearest within a tolerance; obstacles also by their inside. */
export function hit(geometry, chosen, x, y, tolerance) {
  let best = null;
  let nearest = tolerance;
  for (const place of places(geometry, chosen)) {
    if (place.part === "body") continue;
    const distance = Math.hypot(x - place.x, y - place.y);
    if (distance <= nearest) [best, nearest] = [place, distance];
  }
  if (best || !geometry.obstacles) return best;
  geometry.obstacles.forEach((o, index) => {
    const distance = Math.hypot(x - o.x, y - o.y) - reach(o);
    if (distance <= Math.min(0.3 * tolerance, nearest)) {
      best = { part: "body", index, x: o.x, y: o.y };
      nearest = distance;
    }
  });
  return best;
}

const clamp = (v, low, high) => Math.min(high, Math.max(low, v));

/** The geometry with one handle at a new place. */
export function dragged(geometry, grip, x, y, bounds) {
  if (geometry.corners) {
    const corners = geometry.corners.map((c, k) => (k === grip.index ? [x, y] : c));
    return { ...geometry, corners };
  }
  const obstacles = geometry.obstacles.map((o, k) => {
    if (k !== grip.index) return o;
    if (grip.part === "rim") {
      const size = Math.hypot(x - o.x, y - o.y) / (o.square ? SQUARE : 1);
      const radius = clamp(size, LEAST_RADIUS, MOST_RADIUS);
      return o.square ? { ...o, radius, angle: Math.atan2(y - o.y, x - o.x) } : { ...o, radius };
    }
    const r = reach(o);
    return {
      ...o,
      x: clamp(x, bounds[0][0] + r + 0.01, bounds[1][0] - r - 0.01),
      y: clamp(y, bounds[0][1] + r + 0.01, bounds[1][1] - r - 0.01),
    };
  });
  return { ...geometry, obstacles };
}

/** One more item: an obstacle where there is most room, a corner in the middle of the longest side. */
export function added(geometry, bounds, inside) {
  if (geometry.corners) {
    const { corners } = geometry;
    let side = 0;
    let longest = -1;
    corners.forEach(([x, y], k) => {
      const [a, b] = corners[(k + 1) % corners.length];
      const length = Math.hypot(a - x, b - y);
      if (length > longest) [side, longest] = [k, length];
    });
    const [p, q] = [corners[side], corners[(side + 1) % corners.length]];
    const middle = [(p[0] + q[0]) / 2, (p[1] + q[1]) / 2];
    const changed = [...corners.slice(0, side + 1), middle, ...corners.slice(side + 1)];
    return { geometry: { ...geometry, corners: changed }, index: side + 1 };
  }
  let best = null;
  let room = -1;
  for (let i = 1; i < 40; i++) {
    for (let j = 1; j < 20; j++) {
      const x = bounds[0][0] + ((bounds[1][0] - bounds[0][0]) * i) / 40;
      const y = bounds[0][1] + ((bounds[1][1] - bounds[0][1]) * j) / 20;
      if (!inside(x, y)) continue;
      let free = Math.min(x - bounds[0][0] - 0.06, bounds[1][0] - x - 0.06, y - bounds[0][1], bounds[1][1] - y);
      for (const o of geometry.obstacles) free = Math.min(free, Math.hypot(x - o.x, y - o.y) - reach(o));
      if (free > room) [best, room] = [[x, y], free];
    }
  }
  if (!best || room < LEAST_RADIUS + 0.03) return null;
  const radius = clamp(room - 0.06, LEAST_RADIUS, 0.08);
  const fresh = { x: best[0], y: best[1], radius, square: false, angle: 0 };
  const obstacles = [...geometry.obstacles, fresh];
  return { geometry: { ...geometry, obstacles }, index: obstacles.length - 1 };
}

/** The geometry without one item. */
export function removed(geometry, index) {
  const name = geometry.obstacles ? "obstacles" : "corners";
  return { ...geometry, [name]: geometry[name].filter((_, k) => k !== index) };
}

/** The geometry with changed numbers of one obstacle. */
export function changed(geometry, index, numbers) {
  const obstacles = geometry.obstacles.map((o, k) => (k === index ? { ...o, ...numbers } : o));
  return { ...geometry, obstacles };
}

/** Closed paths to draw, each a list of points. */
export function paths(geometry) {
  if (geometry.obstacles) return geometry.obstacles.map(around);
  if (geometry.kind === "polygon") return [geometry.corners];
  if (geometry.kind === "curve") return [smooth(geometry.corners)];
  return [];
}

function around(o) {
  const corners = o.square ? 4 : 64;
  const start = o.square ? o.angle : 0;
  return Array.from({ length: corners }, (_, k) => {
    const phi = start + (2 * Math.PI * k) / corners;
    return [o.x + reach(o) * Math.cos(phi), o.y + reach(o) * Math.sin(phi)];
  });
}

/** A closed Catmull-Rom curve: near enough to the server's spline while it is dragged. */
function smooth(corners) {
  const n = corners.length;
  const path = [];
  for (let k = 0; k < n; k++) {
    const [a, b, c, d] = [-1, 0, 1, 2].map((j) => corners[(k + j + n) % n]);
    for (let s = 0; s < 1; s += 0.125) {
      path.push(
        [0, 1].map(
          (i) =>
            0.5 *
            (2 * b[i] +
              (c[i] - a[i]) * s +
              (2 * a[i] - 5 * b[i] + 4 * c[i] - d[i]) * s * s +
              (3 * b[i] - a[i] - 3 * c[i] + d[i]) * s * s * s),
        ),
      );
    }
  }
  return path;
}
