"""Progress for people at a terminal: loss, validation, Newton steps, speed, time left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text


class Display:
    """An observer that draws a bar and writes a line per validation.

    Args:
        console: where; standard error by default.

    """

    def __init__(self, console: Console | None = None) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:5.1f}%"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[figures]}"),
            console=console or Console(stderr=True),
        )
        self._task: TaskID | None = None
        self._stage = ""
        self._validation = ""

    def __enter__(self) -> Display:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def __call__(self, event: str, values: Mapping[str, Any]) -> None:
        """Show one event."""
        if event == "prepare":
            part = values["done"] / max(values["total"], 1)
            self._show(f"{values['split']} samples", part, f"{values['done']}/{values['total']}")
        elif event == "start":
            self._say(f"{values['samples']} samples, {values['parameters']} parameters")
            for text in values["skipped"]:
                self._say(f"left out: {text}")
        elif event == "step":
            self._show("training", min(1.0, values["spent"]), self._figures(values))
        elif event == "validation":
            self._validation = f"val {100 * values['error']:.3f}%"
            parts = ", ".join(f"{k} {100 * v:.3f}%" for k, v in values["relative"].items())
            mark = " (best)" if values["best"] else ""
            self._say(f"step {values['step']}: validation {parts}{mark}")
        elif event == "note":
            self._say(f"step {values['step']}: {values['text']}")
        elif event == "end":
            self._say(
                f"{'interrupted' if values['interrupted'] else 'done'} after {values['step']} "
                f"steps: {values['dropped_samples']} samples dropped, "
                f"{values['skipped_batches']} batches skipped"
            )

    def _figures(self, values: Mapping[str, Any]) -> str:
        left = values["seconds"] * (1 / values["spent"] - 1) if values["spent"] > 0 else 0.0
        parts = [
            f"loss {100 * values['loss']:.3f}%",
            self._validation,
            f"Newton {values['newton_steps']:.1f}",
            f"converged {100 * values['converged']:.0f}%",
            f"{values['samples_per_second']:.1f} samples/s",
            f"{_duration(left)} left",
        ]
        return "  ".join(part for part in parts if part)

    def _show(self, stage: str, part: float, figures: str) -> None:
        if self._task is None or self._stage != stage:
            self._task = self._progress.add_task(stage, total=1.0, figures=figures)
            self._stage = stage
        self._progress.update(self._task, completed=part, figures=figures)

    def _say(self, text: str) -> None:
        self._progress.console.print(Text(text))


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
