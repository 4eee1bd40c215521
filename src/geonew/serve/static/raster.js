// Triangles with values at their corners, drawn pixel by pixel: linear inside each triangle.

/**
 * Visit the pixels of every triangle.
 *
 * points are pixel coordinates x, y in one array; visit(triangle, first pixel of a run, length,
 * barycentric weights at its start, and their change per pixel) is called once per line.
 */
function scan(points, triangles, width, height, visit) {
  for (let t = 0; t < triangles.length; t += 3) {
    const a = 2 * triangles[t];
    const b = 2 * triangles[t + 1];
    const c = 2 * triangles[t + 2];
    const ax = points[a], ay = points[a + 1];
    const bx = points[b], by = points[b + 1];
    const cx = points[c], cy = points[c + 1];
    const area = (bx - ax) * (cy - ay) - (by - ay) * (cx - ax);
    if (area === 0) continue;
    const y0 = Math.max(0, Math.ceil(Math.min(ay, by, cy) - 0.5));
    const y1 = Math.min(height - 1, Math.floor(Math.max(ay, by, cy) - 0.5));
    const x0 = Math.max(0, Math.ceil(Math.min(ax, bx, cx) - 0.5));
    const x1 = Math.min(width - 1, Math.floor(Math.max(ax, bx, cx) - 0.5));
    const db = (cy - ay) / area; // d(weight of b)/dx
    const dc = -(by - ay) / area;
    for (let y = y0; y <= y1; y++) {
      const py = y + 0.5 - ay;
      // weights at the centre of pixel x0 of this line
      const px = x0 + 0.5 - ax;
      const wb = (px * (cy - ay) - py * (cx - ax)) / area;
      const wc = (py * (bx - ax) - px * (by - ay)) / area;
      // the run on which all three weights are at least 0 (a hair less: no gaps between cells)
      let first = 0;
      let last = x1 - x0;
      const bound = (w, dw) => {
        const slack = 1e-6;
        if (dw > 0) first = Math.max(first, Math.ceil((-slack - w) / dw));
        else if (dw < 0) last = Math.min(last, Math.floor((-slack - w) / dw));
        else if (w < -slack) last = -1;
      };
      bound(wb, db);
      bound(wc, dc);
      bound(1 - wb - wc, -db - dc);
      if (first <= last) {
        visit(t, y * width + x0 + first, last - first + 1, wb + first * db, wc + first * dc, db, dc);
      }
    }
  }
}

/** Fill the pixels of an ImageData with the colours of nodal values. */
export function paint(image, points, triangles, values, scale) {
  const pixels = new Uint32Array(image.data.buffer);
  pixels.fill(0);
  const colours = new Uint32Array(256);
  for (let k = 0; k < 256; k++) {
    const [r, g, b] = scale.colours.subarray(3 * k, 3 * k + 3);
    colours[k] = (255 << 24) | (b << 16) | (g << 8) | r;
  }
  const missing = (255 << 24) | (0xb0 << 16) | (0xb0 << 8) | 0xb0;
  const factor = 255 / (scale.high - scale.low);
  scan(points, triangles, image.width, image.height, (t, at, count, wb, wc, db, dc) => {
    const a = values[triangles[t]];
    const ab = values[triangles[t + 1]] - a;
    const ac = values[triangles[t + 2]] - a;
    let v = (a + wb * ab + wc * ac - scale.low) * factor;
    const dv = (db * ab + dc * ac) * factor;
    if (!Number.isFinite(v)) {
      pixels.fill(missing, at, at + count);
      return;
    }
    for (let k = 0; k < count; k++, v += dv) {
      pixels[at + k] = colours[v <= 0 ? 0 : v >= 255 ? 255 : (v + 0.5) | 0];
    }
  });
}

/** A vector field on a regular grid: components and where the domain is. */
export function sampleVectors(points, triangles, vectors, stride, axes, width, height) {
  const u = new Float32Array(width * height);
  const v = new Float32Array(width * height);
  const inside = new Uint8Array(width * height);
  scan(points, triangles, width, height, (t, at, count, wb, wc, db, dc) => {
    const a = stride * triangles[t];
    const b = stride * triangles[t + 1];
    const c = stride * triangles[t + 2];
    for (let k = 0; k < count; k++) {
      const mb = wb + k * db;
      const mc = wc + k * dc;
      const ma = 1 - mb - mc;
      u[at + k] = ma * vectors[a + axes[0]] + mb * vectors[b + axes[0]] + mc * vectors[c + axes[0]];
      v[at + k] = ma * vectors[a + axes[1]] + mb * vectors[b + axes[1]] + mc * vectors[c + axes[1]];
      inside[at + k] = 1;
    }
  });
  return { u, v, inside, width, height };
}
