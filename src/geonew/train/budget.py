"""How long to train: by epochs, steps, minutes or CPU minutes of the training process.

A budget by epochs or steps makes a run reproducible bit by bit; one by time makes runs of
different models comparable. The clock stands still during validation and while features are made,
and goes on where it was after a resume.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from geonew.errors import ConfigError

_KINDS = ("epochs", "steps", "minutes", "cpu_minutes")


@dataclass(frozen=True)
class Budget:
    """One of four limits.

    Args:
        epochs: passes over the training data.
        steps: optimiser steps.
        minutes: of wall time.
        cpu_minutes: of processor time of this process, all threads together.

    """

    epochs: int | None = None
    steps: int | None = None
    minutes: float | None = None
    cpu_minutes: float | None = None

    def __post_init__(self) -> None:
        given = {kind: getattr(self, kind) for kind in _KINDS if getattr(self, kind) is not None}
        if len(given) != 1:
            raise ConfigError(
                f"the budget has {len(given)} limits: {given}",
                f"give exactly one of {', '.join(_KINDS)}",
            )
        for kind, value in given.items():
            if not value > 0:
                raise ConfigError(f"budget.{kind} is {value}; it must be positive")

    def spent(self, epochs: float, steps: int, clock: Clock) -> float:
        """Part of the budget used; 1 or more ends the run."""
        if self.epochs is not None:
            return epochs / self.epochs
        if self.steps is not None:
            return steps / self.steps
        if self.minutes is not None:
            return clock.seconds / (60 * self.minutes)
        assert self.cpu_minutes is not None
        return clock.cpu_seconds / (60 * self.cpu_minutes)


class Clock:
    """Wall and processor time of training alone.

    Args:
        seconds, cpu_seconds: where a resumed run goes on.

    """

    def __init__(self, seconds: float = 0.0, cpu_seconds: float = 0.0) -> None:
        self._before = (seconds, cpu_seconds)
        self._since: tuple[float, float] | None = _now()  # none: it stands still

    @property
    def seconds(self) -> float:
        """Wall time so far."""
        return self._read()[0]

    @property
    def cpu_seconds(self) -> float:
        """Processor time so far."""
        return self._read()[1]

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Time spent here does not count; the clock shows when it began."""
        if self._since is None:
            yield
            return
        self._before, self._since = self._read(), None
        try:
            yield
        finally:
            self._since = _now()

    def _read(self) -> tuple[float, float]:
        if self._since is None:
            return self._before
        (wall, cpu), (a, b), (c, d) = _now(), self._since, self._before
        return wall - a + c, cpu - b + d


def _now() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()
