"""Training a model further: what must agree, what may differ and is said, which scales are kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from geonew.errors import CheckpointError
from geonew.problem import Dirichlet, Field, FrameRule, Neumann, Parameter, Problem, Term
from geonew.train.compatibility import check_start, with_scales_of

START = Problem(
    name="plates",
    dim=2,
    fields=(Field("shift", "vector", reference=2.0),),
    groups=("held", "pulled", "free"),
    dirichlet=(Dirichlet("shift", "held"),),
    neumann=(Neumann("shift", "pulled"),),
    sources=("shift",),
    parameters=(Parameter("stiffness", reference=5.0),),
    terms=(Term("diffusion", ("shift",), 3.0, {"stiffness": 1.0}),),
    frame=(FrameRule("normal", "held"),),
    reference_length=0.1,
    energy=7.0,
)


def with_term(**changes: Any) -> dict[str, Any]:
    return {"terms": (replace(START.terms[0], **changes),)}


def test_the_same_problem_needs_no_word():
    assert check_start(START, replace(START, name="others", optional_groups=("free",))) == ()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"sources": ()}, r"sources are \['shift'\] there and \[\] here"),
        ({"neumann": ()}, r"Neumann conditions are \['shift on pulled'\] there and \[\] here"),
        ({"neumann": (Neumann("shift", "free"),)}, "shift on free"),
        (with_term(powers={"stiffness": -1.0}), "powers of parameters are .*-1.0"),
        (with_term(powers={}), "powers of parameters are"),
        ({"frame": (FrameRule("normal", "pulled"),)}, "rules of the frame are .*normal pulled"),
        ({"dirichlet": (Dirichlet("shift", "free"),)}, "Dirichlet conditions are"),
        (with_term(form="mass"), "known terms are"),
        ({"parameters": (Parameter("stiffness", "nodal"),)}, "parameters are"),
    ],
)
def test_inputs_that_mean_something_else_are_refused_by_name(changes: dict[str, Any], named: str):
    with pytest.raises(CheckpointError, match=named) as caught:
        check_start(START, replace(START, **changes))
    assert "without --init" in caught.value.cure


@pytest.mark.parametrize(
    ("changes", "noted"),
    [
        (with_term(coefficient=4.0), "the coefficient of term 1, diffusion of shift, is 4 in the"),
        ({"reference_length": 0.2}, "the reference length is 0.2 in the data, 0.1 in the given"),
        ({"energy": None}, "the energy is None in the data, 7.0"),
        ({"parameters": (Parameter("stiffness", reference=6.0),)}, "parameter 'stiffness' is 6.0"),
    ],
)
def test_materials_and_scales_may_differ_and_are_noted(changes: dict[str, Any], noted: str):
    problem = replace(START, **changes)
    (note,) = check_start(START, problem)
    assert noted in note
    kept = with_scales_of(START, problem)
    assert kept == replace(START, terms=problem.terms)


def test_reference_values_of_fields_are_kept_without_a_word():
    problem = START.with_references({"shift": 9.0})
    assert check_start(START, problem) == ()
    assert with_scales_of(START, problem) == START
