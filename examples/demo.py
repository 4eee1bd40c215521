"""From a shape to certified fields: mesh a channel with obstacles and predict the flow through it.

Run ``python examples/demo.py --out out/demo``. The model here is *not trained*: its basis functions
are those of a random network, and the known Stokes terms, solved in the space these span, alone
carry the prediction. The guarantees need no training: boundary values are exact, balances close,
and the solution is unique. The demo prints them, and the distance to a P2/P1 reference. It writes

- ``shape.json``: the geometry, exact (circles are circles),
- ``channel.msh`` and ``mesh.png``: the mesh with its named boundary groups,
- ``features.vtu`` and ``features.png``: what the model sees of it,
- ``flow.vtu``, ``flow.png`` and ``certificate.json``: the prediction (``.vtu`` opens in ParaView),
- ``partitions.png`` and ``boundary_rows.png``: the reduced space it lives in.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from numpy import ndarray

from geonew.features import FeatureSpec, featurise
from geonew.fem.reference import solve_stokes
from geonew.mesh import Mesh
from geonew.mesh.files import write_mesh
from geonew.model.config import ModelConfig
from geonew.model.geonew import GeoNeW
from geonew.model.prediction import Prediction
from geonew.model.sample import prepare
from geonew.plot.features import plot_features
from geonew.plot.fields import plot_fields
from geonew.plot.mesh import plot_mesh
from geonew.problem import Dirichlet, Field, FrameRule, Problem, stokes_terms
from geonew.shape import Shape, disc, rectangle, triangulate

LENGTH, HEIGHT, VISCOSITY = 3.0, 1.0, 1.0
GROUPS = ("inlet", "wall", "obstacle", "outlet")
FEATURES = (
    "sdf",
    "harmonic:inlet-outlet",
    "d1 harmonic:inlet-outlet",
    "torsion:inlet+wall+obstacle",
    "data:velocity_x",
    "hks:2",
    "hks:4",
    "hks:6",
)
# A random basis takes many functions; a trained one is meant to do with the default of 32.
UNTRAINED = ModelConfig(depth=2, partitions=400, law="none", stabilisation=0.03)
SEED = 0


def channel() -> Shape:
    """A channel with two circles and a square in it."""
    obstacles = (
        disc((0.75, 0.62), 0.14, "obstacle"),
        disc((2.15, 0.66), 0.18, "obstacle"),
        rectangle((1.3, 0.22), (1.58, 0.5), "obstacle"),
    )
    return Shape(
        rectangle((0, 0), (LENGTH, HEIGHT), ("wall", "outlet", "wall", "inlet")), obstacles
    )


def flow() -> Problem:
    """Stokes flow: velocity given except at the outlet, where the pressure is."""
    return Problem(
        name="channel flow",
        dim=2,
        fields=(Field("velocity", "vector"), Field("pressure")),
        groups=GROUPS,
        dirichlet=(
            Dirichlet("velocity", "inlet"),
            Dirichlet("velocity", "wall"),
            Dirichlet("velocity", "obstacle"),
            Dirichlet("pressure", "outlet"),
        ),
        terms=stokes_terms("velocity", "pressure", VISCOSITY),
        frame=(FrameRule("normal", "inlet"),),
        harmonic=(("inlet", "outlet"), ("obstacle", "wall")),
        reference_length=HEIGHT,
    )


def parabola(points: ndarray) -> ndarray:
    """Inflow with mean 2/3 and maximum 1, zero at the walls."""
    y = points[:, 1] / HEIGHT
    return np.stack([4 * y * (1 - y), np.zeros(len(y))], axis=1)


BOUNDARY = {
    "inlet": {"velocity": parabola},
    "wall": {"velocity": [0.0, 0.0]},
    "obstacle": {"velocity": [0.0, 0.0]},
    "outlet": {"pressure": 0.0},
}


def predict(mesh: Mesh) -> Prediction:
    """The prediction of an untrained model, the same in every run."""
    torch.manual_seed(SEED)
    sample = prepare(mesh, flow(), BOUNDARY)
    model = GeoNeW(flow(), FeatureSpec(), sample.columns, UNTRAINED)
    model.normalise_tokens([sample])
    return model.predict_samples([sample])[0]


def main() -> None:
    """Run the demo."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/demo"), help="folder to write into")
    parser.add_argument("--size", type=float, default=0.08, help="largest cell size")
    options = parser.parse_args()
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    clock = time.perf_counter

    start = clock()
    shape = channel()
    mesh = triangulate(shape, options.size)
    print(f"1. mesh       {mesh}, {clock() - start:.2f} s")
    print(f"              area {mesh.volume:.6f} (the shape's: {shape.area:.6f})")
    (out / "shape.json").write_text(json.dumps(shape.to_dict(), indent=2) + "\n")
    write_mesh(out / "channel.msh", mesh, overwrite=True)
    plot_mesh(mesh, out / "mesh.png")

    start = clock()
    features = featurise(mesh, flow(), boundary=BOUNDARY)
    print(f"2. features   {len(features.columns)} columns, {clock() - start:.2f} s")
    tokens = dict(zip(features.columns, features.tokens.T, strict=True))
    write_mesh(out / "features.vtu", mesh, point_data=tokens, overwrite=True)
    plot_features(features, FEATURES, out / "features.png")

    start = clock()
    prediction = predict(mesh)
    seconds = clock() - start
    print(f"3. prediction {mesh.n_nodes} nodes, {seconds:.2f} s, by a model that is NOT TRAINED:")
    print("              a random basis of 400 functions, and in it the known Stokes terms alone")
    print("\n".join(f"              {line}" for line in prediction.summary().splitlines()))
    prediction.write(out / "flow.vtu", overwrite=True)
    (out / "certificate.json").write_text(prediction.certificate_json() + "\n")

    start = clock()
    reference = solve_stokes(
        mesh,
        viscosity=VISCOSITY,
        velocity={g: BOUNDARY[g]["velocity"] for g in ("inlet", "wall", "obstacle")},
        pressure={"outlet": 0.0},
    )
    print(f"4. reference  P2/P1 Stokes, {clock() - start:.2f} s; relative L2 distance over nodes:")
    for name, exact in (("velocity", reference.velocity), ("pressure", reference.pressure)):
        away = np.linalg.norm(prediction[name] - exact) / np.linalg.norm(exact)
        print(f"              {name} {100 * away:.1f} %")

    pairs = {
        "velocity, untrained Geo-NeW": prediction["velocity"],
        "velocity, P2/P1 reference": reference.velocity,
        "pressure, untrained Geo-NeW": prediction["pressure"],
        "pressure, P2/P1 reference": reference.pressure,
    }
    plot_fields(mesh, pairs, out / "flow.png", dpi=120)
    prediction.plot_partitions(out / "partitions.png")
    prediction.plot_boundary_rows(out / "boundary_rows.png")
    names = ", ".join(sorted(path.name for path in out.iterdir()))
    print(f"5. written to {out}: {names}")


if __name__ == "__main__":
    main()
