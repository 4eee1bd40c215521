"""One cell, from its description to its result, in the present process.

    Cell --settings--> RunConfig --train, resumed where it was interrupted--> model
         --evaluate--> errors on each test set --> one JSON document, written as a whole

Every row gets the same features, batch size, optimiser and budget; learning rates are chosen per
row among the same values, weight decay is Geo-NeW's own. The budget counts processor time of the
training loop, batches and their collation included, features and validation left out
(:mod:`geonew.train.budget`).

A cell that tries a learning rate has a result in any case: where training ends because nothing
finite or nothing solved is left, the result says so and has no validation error, which counts as
worse than any. Every other cell fails then.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

from geonew.bench.cell import Cell
from geonew.bench.choices import chosen_rate
from geonew.bench.history import history
from geonew.bench.pace import pace, processor
from geonew.bench.place import Place
from geonew.bench.refinement import refinement
from geonew.bench.rescaling import rescaled
from geonew.bench.rows import model_of, settings_of
from geonew.bench.sets import sets
from geonew.cache import Cache
from geonew.errors import TrainingError
from geonew.evaluate.evaluation import Evaluation, evaluate_set
from geonew.evaluate.figures import finite
from geonew.evaluate.report import weights, write_json
from geonew.evaluate.testset import TestSet, read_test
from geonew.train.checkpoint import current_versions, read_model
from geonew.train.config import RunConfig, load_config
from geonew.train.log import read_log
from geonew.train.loop import train
from geonew.train.reading import read_yaml
from geonew.train.state import BEST, LAST

FINISHED, INTERRUPTED = 0, 130
HOME = "$GEONEW_HOME"


def run_cell(place: Place, cell: Cell) -> int:
    """Compute a cell and write its result; the exit code of its process."""
    torch.set_num_threads(1)
    if cell.task == "make":
        for made in sets(place.campaign.suite)[cell.name]:
            if not made.is_complete():
                made.make()
        return FINISHED
    if cell.task == "train":
        return _train(place, cell)
    trained = place.campaign[cell.start]
    path = place.run(trained) / BEST
    if cell.task == "refine":
        results = {"error": {}, "refinement": refinement(path, cell.tests)}
    else:
        results = _tested(path, cell)
    budget = place.read(trained) if place.is_done(trained) else {}
    document = {
        "name": cell.name,
        "task": cell.task,
        "family": cell.family,
        "model": cell.row,
        "trained": trained.name,
        **{key: budget[key] for key in ("seed", "cpu_minutes") if key in budget},
        **results,
        "versions": current_versions(),
        "command": again_command(place, cell),
    }
    write_json(place.result(cell), document)
    return FINISHED


def configuration(place: Place, cell: Cell) -> tuple[RunConfig, list[str]]:
    """The configuration of a cell, and the settings by which it differs from its base."""
    base = place.config(cell)
    model = model_of(cell.row, read_yaml(base).get("model", {}))
    settings = [
        *place.campaign.data_settings(cell),
        f"model={_flow(model)}",
        *settings_of(cell.row),
        *cell.settings,
        f"optimiser.learning_rate={chosen_rate(cell, place.decided(cell))!r}",
        f"seed={cell.seed}",
        f"budget={_flow({'cpu_minutes': cell.cpu_minutes})}",
        "device=cpu",
        "log.tensorboard=false",
    ]
    config = load_config(base, settings)
    return replace(config, output=str(place.run(cell))), settings


def train_command(place: Place, cell: Cell, settings: list[str]) -> str:
    """What trains the same model by hand."""
    parts = ["geonew", "train", place.config(cell).as_posix()]
    for setting in settings:
        parts += ["--set", setting]
    if cell.start:
        parts += ["--init", _home(place, place.campaign[cell.start]) + f"/{BEST}"]
    parts += ["--set", f"output={_home(place, cell)}"]
    # The home stays a variable of the shell: everything else is quoted.
    return "OMP_NUM_THREADS=1 " + " ".join(
        f'"{part}"' if HOME in part else shlex.quote(part) for part in parts
    )


def evaluate_command(place: Place, trained: Cell, tests: Mapping[str, str]) -> str:
    """What evaluates it by hand."""
    return f'geonew evaluate "{_home(place, trained)}/{BEST}" --data {" ".join(tests.values())}'


def again_command(place: Place, cell: Cell) -> str:
    """What evaluates a trained model once more, as a cell does.

    A plain evaluation knows neither transfers between meshes nor squeezed coordinates.
    """
    if cell.task in ("refine", "rescale"):
        name = shlex.quote(cell.name)
        return f"geonew bench --suite {shlex.quote(place.campaign.suite)} --only {name}"
    return evaluate_command(place, place.campaign[cell.start], cell.tests)


def _train(place: Place, cell: Cell) -> int:
    config, settings = configuration(place, cell)
    folder = place.run(cell)
    begun = (folder / LAST).exists()
    start = place.run(place.campaign[cell.start]) / BEST if cell.start and not begun else None
    paces = [pace()]
    try:
        outcome = train(config, resume=begun, init=start)
        if outcome.interrupted:
            return INTERRUPTED
        if not outcome.model.exists():
            raise TrainingError(
                f"in {outcome.steps} steps no validation error was finite",
                "lower the learning rate",
            )
    except TrainingError as error:
        if not cell.tries_rate:
            raise
        write_json(place.result(cell), _failed(place, cell, config, settings, error.what))
        return FINISHED
    paces.append(pace())
    events = read_log(folder)
    end = [event for event in events if event["event"] == "end"][-1]
    model, about = read_model(folder / BEST)
    checked = about.extra.get("validation", {})
    document = {
        **_described(cell, config),
        "cpu_seconds": end["cpu_seconds"],
        "steps": outcome.steps,
        "train_samples": _samples(events),
        "epochs": outcome.steps * config.batch / _samples(events),
        "validation": {name: finite(value) for name, value in checked.items()},
        "best_step": about.extra.get("step"),
        "dropped_samples": end["dropped_samples"],
        "skipped_batches": end["skipped_batches"],
        "parameters": weights(model),
        "samples_per_second": outcome.steps * config.batch / end["cpu_seconds"],
        "history": history(events),
        **_tested(folder / BEST, cell),
        "data_hash": {"train": about.data_hash},
        "processor": processor(),
        "pace": {"before": paces[0], "after": paces[1]},
        "versions": current_versions(),
        "command": train_command(place, cell, settings),
        "evaluate": evaluate_command(place, cell, cell.tests),
    }
    write_json(place.result(cell), document)
    return FINISHED


def _described(cell: Cell, config: RunConfig) -> dict[str, Any]:
    """What was trained, and how."""
    return {
        "name": cell.name,
        "task": cell.task,
        "family": cell.family,
        "model": cell.row,
        "settings": list(cell.settings),
        "architecture": config.model.to_plain(),
        "seed": cell.seed,
        "cpu_minutes": cell.cpu_minutes,
        "learning_rate": config.optimiser.learning_rate,
        "batch": config.batch,
    }


def _failed(
    place: Place, cell: Cell, config: RunConfig, settings: list[str], reason: str
) -> dict[str, Any]:
    """The result of a learning rate at which training fails."""
    events = read_log(place.run(cell))
    spent = [event["cpu_seconds"] for event in events if "cpu_seconds" in event]
    return {
        **_described(cell, config),
        "failed": reason,
        "cpu_seconds": spent[-1] if spent else 0.0,
        "steps": max((int(event["step"]) for event in events if "step" in event), default=0),
        "validation": {},
        "history": history(events),
        "error": {},
        "processor": processor(),
        "versions": current_versions(),
        "command": train_command(place, cell, settings),
    }


def _tested(path: Path, cell: Cell) -> dict[str, Any]:
    """Results of a model on all test sets of a cell, and what a prediction costs on the first."""
    model, about = read_model(path)
    found: dict[str, Evaluation] = {}
    truth: dict[str, float] = {}
    for name, file in cell.tests.items():
        tested = read_test(file, about, cache=Cache.default())
        if cell.task == "rescale":
            tested = rescaled(tested, about)
        timed = cell.task == "train" and not found
        found[name] = evaluate_set(model, about, tested, runtime=timed)
        seconds = reference_seconds(tested)
        if seconds is not None:
            truth[name] = seconds
    plain = {name: one.to_plain(each=False) for name, one in found.items()}
    result: dict[str, Any] = {
        key: {name: one[source] for name, one in plain.items()}
        for key, source in (
            ("error", "error"),
            ("by_axis", "by_axis"),
            ("boundary", "boundary"),
            ("certificate", "certificate"),
            ("solved", "solved"),
            ("tested_hash", "data_hash"),
        )
    }
    result["conservation"] = {
        name: {key: one[key] for key in ("mass_defect", "divergence", "reaction_defect", "truth")}
        for name, one in plain.items()
    }
    result["samples"] = {name: one.samples for name, one in found.items()}
    result["reference_seconds"] = truth
    result["runtime"] = {
        name: one["runtime"] for name, one in plain.items() if one["runtime"] is not None
    }
    if "heat_map" in found:
        result["places"] = heat_map(found["heat_map"])
    return result


def heat_map(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Mean combined error at every place (length, obstacles, angle); none where one failed."""
    axes = ("length", "obstacles", "angle")
    where: dict[tuple[Any, ...], list[float]] = {}
    for k, place in enumerate(zip(*(evaluation.axes[axis] for axis in axes), strict=True)):
        where.setdefault(place, []).append(float(evaluation.errors.relative[k, 0]))
    return [
        {**dict(zip(axes, place, strict=True)), "error": finite(sum(e) / len(e)), "samples": len(e)}
        for place, e in sorted(where.items())
    ]


def reference_seconds(tested: TestSet) -> float | None:
    """Median time in which our own solvers made a sample; none for imported data."""
    seconds = [r.info["seconds"] for r in tested.records if r.info.get("seconds", 0) > 0]
    return float(np.median(seconds)) if seconds else None


def _samples(events: list[dict[str, Any]]) -> int:
    return next(int(event["samples"]) for event in events if event["event"] == "start")


def _flow(value: Mapping[str, Any]) -> str:
    """Plain data as one line of YAML."""
    text = yaml.safe_dump(dict(value), default_flow_style=True, sort_keys=False, width=10**6)
    return text.strip()


def _home(place: Place, cell: Cell) -> str:
    return f"{HOME}/runs/bench/{place.campaign.suite}/{cell.name}"


def result_line(result: Mapping[str, Any]) -> str:
    """A result in a few words."""
    if "failed" in result:
        return f"training failed: {result['failed']}"
    errors = {
        name: table["combined"]["relative"]["mean"] for name, table in result["error"].items()
    }
    for name, table in result.get("refinement", {}).items():
        errors[name] = table["error"]["combined"]["relative"]["mean"]
    parts = [f"{n} {100 * e:.3g} %" for n, e in errors.items() if e is not None]
    checked = result.get("validation", {}).get("combined")
    if checked is not None:
        parts.insert(0, f"validation {100 * checked:.3g} %")
    return ", ".join(parts)
