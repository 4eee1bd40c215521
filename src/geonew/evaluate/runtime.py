"""What a prediction costs, stage by stage, per sample.

    features | encoder | partitions | projection | solve | reconstruction      (ours)
    features | network                                                         (a baseline)

Medians over a few batches after one that is not counted, in milliseconds of processor time (other
jobs on the machine disturb it least), on a GPU of wall time. ``projection`` is everything from the
reduced space to the balance law. ``forward`` is the whole pass, timed apart from its stages.

Peak memory is that of these batches on a GPU. On a processor only the whole process's peak so far
is known, which data and models before this one have part in: to compare models there, measure each
in a process of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import nn

from geonew.data.record import Record
from geonew.evaluate.predictions import by_measure
from geonew.evaluate.testset import TestSet
from geonew.model.batch import Batch
from geonew.model.geonew import GeoNeW
from geonew.train.models import FieldModel
from geonew.train.samples import prepare_record

T = TypeVar("T")

# Batches and samples that are timed: medians of so many are steady to a few percent.
TIMED_BATCHES = 5
TIMED_SAMPLES = 4
GPU, PROCESS = "GPU", "process so far"


@dataclass(frozen=True)
class Runtime:
    """Cost of a prediction.

    Args:
        stages: stage -> milliseconds per sample.
        forward: the whole forward pass, milliseconds per sample.
        batch: samples side by side.
        nodes: mean number of nodes.
        peak_megabytes: most memory: on a GPU while this was measured, else of the process since it
            began; none where unknown.
        threads: of the processor.
        device: where.
        peak_of: whose memory, ``GPU`` or ``process so far``.

    """

    stages: dict[str, float]
    forward: float
    batch: int
    nodes: float
    peak_megabytes: float | None
    threads: int
    device: str
    peak_of: str = PROCESS


@torch.no_grad()
def measure_runtime(model: nn.Module, tested: TestSet, batch: int = 8) -> Runtime:
    """Time a model on some samples of a set."""
    assert isinstance(model, FieldModel)
    was_training = model.training
    model.eval()
    device = next(model.parameters()).device
    first = tested.samples[: batch * TIMED_BATCHES]
    chosen = [first[k] for k in by_measure(first)]  # batches as predictions have them
    parts = [chosen[k : k + batch] for k in range(0, len(chosen), batch)]
    parts = [p for p in parts if len(p) == batch] or parts[:1]
    clock = _clock(device)
    forget_peak(device)
    laps: dict[str, list[float]] = {}
    try:
        for number in range(-1, TIMED_BATCHES):  # the first is not counted
            part = parts[number % len(parts)]
            together = model.collate(part)
            seconds = {"forward": _timed(clock, lambda b=together: model(b))[0]}
            if isinstance(model, GeoNeW):
                seconds |= _stages(model, together, clock)
            for name, value in seconds.items() if number >= 0 else ():
                laps.setdefault(name, []).append(1e3 * value / len(part))
    finally:
        model.train(was_training)
    stages = {name: float(np.median(values)) for name, values in laps.items()}
    forward = stages.pop("forward")
    stages = stages or {"network": forward}
    return Runtime(
        stages={"features": _features(tested.records[:TIMED_SAMPLES], model), **stages},
        forward=forward,
        batch=len(parts[0]),
        nodes=float(np.mean([s.n_nodes for s in chosen])),
        peak_megabytes=peak_megabytes(device),
        threads=torch.get_num_threads(),
        device=str(device),
        peak_of=GPU if device.type == "cuda" else PROCESS,
    )


def forget_peak(device: torch.device) -> None:
    """Count the most memory of a GPU anew; that of a process cannot be."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def peak_megabytes(device: torch.device) -> float | None:
    """Most memory used: of a GPU since :func:`forget_peak`, of a process since it began."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    try:
        import resource  # not on every system
        import sys
    except ImportError:
        return None
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used / (2**20 if sys.platform == "darwin" else 2**10)


def _stages(model: GeoNeW, together: Batch, clock: Callable[[], float]) -> dict[str, float]:
    """Seconds of each arrow of the forward pass."""
    encoder, encoding = _timed(clock, lambda: model.encode(together))
    partitions, space = _timed(clock, lambda: model.reduce(encoding, together))
    projection, balance = _timed(clock, lambda: model.balance(encoding, space, together))
    solve, solution = _timed(clock, lambda: model._solve(balance, space, together, None))
    reconstruction, _ = _timed(clock, lambda: space.field(solution.u))
    return {
        "encoder": encoder,
        "partitions": partitions,
        "projection": projection,
        "solve": solve,
        "reconstruction": reconstruction,
    }


def _features(records: Sequence[Record], model: FieldModel) -> float:
    """Milliseconds to prepare a sample without a cache."""
    seconds = [
        _timed(time.process_time, lambda r=record: prepare_record(r, model.problem, model.spec))[0]
        for record in records
    ]
    return 1e3 * float(np.median(seconds))


def _clock(device: torch.device) -> Callable[[], float]:
    if device.type != "cuda":
        return time.process_time

    def synchronised() -> float:
        torch.cuda.synchronize(device)
        return time.perf_counter()

    return synchronised


def _timed(clock: Callable[[], float], run: Callable[[], T]) -> tuple[float, T]:
    """Seconds that something took, and what it returned."""
    start = clock()
    result = run()
    return clock() - start, result
