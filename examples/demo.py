"""Mesh a channel with three obstacles, compute what the model sees of it, write it and draw it.

Run ``python examples/demo.py --out out/demo``; it writes

- ``shape.json``: the geometry, exact (circles are circles),
- ``channel.msh`` and ``channel.vtu``: the mesh with its named boundary groups, the latter with
  every mesh feature as a nodal field (open it in ParaView),
- ``channel.png``: the mesh and seven of the features.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # a demo must also run where there is no screen

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import LineCollection
from numpy import ndarray

from geonew.features import MeshFeatures, featurise
from geonew.mesh import Mesh
from geonew.mesh.files import write_mesh
from geonew.problem import Dirichlet, Field, FrameRule, Problem
from geonew.shape import Shape, disc, rectangle, triangulate

LENGTH, HEIGHT = 3.0, 1.0
GROUPS = ("inlet", "wall", "obstacle", "outlet")
# Okabe and Ito's colours, told apart by colour-blind readers too.
COLOURS = {"inlet": "#0072B2", "outlet": "#D55E00", "wall": "#000000", "obstacle": "#009E73"}
PANELS = {
    "sdf": "distance to the boundary",
    "harmonic:inlet-outlet": "harmonic coordinate, inlet to outlet",
    "d1 harmonic:inlet-outlet": "its derivative along the channel: potential flow",
    "torsion:inlet+wall+obstacle": "torsion function",
    "data:velocity_x": "harmonic extension of the boundary velocity",
    "hks:2": "heat kernel signature, early",
    "hks:6": "heat kernel signature, late",
}


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
    """A flow through the channel: velocity given except at the outlet, where the pressure is."""
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


def draw(mesh: Mesh, features: MeshFeatures, path: Path) -> None:
    """The mesh with its groups, and the features of ``PANELS``."""
    fig, axes = plt.subplots(4, 2, figsize=(13, 10), layout="constrained")
    top = axes[0, 0]
    top.triplot(*mesh.points.T, mesh.cells, lw=0.3, color="0.6")
    for name, facets in mesh.groups.items():
        top.add_collection(
            LineCollection(list(mesh.points[facets]), colors=COLOURS[name], label=name)
        )
    top.legend(loc="upper center", ncols=4, bbox_to_anchor=(0.5, 1.25), frameon=False)
    top.set_ylabel(f"{mesh.n_nodes} nodes, {mesh.n_cells} cells", fontsize=8)
    for ax, name in zip(axes.ravel()[1:], PANELS, strict=True):
        column = features.columns.index(name)
        values = features.tokens[:, column]
        colour = ax.tripcolor(*mesh.points.T, mesh.cells, values, shading="gouraud")
        fig.colorbar(colour, ax=ax, shrink=0.8)
        ax.set_title(PANELS[name], fontsize=10)
    for ax in axes.ravel():
        ax.set_aspect("equal")
        ax.set_xlim(-0.03, LENGTH + 0.03)
        ax.set_ylim(-0.03, HEIGHT + 0.03)
        ax.set_xticks([])
        ax.set_yticks([])
    fig.savefig(path, dpi=130)
    plt.close(fig)


def main() -> None:
    """Run the demo."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/demo"), help="folder to write into")
    parser.add_argument("--size", type=float, default=0.08, help="largest cell size")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)

    start = time.perf_counter()
    shape = channel()
    mesh = triangulate(shape, options.size)
    meshed = time.perf_counter()
    features = featurise(mesh, flow(), boundary=BOUNDARY)
    done = time.perf_counter()

    (options.out / "shape.json").write_text(json.dumps(shape.to_dict(), indent=2) + "\n")
    write_mesh(options.out / "channel.msh", mesh, overwrite=True)
    fields = dict(zip(features.columns, features.tokens.T, strict=True))
    write_mesh(options.out / "channel.vtu", mesh, point_data=fields, overwrite=True)
    draw(mesh, features, options.out / "channel.png")

    print(f"{mesh} in {meshed - start:.2f} s")
    seconds = done - meshed
    print(f"area {mesh.volume:.6f} (the shape's: {shape.area:.6f})")
    print(f"{len(features.columns)} features in {seconds:.2f} s: {', '.join(features.columns)}")
    for note in features.notes:
        print(f"note: {note}")
    print(f"written to {options.out}: shape.json, channel.msh, channel.vtu, channel.png")


if __name__ == "__main__":
    main()
