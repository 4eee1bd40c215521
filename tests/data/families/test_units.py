"""Units: every family states them for all that it stores and draws; its card and files say so."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from geonew.cli import main
from geonew.data.card import in_units
from geonew.data.columns import content_digest
from geonew.data.families import FAMILIES, family
from geonew.data.generate import generate
from geonew.data.header import Header
from geonew.data.request import Request
from geonew.data.store import DataSet
from square_family import Square

CARDS = Path(__file__).resolve().parents[3] / "docs" / "data"
# Stored beside the fields of the problem.
COMPANIONS = {"naca": ("density", "velocity", "pressure")}


@pytest.mark.parametrize("name", FAMILIES)
def test_everything_stored_and_drawn_has_a_unit(name):
    made = family(name)
    problem, header = made.problem, Header(name, "train", made.problem, made.units)
    wanted = {"length", *COMPANIONS.get(name, ())}
    for part in (problem.fields, problem.derived, problem.parameters):
        wanted |= {item.name for item in part}
    wanted |= {"source"} if problem.sources else set()
    wanted |= {"traction"} if problem.neumann else set()
    for split in ("train", "ood"):
        case = made.draw(split, np.random.default_rng(3))
        wanted |= {*case.parameters, *case.axes}
    assert {what: header.unit(what) for what in wanted if not header.unit(what)} == {}
    assert header.unit("colour") == ""


@pytest.mark.parametrize("name", FAMILIES)
def test_cards_state_the_units(name):
    text = (CARDS / f"{name.replace('++', 'pp')}.md").read_text(encoding="utf-8")
    assert f"\n{in_units(family(name).units)}\n" in text.split("## Units")[1].split("##")[0]


def test_air_is_in_si_and_the_rest_is_dimensionless():
    for name in ("ns2d-c", "ns2d-c++"):
        units = family(name).units
        assert [units[k] for k in ("length", "velocity", "pressure")] == ["m", "m/s", "Pa"]
        assert (units["radius_k"], units["angle_k"]) == ("m", "rad")
    others = set(FAMILIES) - {"ns2d-c", "ns2d-c++"}
    for name in others:
        assert {u for n, u in family(name).units.items() if "angle" not in n} == {"1"}


def test_files_carry_and_show_the_units(tmp_path, capsys):
    path = tmp_path / "train.h5"
    made = family("ns2d-c")
    generate(made, Request(made.name, "train", 1, 0), path)
    with DataSet(path) as dataset:
        assert dict(dataset.header.units) == dict(made.units)
        stated = in_units(dataset.header.units)
    assert main(["data", "info", str(path)]) == 0
    shown = capsys.readouterr().out
    assert stated in shown
    assert "Pa: pressure" in stated
    radius = next(line for line in shown.splitlines() if line.split()[:1] == ["radius_0"])
    assert " m;" in radius or radius.endswith(" m")


@dataclass(frozen=True)
class Unitless(Square):
    """A family that does not say its units, as all did once."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "units", {})


def test_files_without_units_get_them_when_they_are_continued(tmp_path):
    path, whole = tmp_path / "d.h5", tmp_path / "whole.h5"
    request = Request("square", "train", 5, 7)
    generate(Unitless(), request.of(3), path)
    with DataSet(path) as old:
        assert old.header.units == {}
        before = old.header
    generate(Square(), request.of(3), path)  # nothing left to compute
    with DataSet(path) as dataset:
        assert dict(dataset.header.units) == dict(Square().units)
        assert dataset.header.versions == before.versions
        assert dataset.header.origin == before.origin
    generate(Square(), request, path)
    generate(Square(), request, whole)
    digests = []
    for file in (path, whole):
        with DataSet(file) as dataset:
            digests.append([content_digest(dataset.columns(k)) for k in range(len(dataset))])
    assert len(digests[0]) == 5
    assert digests[0] == digests[1]
