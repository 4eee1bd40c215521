"""Every mistake in a declaration or in data is named, with or without a type checker."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import mistakes

TABLES = {
    "ProblemError": mistakes.PROBLEM,
    "BoundaryDataError": mistakes.DATA,
    "InputError": mistakes.INPUT,
}


@cache
def outcomes() -> dict[str, list[list[str]]]:
    """What each mistake leads to in an interpreter that does not enforce annotations."""
    script = Path(mistakes.__file__)
    run = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.parametrize(
    ("kind", "number"), [(kind, n) for kind, table in TABLES.items() for n in range(len(table))]
)
def test_mistakes(kind: str, number: int) -> None:
    found, text = outcomes()[kind][number]
    assert (found, TABLES[kind][number][1] in text) == (kind, True), text


@pytest.mark.parametrize("number", range(len(mistakes.FINE)))
def test_tolerance(number: int) -> None:
    """Lists for tuples, whole numbers and numpy's for floats."""
    found, text = outcomes()["fine"][number]
    assert found == "fine", text
