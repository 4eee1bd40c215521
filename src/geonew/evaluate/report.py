"""Several models on several files, as one report: in Python, as JSON, as tables.

    evaluate(["best.safetensors", ...], ["test.h5", "ood.h5"]) -> Report

Checkpoints that differ by their seed alone are runs of one model: their means on the same data and
the standard deviation over the seeds are given besides the figures of each.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from geonew.cache import Cache
from geonew.errors import DataError
from geonew.evaluate.evaluation import Evaluation, evaluate_set
from geonew.evaluate.figures import finite
from geonew.evaluate.testset import TestSet, distinct_names, read_test
from geonew.train.checkpoint import ModelFile, read_model

Notify = Callable[[str, int, int], None]


@dataclass(frozen=True, eq=False)
class Row:
    """One model on one file.

    Args:
        model: name of the model's file, with its folder.
        row: number of the group of seeds it belongs to.
        about: what the file says.
        parameters: how many weights it has.
        evaluation: the results.

    """

    model: str
    row: int
    about: ModelFile
    parameters: int
    evaluation: Evaluation

    @property
    def seed(self) -> int | None:
        """Of the training run."""
        seed = self.about.run.get("seed")
        return seed if isinstance(seed, int) else None


@dataclass(frozen=True, eq=False)
class Seeds:
    """Runs of one model with several seeds on one file.

    Args:
        rows: one per seed.

    """

    rows: tuple[Row, ...]

    def mean(self, column: str) -> tuple[float, float]:
        """Mean over seeds of a column's mean, and its standard deviation; NaN for a single one."""
        means = np.array([r.evaluation.column(column).mean for r in self.rows])
        sound = np.isfinite(means).all() and len(means) > 1
        return float(means.mean()), float(means.std(ddof=1)) if sound else float("nan")


@dataclass(frozen=True, eq=False)
class Report:
    """All results.

    Args:
        rows: every model on every file.

    """

    rows: tuple[Row, ...]

    def seeds(self) -> list[Seeds]:
        """Groups of rows that differ by their seed alone, in the order given."""
        groups: dict[tuple[int, tuple[str, str, str]], list[Row]] = {}
        for row in self.rows:
            groups.setdefault((row.row, row.evaluation.data), []).append(row)
        return [Seeds(tuple(rows)) for rows in groups.values()]

    def to_plain(self, each: bool = True) -> dict[str, Any]:
        """As JSON data."""
        return {
            "results": [
                {
                    "model": row.model,
                    "kind": row.about.choice.kind,
                    "settings": row.about.choice.to_plain(),
                    "seed": row.seed,
                    "parameters": row.parameters,
                    "training": dict(row.about.extra) | {"data_hash": row.about.data_hash},
                    "versions": dict(row.about.versions),
                    **row.evaluation.to_plain(each),
                }
                for row in self.rows
            ],
            "seeds": [
                {
                    "models": [r.model for r in group.rows],
                    "file": group.rows[0].evaluation.file,
                    "split": group.rows[0].evaluation.split,
                    "data_hash": group.rows[0].evaluation.data_hash,
                    "error": {
                        name: dict(
                            zip(
                                ("mean", "deviation"),
                                map(finite, group.mean(name)),
                                strict=True,
                            )
                        )
                        for name in group.rows[0].evaluation.errors.names
                    },
                }
                for group in self.seeds()
                if len(group.rows) > 1
            ],
        }

    def write(self, path: str | Path) -> None:
        """Write the JSON, whole or not at all."""
        write_json(path, self.to_plain())


def evaluate(
    models: Sequence[str | Path],
    data: Sequence[str | Path],
    *,
    batch: int = 8,
    limit: int | None = None,
    where: Sequence[tuple[str, float]] = (),
    device: str = "cpu",
    runtime: bool = True,
    cache: bool = True,
    notify: Notify | None = None,
) -> Report:
    """Evaluate models on data files.

    Args:
        models: checkpoints of any kind; several seeds of one model are summarised.
        data: files of samples with solutions; one that is given twice counts once.
        batch: samples side by side.
        limit: use the first so many samples of each file only.
        where: places (axis, value) whose samples get figures of their own.
        device: where to compute.
        runtime: measure what a prediction costs.
        cache: keep features in the cache folder.
        notify: called with (what, done, all).

    """
    store = Cache.default() if cache else None
    names = distinct_names([Path(file) for file in data])
    made: list[Row] = []
    groups: list[str] = []
    prepared: dict[tuple[str, str], TestSet] = {}
    for path in models:
        model, about = read_model(path, device)
        key = _without_seed(about)
        groups += [] if key in groups else [key]
        for file, called in names.items():
            place = (file, _reading(about))
            if place not in prepared:
                prepared[place] = read_test(
                    file,
                    about,
                    name=called,
                    limit=limit,
                    cache=store,
                    notify=_told(notify, f"features {file}"),
                )
            result = evaluate_set(
                model,
                about,
                prepared[place],
                batch=batch,
                where=where,
                runtime=runtime,
                notify=_told(notify, f"{path} on {file}"),
            )
            name = "/".join(Path(path).parts[-2:])
            made.append(Row(name, groups.index(key), about, weights(model), result))
    return Report(tuple(made))


def weights(model: nn.Module) -> int:
    """Number of trainable numbers."""
    return sum(p.numel() for p in model.parameters())


def write_json(path: str | Path, document: object) -> None:
    """Write JSON data, whole or not at all."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{uuid.uuid4().hex}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("x", encoding="utf-8") as file:
            json.dump(document, file, indent=1, allow_nan=False, sort_keys=False)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def _without_seed(about: ModelFile) -> str:
    """What runs of one model with several seeds share."""
    run = {k: v for k, v in about.run.items() if k not in ("seed", "output", "log", "device")}
    return json.dumps([about.choice.to_plain(), run, about.data_hash], sort_keys=True, default=str)


def _reading(about: ModelFile) -> str:
    """What decides how a file is prepared."""
    return about.problem.to_json() + about.spec.to_json() + "|".join(about.columns)


def _told(notify: Notify | None, what: str) -> Callable[[int, int], None] | None:
    if notify is None:
        return None
    return lambda done, total: notify(what, done, total)
