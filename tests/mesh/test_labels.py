"""Rules that name boundary facets, components of the boundary, and their command-line form."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from geonew.errors import GroupError
from geonew.mesh import (
    BoundaryComponent,
    Box,
    Mesh,
    NearCurve,
    NormalDirection,
    Rest,
    boundary_components,
    label,
)
from geonew.mesh.labels import parse_rule, parse_rules
from zoo import ZOO, hollow_cube, plate, square, square_with_holes

INF = float("inf")


def bare(mesh: Mesh) -> Mesh:
    return mesh.with_groups({})


def test_rules_find_the_sides_of_a_square():
    rules = {
        "left": Box((0.0, 0.0), (0.0, 1.0)),
        "right": NormalDirection((1.0, 0.0)),
        "bottom": NearCurve(((0.0, 0.0), (1.0, 0.0)), 1e-6),
        "top": Rest(),
    }
    mesh = label(bare(square()), rules)
    assert mesh.digest == square().digest
    assert not mesh.notes


def test_rules_find_the_faces_of_a_cube():
    rules = {
        "cavity": BoundaryComponent(1),  # first: its walls look to all sides too
        "left": Box((-INF, -INF, -INF), (0, INF, INF)),
        "right": NormalDirection((2.0, 0.0, 0.0), 10),
        "rest": Rest(),
    }
    mesh, want = label(bare(hollow_cube()), rules), hollow_cube()
    for name in ("left", "right", "cavity"):
        np.testing.assert_array_equal(mesh.groups[name], want.groups[name])
    assert len(mesh.groups["rest"]) == 4 * 18


def test_the_first_rule_wins_and_takes_from_old_groups():
    mesh = square()
    new = label(mesh, {"inlet": Box((0, 0), (0, 0.5)), "left side": NormalDirection((-1, 0))})
    assert len(new.groups["inlet"]) == 4
    assert len(new.groups["left side"]) == 4
    assert "left" not in new.groups
    assert "rules took all 8 facets of group 'left'" in new.notes


def test_rest_leaves_groups_alone_wherever_it_stands():
    some = square().with_groups({"left": square().groups["left"]})
    new = label(some, {"wall": Rest(), "top": NormalDirection((0, 1))})
    assert {name: len(f) for name, f in new.groups.items()} == {"left": 8, "wall": 16, "top": 8}


def test_unlabelled_facets_are_counted():
    mesh = label(bare(square()), {"top": NormalDirection((0, 1))})
    assert mesh.notes == ("24 of 32 boundary facets have no group",)
    assert not label(mesh, {"wall": Rest()}).notes


def test_near_a_circle():
    angle = np.linspace(0, 2 * np.pi, 40)
    circle = 0.5 + 0.2 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    curve = tuple(tuple(p) for p in circle.tolist())
    mesh = label(bare(plate()), {"hole": NearCurve(curve, 0.01)})
    np.testing.assert_array_equal(mesh.groups["hole"], plate().groups["hole"])


COMPONENTS = {"square_with_hole": 2, "square_with_holes": 5, "plate": 2, "slit": 2, "annulus": 2}
COMPONENTS |= {"hollow_cube": 2}


@pytest.mark.parametrize("name", ZOO)
def test_components_partition_the_boundary(name):
    mesh = ZOO[name]()
    parts = boundary_components(mesh)
    assert len(parts) == COMPONENTS.get(name, 1)
    every = np.concatenate([part.facets for part in parts])
    np.testing.assert_array_equal(np.sort(every), np.arange(len(mesh.boundary_facets)))
    np.testing.assert_allclose(parts[0].lower, mesh.points.min(axis=0))
    np.testing.assert_allclose(parts[0].upper, mesh.points.max(axis=0))
    total = np.linalg.norm(mesh.boundary_normals, axis=1).sum()
    assert sum(part.measure for part in parts) == pytest.approx(total)
    for part in parts:  # each component is closed by itself
        flux = mesh.boundary_normals[part.facets].sum(axis=0)
        assert np.abs(flux).max() < 1e-14 * total


@given(st.integers(0, 2**32 - 1))
def test_numbers_of_components_do_not_depend_on_the_numbering(seed):
    mesh = square_with_holes()
    order = np.random.default_rng(seed).permutation(mesh.n_nodes)
    points = np.empty_like(mesh.points)
    points[order] = mesh.points
    other = Mesh(points, order[mesh.cells])
    for a, b in zip(boundary_components(mesh), boundary_components(other), strict=True):
        np.testing.assert_array_equal(a.lower, b.lower)
        np.testing.assert_array_equal(a.upper, b.upper)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (Box((5, 5), (6, 6)), r"'x' \(Box.*selects no boundary facet\n"),
        (Box((0, 0, 0), (1, 1, 1)), "the box has 3 coordinates, but the mesh is 2D"),
        (NormalDirection((1, 1), 5), "selects no boundary facet"),
        (BoundaryComponent(3), r"no component 3(.|\n)*component 0: \[0, 1\] x \[0, 1\], length 4"),
        (NearCurve(((0.0, 0.0),), 1e-3), "selects no"),
    ],
)
def test_rules_that_select_nothing_are_errors(rule, message):
    with pytest.raises(GroupError, match=message):
        label(bare(square()), {"x": rule})


def test_a_rest_of_nothing_is_an_error():
    with pytest.raises(GroupError, match="selects no boundary facet that is still free"):
        label(square(), {"wall": Rest()})


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("inlet=box:0,0:0,1", Box((0.0, 0.0), (0.0, 1.0))),
        ("a=box:-inf,0,0:inf,1,1", Box((-INF, 0.0, 0.0), (INF, 1.0, 1.0))),
        ("top=normal:0,1", NormalDirection((0.0, 1.0))),
        ("top = Normal:0,1:5", NormalDirection((0.0, 1.0), 5.0)),
        ("w=near:0.1:0,0:1,0", NearCurve(((0.0, 0.0), (1.0, 0.0)), 0.1)),
        ("outer=component:0", BoundaryComponent(0)),
        ("wall=rest", Rest()),
    ],
)
def test_rules_from_text(text, rule):
    assert parse_rule(text) == (text.partition("=")[0].strip(), rule)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("box:0,0:1,1", "has no name"),
        ("=rest", "has no name"),
        ("a=sphere:1", "'a=sphere:1' is not understood"),
        ("a=box:0,0", "not understood"),
        ("a=rest:1", "not understood"),
        ("a=box:0,zero:1,1", "no number: could not convert string to float: 'zero'"),
        ("a=component:one", "no number"),
        ("a=box:1,1:0,0", "is empty"),
        ("a=box:0,0:1,1,1", "have 2 and 3 coordinates"),
        ("a=box:0:1", "not a point or direction"),
        ("a=box:nan,0:1,1", "not a point or direction"),
        ("a=normal:0,0", "direction is zero"),
        ("a=normal:0,1:270", "not in"),
        ("a=near:-1:0,0", "not positive"),
        ("a=near:1:0,0:1,0,0", "differ in dimension"),
    ],
)
def test_wrong_text_says_what_is_wrong(text, message):
    with pytest.raises(GroupError, match=message):
        parse_rule(text)


def test_names_are_given_once():
    with pytest.raises(GroupError, match="'a' is given twice"):
        parse_rules(["a=rest", "a=component:0"])
