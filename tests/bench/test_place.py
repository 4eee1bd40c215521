"""How far each cell is, and what a damaged result does: it waits for its cure, alone."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from geonew.bench.campaign import CAVITY, Campaign
from geonew.bench.cell import Cell
from geonew.bench.place import Place
from geonew.bench.runner import run_cells
from geonew.errors import DataError
from geonew.report.results import read_results


def trained(name: str, row: str = "linear", **more) -> Cell:
    """A cell of a family that needs no data of the suite."""
    return Cell(name, "train", CAVITY, row, 0, 1.0, rate=1e-3, **more)


FIRST = trained("main/first")
AFTER = trained("main/after", needs=(FIRST.name,))
OTHER = trained("main/other", "gnot")
LONGEST = trained("longest/linear", chosen=1, among=(FIRST.name, OTHER.name))
# What computes a cell here: a program that writes its result.
WRITES = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_text(sys.argv[2])"


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("GEONEW_HOME", str(tmp_path / "home"))
    (tmp_path / "results" / "main").mkdir(parents=True)
    return Place(Campaign("tiny", (FIRST, AFTER, OTHER, LONGEST)), tmp_path / "results", tmp_path)


def sound(cell: Cell, error: float = 0.1) -> str:
    plain = {"name": cell.name, "model": cell.row, "family": cell.family, "error": {}}
    return json.dumps({**plain, "validation": {"combined": error}})


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", "\udcff", sound(OTHER), '{"name": "main/first"}', sound(FIRST)[:-9]]
)
def test_a_damaged_result_is_said_to_be(place, text):
    place.result(FIRST).write_text(text, encoding="utf-8", errors="surrogateescape")
    assert place.state(FIRST) == "damaged"
    assert place.result(FIRST).name in place.damage(FIRST)
    assert not place.is_done(FIRST)
    assert place.state(AFTER) == "waiting"
    assert place.waits_for(AFTER) == [FIRST.name]
    with pytest.raises(DataError, match="delete it and run the cell again"):
        place.read(FIRST)
    place.result(FIRST).write_text(sound(FIRST))
    assert place.damage(FIRST) == ""
    assert (place.state(FIRST), place.state(AFTER)) == ("done", "open")
    place.result(FIRST).unlink()
    assert place.state(FIRST) == "open"


def test_the_campaign_goes_on_without_a_damaged_result(place):
    place.result(FIRST).write_text("{")
    started: list[str] = []

    def command(place: Place, cell: Cell) -> list[str]:
        started.append(cell.name)
        return [sys.executable, "-c", WRITES, str(place.result(cell)), sound(cell)]

    summary = run_cells(place, place.campaign.cells, 1, lambda *_: None, command)
    assert summary.done == started == [OTHER.name]
    assert summary.failed == {}
    assert place.result(FIRST).read_text() == "{", "it is not overwritten"


def test_a_damaged_result_that_decides_others_is_listed(place):
    """A cell that is wanted for the best rows alone needs all results that choose them."""
    place.result(FIRST).write_text("{")
    place.result(OTHER).write_text(sound(OTHER))
    results = read_results(place)
    assert list(results.found) == [OTHER.name]
    assert [Path(text.split(":")[0]).name for text in results.damaged] == ["first.json"]
    assert LONGEST in results.missing()
