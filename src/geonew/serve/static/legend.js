// The colour bar: a strip of the colours, round ticks, the unit.

import { format } from "./numbers.js";

/** Round numbers between two limits, about as many as asked for. */
export function ticks(low, high, about = 5) {
  const span = high - low;
  const rough = span / Math.max(1, about - 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const steps = [10, 5, 2.5, 2, 1].map((m) => m * power);
  let found = [];
  for (const step of steps) {
    // the largest step below the rough one, or a smaller one where only one tick would be left
    if (step > 1.5 * rough && step !== power) continue;
    found = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * span; k++) {
      found.push(Math.abs(k * step) < 1e-9 * span ? 0 : k * step);
    }
    if (found.length > 1) break;
  }
  return found;
}

/** Draw the bar into a context, left to right, with its ticks below. */
export function drawBar(context, x, y, width, height, scale, ink, font) {
  const image = context.createImageData(256, 1);
  for (let k = 0; k < 256; k++) {
    image.data.set(scale.colours.subarray(3 * k, 3 * k + 3), 4 * k);
    image.data[4 * k + 3] = 255;
  }
  const strip = document.createElement("canvas");
  strip.width = 256;
  strip.height = 1;
  strip.getContext("2d").putImageData(image, 0, 0);
  context.imageSmoothingEnabled = true;
  context.drawImage(strip, x, y, width, height);
  context.fillStyle = context.strokeStyle = ink;
  context.font = font;
  context.textBaseline = "top";
  const about = Math.max(2, Math.min(7, Math.floor(width / 90)));
  for (const tick of ticks(scale.low, scale.high, about)) {
    const at = x + (width * (tick - scale.low)) / (scale.high - scale.low);
    context.fillRect(at - 0.5, y + height, 1, 4);
    const text = format(tick, 3);
    const half = context.measureText(text).width / 2;
    context.textAlign = "left";
    context.fillText(text, Math.min(x + width - 2 * half, Math.max(x, at - half)), y + height + 6);
  }
}
