// The page: what is asked, what came back, and how the two are shown.

import * as api from "./api.js";
import { scaleOf } from "./colours.js";
import * as handles from "./handles.js";
import { drawBar } from "./legend.js";
import { milliseconds } from "./numbers.js";
import * as panels from "./panels.js";
import { picture, save } from "./picture.js";
import { Stage } from "./stage.js";

const byId = (id) => document.getElementById(id);
const session = crypto.randomUUID ? crypto.randomUUID() : String(Math.random()).slice(2);

const page = {
  models: [],
  model: null,
  draft: null, // geometry and values of a shape
  upload: null, // token, names and values of an uploaded mesh
  result: null,
  truth: null,
  entry: null,
  view: "prediction",
  changed: 0, // when the scene that is shown next was last changed
  latencies: [], // milliseconds from a change to its picture
};

const stage = new Stage(byId("frame"), {
  change: (geometry) => {
    page.draft.geometry = geometry;
    ask();
  },
  choose: () => showItems(),
  add: () => addItem(),
  remove: () => removeItem(),
});

// -- asking ------------------------------------------------------------------------------------

/** The scene as it is now. */
function scene() {
  const { model, draft, upload } = page;
  const geometry = upload
    ? { kind: "upload", token: upload.token, rename: upload.rename }
    : draft?.geometry;
  const made = { model: model.key, geometry, values: (upload ?? draft)?.values ?? {}, session };
  if (byId("partitions").checked) made.partition = page.entry?.component ?? 0;
  if (model.dim === 3) made.cut = { axis: Number(byId("axis").value), part: Number(byId("part").value) };
  return made;
}

let running = false;
let again = false;

/** Predict the scene; while one prediction runs, only the latest change waits. */
async function ask() {
  if (!page.upload && !page.draft) return;
  if (!page.changed) page.changed = performance.now();
  forgetTruth();
  if (running) {
    again = true;
    return;
  }
  running = true;
  busy("computing");
  try {
    do {
      again = false;
      const begun = page.changed || performance.now();
      page.changed = 0;
      await predictOnce(scene(), begun);
    } while (again);
  } finally {
    running = false;
  }
}

async function predictOnce(asked, begun) {
  const start = performance.now();
  try {
    const { head, arrays } = await api.predict(asked);
    if (asked.model !== page.model.key) return;
    const round = (performance.now() - start) / 1000;
    page.result = { head, arrays };
    stage.refused = false;
    panels.hush();
    showResult();
    requestAnimationFrame(() => page.latencies.push(performance.now() - begun));
    idle(`${milliseconds(round)} · ${head.nodes} nodes`);
    byId("state").title = Object.entries(head.seconds)
      .map(([name, seconds]) => `${name} ${milliseconds(seconds)}`)
      .join(", ");
  } catch (error) {
    if (error.status === 409) return;
    stage.mark(true);
    idle("not possible");
    say(error);
  }
}

function say(error) {
  panels.toast(error.message ?? String(error), error.cure);
}

function busy(text) {
  byId("state").textContent = text;
  byId("state").dataset.busy = "true";
}

function idle(text) {
  byId("state").textContent = text;
  byId("state").dataset.busy = "false";
}

// -- showing -----------------------------------------------------------------------------------

/** What can be shown of a model: scalars, lengths of vectors, their components. */
function entriesOf(model) {
  const entries = [];
  let component = 0;
  for (const field of model.fields) {
    const derived = component >= model.components.length;
    if (field.rank === "vector") {
      entries.push({ label: `|${field.name}|`, field: field.name, axis: -1, component, unit: field.unit });
      for (let axis = 0; axis < model.dim; axis++) {
        const label = model.components[component].replace("_", " ");
        entries.push({ label, field: field.name, axis, component: component++, unit: field.unit });
      }
    } else {
      entries.push({
        label: field.name.replace("_", " "), field: field.name, axis: -1,
        component: derived ? 0 : component++, unit: field.unit,
      });
    }
  }
  return entries;
}

/** One number per node: the scalar, the length of the vector, or a component. */
function scalars({ data, width }, axis) {
  if (width === 1) return data;
  const found = new Float32Array(data.length / width);
  for (let n = 0; n < found.length; n++) {
    if (axis >= 0) {
      found[n] = data[n * width + axis];
    } else {
      let square = 0;
      for (let k = 0; k < width; k++) square += data[n * width + k] ** 2;
      found[n] = Math.sqrt(square);
    }
  }
  return found;
}

function difference(a, b) {
  return { data: a.data.map((v, k) => v - b.data[k]), width: a.width };
}

function showResult() {
  const { result, truth, entry } = page;
  if (!result) {
    stage.show(null);
    return;
  }
  const { head, arrays } = result;
  const band = arrays[`band:${entry.field}`];
  const exact = truth?.[`truth:${entry.field}`];
  const possible = { prediction: true, reference: Boolean(exact), error: Boolean(exact), band: Boolean(band) };
  if (!possible[page.view]) page.view = "prediction";
  for (const button of byId("views").children) {
    button.disabled = !possible[button.dataset.view];
    button.setAttribute("aria-checked", String(button.dataset.view === page.view));
  }
  const predicted = arrays[`field:${entry.field}`];
  let values = scalars(predicted, entry.axis);
  let scale = scaleOf(values);
  let quantity = entry.label;
  let vectors = page.model.flow ? arrays[`field:${page.model.flow}`] : null;
  if (page.view === "reference") {
    values = scalars(exact, entry.axis); // in the colours of the prediction, to compare by eye
    quantity = `${entry.label}, reference`;
    vectors = truth[`truth:${page.model.flow}`] ?? null;
  } else if (page.view === "error") {
    values = scalars(difference(predicted, exact), entry.axis).map(Math.abs);
    scale = scaleOf(values, true);
    quantity = `error of ${entry.label}`;
    vectors = null;
  } else if (page.view === "band") {
    values = band.data;
    scale = scaleOf(values, true);
    quantity = `${Math.round(100 * head.level)} % band of ${entry.field}`;
    vectors = null;
  }
  quantity += entry.unit ? ` (${entry.unit})` : "";
  page.shown = { quantity, scale };
  stage.show({
    points: arrays.points.data,
    triangles: arrays.triangles.data,
    outline: arrays.outline.data,
    values, scale, vectors, axes: head.axes, rows: arrays.rows,
  });
  byId("empty").hidden = true;
  byId("quantity").textContent = quantity;
  byId("where").textContent = head.where;
  showLegend();
  panels.fillStatement(byId("familiar"), head.familiar);
  panels.showStatements(head.statements);
  document.body.dataset.shown = page.view;
}

function showLegend() {
  const canvas = byId("colours");
  const ratio = Math.min(2, window.devicePixelRatio || 1);
  canvas.width = Math.round(canvas.clientWidth * ratio);
  canvas.height = Math.round(canvas.clientHeight * ratio);
  if (!page.shown) return;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  const style = getComputedStyle(canvas);
  const font = `12px ${style.fontFamily}`;
  drawBar(context, 0, 0, canvas.clientWidth, 12, page.shown.scale, style.getPropertyValue("--ink"), font);
}

function showItems() {
  const geometry = page.upload ? null : page.draft?.geometry;
  const editable = Boolean(geometry && handles.isEditable(geometry));
  byId("frame").classList.toggle("editing", editable);
  byId("items").hidden = !editable;
  if (!editable) return;
  const noun = handles.noun(geometry);
  byId("add").textContent = `Add ${noun}`;
  byId("remove").textContent = `Remove ${noun}`;
  byId("add").disabled = handles.count(geometry) >= handles.most(geometry);
  byId("remove").disabled = stage.chosen < 0 || handles.count(geometry) <= handles.least(geometry);
  byId("square-chip").hidden = !geometry.obstacles;
  byId("square").disabled = stage.chosen < 0;
  byId("square").checked = Boolean(geometry.obstacles?.[stage.chosen]?.square);
}

const HINTS = {
  channel: "Drag obstacles, pull the dot on a rim to resize. Keys: [ ] choose, arrows move, + − size, R turn, N add, Delete.",
  polygon: "Drag the corners of the cut-out. Keys: [ ] choose, arrows move, N add, Delete.",
  curve: "Drag points of the rim. Keys: [ ] choose, arrows move, N add, Delete.",
  plain: "Move the sliders to bend the pipe.",
  drawn: "Shapes of this model are drawn at random.",
  upload: "This model takes uploaded meshes.",
};

function showShape() {
  const { model, upload } = page;
  const target = upload ?? page.draft;
  const controls = upload ? model.controls.filter((c) => c.on_meshes) : model.controls;
  byId("inside").disabled = byId("outside").disabled = model.kind === "upload";
  byId("back").hidden = !upload || model.kind === "upload";
  byId("uploaded").textContent = upload ? upload.about : "";
  byId("hint").textContent = upload ? "" : `${HINTS[model.kind]} Wheel: nearer; double click: all.`;
  byId("cut").hidden = model.dim !== 3;
  if (target) {
    const values = Object.fromEntries(controls.map((c) => [c.name, target.values[c.name] ?? c.value]));
    target.values = values;
    panels.showControls(controls, values, (name, value) => {
      values[name] = value;
      ask();
    });
  } else {
    panels.showControls([], {}, () => {});
  }
  stage.edit(upload ? null : (page.draft?.geometry ?? null));
  showItems();
}

function forgetTruth() {
  if (!page.truth) return;
  page.truth = null;
  panels.showErrors(null);
}

// -- doing -------------------------------------------------------------------------------------

async function choose(key) {
  page.model = page.models.find((model) => model.key === key);
  Object.assign(page, { draft: null, upload: null, result: null, truth: null, view: "prediction" });
  const entries = entriesOf(page.model);
  page.entry = entries[0];
  byId("entry").replaceChildren(...entries.map((entry, k) => new Option(entry.label, k)));
  byId("entry").onchange = () => {
    page.entry = entries[byId("entry").selectedIndex];
    if (byId("partitions").checked) ask();
    else showResult();
  };
  byId("streamlines-chip").hidden = !page.model.flow;
  panels.showErrors(null);
  panels.showStatements([]);
  stage.choose(-1);
  stage.show(null);
  stage.focus(page.model.focus);
  if (page.model.kind === "upload") {
    showShape();
    byId("empty").hidden = false;
    byId("empty").textContent = "Upload a mesh to see what this model predicts on it.";
    idle("waiting for a mesh");
    return;
  }
  await draw("inside", 1);
}

async function draw(side, seed = Math.floor(Math.random() * 2 ** 31)) {
  const key = page.model.key;
  try {
    const made = await api.draft(key, seed, side);
    if (key !== page.model.key) return;
    page.draft = made;
    page.upload = null;
    stage.choose(-1);
    showShape();
    await ask();
  } catch (error) {
    say(error);
  }
}

function addItem() {
  const made = handles.added(page.draft.geometry, stage.bounds, stage.inside);
  if (!made) {
    panels.toast("there is no room for another obstacle");
    return;
  }
  page.draft.geometry = made.geometry;
  stage.edit(made.geometry);
  stage.choose(made.index);
  ask();
}

function removeItem() {
  const { geometry } = page.draft;
  if (stage.chosen < 0 || handles.count(geometry) <= handles.least(geometry)) return;
  page.draft.geometry = handles.removed(geometry, stage.chosen);
  stage.edit(page.draft.geometry);
  stage.choose(-1);
  ask();
}

async function compare() {
  const button = byId("compare");
  const asked = scene();
  button.disabled = true;
  button.textContent = "Solving …";
  try {
    const { head, arrays } = await api.reference(asked);
    if (JSON.stringify(asked) !== JSON.stringify(scene())) return; // the shape has moved on
    page.truth = arrays;
    panels.showErrors(head.errors, head.seconds);
    showResult();
  } catch (error) {
    if (error.status !== 409) say(error);
  } finally {
    button.disabled = false;
    button.textContent = "Solve and compare";
  }
}

async function upload(file) {
  const { model } = page;
  busy("reading the file");
  try {
    const mesh = await api.upload(file);
    if (mesh.dim !== model.dim) {
      panels.toast(`the mesh is ${mesh.dim}D, the model ${model.dim}D`, "Choose another model or mesh");
      idle("not possible");
      return;
    }
    const rename = panels.namesFit(mesh.groups, model) ? {} : await panels.askNames(mesh.groups, model);
    if (rename === null) {
      idle("ready");
      return;
    }
    const about = `${file.name}: ${mesh.nodes} nodes, ${mesh.cells} cells`;
    page.upload = { token: mesh.token, rename, values: {}, about };
    showShape();
    await ask();
  } catch (error) {
    idle("not possible");
    say(error);
  } finally {
    byId("file").value = "";
  }
}

async function downloadVtu() {
  try {
    save(await api.vtu(scene()), `${page.model.problem}.vtu`);
  } catch (error) {
    say(error);
  }
}

async function downloadPng() {
  if (!page.shown) return;
  const title = `${page.model.title}`;
  save(await picture(stage, title, page.shown.quantity, page.shown.scale), `${page.model.problem}.png`);
}

// -- beginning ---------------------------------------------------------------------------------

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  stage.drawField();
  stage.drawOverlay();
  showLegend();
}

function listen() {
  byId("model").addEventListener("change", (event) => choose(event.target.value));
  byId("inside").addEventListener("click", () => draw("inside"));
  byId("outside").addEventListener("click", () => draw("outside"));
  byId("add").addEventListener("click", addItem);
  byId("remove").addEventListener("click", removeItem);
  byId("square").addEventListener("change", (event) => {
    page.draft.geometry = handles.changed(page.draft.geometry, stage.chosen, { square: event.target.checked });
    stage.edit(page.draft.geometry);
    ask();
  });
  byId("views").addEventListener("click", (event) => {
    if (!event.target.dataset.view) return;
    page.view = event.target.dataset.view;
    showResult();
  });
  byId("streamlines").addEventListener("change", (event) => stage.set({ streamlines: event.target.checked }));
  byId("mesh").addEventListener("change", (event) => stage.set({ mesh: event.target.checked }));
  byId("partitions").addEventListener("change", (event) => {
    stage.set({ partitions: event.target.checked });
    if (event.target.checked) ask();
  });
  byId("axis").addEventListener("change", ask);
  byId("part").addEventListener("input", ask);
  byId("compare").addEventListener("click", compare);
  byId("vtu").addEventListener("click", downloadVtu);
  byId("png").addEventListener("click", downloadPng);
  byId("back").addEventListener("click", () => {
    page.upload = null;
    showShape();
    ask();
  });
  byId("file").addEventListener("change", (event) => event.target.files[0] && upload(event.target.files[0]));
  byId("toast").querySelector("button").addEventListener("click", panels.hush);
  byId("theme").addEventListener("click", () => {
    setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  });
  const frame = byId("frame");
  frame.addEventListener("dragover", (event) => {
    event.preventDefault();
    frame.classList.add("over");
  });
  frame.addEventListener("dragleave", () => frame.classList.remove("over"));
  frame.addEventListener("drop", (event) => {
    event.preventDefault();
    frame.classList.remove("over");
    if (event.dataTransfer.files[0]) upload(event.dataTransfer.files[0]);
  });
  new ResizeObserver(showLegend).observe(byId("colours"));
}

async function begin() {
  setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  listen();
  window.geonew = Object.assign(page, { stage }); // for people with a console, and for tests
  try {
    page.models = (await api.models()).models;
  } catch (error) {
    idle("no server");
    say(error);
    return;
  }
  byId("model").replaceChildren(
    ...page.models.map(({ key, title }) => {
      const alone = page.models.filter((model) => model.title === title).length === 1;
      return new Option(alone ? title : `${title}: ${key}`, key);
    }),
  );
  await choose(page.models[0].key);
}

begin();
