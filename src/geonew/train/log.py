"""What a run leaves for people and programs: a JSON line per event, and TensorBoard's files.

Every line of ``log.jsonl`` is one event with its step; JSON has no infinity, so a number that is
not finite (the best error where nothing was validated) is ``null`` there. After a resume, lines of
steps beyond the checkpoint are dropped, so that the log reads as that of an undisturbed run.
Observers are told the same events: a progress bar, a plot, a test.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from geonew.errors import ConfigError

LOG_FILE = "log.jsonl"
TENSORBOARD_FOLDER = "tensorboard"


@dataclass(frozen=True)
class LogConfig:
    """What is written.

    Args:
        every: steps between two reports.
        tensorboard: write TensorBoard's files too.

    """

    every: int = 10
    tensorboard: bool = True

    def __post_init__(self) -> None:
        if self.every < 1:
            raise ConfigError(f"log.every is {self.every}; it must be at least 1")


@runtime_checkable
class Observer(Protocol):
    """Is told what happens."""

    def __call__(self, event: str, values: Mapping[str, Any]) -> None:
        """``event`` is ``"prepare"``, ``"start"``, ``"step"``, ``"validation"``, ``"note"`` or
        ``"end"``.
        """
        ...


class RunLog:
    """The log of one run.

    Args:
        folder: where it goes.
        config: what is written.
        resume_from: drop what was logged after this step; none starts anew.

    """

    def __init__(self, folder: Path, config: LogConfig, resume_from: int | None = None) -> None:
        path = folder / LOG_FILE
        kept = [] if resume_from is None else _lines_up_to(path, resume_from)
        temporary = path.with_suffix(".part")
        temporary.write_text("".join(kept), encoding="utf-8")
        os.replace(temporary, path)
        self._file = path.open("a", encoding="utf-8")
        self._board = None
        if config.tensorboard:
            from torch.utils.tensorboard import SummaryWriter

            self._board = SummaryWriter(
                str(folder / TENSORBOARD_FOLDER),
                purge_step=None if resume_from is None else resume_from + 1,  # that one stays
            )

    def __call__(self, event: str, values: Mapping[str, Any]) -> None:
        """Log one event."""
        line = _finite({"event": event, **values})
        self._file.write(json.dumps(line, default=_number, allow_nan=False) + "\n")
        self._file.flush()
        if self._board is None or event not in ("step", "validation"):
            return
        for name, value in _flat(values):
            if name != "step":
                self._board.add_scalar(f"{event}/{name}", value, int(values["step"]))

    def close(self) -> None:
        """Close the files."""
        self._file.close()
        if self._board is not None:
            self._board.close()


def read_log(folder: str | Path) -> list[dict[str, Any]]:
    """All events of a run."""
    text = (Path(folder) / LOG_FILE).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def _lines_up_to(path: Path, step: int) -> list[str]:
    """The whole lines of a log up to a step; a torn last line is dropped."""
    if not path.exists():
        return []
    kept = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True):
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if line.endswith("\n") and event.get("step", 0) <= step:
            kept.append(line)
    return kept


def _finite(value: Any) -> Any:
    """The same with none in place of numbers that JSON does not have."""
    if isinstance(value, Mapping):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def _number(value: Any) -> float | None:
    """A number of another library."""
    return _finite(float(value))


def _flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, float]]:
    result: list[tuple[str, float]] = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            result.extend(_flat(value, f"{prefix}{name}/"))
        elif isinstance(value, int | float):
            result.append((prefix + name, float(value)))
    return result
