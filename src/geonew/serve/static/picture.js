// What is shown, as a picture to keep: field and lines without handles, title and colour bar.

import { drawBar } from "./legend.js";

const PAD = 28;

export function picture(stage, title, quantity, scale) {
  const ratio = 2;
  const { clientWidth: width, clientHeight: height } = stage.frame;
  const canvas = document.createElement("canvas");
  canvas.width = ratio * (width + 2 * PAD);
  canvas.height = ratio * (height + 130);
  const context = canvas.getContext("2d");
  const style = getComputedStyle(stage.frame);
  const [paper, ink] = [style.getPropertyValue("--paper"), style.getPropertyValue("--ink")];
  const family = style.fontFamily;
  context.fillStyle = paper;
  context.fillRect(0, 0, canvas.width, canvas.height);
  const field = document.createElement("canvas");
  field.width = ratio * width;
  field.height = ratio * height;
  stage.drawField(field, ratio);
  context.drawImage(field, ratio * PAD, ratio * 48);
  context.scale(ratio, ratio);
  context.fillStyle = ink;
  context.textBaseline = "top";
  context.font = `600 17px ${family}`;
  context.fillText(title, PAD, 18);
  context.font = `600 13px ${family}`;
  context.fillText(quantity, PAD, height + 62);
  drawBar(context, PAD, height + 82, width, 12, scale, ink, `12px ${family}`);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

/** Hand a file to the browser's downloads. */
export function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
