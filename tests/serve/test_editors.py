"""Shapes of the page become meshes with all that their problem asks for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from geonew.data.families import FAMILIES, family
from geonew.data.families.channel import SPEED, inflow_through
from geonew.errors import InputError, ShapeError, SolverError
from geonew.mesh.refine import refine
from geonew.model.sample import prepare
from geonew.problem import Dirichlet, Field, FrameRule, Neumann, Parameter, Problem, Term
from geonew.serve.controls import settled
from geonew.serve.editors import EDITORS, AnyEditor, editor_of
from geonew.serve.planar import ChannelEditor, PipeEditor
from geonew.serve.scene import ChannelGeometry, PlainGeometry, PolygonGeometry
from geonew.serve.situation import MOST_NODES, Situation, inflow_into
from serve_runs import drawn
from zoo import square_with_hole


@pytest.mark.parametrize("name", sorted(FAMILIES))
@pytest.mark.parametrize("outside", [False, True])
def test_every_family_has_shapes_that_its_problem_accepts(name, outside):
    problem, editor = family(name).problem, EDITORS[name]
    assert editor_of(problem) is editor
    draft = editor.draw(np.random.default_rng(3), outside)
    at = editor.situation(draft.geometry, draft.values)
    sample = prepare(
        at.mesh,
        problem,
        at.boundary,
        parameters=at.parameters,
        source=at.source,
        neumann=at.neumann,
    )
    assert set(at.mesh.groups) == set(problem.groups)
    assert np.isfinite(sample.tokens).all()
    assert at.truth is not None


def test_a_drawn_channel_is_the_familys_own():
    case = family("ns2d-c++").draw("train", np.random.default_rng(5))
    editor = EDITORS["ns2d-c++"]
    draft = editor.draw(np.random.default_rng(5), False)
    mine = editor.situation(draft.geometry, draft.values)
    record = family("ns2d-c++").solve(case, "coarse")
    np.testing.assert_array_equal(mine.mesh.points, record.mesh.points)
    truth = mine.solve()
    for name, values in record.fields.items():
        np.testing.assert_allclose(truth[name], values, atol=1e-9 * np.abs(values).max())


@pytest.mark.parametrize("swap", [0.0, 1.0])
def test_flow_enters_as_in_the_data(swap):
    editor = EDITORS["ns2d-re"]
    assert isinstance(editor, ChannelEditor)
    draft = editor.draw(np.random.default_rng(2), False)
    values = {"reynolds": 30.0, "skew": 0.3, "flatness": -0.2, "swap": swap}
    at = editor.situation(draft.geometry, values)
    assert isinstance(draft.geometry, ChannelGeometry)
    theirs = inflow_through(editor.shape(draft.geometry, values), 1.0, 0.3, -0.2)
    inlet = at.mesh.points[at.mesh.nodes_of("inlet")]
    mine = at.boundary["inlet"]["velocity"]
    assert callable(mine)
    np.testing.assert_allclose(np.asarray(mine(inlet)), theirs(inlet), atol=1e-12)
    assert np.sign(theirs(inlet)[:, 0].sum()) == (-1 if swap else 1)


def test_flow_enters_a_duct_as_in_the_data():
    at = drawn(EDITORS["duct-stokes"], 1)
    x = at.mesh.points[at.mesh.nodes_of("inlet")]
    mine = at.boundary["inlet"]["velocity"]
    assert callable(mine)
    profile = 16 * x[:, 1] * (1 - x[:, 1]) * x[:, 2] * (1 - x[:, 2])
    np.testing.assert_allclose(
        np.asarray(mine(x)), np.stack([profile, 0 * profile, 0 * profile], axis=1), atol=1e-12
    )


def test_shapes_that_overlap_or_bend_too_much_are_refused():
    obstacle = {"x": 0.5, "y": 0.5, "radius": 0.1}
    near = {"x": 0.55, "y": 0.5, "radius": 0.1}
    both = ChannelGeometry.model_validate({"kind": "channel", "obstacles": [obstacle, near]})
    with pytest.raises(ShapeError, match="overlap"):
        EDITORS["ns2d-c++"].situation(both, {})
    bent = {"b_1": 1.5, "b_2": -1.5, "b_3": 1.5}
    with pytest.raises(ShapeError, match="bends with a radius"):
        PipeEditor().situation(PlainGeometry(kind="plain"), bent)


def test_geometries_and_values_of_others_are_refused():
    triangle = PolygonGeometry(kind="polygon", corners=((0, 0), (0.3, 0), (0, 0.3)))
    with pytest.raises(InputError, match="not 'polygon'"):
        EDITORS["ns2d-c++"].situation(triangle, {})
    with pytest.raises(InputError, match="no value 'depth'"):
        settled(EDITORS["ns2d-c++"].controls, {"depth": 1.0})
    with pytest.raises(InputError, match="its range is 1 to 5"):
        settled(EDITORS["ns2d-c++"].controls, {"length": 9.0})


def test_an_inlet_without_a_direction_is_refused():
    mesh = square_with_hole().renamed({"hole": "inlet", "left": "outlet"})
    with pytest.raises(InputError, match="no direction"):
        inflow_into(mesh, SPEED)
    with pytest.raises(InputError, match="no group 'inlet'"):
        inflow_into(square_with_hole(), SPEED)


def test_a_problem_of_ones_own_gets_a_number_for_everything_prescribed():
    problem = Problem(
        name="mine",
        dim=2,
        fields=(Field("t"), Field("w", "vector")),
        groups=("left", "hole", "other"),
        dirichlet=(Dirichlet("t", "left"), Dirichlet("w", "hole")),
        neumann=(Neumann("t", "other"),),
        sources=("t",),
        parameters=(Parameter("k", reference=2.0),),
        terms=(Term("diffusion", ("t",)),),
        frame=(FrameRule("normal", "left"),),
    )
    editor = editor_of(problem)
    assert isinstance(editor, AnyEditor)
    names = [control.name for control in editor.controls]
    assert names == [
        "t on left", "w on hole, 1", "w on hole, 2", "source of t", "flux of t on other", "k",
    ]  # fmt: skip
    mesh = square_with_hole().renamed({"right": "other", "top": "other", "bottom": "other"})
    at = editor.on_mesh(mesh, {"w on hole, 2": 3.0, "t on left": 1.0, "k": 5.0})
    assert at.boundary == {"left": {"t": (1.0,)}, "hole": {"w": (0.0, 3.0)}}
    assert at.parameters == {"k": 5.0}
    assert at.neumann == {"other": {"t": (0.0,)}}
    with pytest.raises(SolverError, match="which no reference solver"):
        at.solve()
    with pytest.raises(InputError, match="upload a mesh"):
        editor.draw(np.random.default_rng(0), False)


def test_a_problem_of_ones_own_has_a_truth_where_its_equation_is_known():
    problem = Problem(
        name="heat",
        dim=2,
        fields=(Field("t"),),
        groups=("left", "right", "top", "bottom", "hole"),
        dirichlet=(Dirichlet("t", "left"), Dirichlet("t", "right")),
        terms=(Term("diffusion", ("t",)),),
    )
    mesh = square_with_hole()
    at = editor_of(problem).on_mesh(mesh, {"t on right": 2.0})
    t = at.solve()["t"]
    assert t[mesh.nodes_of("right")] == pytest.approx(2.0)
    assert 0 <= t.min() < t.max() <= 2
    with pytest.raises(InputError, match="no reference solver"):
        replace(at, truth=None).solve()


def test_a_problem_that_only_shares_its_name_is_not_taken_for_the_familys():
    other = Problem(
        name="poly-poisson",
        dim=2,
        fields=(Field("u"),),
        groups=("rim",),
        dirichlet=(Dirichlet("u", "rim"),),
        terms=(Term("diffusion", ("u",)),),
    )
    assert isinstance(editor_of(other), AnyEditor)


def test_truths_of_large_meshes_are_refused():
    mesh = refine(square_with_hole(), 3)
    assert mesh.n_nodes > MOST_NODES[2]
    with pytest.raises(InputError, match="solves up to"):
        Situation(mesh, {}, truth=dict).solve()
