// Lines over a field: streamlines of a vector field, borders between partitions.

// Cells of the grid that streamlines are followed on, along its longer side, and between lines.
export const GRID = 260;
const SEPARATION = 9;
const LONGEST = 2000;

/** Streamlines, evenly spaced, as lists of grid coordinates; the grid has y downwards. */
export function streamlines(grid) {
  const { u, v, inside, width, height } = grid;
  let fastest = 0;
  for (let k = 0; k < u.length; k++) fastest = Math.max(fastest, Math.hypot(u[k], v[k]));
  if (!(fastest > 0)) return [];
  const across = Math.ceil(width / SEPARATION) + 1;
  const down = Math.ceil(height / SEPARATION) + 1;
  const taken = new Int32Array(across * down).fill(-1);
  const cell = (x, y) => Math.floor(x / SEPARATION) + across * Math.floor(y / SEPARATION);

  const velocity = (x, y) => {
    const i = Math.floor(x - 0.5);
    const j = Math.floor(y - 0.5);
    if (i < 0 || j < 0 || i + 1 >= width || j + 1 >= height) return null;
    const k = i + width * j;
    if (!(inside[k] && inside[k + 1] && inside[k + width] && inside[k + width + 1])) return null;
    const s = x - 0.5 - i;
    const t = y - 0.5 - j;
    const mix = (f) =>
      (1 - t) * ((1 - s) * f[k] + s * f[k + 1]) +
      t * ((1 - s) * f[k + width] + s * f[k + width + 1]);
    const a = mix(u);
    const b = -mix(v); // pixels count downwards
    const size = Math.hypot(a, b);
    return size > 2e-3 * fastest ? [a / size, b / size] : null;
  };

  const follow = (x, y, sign, number) => {
    const path = [];
    for (let n = 0; n < LONGEST; n++) {
      const first = velocity(x, y);
      if (!first) break;
      const second = velocity(x + 0.5 * sign * first[0], y + 0.5 * sign * first[1]);
      if (!second) break;
      x += sign * second[0];
      y += sign * second[1];
      const at = cell(x, y);
      if (taken[at] >= 0 && taken[at] !== number) break;
      taken[at] = number;
      path.push([x, y]);
    }
    return path;
  };

  const lines = [];
  // From the middle outwards: the longest lines first look best.
  const seeds = [];
  for (let j = 0; j < down; j++) {
    for (let i = 0; i < across; i++) seeds.push([(i + 0.5) * SEPARATION, (j + 0.5) * SEPARATION]);
  }
  const [mx, my] = [width / 2, height / 2];
  seeds.sort((p, q) => Math.abs(p[0] - mx) - Math.abs(q[0] - mx) || Math.abs(p[1] - my) - Math.abs(q[1] - my));
  for (const [x, y] of seeds) {
    if (taken[cell(x, y)] >= 0 || !velocity(x, y)) continue;
    const number = lines.length;
    taken[cell(x, y)] = number;
    const back = follow(x, y, -1, number).reverse();
    const path = [...back, [x, y], ...follow(x, y, 1, number)];
    if (path.length > 1.5 * SEPARATION) lines.push(path);
  }
  return lines;
}

/**
 * Borders between the regions where one partition dominates, as segments x0, y0, x1, y1.
 *
 * rows holds the partition functions at the nodes; in a cell where two of them dominate, the border
 * is where they are equal; where three do, it joins the middles of the sides to the centre.
 */
export function borders(points, triangles, rows, width) {
  const nodes = rows.length / width;
  const main = new Uint16Array(nodes);
  for (let n = 0; n < nodes; n++) {
    let best = 0;
    for (let p = 1; p < width; p++) if (rows[n * width + p] > rows[n * width + best]) best = p;
    main[n] = best;
  }
  const segments = [];
  for (let t = 0; t < triangles.length; t += 3) {
    const corner = [triangles[t], triangles[t + 1], triangles[t + 2]];
    const label = corner.map((n) => main[n]);
    const kinds = [...new Set(label)];
    if (kinds.length === 1) continue;
    const x = corner.map((n) => points[2 * n]);
    const y = corner.map((n) => points[2 * n + 1]);
    const cuts = [];
    for (const [i, j] of [[0, 1], [1, 2], [2, 0]]) {
      if (label[i] === label[j]) continue;
      const at = (n) => rows[corner[n] * width + label[i]] - rows[corner[n] * width + label[j]];
      const [di, dj] = [at(i), at(j)];
      const s = di === dj ? 0.5 : Math.min(1, Math.max(0, di / (di - dj)));
      cuts.push([x[i] + s * (x[j] - x[i]), y[i] + s * (y[j] - y[i])]);
    }
    if (kinds.length === 2) {
      segments.push(cuts[0][0], cuts[0][1], cuts[1][0], cuts[1][1]);
    } else {
      const middle = [(x[0] + x[1] + x[2]) / 3, (y[0] + y[1] + y[2]) / 3];
      for (const cut of cuts) segments.push(cut[0], cut[1], middle[0], middle[1]);
    }
  }
  return segments;
}
