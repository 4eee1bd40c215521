"""Two small models of real families, trained for seconds, calibrated, saved as real checkpoints.

``build(folder)`` makes ``poly-poisson.safetensors`` and ``ns2d-c++.safetensors`` with the data they
come from; several test processes of one run share them (:func:`shared`).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from filelock import FileLock

from geonew.calibrate.fitting import calibrate
from geonew.data.columns import pack
from geonew.data.families import family
from geonew.data.header import Header
from geonew.data.record import Split
from geonew.data.writer import Writer
from geonew.train.config import read_config
from geonew.train.loop import train

FAMILIES = ("poly-poisson", "ns2d-c++")
COUNTS: dict[Split, int] = {"train": 8, "val": 2, "calibration": 9}
SETTINGS: dict[str, Any] = {
    "features": {"coordinates": True, "torsion": False, "hks_times": 4, "eigenpairs": 12},
    "model": {"width": 16, "depth": 1, "anchors": 16, "partitions": 12, "contexts": 2},
    "optimiser": {"warm_up": 3, "learning_rate": 3e-3},
    "batch": 4,
    "budget": {"steps": 12},
    "device": "cpu",
    "log": {"every": 4, "tensorboard": False},
}
LAW = {"poly-poisson": "structured", "ns2d-c++": "none"}


def build(folder: Path) -> Path:
    """Train and calibrate both models in a folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GEONEW_HOME", str(folder / "home"))
        for name in FAMILIES:
            _train(folder, name)
    return folder


def shared(base: Path) -> Path:
    """The models of this test run, made by whichever of its processes comes first."""
    root = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder, done = root / "trained", root / "trained.done"
    with FileLock(root / "trained.lock"):
        if not done.exists():
            folder.mkdir(exist_ok=True)
            build(folder)
            done.touch()
    return folder


def _train(folder: Path, name: str) -> None:
    source = family(name)
    for number, (split, count) in enumerate(COUNTS.items()):
        generator = np.random.default_rng([number, len(name)])
        with Writer(folder / f"{name}-{split}.h5", Header(name, split, source.problem)) as writer:
            for _ in range(count):
                # The truth on the stored mesh itself: seconds instead of a minute.
                writer.append(pack(source.solve(source.draw(split, generator), "coarse", times=0)))
            writer.commit()
    raw = {
        **SETTINGS,
        "model": {**SETTINGS["model"], "law": LAW[name]},
        "output": str(folder / f"run-{name}"),
        "data": {
            "train": str(folder / f"{name}-train.h5"),
            "validation": str(folder / f"{name}-val.h5"),
        },
    }
    outcome = train(read_config(raw))
    calibrate(outcome.model, folder / f"{name}-calibration.h5")
    (folder / f"{name}.safetensors").write_bytes(outcome.model.read_bytes())
