"""Draw the pictures of docs/how-it-works.md: one geometry on its way through the pipeline.

Run ``python docs/make_pictures.py``; the same every time. The model is *not trained*: what the
pictures show (features, a partition of unity, boundary rows, fluxes) needs no training.
"""

from __future__ import annotations

from pathlib import Path

import torch
from matplotlib.figure import Figure

from geonew.features import FeatureSpec, featurise
from geonew.model.config import ModelConfig
from geonew.model.geonew import GeoNeW
from geonew.model.sample import prepare
from geonew.plot.encode import as_png
from geonew.plot.features import features_figure
from geonew.plot.fluxes import fluxes_figure
from geonew.plot.model import boundary_rows_figure, partitions_figure
from geonew.problem import Dirichlet, Field, FrameRule, Problem, Term
from geonew.shape import Shape, disc, rectangle, triangulate

FOLDER = Path(__file__).parent / "images"
LARGEST = 200_000  # bytes
CELL = 0.07
# Few functions, so that each can be seen; a wholly learned law, so that its fluxes can.
CONFIG = ModelConfig(width=32, depth=1, partitions=8, known=False)
COLUMNS = (
    "sdf",
    "harmonic:warm-hole",
    "d1 harmonic:warm-hole",
    "torsion:warm+hole",
    "data:temperature",
    "hks:2",
    "hks:4",
    "hks:6",
)


def heat() -> Problem:
    """Heat in a plate, prescribed on one side and in the hole."""
    return Problem(
        name="heat",
        dim=2,
        fields=(Field("temperature", reference=80.0),),
        groups=("warm", "hole", "side"),
        dirichlet=(Dirichlet("temperature", "warm"), Dirichlet("temperature", "hole")),
        terms=(Term("diffusion", ("temperature",)),),
        frame=(FrameRule("normal", "warm"),),
        harmonic=(("warm", "hole"),),
    )


def figures() -> dict[str, Figure]:
    """All pictures, by name."""
    outline = rectangle((0, 0), (2, 1), ("side", "side", "side", "warm"))
    mesh = triangulate(Shape(outline, (disc((1.25, 0.38), 0.2, "hole"),)), CELL)
    problem = heat()
    data = {"warm": {"temperature": 80.0}, "hole": {"temperature": 20.0}}
    features = featurise(mesh, problem, boundary=data)
    torch.manual_seed(0)
    spec = FeatureSpec(coordinates=True)
    sample = prepare(mesh, problem, data, spec=spec)
    model = GeoNeW(problem, spec, sample.columns, CONFIG)
    model.normalise_tokens([sample])
    (made,) = model.predict_samples([sample])
    names, groups = problem.component_names, problem.groups
    return {
        "how-features": features_figure(features, COLUMNS),
        "how-partitions": partitions_figure(mesh, made.rows, names, groups),
        "how-boundary": boundary_rows_figure(mesh, made.rows, names, groups),
        "how-fluxes": fluxes_figure(mesh, made.rows, made.coefficients, made.fluxes, names, groups),
    }


def main() -> None:
    """Draw them all."""
    for name, figure in figures().items():
        picture = as_png(figure, dpi=70)
        if len(picture) > LARGEST:
            raise SystemExit(f"{name}.png has {len(picture)} bytes, more than {LARGEST}")
        (FOLDER / f"{name}.png").write_bytes(picture)


if __name__ == "__main__":
    main()
