"""How a training went, short enough to keep with its result: loss, Newton steps, validation.

    log.jsonl --thin--> lists of numbers by step

Of the reports of the loop so many are kept, evenly spaced, first and last among them; of the
validations all are. A number that is not finite, such as the error of a prediction that failed, is
none: a result is JSON, which has no infinity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

import numpy as np

Numbers = list[float | int | None]
# Points of a curve that a figure of a few inches can show.
MOST_POINTS = 60
REPORTED = ("step", "cpu_seconds", "loss", "newton_steps", "converged", "learning_rate")
VALIDATED = ("step", "error", "solved")


def history(events: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Numbers]]:
    """Curves of a run.

    Args:
        events: of its log.

    """
    return {
        "training": _columns([e for e in events if e["event"] == "step"], REPORTED),
        "validation": _columns([e for e in events if e["event"] == "validation"], VALIDATED),
    }


def _columns(events: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, Numbers]:
    kept = np.unique(np.linspace(0, len(events) - 1, MOST_POINTS).round().astype(int))
    chosen = [events[k] for k in kept] if len(events) > MOST_POINTS else list(events)
    return {name: [_short(event[name]) for event in chosen] for name in names}


def _short(value: float | int | None) -> float | int | None:
    """Four digits are more than a figure shows."""
    if value is None or not isfinite(value):
        return None
    return value if isinstance(value, int) else float(f"{value:.4g}")
