// The panels beside the drawing: controls, certificate, errors, names of boundaries.

import { format, milliseconds, percent } from "./numbers.js";

const element = (name, attributes = {}, ...children) => {
  const made = Object.assign(document.createElement(name), attributes);
  made.append(...children);
  return made;
};
const byId = (id) => document.getElementById(id);

/** One statement: a light, a title, a sentence. */
export function fillStatement(node, { title, light, text }) {
  node.className = "statement";
  node.dataset.light = light;
  node.replaceChildren(element("b", { textContent: title }), text);
}

export function showStatements(list) {
  byId("statements").replaceChildren(
    ...list.map((one) => {
      const item = element("li");
      fillStatement(item, one);
      return item;
    }),
  );
}

/** Sliders and numbers for the controls that count; change(name, value) is called as they move. */
export function showControls(controls, values, change) {
  byId("controls").replaceChildren(
    ...controls.map((control) =>
      control.toggle ? toggle(control, values, change) : slider(control, values, change),
    ),
  );
}

function toggle(control, values, change) {
  const box = element("input", { type: "checkbox", checked: values[control.name] > 0.5 });
  box.addEventListener("change", () => change(control.name, box.checked ? 1 : 0));
  return element("label", { className: "control toggle" }, box, control.label);
}

function slider(control, values, change) {
  const { name, low, high, familiar, logarithmic } = control;
  const wide = high - low > 1e5; // anything a person types: no slider
  const inward = (v) => (logarithmic ? Math.log(v / low) / Math.log(high / low) : (v - low) / (high - low));
  const outward = (s) => (logarithmic ? low * (high / low) ** s : low + s * (high - low));
  const value = values[name];
  const box = element("input", { type: "number", min: low, max: high, step: "any", value: Number(value.toPrecision(4)) });
  const range = element("input", { type: "range", min: 0, max: 1, step: 0.001, value: inward(value) });
  const unit = control.unit ? ` (${control.unit})` : "";
  const label = element("span", { textContent: control.label + unit });
  box.setAttribute("aria-label", control.label);
  range.setAttribute("aria-label", control.label);
  const colour = (v) => {
    const far = familiar && (v < familiar[0] - 1e-9 || v > familiar[1] + 1e-9);
    label.className = far ? "far" : "";
    label.title = familiar
      ? `in training ${format(familiar[0])}${familiar[1] > familiar[0] ? ` to ${format(familiar[1])}` : ""}`
      : "";
  };
  colour(value);
  range.addEventListener("input", () => {
    const v = Number(outward(Number(range.value)).toPrecision(4));
    box.value = v;
    colour(v);
    change(name, v);
  });
  box.addEventListener("change", () => {
    const v = Math.min(high, Math.max(low, Number(box.value) || 0));
    box.value = v;
    range.value = inward(v);
    colour(v);
    change(name, v);
  });
  return element("div", { className: "control" }, label, box, ...(wide ? [] : [range]));
}

export function showErrors(errors, seconds) {
  const table = byId("errors");
  table.hidden = !errors;
  byId("times").textContent = "";
  if (!errors) return;
  const rows = Object.entries(errors).filter(([name], _, all) => name !== "combined" || all.length > 2);
  table.tBodies[0].replaceChildren(
    ...rows.map(([name, value]) =>
      element("tr", {}, element("td", { textContent: name.replace("_", " ") }), element("td", { textContent: percent(value) })),
    ),
  );
  byId("times").textContent =
    `Reference ${milliseconds(seconds.reference)}, prediction ${milliseconds(seconds.prediction)}.`;
}

let closing = 0;

export function toast(what, cure = "") {
  const node = byId("toast");
  node.hidden = false;
  node.querySelector("p").textContent = cure ? `${what}. ${cure}.` : `${what}.`;
  clearTimeout(closing);
  closing = setTimeout(() => (node.hidden = true), 9000);
}

export function hush() {
  byId("toast").hidden = true;
}

/** The names of a mesh that a model understands as they are, or null where they differ. */
export function namesFit(groups, model) {
  const names = Object.keys(groups);
  const needed = model.groups.filter((g) => !model.optional_groups.includes(g));
  return names.every((n) => model.groups.includes(n)) && needed.every((g) => names.includes(g));
}

function guess(name, model, used) {
  const plain = (s) => s.toLowerCase().replace(/[^a-z]/g, "");
  const same = model.groups.find((g) => plain(g) === plain(name));
  const near = model.groups.find((g) => plain(name).includes(plain(g)) || (plain(name) && plain(g).includes(plain(name))));
  return same ?? near ?? model.groups.find((g) => !used.has(g)) ?? model.groups[0];
}

/** Ask which group of a mesh is which of the model's; a mapping, or null where it is called off. */
export function askNames(groups, model) {
  const dialog = byId("naming");
  const used = new Set();
  const pickers = Object.entries(groups).map(([name, facets]) => {
    const chosen = guess(name, model, used);
    used.add(chosen);
    const options = model.groups.map((g) => element("option", { value: g, textContent: g, selected: g === chosen }));
    const picker = element("select", {}, ...options);
    picker.setAttribute("aria-label", name);
    const label = element("span", {}, name, " ", element("span", { className: "quiet small", textContent: `${facets} facets` }));
    return { name, picker, label };
  });
  byId("names").replaceChildren(...pickers.flatMap(({ label, picker }) => [label, picker]));
  const needed = model.groups.filter((g) => !model.optional_groups.includes(g));
  const check = () => {
    const missing = needed.filter((g) => !pickers.some(({ picker }) => picker.value === g));
    byId("naming-problem").textContent = missing.length ? `Still missing: ${missing.join(", ")}.` : "";
    byId("naming-ok").disabled = missing.length > 0;
  };
  pickers.forEach(({ picker }) => picker.addEventListener("change", check));
  check();
  dialog.showModal();
  return new Promise((resolve) => {
    const finish = (result) => {
      dialog.close();
      byId("naming-ok").onclick = byId("naming-cancel").onclick = dialog.oncancel = null;
      resolve(result);
    };
    byId("naming-cancel").onclick = () => finish(null);
    dialog.oncancel = () => finish(null);
    byId("naming-ok").onclick = () =>
      finish(Object.fromEntries(pickers.map(({ name, picker }) => [name, picker.value]).filter(([a, b]) => a !== b)));
  });
}
