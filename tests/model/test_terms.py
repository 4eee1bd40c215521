"""The plan of known terms: every block at its place, mirrored from one array."""

from __future__ import annotations

import numpy as np
import pytest

from geonew.fem.forms import assemble_form, known_form
from geonew.model.sample import prepare
from geonew.model.terms import (
    MASS,
    STIFFNESS,
    global_parameters,
    global_powers,
    gradient_positions,
    part_positions,
    term_matrices,
    term_plan,
)
from geonew.problem import FrameRule, Parameter, Term
from model.cases import CASES, SPEC, prepared
from problems import block, flow, poisson


def test_a_scalar_with_a_nodal_coefficient_has_a_matrix_of_its_own() -> None:
    plan = term_plan(poisson())
    (one,) = plan.blocks
    assert (one.test, one.trial, one.mirror) == (0, 0, 0)
    assert one.matrix == MASS + 1 + poisson().dim
    assert plan.sources == ((0, 0, 0),)
    assert plan.convected == ()


def test_diffusion_shares_the_stiffness_matrix_and_divergence_the_gradients() -> None:
    plan = term_plan(flow())
    by_term = {t: [b for b in plan.blocks if b.term == t] for t in range(3)}
    assert [(b.test, b.trial, b.matrix, b.mirror) for b in by_term[0]] == [
        (0, 0, STIFFNESS, 0),
        (1, 1, STIFFNESS, 0),
    ]
    assert [(b.test, b.trial, b.mirror) for b in by_term[1]] == [(2, 0, -1), (2, 1, -1)]
    assert [b.matrix for b in by_term[1]] == list(gradient_positions(2))
    assert [(b.test, b.trial, b.matrix, b.mirror) for b in by_term[2]] == [(2, 2, STIFFNESS, 0)]


def test_a_form_across_components_stores_one_triangle() -> None:
    plan = term_plan(block())
    strain = [(b.test, b.trial, b.mirror) for b in plan.blocks if b.term == 0]
    assert strain == [(0, 0, 0), (0, 1, 1), (0, 2, 1), (1, 1, 0), (1, 2, 1), (2, 2, 0)]
    assert len({b.matrix for b in plan.blocks}) == 12  # two terms of six blocks each


def test_a_mass_term_shares_the_mass_matrix() -> None:
    terms = (Term("diffusion", ("u",), 0.5), Term("mass", ("u",), 1.0))
    plan = term_plan(poisson(terms=terms))
    assert [b.matrix for b in plan.blocks] == [STIFFNESS, MASS]
    assert plan.sources == ()


def test_convection_is_not_a_bilinear_block() -> None:
    problem = flow(terms=(*flow().terms, Term("convection", ("velocity",))))
    plan = term_plan(problem)
    assert plan.convected == (3,)
    assert {b.term for b in plan.blocks} == {0, 1, 2}


def test_powers_name_global_scalars_by_position() -> None:
    parameters = (Parameter("kappa", "nodal"), Parameter("a"), Parameter("w", rank="vector"))
    terms = (Term("diffusion", ("u",), 1.0, {"kappa": 2.0, "b": -1.0, "a": 0.5}),)
    problem = poisson(
        parameters=(*parameters, Parameter("b")),
        terms=terms,
        frame=(FrameRule("normal", "left"),),
    )
    assert global_parameters(problem) == ["a", "b"]
    assert global_powers(problem, terms[0]) == {0: 0.5, 1: -1.0}


@pytest.mark.parametrize("name", list(CASES))
def test_matrices_rebuild_the_forms(name: str) -> None:
    """Blocks and mirrors together are the forms, to the last bit, symmetric or skew."""
    sample = prepared(name)
    problem = sample.problem
    plan, n, F = term_plan(problem), sample.n_nodes, problem.n_components
    placed = sample.frame.place(sample.mesh)
    for number, term in enumerate(problem.terms):
        form = known_form(term.form)
        built = np.zeros((F, n, F, n))
        for b in (b for b in plan.blocks if b.term == number):
            matrix = sample.matrices[b.matrix].toarray()
            built[b.test, :, b.trial] += matrix
            if b.mirror:
                built[b.trial, :, b.test] += b.mirror * matrix.T
        ranks = tuple(problem.field(f).rank for f in term.fields)
        first, last = problem.offset(term.fields[0]), problem.offset(term.fields[-1])
        wanted = np.zeros((F, n, F, n))
        for (a, b), matrix in assemble_form(form, ranks, placed).items():
            wanted[first + a, :, last + b] = matrix.toarray()
            if first != last:
                wanted[last + b, :, first + a] = -matrix.toarray().T
        scale = np.abs(wanted).max()
        assert np.abs(built - wanted).max() < 1e-13 * scale
        flat = built.reshape(F * n, F * n)
        sign = -1 if form.kind == "skew" else 1
        assert np.array_equal(flat, sign * flat.T) or np.abs(flat - sign * flat.T).max() < (
            1e-15 * scale
        )
        if first != last:  # a pair is skew to the last bit
            assert np.array_equal(flat, -flat.T)


def test_nodal_parameters_weight_the_form() -> None:
    problem = poisson(
        parameters=(Parameter("kappa", "nodal", reference=2.0),),
        terms=(Term("diffusion", ("u",), 0.5, {"kappa": -2.0}),),
    )
    case = CASES["poisson"]()
    kappa = 1.0 + case.mesh.points[:, 0]
    data = {"left": {"u": 0.0}, "bottom": {"u": 0.0}}
    sample = prepare(
        case.mesh, problem, data, spec=SPEC, parameters={"kappa": kappa}, source={"u": 0.0}
    )
    placed = sample.frame.place(sample.mesh)
    wanted = assemble_form(known_form("diffusion"), ("scalar",), placed, (kappa / 2) ** -2.0)
    difference = sample.matrices[MASS + 3] - wanted[0, 0]
    assert abs(difference).max() < 1e-14 * abs(wanted[0, 0]).max()
    assert len(sample.matrices) == MASS + 4


def test_matrices_follow_the_plan() -> None:
    from geonew.fem import assemble

    problem = flow(terms=(*flow().terms, Term("convection", ("velocity",))))
    operators = assemble(CASES["poisson"]().mesh)
    matrices = term_matrices(problem, operators, {})
    plan = term_plan(problem)
    assert len(matrices) == MASS + 1 + len(plan.sources) + problem.dim
    for position, gradient in zip(gradient_positions(2), operators.gradient, strict=True):
        assert matrices[position] is gradient


@pytest.mark.parametrize("name", list(CASES))
def test_parts_of_the_stiffness_are_found_by_negative_positions(name: str) -> None:
    sample = prepared(name)
    positions = part_positions(sample.problem.dim)
    assert max(positions.values()) < 0
    total = sum(sample.matrix(at) for (j, k), at in positions.items() if j == k)
    stiffness = sample.matrix(STIFFNESS)
    assert abs(total - stiffness).max() <= 1e-12 * abs(stiffness).max()
