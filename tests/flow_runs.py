"""A tiny family of flows for tests: Stokes flow through boxes, solved on their own grids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from geonew.data.columns import pack
from geonew.data.families.flow import Fluid, flow_problem
from geonew.data.header import Header
from geonew.data.record import Case, Record, Split
from geonew.data.writer import Writer
from geonew.fem.reference import solve_stokes
from training_runs import TINY
from zoo import build, grid

FLUID = Fluid(viscosity=0.5, density=2.0)
PROBLEM = flow_problem("boxes", FLUID, speed=1.0, pressure=4.0, walls=("wall",))
SIDES = {
    "inlet": lambda x: x[:, 0] < 1e-9,
    "outlet": lambda x: x[:, 0] > x[:, 0].max() - 1e-9,
    "wall": lambda x: np.ones(len(x), dtype=bool),
}


def record(number: int, split: Split = "train", fineness: int = 1) -> Record:
    """One solved flow; out of distribution the box is longer."""
    generator = np.random.default_rng([number, ord(split[0])])
    width = float(generator.uniform(1.5, 2.0) if split == "ood" else generator.uniform(0.8, 1.2))
    skew, cells = float(generator.uniform(-0.5, 0.5)), fineness * int(generator.integers(5, 8))
    points, triangles = grid([np.linspace(0, width, cells + 1), np.linspace(0, 1, cells + 1)])
    labels = {**SIDES, "outlet": lambda x: x[:, 0] > width - 1e-9}
    mesh = build(points, triangles, labels)

    def inflow(x: np.ndarray) -> np.ndarray:
        y = x[:, 1]
        return np.stack([4 * y * (1 - y) * (1 + skew * (2 * y - 1)), 0 * y], axis=1)

    truth = solve_stokes(
        mesh,
        viscosity=FLUID.viscosity,
        density=FLUID.density,
        velocity={"inlet": inflow, "wall": (0.0, 0.0)},
        normal_pressure={"outlet": 0.0},
    )
    pressure = truth.pressure.copy()
    outlet = mesh.nodes_of("outlet")
    pressure[outlet] = 0.0
    return Record(
        mesh=mesh,
        fields={"velocity": truth.velocity, "pressure": pressure},
        boundary={
            "inlet": {"velocity": inflow(mesh.points[mesh.nodes_of("inlet")])},
            "wall": {"velocity": np.zeros((len(mesh.nodes_of("wall")), 2))},
            "outlet": dict.fromkeys(("velocity", "pressure"), np.zeros((len(outlet), 1))),
        },
        case=Case(
            "boxes", split, {}, {"number": number}, {"width": width, "cells": cells, "kind": "box"}
        ),
    )


def write(path: Path, count: int, split: Split, first: int = 0, fineness: int = 1) -> Path:
    """A data file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with Writer(path, Header("boxes", split, PROBLEM)) as writer:
        for number in range(first, first + count):
            writer.append(pack(record(number, split, fineness)))
        writer.commit()
    return path


def data_files(folder: Path, train: int = 8) -> Path:
    """One file of every split."""
    for split, count in (
        ("train", train),
        ("val", 4),
        ("calibration", 24),
        ("test", 6),
        ("ood", 5),
    ):
        write(folder / f"{split}.h5", count, split)
    return folder


def configuration(folder: Path, run: str, **changes: Any) -> dict[str, Any]:
    """Plain data of a tiny run."""
    raw = {
        **TINY,
        "features": {**TINY["features"], "coordinates": True},
        "output": str(folder / run),
        "data": {"train": str(folder / "train.h5"), "validation": str(folder / "val.h5")},
        "budget": {"steps": 15},
    }
    return {**raw, **changes}
