"""The training loop, from top to bottom.

    batch -> loss of its converged samples -> gradient, clipped -> optimiser -> average
    now and then: validate, keep the best, write a checkpoint, report

A batch of which fewer than ``least_converged`` (0.8) of the samples are solved is skipped, by a
decision that all processes share; so is one whose gradient is not finite. Many of these in a row
end the run with advice, the last good checkpoint untouched. A first SIGINT or SIGTERM ends the run
after the current step, with a checkpoint; a second one at once.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from geonew.errors import ConfigError, TrainingError
from geonew.train.batches import epoch_batches
from geonew.train.budget import Clock
from geonew.train.config import RunConfig
from geonew.train.distributed import Team, team
from geonew.train.log import Observer, RunLog
from geonew.train.memory import keep_freed_memory
from geonew.train.metrics import Errors
from geonew.train.optimiser import learning_rate
from geonew.train.samples import sample_sizes
from geonew.train.setup import Run, assemble, load_data, read_start
from geonew.train.state import (
    BEST,
    LAST,
    LoopState,
    advice,
    check_weights,
    kept_scales,
    restore_run,
    save_best,
    save_run,
)
from geonew.train.validation import validate

# So many skipped batches in a row are no accident.
PATIENCE = 25


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Args:
        folder: where its files are.
        steps: optimiser steps done.
        best: least validation error; inf without validation.
        interrupted: whether a signal ended it; it can be resumed then.

    """

    folder: Path
    steps: int
    best: float
    interrupted: bool

    @property
    def model(self) -> Path:
        """The file with the best weights."""
        return self.folder / BEST


@dataclass
class _Since:
    """Sums since the last report."""

    loss: float = 0.0
    converged: float = 0.0
    size: float = 0.0
    newton: float = 0.0
    gradient: float = 0.0
    steps: int = 0
    seconds: float = 0.0


def train(
    config: RunConfig,
    *,
    resume: bool = False,
    init: str | Path | None = None,
    observers: Sequence[Observer] = (),
) -> Outcome:
    """Train a model as a configuration says.

    Args:
        config: everything that decides the run.
        resume: go on from the last checkpoint in the run's folder.
        init: a model file to start from.
        observers: are told what happens.

    """
    folder = Path(config.output)
    keep_freed_memory()
    with team(config.device) as mates, stop_requests() as stop:
        config.check_device(mates.device.type)
        going_on = _claim(folder, resume, init, mates)

        def tell(event: str, values: Any) -> None:
            for observer in observers if mates.leads else ():
                observer(event, values)

        start = None if init is None or going_on else read_start(init, config)
        scales = start[1] if start else kept_scales(folder) if going_on else None
        data = load_data(config.data, config.features, mates, scales, tell)
        run = assemble(config, data, mates, start)
        state, clock = restore_run(run, folder) if going_on else (LoopState(), Clock())
        log = RunLog(folder, config.log, state.step if going_on else None) if mates.leads else None
        try:
            return _loop(run, state, clock, folder, stop, (*observers, *([log] if log else [])))
        finally:
            if log is not None:
                log.close()


def _loop(
    run: Run,
    state: LoopState,
    clock: Clock,
    folder: Path,
    stop: threading.Event,
    observers: Sequence[Observer],
) -> Outcome:
    config, mates, samples = run.config, run.team, run.data.train
    sizes = sample_sizes(samples)
    batches = epoch_batches(sizes, config.batch, config.seed, state.epoch)
    since = _Since(seconds=clock.seconds)

    def tell(event: str, **values: Any) -> None:
        for observer in observers if mates.leads else ():
            observer(event, {"step": state.step, **values})

    def check() -> None:
        with clock.paused():
            check_weights(run, state, folder)
            _validate_and_keep(run, state, folder, tell)
            _checkpoint(run, state, clock, folder)

    if state.step == 0:
        _checkpoint(run, state, clock, folder)  # there is always one to go on from
    tell("start", samples=len(samples), parameters=_count(run), skipped=list(run.data.skipped))
    medium = getattr(run.model, "medium", None)
    for note in (*run.data.notes, *([] if medium is None else [str(medium)])):
        if state.step == 0:
            tell("note", text=note)
    interrupted = False
    while True:
        spent = config.budget.spent(state.epoch + state.position / len(batches), state.step, clock)
        spent, requests = mates.sum([spent if mates.leads else 0.0, float(stop.is_set())])
        interrupted = requests > 0
        if spent >= 1 or interrupted:
            break

        mine = batches[state.position][mates.rank :: mates.size]
        torch.manual_seed(_step_seed(config.seed, state, mates))
        together = None
        if len(mine):
            draw = (config.seed, state.epoch, mine.tolist())
            together = run.fields.collate([samples[k] for k in mine], draw=draw)
        with torch.autocast(mates.device.type, torch.bfloat16, config.precision == "mixed"):
            losses = run.objective(together)
        total, converged, size, newton = mates.sum(
            [float(losses.total.detach()), losses.converged, losses.size, losses.steps]
        )
        state.seen, state.dropped = state.seen + int(size), state.dropped + int(size - converged)

        norm = float("nan")
        if _enough(converged, size, config):
            run.optimiser.zero_grad(set_to_none=True)
            (losses.total * (mates.size / converged)).backward()
            norm = float(
                torch.nn.utils.clip_grad_norm_(run.model.parameters(), config.optimiser.clip)
            )
        stepped = bool(np.isfinite(norm))  # one number, the same in all processes
        if stepped:
            for group in run.optimiser.param_groups:
                group["lr"] = learning_rate(config.optimiser, state.step, spent)
            run.optimiser.step()
            if run.average is not None:
                run.average.update_parameters(run.model)
            state.step, state.barren = state.step + 1, 0
        else:
            state.skipped, state.barren = state.skipped + 1, state.barren + 1
            _give_up_if_barren(state, _of_no_use(converged, size, config), folder)

        state.position += 1
        ended = state.position == len(batches)
        if ended:
            state.epoch, state.position = state.epoch + 1, 0
            batches = epoch_batches(sizes, config.batch, config.seed, state.epoch)
        since.converged, since.size = since.converged + converged, since.size + size
        since.newton += newton
        if stepped:
            since.loss, since.gradient = since.loss + total / converged, since.gradient + norm
            since.steps += 1
        else:
            tell("note", text=f"batch skipped: {_of_no_use(converged, size, config)}")
        if stepped and state.step % config.log.every == 0:
            tell("step", **_report(since, state, clock, spent, config))
            since = _Since(seconds=clock.seconds)
        every = config.validate_every
        if ended if every is None else stepped and state.step % every == 0:
            check()
        elif stepped and state.step % config.checkpoint_every == 0:
            with clock.paused():
                _checkpoint(run, state, clock, folder)

    if interrupted:
        _checkpoint(run, state, clock, folder)
    else:
        check()
    tell("end", interrupted=interrupted, best=state.best, best_step=state.best_step,
         seconds=clock.seconds, cpu_seconds=clock.cpu_seconds, **_counts(state))  # fmt: skip
    return Outcome(folder, state.step, state.best, interrupted)


@contextmanager
def stop_requests() -> Iterator[threading.Event]:
    """An event that a first SIGINT or SIGTERM sets; a second one acts as usual."""
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event  # only the main thread receives signals
        return
    before = {int(number): signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def request(number: int, frame: object) -> None:
        event.set()
        signal.signal(number, before[number])

    for number in before:
        signal.signal(number, request)
    try:
        yield event
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _claim(folder: Path, resume: bool, init: str | Path | None, mates: Team) -> bool:
    """Make the run's folder; whether there is a checkpoint to go on from."""
    if resume and init is not None:
        raise ConfigError("--resume and --init exclude each other", "give one of them")
    exists = (folder / LAST).exists()
    if exists and not resume:
        raise ConfigError(
            f"{folder} holds a run already", "give --resume, or another folder as output"
        )
    mates.wait()  # all have looked before anyone writes
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot make the folder {folder}: {error.strerror}") from error
    return exists


def _validate_and_keep(run: Run, state: LoopState, folder: Path, tell: Any) -> None:
    """Validate, and keep the weights if they are the best; without validation the last are."""
    if not run.data.validation:
        if run.team.leads:
            save_best(run, state, folder, {})
        return
    errors, solved = validate(
        run.evaluated,
        run.data.problem,
        run.data.validation,
        run.data.user_deviations,
        run.team,
        run.config.batch,
    )
    best = errors.combined < state.best
    if best:
        state.best, state.best_step = errors.combined, state.step
        if run.team.leads:
            save_best(run, state, folder, errors.mean())
    tell("validation", best=best, solved=solved, **_figures(errors))


def _figures(errors: Errors) -> dict[str, Any]:
    return {
        "error": errors.combined,
        "relative": _finite(errors.mean()),
        "weighted": _finite(errors.mean(weighted=True)),
        "absolute": _finite(errors.mean_absolute()),
    }


def _finite(values: dict[str, float]) -> dict[str, float]:
    """Without those that have no meaning; JSON has no NaN."""
    return {name: value for name, value in values.items() if np.isfinite(value)}


def _checkpoint(run: Run, state: LoopState, clock: Clock, folder: Path) -> None:
    check_weights(run, state, folder)
    if run.team.leads:
        save_run(run, state, clock, folder)
    run.team.wait()


def _report(
    since: _Since, state: LoopState, clock: Clock, spent: float, config: RunConfig
) -> dict[str, Any]:
    elapsed = max(clock.seconds - since.seconds, 1e-9)
    return {
        "epoch": state.epoch,
        "spent": spent,
        "loss": since.loss / since.steps,
        "learning_rate": learning_rate(config.optimiser, state.step - 1, spent),
        "gradient": since.gradient / since.steps,
        "converged": since.converged / since.size,
        "newton_steps": since.newton / since.size,
        "samples_per_second": since.size / elapsed,
        "seconds": clock.seconds,
        "cpu_seconds": clock.cpu_seconds,
        **_counts(state),
    }


def _counts(state: LoopState) -> dict[str, int]:
    return {"dropped_samples": state.dropped, "skipped_batches": state.skipped}


def _enough(converged: float, size: float, config: RunConfig) -> bool:
    """Whether a batch has enough solved samples for a step."""
    return converged >= max(1, config.least_converged * size)


def _of_no_use(converged: float, size: float, config: RunConfig) -> str:
    """Why no step was made."""
    solved = f"{int(converged)} of {int(size)} samples solved"
    enough = _enough(converged, size, config)
    return f"{solved}, but the gradient is not finite" if enough else solved


def _give_up_if_barren(state: LoopState, why: str, folder: Path) -> None:
    if state.barren < PATIENCE:
        return
    raise TrainingError(
        f"{state.barren} batches in a row were of no use after step {state.step}; the last one: "
        f"{why}",
        f"{advice(folder)}; if this happens from the start, look at the data and at the strength "
        "of the flux law",
    )


def _step_seed(seed: int, state: LoopState, mates: Team) -> int:
    """A seed for whatever draws random numbers in a step (dropout), in each process its own."""
    key = [seed, state.epoch, state.position, mates.rank]
    return int(np.random.SeedSequence(key).generate_state(1)[0])


def _count(run: Run) -> int:
    return sum(p.numel() for p in run.model.parameters())
