// The drawing: field, lines and handles on two canvases, and what pointer and keys do to handles.

import * as handles from "./handles.js";
import { borders, GRID, streamlines } from "./lines.js";
import { paint, sampleVectors } from "./raster.js";

const MARGIN = 18; // CSS pixels around the domain
const TOUCH = { mouse: 11, pen: 14, touch: 24 }; // how near is a hit
const STEP = 0.01; // of the domain's height per arrow key
const TURN = Math.PI / 24;
const MOST_ZOOM = 200;

export class Stage {
  /**
   * @param {HTMLElement} frame holds both canvases
   * @param {object} listener change(geometry, done), choose(index)
   */
  constructor(frame, listener) {
    this.frame = frame;
    this.field = frame.querySelector("#field");
    this.overlay = frame.querySelector("#overlay");
    this.listener = listener;
    this.result = null;
    this.geometry = null;
    this.chosen = -1;
    this.refused = false;
    this.options = { streamlines: true, partitions: false, mesh: false };
    this.bounds = [[0, 0], [1, 1]]; // of the domain
    this.shown = null; // of what is shown of it, where that is less
    new ResizeObserver(() => this.resize()).observe(frame);
    this.listen();
  }

  // -- what is shown -----------------------------------------------------------------------------

  /** Show a result: points, triangles, outline, values, and where there are, vectors and rows. */
  show(result) {
    this.result = result;
    if (result) this.bounds = boundsOf(result.points);
    if (!result) this.shown = null;
    this.drawField();
    this.drawOverlay();
  }

  edit(geometry) {
    this.geometry = geometry;
    if (this.chosen >= (geometry ? handles.count(geometry) : 0)) this.choose(-1);
    this.drawOverlay();
  }

  choose(index) {
    this.chosen = index;
    this.listener.choose(index);
    this.drawOverlay();
  }

  set(options) {
    Object.assign(this.options, options);
    this.drawField();
    this.drawOverlay();
  }

  /** Show a part of the domain, given by its corners; all of it for null. */
  focus(shown) {
    this.shown = shown;
    this.drawField();
    this.drawOverlay();
  }

  /** Come nearer by a factor, a point of the domain keeping its place. */
  zoom(factor, x, y) {
    const [low, high] = this.shown ?? this.bounds;
    const wide = this.bounds[1][0] - this.bounds[0][0];
    const nearer = Math.min(high[0] - low[0], wide) / factor;
    if (nearer > wide) {
      this.focus(null);
    } else if (nearer > wide / MOST_ZOOM) {
      const at = [x, y];
      this.focus([low, high].map((end) => end.map((v, k) => at[k] + (v - at[k]) / factor)));
    }
  }

  /** Whether the shape as it is now was refused. */
  mark(refused) {
    this.refused = refused;
    this.drawOverlay();
  }

  // -- coordinates -------------------------------------------------------------------------------

  resize() {
    const { clientWidth, clientHeight } = this.frame;
    this.ratio = Math.min(2, window.devicePixelRatio || 1);
    for (const canvas of [this.field, this.overlay]) {
      canvas.width = Math.max(1, Math.round(clientWidth * this.ratio));
      canvas.height = Math.max(1, Math.round(clientHeight * this.ratio));
    }
    this.drawField();
    this.drawOverlay();
  }

  /** Scale and shift from the domain to CSS pixels. */
  get view() {
    const [[x0, y0], [x1, y1]] = this.shown ?? this.bounds;
    const [w, h] = [this.frame.clientWidth, this.frame.clientHeight];
    const scale = Math.min((w - 2 * MARGIN) / (x1 - x0), (h - 2 * MARGIN) / (y1 - y0));
    return { scale, x: (w - scale * (x1 + x0)) / 2, y: (h + scale * (y1 + y0)) / 2 };
  }

  toPixel([x, y]) {
    const { scale, x: dx, y: dy } = this.view;
    return [scale * x + dx, dy - scale * y];
  }

  toDomain(px, py) {
    const { scale, x, y } = this.view;
    return [(px - x) / scale, (y - py) / scale];
  }

  // -- drawing -----------------------------------------------------------------------------------

  drawField(canvas = this.field, ratio = this.ratio) {
    const context = canvas.getContext("2d");
    context.clearRect(0, 0, canvas.width, canvas.height);
    if (!this.result || canvas.width < 2) return;
    const { points, triangles, values, scale } = this.result;
    const at = this.scaled(points, ratio);
    const image = context.createImageData(canvas.width, canvas.height);
    paint(image, at, triangles, values, scale);
    context.putImageData(image, 0, 0);
    this.drawLines(context, at, ratio);
  }

  scaled(points, ratio) {
    const { scale, x, y } = this.view;
    const at = new Float64Array(points.length);
    for (let k = 0; k < points.length; k += 2) {
      at[k] = ratio * (scale * points[k] + x);
      at[k + 1] = ratio * (y - scale * points[k + 1]);
    }
    return at;
  }

  drawLines(context, at, ratio) {
    const { triangles, outline, vectors, rows } = this.result;
    context.lineJoin = context.lineCap = "round";
    if (this.options.mesh) {
      context.strokeStyle = "rgba(255, 255, 255, 0.35)";
      context.lineWidth = 0.6 * ratio;
      context.beginPath();
      for (let t = 0; t < triangles.length; t += 3) {
        const [a, b, c] = [0, 1, 2].map((k) => 2 * triangles[t + k]);
        context.moveTo(at[a], at[a + 1]);
        context.lineTo(at[b], at[b + 1]);
        context.lineTo(at[c], at[c + 1]);
        context.closePath();
      }
      context.stroke();
    }
    if (this.options.partitions && rows) {
      const segments = borders(at, triangles, rows.data, rows.width);
      for (const [colour, width] of [["rgba(0, 0, 0, 0.45)", 2.6], ["rgba(255, 255, 255, 0.9)", 1.1]]) {
        context.strokeStyle = colour;
        context.lineWidth = width * ratio;
        context.beginPath();
        for (let k = 0; k < segments.length; k += 4) {
          context.moveTo(segments[k], segments[k + 1]);
          context.lineTo(segments[k + 2], segments[k + 3]);
        }
        context.stroke();
      }
    }
    if (this.options.streamlines && vectors) this.drawStreamlines(context, ratio);
    context.strokeStyle = getComputedStyle(this.frame).getPropertyValue("--ink");
    context.lineWidth = 1.4 * ratio;
    context.beginPath();
    for (let k = 0; k < outline.length; k += 2) {
      context.moveTo(at[2 * outline[k]], at[2 * outline[k] + 1]);
      context.lineTo(at[2 * outline[k + 1]], at[2 * outline[k + 1] + 1]);
    }
    context.stroke();
  }

  drawStreamlines(context, ratio) {
    const { points, triangles, vectors, axes } = this.result;
    const [[x0, y0], [x1, y1]] = this.bounds;
    const cell = Math.max(x1 - x0, 2 * (y1 - y0)) / GRID;
    const [width, height] = [Math.ceil((x1 - x0) / cell), Math.ceil((y1 - y0) / cell)];
    if (!this.result.streamlines) {
      const local = new Float64Array(points.length);
      for (let k = 0; k < points.length; k += 2) {
        local[k] = (points[k] - x0) / cell;
        local[k + 1] = (y1 - points[k + 1]) / cell;
      }
      const grid = sampleVectors(local, triangles, vectors.data, vectors.width, axes, width, height);
      this.result.streamlines = streamlines(grid);
    }
    context.lineWidth = 1.15 * ratio;
    context.strokeStyle = context.fillStyle = "rgba(255, 255, 255, 0.78)";
    const place = ([i, j]) => this.toPixel([x0 + i * cell, y1 - j * cell]).map((p) => p * ratio);
    for (const path of this.result.streamlines) {
      context.beginPath();
      path.forEach((p, k) => context[k ? "lineTo" : "moveTo"](...place(p)));
      context.stroke();
      const middle = Math.floor(path.length / 2);
      if (path.length < 24) continue;
      const [a, b] = [place(path[middle - 1]), place(path[middle + 1])];
      const angle = Math.atan2(b[1] - a[1], b[0] - a[0]);
      const size = 4.2 * ratio;
      context.beginPath();
      for (const turn of [0, 2.5, -2.5]) {
        context.lineTo(b[0] + size * Math.cos(angle + turn), b[1] + size * Math.sin(angle + turn));
      }
      context.closePath();
      context.fill();
    }
  }

  drawOverlay() {
    const context = this.overlay.getContext("2d");
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.overlay.width, this.overlay.height);
    if (!this.geometry || !handles.isEditable(this.geometry)) return;
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    const style = getComputedStyle(this.frame);
    const accent = style.getPropertyValue(this.refused ? "--bad" : "--accent");
    const paper = style.getPropertyValue("--paper");
    handles.paths(this.geometry).forEach((path, index) => {
      const picked = !this.geometry.obstacles || index === this.chosen;
      context.beginPath();
      path.forEach((p, k) => context[k ? "lineTo" : "moveTo"](...this.toPixel(p)));
      context.closePath();
      if (this.geometry.obstacles) {
        context.fillStyle = paper;
        context.globalAlpha = 0.55;
        context.fill();
        context.globalAlpha = 1;
      }
      context.strokeStyle = accent;
      context.lineWidth = picked ? 2.2 : 1.3;
      context.stroke();
    });
    for (const place of handles.places(this.geometry, this.chosen)) {
      const [x, y] = this.toPixel([place.x, place.y]);
      const picked = place.index === this.chosen;
      context.beginPath();
      context.arc(x, y, place.part === "body" ? (picked ? 4.5 : 3) : picked ? 7 : 5.5, 0, 2 * Math.PI);
      context.fillStyle = picked && place.part !== "rim" ? accent : paper;
      context.strokeStyle = accent;
      context.lineWidth = 2;
      context.fill();
      context.stroke();
    }
  }

  // -- pointer and keys --------------------------------------------------------------------------

  listen() {
    const canvas = this.overlay;
    const at = (event) => {
      const box = canvas.getBoundingClientRect();
      return this.toDomain(event.clientX - box.left, event.clientY - box.top);
    };
    const under = (event) => {
      if (!this.geometry || !handles.isEditable(this.geometry)) return null;
      const tolerance = (TOUCH[event.pointerType] ?? TOUCH.mouse) / this.view.scale;
      return handles.hit(this.geometry, this.chosen, ...at(event), tolerance);
    };
    let grip = null;
    let held = null; // the point of a zoomed view that follows the pointer
    canvas.addEventListener("pointerdown", (event) => {
      const found = under(event);
      this.choose(found ? found.index : -1);
      if (!found) {
        held = this.shown ? at(event) : null;
        return;
      }
      const [x, y] = at(event);
      grip = { ...found, dx: found.x - x, dy: found.y - y };
      canvas.setPointerCapture(event.pointerId);
      canvas.focus({ preventScroll: true });
      event.preventDefault();
    });
    canvas.addEventListener("pointermove", (event) => {
      if (held && event.buttons) {
        const now = at(event);
        this.focus(this.shown.map((end) => end.map((v, k) => v + held[k] - now[k])));
        return;
      }
      if (!grip) {
        const found = under(event);
        canvas.style.cursor = found ? (found.part === "rim" ? "nwse-resize" : "grab") : "default";
        return;
      }
      canvas.style.cursor = "grabbing";
      const [x, y] = at(event);
      const moved = handles.dragged(this.geometry, grip, x + grip.dx, y + grip.dy, this.bounds);
      this.change(moved, false);
    });
    const drop = () => {
      held = null;
      if (!grip) return;
      grip = null;
      this.change(this.geometry, true);
    };
    canvas.addEventListener("pointerup", drop);
    canvas.addEventListener("pointercancel", drop);
    canvas.addEventListener("touchstart", (event) => grip && event.preventDefault(), { passive: false });
    canvas.addEventListener("wheel", (event) => {
      const found = under(event);
      event.preventDefault();
      const factor = Math.exp(-event.deltaY / 900);
      if (found && this.geometry.obstacles) this.grow(found.index, factor);
      else this.zoom(factor, ...at(event));
    }, { passive: false });
    canvas.addEventListener("dblclick", (event) => {
      const found = under(event);
      if (found && this.geometry.obstacles) {
        const o = this.geometry.obstacles[found.index];
        this.change(handles.changed(this.geometry, found.index, { square: !o.square }), true);
      } else if (!found) {
        this.focus(null);
      }
    });
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    if (!this.geometry || !handles.isEditable(this.geometry)) return;
    const n = handles.count(this.geometry);
    const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    const item = handles.places(this.geometry, this.chosen)[this.chosen];
    if (event.key === "]" || event.key === "[") {
      this.choose((this.chosen + (event.key === "]" ? 1 : -1) + n) % n);
    } else if (arrows[event.key] && item) {
      const step = STEP * (event.shiftKey ? 5 : 1) * (this.bounds[1][1] - this.bounds[0][1]);
      const [dx, dy] = arrows[event.key];
      const moved = handles.dragged(this.geometry, item, item.x + step * dx, item.y + step * dy, this.bounds);
      this.change(moved, true);
    } else if ((event.key === "+" || event.key === "-") && item && this.geometry.obstacles) {
      this.grow(this.chosen, event.key === "+" ? 1.06 : 1 / 1.06);
    } else if (event.key === "r" && item && this.geometry.obstacles) {
      const { angle } = this.geometry.obstacles[this.chosen];
      this.change(handles.changed(this.geometry, this.chosen, { angle: angle + TURN }), true);
    } else if ((event.key === "Delete" || event.key === "Backspace") && item) {
      this.listener.remove();
    } else if (event.key === "n") {
      this.listener.add();
    } else {
      return;
    }
    event.preventDefault();
  }

  grow(index, factor) {
    const size = this.geometry.obstacles[index].radius * factor;
    const radius = Math.min(handles.MOST_RADIUS, Math.max(handles.LEAST_RADIUS, size));
    this.change(handles.changed(this.geometry, index, { radius }), true);
  }

  change(geometry, done) {
    this.geometry = geometry;
    this.drawOverlay();
    this.listener.change(geometry, done);
  }

  /** Whether a point of the domain is inside of what is shown. */
  inside = (x, y) => {
    const [px, py] = this.toPixel([x, y]).map((p) => Math.round(p * this.ratio));
    return this.field.getContext("2d").getImageData(px, py, 1, 1).data[3] > 0;
  };
}

function boundsOf(points) {
  const low = [Infinity, Infinity];
  const high = [-Infinity, -Infinity];
  for (let k = 0; k < points.length; k++) {
    low[k % 2] = Math.min(low[k % 2], points[k]);
    high[k % 2] = Math.max(high[k % 2], points[k]);
  }
  return [low, high];
}
