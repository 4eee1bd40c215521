"""Where a run stands, and how it goes on from there bit for bit.

What is stored: weights, state of the optimiser (with its strides), average, counters and clock.
What need not be: random numbers, since batches, anchors and every step's generator are functions of
(seed, epoch, position) and never of what came before.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from math import inf
from pathlib import Path

import torch
from torch import Tensor

from geonew.errors import CheckpointError, ConfigError, TrainingError
from geonew.train.budget import Clock
from geonew.train.checkpoint import (
    ModelFile,
    check_shapes,
    save_model,
    weights_of,
)
from geonew.train.container import decode_tree, encode_tree, read_container
from geonew.train.setup import Run

LAST = "last.safetensors"
BEST = "best.safetensors"
_OPTIMISER, _AVERAGE = "optimiser", "average/"


@dataclass
class LoopState:
    """Counters of a run.

    Args:
        step: optimiser steps done.
        epoch, position: the next batch.
        seen: samples that a loss was computed of.
        dropped: samples left out because their solve failed.
        skipped: batches skipped.
        barren: batches skipped in a row.
        best: least validation error so far.
        best_step: where.

    """

    step: int = 0
    epoch: int = 0
    position: int = 0
    seen: int = 0
    dropped: int = 0
    skipped: int = 0
    barren: int = 0
    best: float = inf
    best_step: int = -1


def check_weights(run: Run, state: LoopState, folder: Path) -> None:
    """Weights that are not finite never replace good ones."""
    bad = [n for n, p in run.model.named_parameters() if not torch.isfinite(p).all()]
    if bad:
        raise TrainingError(
            f"after {state.step} steps {len(bad)} weights are not finite, first {bad[0]!r}",
            advice(folder),
        )


def advice(folder: Path) -> str:
    """What to do with a run that broke."""
    return (
        f"the last good checkpoint is {folder / LAST}: start a new run from it, --init, with a "
        "smaller learning rate"
    )


def save_run(run: Run, state: LoopState, clock: Clock, folder: Path) -> None:
    """Write the last checkpoint."""
    tensors: dict[str, Tensor] = {}
    if run.average is not None:
        tensors |= {f"{_AVERAGE}{n}": t for n, t in run.average.state_dict().items()}
    training = {
        "state": encode_tree(asdict(state), "state", tensors),
        "clock": [clock.seconds, clock.cpu_seconds],
        "optimiser": encode_tree(run.optimiser.state_dict(), _OPTIMISER, tensors),
    }
    save_model(folder / LAST, run.model, run.about, training, tensors)


def save_best(run: Run, state: LoopState, folder: Path, errors: dict[str, float]) -> None:
    """Write the weights that are best so far."""
    extra = {"step": state.step, "validation": {k: v for k, v in errors.items() if v == v}}
    about = replace(run.about, extra={**run.about.extra, **extra})
    save_model(folder / BEST, run.evaluated, about)


def kept_scales(folder: Path) -> ModelFile:
    """The model of the last checkpoint, whose scales are another's if it is fine-tuned."""
    path = folder / LAST
    return ModelFile.from_plain(read_container(path)[1], path)


def restore_run(run: Run, folder: Path) -> tuple[LoopState, Clock]:
    """Put a run back where its last checkpoint was."""
    path = folder / LAST
    tensors, document = read_container(path)
    about = ModelFile.from_plain(document, path)
    changed = run.config.changed(dict(about.run))
    if changed:
        raise ConfigError(
            f"{path} was written with other settings: {', '.join(changed)}",
            "resume with the same configuration, or start a new run with --init",
        )
    if about.data_hash != run.about.data_hash:
        raise CheckpointError(
            f"the training data are not those of {path}: their hash differs",
            "restore the data, or start a new run with --init",
        )
    training = document.get("training")
    if not isinstance(training, dict):
        raise CheckpointError(f"{path} holds a model but no state of training", "use --init")
    weights = weights_of(tensors)
    check_shapes(run.model, weights, path)
    run.model.load_state_dict(weights)
    try:
        run.optimiser.load_state_dict(decode_tree(training["optimiser"], tensors))
        if run.average is not None:
            run.average.load_state_dict(weights_of(tensors, _AVERAGE))
        seconds, cpu_seconds = (float(t) for t in training["clock"])
        state = LoopState(**decode_tree(training["state"], tensors))
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise CheckpointError(f"{path}: the state of training is incomplete: {error}") from error
    return state, Clock(seconds, cpu_seconds)
