"""Train on a folder of one's own simulations: ``.vtu`` files in, a calibrated model out.

    folder --import--> train, validation (and calibration) files --train, calibrate--> model

The files are dealt out at random, by a fixed seed: most to training, some to validation, by which
the best weights are chosen, and, where there are enough for 90 % bands, some to calibration. What
is where in the files is said as in a recipe (:mod:`geonew.data.simulations`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from geonew.calibrate.fitting import calibrate
from geonew.data.check import check_record
from geonew.data.columns import pack
from geonew.data.header import Header
from geonew.data.recipe import Recipe
from geonew.data.record import Split
from geonew.data.simulations import simulations
from geonew.data.writer import Writer
from geonew.errors import DataError, GeoNeWError
from geonew.problem import Problem
from geonew.train.config import read_config
from geonew.train.loop import train

# Part of the files that each of validation and calibration gets; a 90 % band needs nine samples.
HELD_OUT = 0.15
FEWEST_CALIBRATION = 9
FEWEST = 4
# The size that one core trains in minutes, as in configs/cpu.
SIZE: dict[str, Any] = {"width": 64, "depth": 2, "heads": 2, "partitions": 32, "hidden": 128}
KIND = "simulations"


def train_on_folder(
    folder: str | Path,
    problem: Problem,
    output: str | Path,
    *,
    files: str = "*.vtu",
    recipe: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    minutes: float = 5.0,
    seed: int = 0,
) -> Path:
    """Train a model on the simulations of a folder and return its file.

    Args:
        folder: where the files are.
        problem: what they are solutions of.
        output: folder of data files, checkpoints and logs; made if there is none.
        files: pattern of their names.
        recipe: what is where: ``fields``, ``groups``, ``boundary``, ``parameters``, ``sources``,
            ... as in a recipe of kind ``simulations``; by default everything has the problem's
            names, and boundary values are those of the solutions.
        settings: of the run, as in a configuration file, instead of the defaults here.
        minutes: processor time of the training.
        seed: of the dealing and of the training.

    """
    folder, output = Path(folder).resolve(), Path(output)
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"cannot make the folder {output}: {error.strerror}") from error
    content = {
        "kind": KIND, "name": problem.name, "folder": str(folder), "files": files,
        **(recipe or {}),
    }  # fmt: skip
    count = simulations(_recipe(folder, content, problem, "train")).count
    if count < FEWEST:
        raise DataError(
            f"{folder} has {count} files that match {files!r}", f"give at least {FEWEST}"
        )
    dealt = _deal(count, seed)
    paths = {}
    for split, chosen in dealt.items():
        if len(chosen):
            paths[split] = output / f"{split}.h5"
            _write(paths[split], _recipe(folder, content, problem, split), problem, chosen)
    raw: dict[str, Any] = {
        "output": str(output / "run"),
        "data": {"train": str(paths["train"]), "validation": str(paths["val"])},
        "features": {"coordinates": True},
        "model": {"kind": "geonew", **SIZE},
        "batch": min(8, len(dealt["train"])),
        "budget": {"cpu_minutes": minutes},
        "seed": seed,
        **(settings or {}),
    }
    outcome = train(read_config(raw))
    if "calibration" in paths:
        calibrate(outcome.model, paths["calibration"])
    return outcome.model


def _recipe(folder: Path, content: Mapping[str, Any], problem: Problem, split: Split) -> Recipe:
    import json

    stated = {**content, "problem": json.loads(problem.to_json()), "split": split}
    return Recipe(folder / "recipe", stated)


def _deal(count: int, seed: int) -> dict[Split, list[int]]:
    """Numbers of the files of each split, in random order."""
    order = np.random.default_rng(seed).permutation(count).tolist()
    held = max(int(HELD_OUT * count), 1)
    bands = held if held >= FEWEST_CALIBRATION else 0
    return {
        "train": order[held + bands :],
        "val": order[:held],
        "calibration": order[held : held + bands],
    }


def _write(path: Path, recipe: Recipe, problem: Problem, chosen: Sequence[int]) -> None:
    """A data file of some of the simulations, each checked."""
    source = simulations(recipe)
    path.unlink(missing_ok=True)
    origin = {"kind": "imported", "recipe": {k: str(v) for k, v in recipe.content.items()}}
    with Writer(path, Header(problem.name, recipe.split, problem, {}, origin)) as writer:
        for number in chosen:
            try:
                record = source.record(number)
                check_record(problem, record)
            except GeoNeWError as error:
                raise DataError(f"{source.label(number)}: {error.what}", error.cure) from error
            writer.append(pack(record))
        writer.commit()
