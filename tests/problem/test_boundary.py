"""Boundary data: one owner per node and component, three kinds of values, exact normal loads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy import ndarray
from scipy.spatial.transform import Rotation

from geonew.errors import BoundaryDataError, GroupError
from geonew.fem.loads import node_normals
from geonew.mesh import Mesh
from geonew.problem import (
    BoundaryValues,
    Dirichlet,
    Field,
    FrameRule,
    Neumann,
    Problem,
    check_groups,
    neumann_loads,
    resolve,
    resolve_neumann,
)
from problems import SIDES, block, flow, poisson
from zoo import ZOO

SQUARE, CUBE = ZOO["square"](), ZOO["cube"]()
WALLS = {"bottom": {"velocity": (0.0, 0.0)}, "top": {"velocity": (0.0, 0.0)}}
TURN = Rotation.from_rotvec([0.3, -0.5, 0.9]).as_matrix()


def turn2(angle: float) -> ndarray:
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def profile(x: ndarray) -> ndarray:
    return np.stack([x[:, 1] * (1 - x[:, 1]), 0 * x[:, 1]], axis=1)


# -- Dirichlet -----------------------------------------------------------------------------------


def test_every_node_has_one_owner_by_priority() -> None:
    values = resolve(poisson(), SQUARE, {"left": {"u": 1.0}, "bottom": {"u": 2.0}})
    left, bottom = SQUARE.nodes_of("left"), SQUARE.nodes_of("bottom")
    corner = np.intersect1d(left, bottom)
    assert (values.owner[left, 0] == 0).all()
    assert (values.owner[np.setdiff1d(bottom, corner), 0] == SIDES.index("bottom")).all()
    assert values.fixed.sum() == len(np.union1d(left, bottom))
    assert (values.value[left] == 1.0).all()
    assert not values.value[~values.fixed].any()
    (conflict,) = values.conflicts
    assert "u: 1 nodes of 'bottom' have another value" in conflict
    assert f"node {corner[0]}: 1 from 'left', not 2" in conflict
    other = poisson(groups=("bottom", "top", "left", "right"))
    again = resolve(other, SQUARE, {"left": {"u": 1.0}, "bottom": {"u": 2.0}})
    assert again.value[corner[0], 0] == 2.0


def test_equal_values_are_no_conflict() -> None:
    data = {"left": {"velocity": profile}, **WALLS}
    assert resolve(flow(), SQUARE, data).conflicts == ()
    tiny = {**data, "bottom": {"velocity": (1e-7, 0.0)}}  # far below the reference value 2
    assert resolve(flow(), SQUARE, tiny).conflicts == ()


@pytest.mark.parametrize("kind", ["function", "group", "all", "rows"])
def test_constants_arrays_and_functions_agree(kind: str) -> None:
    nodes = SQUARE.nodes_of("left")
    everywhere = profile(SQUARE.points)
    given_as = {
        "function": profile,
        "group": everywhere[nodes],
        "all": everywhere,
        "rows": everywhere[nodes].tolist(),
    }
    values = resolve(flow(), SQUARE, {"left": {"velocity": given_as[kind]}, **WALLS})
    np.testing.assert_array_equal(values.value[nodes, :2], everywhere[nodes])


@pytest.mark.parametrize("value", [4.0, 4, [4.0], np.array(4.0), lambda x: 4.0, lambda x: [4.0]])
def test_forms_of_a_constant(value) -> None:
    values = resolve(poisson(), SQUARE, {"left": {"u": value}, "bottom": {"u": value}})
    assert (values.value[values.fixed] == 4.0).all()
    assert values.conflicts == ()


def test_on_a_group_of_as_many_nodes_as_components_a_pair_is_a_vector() -> None:
    mesh = ZOO["two_triangles"]()  # every side has two nodes
    data = {"left": {"velocity": (1.0, 2.0)}, **WALLS}
    value = resolve(flow(), mesh, data).value[mesh.nodes_of("left"), :2]
    assert value.tolist() == [[1.0, 2.0], [1.0, 2.0]]


@given(st.floats(-3, 3))
def test_vectors_turn_into_the_frame(angle: float) -> None:
    turn = turn2(angle)
    nodes = SQUARE.nodes_of("left")
    data = {"left": {"velocity": (0.6, -0.8)}, **WALLS}
    values = resolve(flow(), SQUARE, data, turn)
    expected = np.tile(turn @ [0.6, -0.8], (len(nodes), 1))
    np.testing.assert_allclose(values.value[nodes, :2], expected, atol=1e-15)


def test_values_along_axes_of_the_frame_do_not_turn() -> None:
    data = {"left": {"displacement": (0.1, 0.2, 0.3)}, "bottom": {"displacement": 0.3}}
    values = resolve(block(), CUBE, data, TURN)
    bottom = np.setdiff1d(CUBE.nodes_of("bottom"), CUBE.nodes_of("left"))
    assert (values.value[bottom, 2] == 0.3).all()
    assert (values.owner[bottom] == [-1, -1, 4]).all()


WRONG = [
    ({"right": {"u": 0.0}}, r"boundary values for \(group, field\) \[\('right', 'u'\)\], which"),
    (
        {"left": {"u": 0.0, "w": 0.0}},
        r"boundary values for .*\[\('left', 'w'\)\], which",
    ),
    ({"left": {"u": np.nan}}, r"field 'u' on group 'left' are not finite: 1 of 1 numbers"),
    ({"left": {"u": [0.0] * 4}}, r"have shape \(4,\)\n.*an array \(9, 1\) on the 9 nodes or \(81"),
    ({"left": {"u": np.zeros((9, 2))}}, r"have shape \(9, 2\)"),
    ({"left": {"u": [[1.0], [2.0, 3.0]]}}, "have rows of different length"),
    ({"left": {"u": lambda x: 1 / 0}}, r"failed: ZeroDivisionError: .*\n.*of shape \(9, 2\)"),
    ({"left": {"u": lambda x: "x"}}, "are not numbers but <U1"),
    ({"left": {"u": lambda x: np.log(-1 - x[:, 0] * 0)}}, "failed: RuntimeWarning"),
]


@pytest.mark.parametrize(("data", "message"), WRONG)
def test_wrong_data(data: dict, message: str) -> None:
    with pytest.raises(BoundaryDataError, match=message):
        resolve(poisson(), SQUARE, {"left": {"u": 0.0}, "bottom": {"u": 0.0}, **data})


def test_missing_data() -> None:
    with pytest.raises(BoundaryDataError, match=r"missing .*'bottom', 'u'\), \('left', 'u'\)\]"):
        resolve(poisson(), SQUARE, {})
    with pytest.raises(BoundaryDataError, match=r"missing for .* \[\('bottom', 'u'\)\]"):
        resolve(poisson(), SQUARE, {"left": {"u": 0.0}})


def test_non_finite_values_are_located() -> None:
    values = np.zeros(SQUARE.n_nodes)
    node = int(SQUARE.nodes_of("left")[3])
    values[node] = np.inf
    with pytest.raises(BoundaryDataError, match=rf"first at node {node}, x = \[0\.0, 0\.375\]"):
        resolve(poisson(), SQUARE, {"left": {"u": values}, "bottom": {"u": 0.0}})
    on_group = values[SQUARE.nodes_of("left")]
    with pytest.raises(BoundaryDataError, match=rf"1 of 9 numbers, first at node {node}"):
        resolve(poisson(), SQUARE, {"left": {"u": on_group}, "bottom": {"u": 0.0}})


def test_a_vector_needs_all_its_components() -> None:
    data = {"left": {"velocity": 1.0}, **WALLS}
    with pytest.raises(BoundaryDataError, match=r"are one number, 1, for 2 comp.*\n.*\[1\.0, 0\.0"):
        resolve(flow(), SQUARE, data)


def test_resolved_values_are_finite() -> None:
    with pytest.raises(BoundaryDataError, match="are not finite"):
        BoundaryValues(np.zeros((2, 1), dtype=int), np.array([[0.0], [np.nan]]))


# -- groups --------------------------------------------------------------------------------------


def test_groups_must_match() -> None:
    check_groups(poisson(), SQUARE)
    with pytest.raises(GroupError, match="'poisson' is 2D, the mesh is 3D"):
        check_groups(poisson(), CUBE)
    with pytest.raises(GroupError, match=r"missing \['left'\], unknown \['inlet'\]"):
        check_groups(poisson(), SQUARE.renamed({"left": "inlet"}))
    fewer = {name: facets for name, facets in SQUARE.groups.items() if name != "top"}
    bare = SQUARE.with_groups(fewer)
    with pytest.raises(GroupError, match="8 of 32 boundary facets belong to no group"):
        check_groups(poisson(optional_groups=("top",)), bare)


def test_optional_groups_may_be_absent_but_not_all_that_fix_a_field() -> None:
    joined = SQUARE.renamed({"bottom": "left"})
    some = poisson(optional_groups=("bottom",))
    values = resolve(some, joined, {"left": {"u": 1.0}})
    assert values.fixed.sum() == len(joined.nodes_of("left"))
    with pytest.raises(BoundaryDataError, match="does not prescribe on this mesh"):
        resolve(some, joined, {"left": {"u": 1.0}, "bottom": {"u": 1.0}})
    none = SQUARE.renamed({"bottom": "right", "left": "right"})
    with pytest.raises(GroupError, match=r"none of the groups \['left', 'bottom'\] on which .*'u'"):
        check_groups(poisson(optional_groups=("bottom", "left")), none)


# -- Neumann -------------------------------------------------------------------------------------


def pressed(mesh: Mesh) -> Problem:
    """A vector field with a traction allowed on every group but the first."""
    groups = tuple(mesh.groups)
    return Problem(
        "pressed",
        mesh.dim,
        (Field("p", level="reaction"), Field("u", "vector")),
        groups,
        (Dirichlet("u", groups[0]),),
        (Neumann("p", groups[0]), *(Neumann("u", group) for group in groups[1:])),
        frame=(FrameRule("normal", groups[0]),),
    )


def test_outlet_pressure_is_a_traction_along_the_normal() -> None:
    load = neumann_loads(flow(), SQUARE, {"right": {"velocity": -3.0}})
    assert load.sum(axis=0) == pytest.approx([-3.0, 0.0, 0.0], abs=1e-14)
    nodal = resolve_neumann(flow(), SQUARE, {"right": {"velocity": -3.0}})["right"]
    right = SQUARE.nodes_of("right")
    assert np.array_equal(nodal[right], np.tile([-3.0, 0.0, 0.0], (9, 1)))
    assert not np.delete(nodal, right, axis=0).any()
    as_vector = neumann_loads(flow(), SQUARE, {"right": {"velocity": (-3.0, 0.0)}})
    np.testing.assert_allclose(load, as_vector, atol=1e-16)


@pytest.mark.parametrize("name", ["plate", "annulus", "slit", "hollow_cube", "ball", "torus_block"])
def test_pressure_is_equivariant_and_exact(name: str) -> None:
    """Pressure 1 on all but one group presses as that group's normals do, in any frame."""
    mesh = ZOO[name]()
    problem = pressed(mesh)
    first, *rest = mesh.groups
    turn = turn2(0.7) if mesh.dim == 2 else TURN
    data = {group: {"u": 1.0} for group in rest}
    load = neumann_loads(problem, mesh, data, turn)
    total = load[:, 1:].sum(axis=0) @ turn  # back in the user's axes
    index = list(mesh.groups).index(first)
    closing = -mesh.boundary_normals[mesh.group_index == index].sum(axis=0)
    np.testing.assert_allclose(total, closing, atol=1e-13 * mesh.volume + 1e-13)
    moved = mesh.moved(turn, np.zeros(mesh.dim))
    np.testing.assert_allclose(load, neumann_loads(problem, moved, data), atol=1e-13)


def test_ways_to_give_a_normal_value() -> None:
    mesh = ZOO["plate"]()
    problem = pressed(mesh)
    nodes = mesh.nodes_of("hole")
    value = 1 + mesh.points[:, 0] ** 2
    wanted = neumann_loads(problem, mesh, {"hole": {"u": value}})
    for given_as in (
        value[nodes],
        value[:, None],
        value[nodes][:, None],
        lambda x: 1 + x[:, 0] ** 2,
    ):
        found = neumann_loads(problem, mesh, {"hole": {"u": given_as}})
        np.testing.assert_array_equal(found, wanted)
    nodal = resolve_neumann(problem, mesh, {"hole": {"u": value}})["hole"]
    np.testing.assert_array_equal(nodal[:, 1:], value[:, None] * node_normals(mesh, "hole"))
    tilted = resolve_neumann(problem, mesh, {"hole": {"u": value}}, turn2(0.7))["hole"]
    np.testing.assert_allclose(tilted[:, 1:], nodal[:, 1:] @ turn2(0.7).T, atol=1e-15)


def test_groups_and_fields_add_up() -> None:
    mesh = ZOO["cube"]()
    problem = pressed(mesh)
    data = {"left": {"p": 2.0}, "right": {"u": (0.0, 1.0, 0.0)}, "top": {"u": lambda x: x}}
    load = neumann_loads(problem, mesh, data)
    assert load.sum(axis=0) == pytest.approx([2.0, 0.5, 1.5, 1.0], rel=1e-13)
    assert set(resolve_neumann(problem, mesh, data)) == {"left", "right", "top"}
    assert not neumann_loads(problem, mesh, {}).any()


def test_wrong_neumann_data() -> None:
    cases = [
        ({"left": {"velocity": 1.0}}, r"'velocity' on 'left', but .* only .*\('right', 'velocity'"),
        ({"right": {"pressure": 1.0}}, "Neumann data for field 'pressure' on 'right', but"),
        ({"right": {"velocity": np.zeros((9, 3))}}, r"have shape \(9, 3\)\n.*give 2 number"),
        ({"right": {"velocity": np.nan}}, "are not finite: 1 of 1 numbers"),
        ({"right": {"velocity": [0.0] * 4}}, r"have shape \(4,\)"),
    ]
    for data, message in cases:
        with pytest.raises(BoundaryDataError, match=message):
            neumann_loads(flow(), SQUARE, data)
        with pytest.raises(BoundaryDataError, match=message):
            resolve_neumann(flow(), SQUARE, data)
