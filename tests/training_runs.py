"""Tiny data files and configurations for the tests of training: Poisson on squares with holes."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from geonew.data.columns import pack
from geonew.data.header import Header
from geonew.data.record import Case, Record, Split
from geonew.data.writer import Writer
from geonew.fem.reference import solve_poisson
from geonew.mesh import Mesh
from geonew.problem import Dirichlet, Field, Problem, Term
from zoo import build, grid

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
PROBLEM = Problem(
    name="holes",
    dim=2,
    fields=(Field("u"),),
    groups=("hole", "outside"),
    dirichlet=(Dirichlet("u", "hole"), Dirichlet("u", "outside")),
    sources=("u",),
    terms=(Term("diffusion", ("u",)),),
    harmonic=(("hole", "outside"),),
)
TINY: dict[str, Any] = {
    "features": {"hks_times": 2, "eigenpairs": 6, "hks_gradients": False, "torsion": False},
    "model": {
        "width": 16,
        "depth": 1,
        "anchors": 8,
        "partitions": 6,
        "contexts": 2,
        "structured": {"channels": 3, "key_width": 4, "rank": 2},
    },
    "optimiser": {"warm_up": 3, "learning_rate": 3e-3},
    "batch": 4,
    "device": "cpu",
    "log": {"every": 1, "tensorboard": False},
}


def square_with_hole(width: float, cells: int, corner: int) -> Mesh:
    """[0, width] x [0, 1] in ``cells`` squares a side, without 2 x 2 of them."""
    axes = [np.linspace(0, width, cells + 1), np.linspace(0, 1, cells + 1)]

    def keep(x: np.ndarray) -> np.ndarray:
        place = x / [width, 1.0] * cells
        return ~np.all((place > corner) & (place < corner + 2), axis=1)

    def inside(x: np.ndarray) -> np.ndarray:
        return np.all(np.abs(x / [width, 1.0] - 0.5) < 0.5 - 1e-9, axis=1)

    points, triangles = grid(axes, keep)
    everything = {"hole": inside, "outside": lambda x: np.ones(len(x), dtype=bool)}
    return build(points, triangles, everything)


def record(number: int, split: Split = "train") -> Record:
    """One solved sample; the same number gives the same one."""
    generator = np.random.default_rng(number)
    cells = int(generator.integers(6, 9))
    corner = int(generator.integers(1, cells - 2))
    mesh = square_with_hole(float(generator.uniform(0.8, 1.4)), cells, corner)
    values = {"hole": float(generator.uniform(0.5, 2.0)), "outside": 0.0}
    source = float(generator.uniform(0.5, 3.0))
    truth = solve_poisson(mesh, dirichlet=values, source=source, degree=2)
    return Record(
        mesh=mesh,
        fields={"u": truth.values},
        boundary={g: {"u": np.full((len(mesh.nodes_of(g)), 1), v)} for g, v in values.items()},
        sources={"u": np.full(mesh.n_nodes, source)},
        case=Case("holes", split, {}, {"number": number}, {}),
    )


def spoiled(good: Record) -> Record:
    """The record with one number of its solution lost."""
    values = good.fields["u"].copy()
    values[3] = np.nan
    return replace(good, fields={"u": values})


def write(path: Path, records: list[Record], split: Split = "train") -> Path:
    """A data file."""
    with Writer(path, Header("holes", split, PROBLEM)) as writer:
        for one in records:
            writer.append(pack(one))
        writer.commit()
    return path


def configuration(folder: Path, **changes: Any) -> dict[str, Any]:
    """Plain data of a tiny run on files in a folder."""
    raw = {
        **TINY,
        "output": str(folder / "run"),
        "data": {"train": str(folder / "train.h5"), "validation": str(folder / "val.h5")},
        "budget": {"steps": 12},
    }
    return {**raw, **changes}


def data_files(folder: Path, count: int = 12) -> Path:
    """Files of both splits."""
    write(folder / "train.h5", [record(k) for k in range(count)])
    write(folder / "val.h5", [record(1000 + k, "val") for k in range(4)], "val")
    return folder


def command(path: Path, raw: dict[str, Any], *arguments: str, processes: int = 1) -> list[str]:
    """A command line that trains."""
    path.write_text(yaml.safe_dump(raw))
    start = [sys.executable]
    if processes > 1:
        start += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    return [*start, "-m", "geonew.cli", "train", str(path), "--quiet", *arguments]


def environment(folder: Path) -> dict[str, str]:
    """One thread, a cache of its own."""
    return os.environ | ONE_THREAD | {"GEONEW_HOME": str(folder / "home")}


def run(folder: Path, raw: dict[str, Any], *arguments: str, processes: int = 1) -> str:
    """Train in a process of its own; what it printed."""
    done = subprocess.run(
        command(folder / "config.yaml", raw, *arguments, processes=processes),
        env=environment(folder), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
