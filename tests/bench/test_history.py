"""The course of a training: thinned, rounded, without anything that JSON does not have."""

from __future__ import annotations

import json
from math import inf, nan

from geonew.bench.history import MOST_POINTS, REPORTED, history


def step(number: int, **changes: float) -> dict:
    return {"event": "step", **dict.fromkeys(REPORTED, 0.123456), "step": number, **changes}


def test_first_and_last_are_kept_and_numbers_are_short():
    found = history([step(k) for k in range(1, 1001)])["training"]
    assert len(found["step"]) == MOST_POINTS
    assert (found["step"][0], found["step"][-1]) == (1, 1000)
    assert found["loss"][0] == 0.1235


def test_what_is_not_finite_is_none():
    checked = [
        {"event": "validation", "step": k, "error": error, "solved": 1.0}
        for k, error in enumerate((inf, nan, None, 0.5))
    ]
    found = history([step(1, loss=inf), *checked])
    assert found["validation"]["error"] == [None, None, None, 0.5]
    assert found["training"]["loss"] == [None]
    json.dumps(found, allow_nan=False)
