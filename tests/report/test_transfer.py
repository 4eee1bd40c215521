"""Tables of what lies off the training data, from results as cells write them."""

from __future__ import annotations

from typing import Any

import pytest

from geonew.bench.campaign import campaign, rate_cells
from geonew.bench.place import Place
from geonew.report.report import Report
from geonew.report.results import Results, entry_of
from geonew.report.studies import rates
from geonew.report.table import FAILED, NOT_ASKED, NOT_FINITE, NOT_RUN, Entry
from geonew.report.transfer import angles, refinement


def figures(mean: float | None, count: int = 2) -> dict[str, Any]:
    return {"combined": {"relative": {"mean": mean, "count": count}}}


def level(mean: float | None, nodes: float = 100.0) -> dict[str, Any]:
    return {"nodes": nodes, "error": figures(mean)}


@pytest.fixture
def results(tmp_path):
    def made(documents: dict[str, dict[str, Any]]) -> Results:
        place = Place(campaign("smoke"), tmp_path, tmp_path)
        found = {
            name: {"model": place.campaign[name].row, "error": {}, **document}
            for name, document in documents.items()
        }
        return Results(place, found)

    return made


def shown(table) -> dict[str, list[str]]:
    return {line.label: row for line, row in zip(table.lines, table.texts(), strict=True)}


def test_a_transfer_that_cannot_be_is_not_one_that_was_not_run(results):
    ours = {"coarse": level(0.1), "fine": level(0.2), "coarse to fine": level(0.3)}
    direct = {"coarse": level(0.4), "fine": level(None)}
    found = results(
        {"refine/known+learned": {"refinement": ours}, "refine/linear": {"refinement": direct}}
    )
    table = shown(refinement(found))
    assert table["Geo-NeW, known + learned"] == ["10", "20", "30"]
    assert table["Linear attention"] == ["40", NOT_FINITE, NOT_ASKED]


def test_a_failed_prediction_at_an_angle_is_not_one_that_was_not_run(results):
    def sweep(**by_angle) -> dict[str, Any]:
        return {"by_axis": {"angles": {"angle": by_angle}}}

    ours = sweep(**{"0": figures(0.1), "30": figures(0.2)})
    direct = sweep(**{"0": figures(None)})
    found = results({"sweep/known+learned": ours, "sweep/transolver": direct})
    table = shown(angles(found))
    assert table["Geo-NeW, known + learned"] == ["10", "20"]
    assert table["Transolver"] == [NOT_FINITE, NOT_RUN]


def test_a_rate_at_which_training_failed_is_shown_as_failed(results):
    errors = ({"combined": 0.1}, {}, {"combined": 0.2})
    found = results(
        {
            name: {"learning_rate": float(name.rsplit("/", 1)[1]), "validation": error}
            for name, error in zip(rate_cells("gnot"), errors, strict=True)
        }
    )
    assert shown(rates(found))["GNOT"] == ["10", NOT_FINITE, "20"]


def test_figures_without_samples_are_no_failure():
    assert entry_of({"mean": None, "count": 0}) == Entry()
    assert entry_of({"mean": None, "count": 1}) == FAILED
    assert entry_of(None) == Entry()


def test_the_lead_says_what_is_not_the_same(results):
    _, _, text, *_ = Report(results({}), (), (), ()).lead()
    for words in ("weight decay", "0.03", "configs/cpu", "NS2d-c++", "Pipe", "grids", "a frame"):
        assert words in text
