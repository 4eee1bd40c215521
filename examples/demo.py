"""From a shape to certified fields: the flow through a channel that the model has never seen.

Run ``python examples/demo.py --out out/demo``. The model is the shipped ``ns2d-c++``, trained on
channels of length 1 with one to three circles; this one is longer, with a square among its four
obstacles. The demo prints what the prediction's certificate says, and how far it is from the
reference solver's answer (Taylor-Hood elements, Newton). It writes

- ``shape.json``: the geometry, exact (circles are circles),
- ``channel.msh`` and ``mesh.png``: the mesh with its named boundary groups,
- ``features.png``: what the model sees of it,
- ``flow.vtu``, ``flow.png`` and ``certificate.json``: the prediction (``.vtu`` opens in ParaView),
- ``partitions.png`` and ``boundary_rows.png``: the reduced space it lives in.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

from geonew import compare, load_model, predict, read_mesh
from geonew.features import featurise
from geonew.mesh import write_mesh
from geonew.plot.features import plot_features
from geonew.plot.fields import plot_fields
from geonew.plot.mesh import plot_mesh
from geonew.shape import Shape, disc, rectangle, triangulate

MODEL = "ns2d-c++"
LENGTH, HEIGHT = 1.8, 1.0
FEATURES = (
    "sdf",
    "harmonic:inlet-outlet",
    "d1 harmonic:inlet-outlet",
    "torsion:inlet+wall+obstacle",
    "data:u",
    "hks:2",
    "hks:4",
    "hks:6",
)


def channel() -> Shape:
    """A channel with three circles and a square in it, in metres."""
    obstacles = (
        disc((0.4, 0.66), 0.11, "obstacle"),
        disc((1.26, 0.62), 0.13, "obstacle"),
        disc((1.04, 0.2), 0.08, "obstacle"),
        rectangle((0.65, 0.28), (0.83, 0.46), "obstacle"),
    )
    outline = rectangle((0, 0), (LENGTH, HEIGHT), ("wall", "outlet", "wall", "inlet"))
    return Shape(outline, obstacles)


def main() -> None:
    """Run the demo."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/demo"), help="folder to write into")
    parser.add_argument("--size", type=float, default=0.045, help="largest cell size")
    options = parser.parse_args()
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    clock = time.perf_counter

    start = clock()
    shape = channel()
    made = triangulate(shape, options.size)
    (out / "shape.json").write_text(json.dumps(shape.to_dict(), indent=2) + "\n")
    write_mesh(out / "channel.msh", made, overwrite=True)
    print(f"1. mesh       {made}, {clock() - start:.2f} s")

    model = load_model(MODEL)
    for _ in range(2):  # the first time loads libraries
        start = clock()
        mesh = read_mesh(out / "channel.msh")
        answer = predict(model, mesh)
        answer.write(out / "flow.vtu", overwrite=True)
        seconds = clock() - start
    print(f"2. prediction from mesh file to written fields in {seconds:.2f} s:")
    print("\n".join(f"              {line}" for line in answer.summary().splitlines()))
    (out / "certificate.json").write_text(answer.prediction.certificate_json() + "\n")

    found = compare(answer)
    print("3. compared with the reference solver on the same mesh:")
    print("\n".join(f"              {line}" for line in str(found).splitlines()))

    features = featurise(mesh, model.problem, model.spec, answer.inputs.boundary)
    panels, alike = {}, []
    for name in ("velocity", "pressure"):
        exact = found.reference.components[:, model.problem.columns(name)].squeeze()
        panels[f"{name}, Geo-NeW"], panels[f"{name}, reference"] = answer[name], exact
        defect = (answer[name] - exact).reshape(mesh.n_nodes, -1)
        panels[f"{name}, error"] = np.linalg.norm(defect, axis=1)
        alike.append((f"{name}, Geo-NeW", f"{name}, reference"))
    plot_mesh(mesh, out / "mesh.png")
    plot_features(features, FEATURES, out / "features.png")
    plot_fields(mesh, panels, out / "flow.png", alike=alike, across=3, dpi=90)
    answer.prediction.plot_partitions(out / "partitions.png")
    answer.prediction.plot_boundary_rows(out / "boundary_rows.png")
    names = ", ".join(sorted(path.name for path in out.iterdir()))
    print(f"4. written to {out}: {names}")


if __name__ == "__main__":
    main()
