// Requests to the server, and its messages: a head of JSON and typed arrays (see wire.py).

const ARRAYS = {
  "<f4": Float32Array,
  "<f8": Float64Array,
  "<i4": Int32Array,
  "<u2": Uint16Array,
  "<u4": Uint32Array,
  "|u1": Uint8Array,
};

/** What the server says when it cannot do what it was asked. */
export class Failure extends Error {
  constructor(status, what, cure) {
    super(what);
    this.status = status;
    this.cure = cure;
  }
}

async function checked(response) {
  if (response.ok) return response;
  let said = { what: `the server answered ${response.status}`, cure: "" };
  try {
    said = await response.json();
  } catch {
    // not one of our messages: the status has to do
  }
  throw new Failure(response.status, said.what, said.cure);
}

async function send(path, options) {
  try {
    return await checked(await fetch(path, options));
  } catch (error) {
    if (error instanceof Failure) throw error;
    throw new Failure(0, "the server cannot be reached", "Is geonew serve still running?");
  }
}

const asJson = (scene) => ({
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify(scene),
});

/** Head and arrays of a message. */
export function decode(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const start = 4 + length;
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const arrays = {};
  for (const [name, { type, shape, at }] of Object.entries(head.arrays)) {
    const size = shape.reduce((a, b) => a * b, 1);
    const data = new ARRAYS[type](buffer, start + at, size);
    arrays[name] = { data, width: shape.length > 1 ? shape[1] : 1 };
  }
  return { head, arrays };
}

export async function models() {
  return (await send("/api/models")).json();
}

export async function draft(key, seed, side) {
  const query = new URLSearchParams({ seed, side });
  return (await send(`/api/models/${encodeURIComponent(key)}/draft?${query}`)).json();
}

export async function predict(scene) {
  return decode(await (await send("/api/predict", asJson(scene))).arrayBuffer());
}

export async function reference(scene) {
  return decode(await (await send("/api/reference", asJson(scene))).arrayBuffer());
}

export async function vtu(scene) {
  return (await send("/api/export", asJson(scene))).blob();
}

export async function upload(file) {
  const query = new URLSearchParams({ name: file.name });
  const response = await send(`/api/meshes?${query}`, {
    method: "POST",
    headers: { "content-type": "application/octet-stream" },
    body: file,
  });
  return response.json();
}
