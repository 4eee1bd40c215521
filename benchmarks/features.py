"""Cost of mesh features: from mesh to tokens with 64 eigenpairs, against one Navier-Stokes solve.

    python benchmarks/features.py --json out/features.json

One thread, one run, seconds of processor time (on an idle machine the same as by the clock, on a
shared one steadier). A channel with three round obstacles at 1, 4, 16 and 64 thousand nodes. The
yardstick is a steady Navier-Stokes solution (P2/P1, Newton, Re = 100) on the mesh of 4 thousand.
Keys: ``seconds`` by node count, ``navier_stokes_seconds_4k``, ``ratio_to_navier_stokes_4k``,
``growth_exponent`` (4k to 64k), ``peak_mb_64k``, and the budgets they are held against.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"  # before numpy is imported

import argparse
import json
import resource
from pathlib import Path
from time import process_time

import numpy as np
from scipy.spatial import Delaunay
from threadpoolctl import threadpool_limits

from geonew.features import FeatureSpec, featurise
from geonew.fem.reference.navier_stokes import solve_navier_stokes
from geonew.mesh import Mesh
from geonew.problem import Dirichlet, Field, FrameRule, Problem

SIZES = (1_000, 4_000, 16_000, 64_000)
BUDGETS = {"ratio_to_navier_stokes_4k": 0.15, "growth_exponent": 1.4, "peak_mb_64k": 2000.0}
VISCOSITY = 0.01  # with inflow 1 and height 1: Re = 100
REPEATS = {1_000: 5, 4_000: 5, 16_000: 3, 64_000: 2}  # the fastest counts: others share the machine

LENGTH, HEIGHT = 4.0, 1.0
CIRCLES = ((0.9, 0.35, 0.12), (1.7, 0.65, 0.15), (2.6, 0.4, 0.13))


def channel(n_nodes: int) -> Mesh:
    """Channel with round obstacles: rows of a hexagonal lattice, slightly shaken, Delaunay."""
    area = LENGTH * HEIGHT - sum(np.pi * r * r for *_, r in CIRCLES)
    h = np.sqrt(area / n_nodes * 2 / np.sqrt(3))
    x, y = (np.linspace(0, side, round(side / h) + 1) for side in (LENGTH, HEIGHT))
    inner = y[1:-1]
    parts = [np.stack([x, np.full_like(x, level)], axis=1) for level in (0.0, HEIGHT)]
    parts += [np.stack([np.full_like(inner, at), inner], axis=1) for at in (0.0, LENGTH)]
    for cx, cy, r in CIRCLES:
        count = round(2 * np.pi * r / h)
        angle = 2 * np.pi * np.arange(count) / count
        parts.append(np.stack([cx + r * np.cos(angle), cy + r * np.sin(angle)], axis=1))
    rows = round(HEIGHT / (h * np.sqrt(3) / 2))
    lattice = []
    for k in range(1, rows):
        row = np.arange(h * (0.75 + 0.5 * (k % 2)), LENGTH - 0.6 * h, h)
        lattice.append(np.stack([row, np.full_like(row, k * HEIGHT / rows)], axis=1))
    inside = np.concatenate(lattice)
    for cx, cy, r in CIRCLES:
        inside = inside[np.hypot(*(inside - [cx, cy]).T) > r + 0.6 * h]
    inside += 0.05 * h * np.random.default_rng(0).standard_normal(inside.shape)
    points = np.concatenate([*parts, inside])
    cells = Delaunay(points).simplices.astype(np.int64)
    middle = points[cells].mean(axis=1)
    volume = np.linalg.det(points[cells[:, 1:]] - points[cells[:, :1]])
    keep = np.abs(volume) > 1e-6 * h * h
    for cx, cy, r in CIRCLES:
        keep &= np.hypot(*(middle - [cx, cy]).T) > r - 0.02 * h
    cells[volume < 0, :2] = cells[volume < 0, 1::-1]
    mesh = Mesh(points, cells[keep])
    at = points[mesh.boundary_facets].mean(axis=1)[:, 0]
    left, right = at < 1e-9, at > LENGTH - 1e-9
    facets = mesh.boundary_facets
    return mesh.with_groups(
        {"inlet": facets[left], "outlet": facets[right], "wall": facets[~left & ~right]}
    )


def problem() -> Problem:
    """Velocity on inlet and walls, pressure at the outlet."""
    return Problem(
        name="channel",
        dim=2,
        fields=(Field("velocity", "vector"), Field("pressure")),
        groups=("wall", "inlet", "outlet"),
        dirichlet=(
            Dirichlet("velocity", "wall"),
            Dirichlet("velocity", "inlet"),
            Dirichlet("pressure", "outlet"),
        ),
        frame=(FrameRule("normal", "inlet"),),
        harmonic=(("inlet", "outlet"),),
    )


def inflow(x: np.ndarray) -> np.ndarray:
    return np.stack([4 * x[:, 1] * (HEIGHT - x[:, 1]), np.zeros(len(x))], axis=1)


BOUNDARY = {
    "wall": {"velocity": [0.0, 0.0]},
    "inlet": {"velocity": inflow},
    "outlet": {"pressure": 0.0},
}


def fastest(repeats: int, task) -> float:
    """Shortest of several runs, in seconds."""
    times = []
    for _ in range(repeats):
        start = process_time()
        task()
        times.append(process_time() - start)
    return min(times)


def measure() -> dict:
    spec = FeatureSpec(eigenpairs=64)
    seconds, yardstick = {}, 0.0
    for size in SIZES:
        mesh = channel(size)
        seconds[str(size)] = fastest(
            REPEATS[size], lambda mesh=mesh: featurise(mesh, problem(), spec, BOUNDARY)
        )
        if size == 4_000:
            yardstick = fastest(
                REPEATS[size],
                lambda mesh=mesh: solve_navier_stokes(
                    mesh,
                    viscosity=VISCOSITY,
                    velocity={"wall": [0.0, 0.0], "inlet": inflow},
                    pressure={"outlet": 0.0},
                ),
            )
    return {
        "seconds": seconds,
        "navier_stokes_seconds_4k": yardstick,
        "ratio_to_navier_stokes_4k": seconds["4000"] / yardstick,
        "growth_exponent": float(np.log(seconds["64000"] / seconds["4000"]) / np.log(16)),
        "peak_mb_64k": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "budgets": BUDGETS,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, required=True, help="where to write the figures")
    arguments = parser.parse_args()
    with threadpool_limits(1):
        figures = measure()
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
