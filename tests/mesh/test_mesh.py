"""The complex: identities of its topology and metric on every mesh of the zoo; every refusal."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from geonew.errors import GroupError, MeshError
from geonew.mesh import Mesh
from geonew.mesh.mesh import _canonical_group, _check_arrays
from zoo import ZOO, one_triangle, square

# Euler characteristic of each domain: 1 - (number of holes) in 2D; the ball has 1, a cavity adds 1
# and a tunnel takes 1 in 3D. A crack is a hole of width 0.
EULER = {"square_with_hole": 0, "square_with_holes": -3, "plate": 0, "slit": 0, "annulus": 0}
EULER |= {"hollow_cube": 2, "torus_block": 0}


@pytest.mark.parametrize("name", ZOO)
def test_euler_characteristic(name):
    mesh = ZOO[name]()
    chi = mesh.n_nodes - len(mesh.edges) + len(mesh.faces)
    if mesh.dim == 3:
        chi -= mesh.n_cells
    assert chi == EULER.get(name, 1)


def test_facets_are_counted_twice_inside_and_once_on_the_boundary(zoo_mesh):
    facets = zoo_mesh.edges if zoo_mesh.dim == 2 else zoo_mesh.faces
    inside = len(facets) - len(zoo_mesh.boundary_facets)
    assert 2 * inside + len(zoo_mesh.boundary_facets) == (zoo_mesh.dim + 1) * zoo_mesh.n_cells


def test_boundary_is_closed(zoo_mesh):
    normals = zoo_mesh.boundary_normals
    total = np.abs(normals).sum()
    assert np.abs(normals.sum(axis=0)).max() <= 1e-15 * len(normals) ** 0.5 * total


def test_divergence_theorem(zoo_mesh):
    """d |Omega| = sum_f n_f . x_f, from the centroid so that round-off is that of the mesh."""
    middle = zoo_mesh.points[zoo_mesh.boundary_facets].mean(axis=1) - zoo_mesh.points.mean(axis=0)
    flux = np.einsum("bd,bd->b", zoo_mesh.boundary_normals, middle)
    defect = abs(flux.sum() - zoo_mesh.dim * zoo_mesh.volume)
    assert defect <= 1e-11 * np.abs(flux).sum()


def test_groups_cover_the_boundary_once(zoo_mesh):
    assert sum(len(f) for f in zoo_mesh.groups.values()) == len(zoo_mesh.boundary_facets)
    assert (zoo_mesh.group_index >= 0).all()
    for number, name in enumerate(zoo_mesh.groups):
        mine = zoo_mesh.boundary_facets[zoo_mesh.group_index == number]
        np.testing.assert_array_equal(mine, zoo_mesh.groups[name])


def test_zoo_is_small_and_large_enough(zoo_mesh):
    assert 3 <= zoo_mesh.n_nodes <= 400
    assert (zoo_mesh.volumes > 0).all()


def test_digest_sees_points_cells_and_groups():
    mesh = square()
    same = Mesh(mesh.points, mesh.cells, mesh.groups, ("another note",))
    assert mesh.digest == same.digest
    points = mesh.points.copy()
    points[3, 0] = np.nextafter(points[3, 0], 2)
    others = [
        Mesh(points, mesh.cells, mesh.groups),
        Mesh(mesh.points, mesh.cells[::-1], mesh.groups),
        mesh.renamed({"left": "inlet"}),
    ]
    assert len({mesh.digest, *[other.digest for other in others]}) == 4


@given(st.integers(0, 2**32 - 1))
def test_rigid_motion_keeps_volumes(seed):
    rng = np.random.default_rng(seed)
    for name in ("l_shape", "hollow_cube"):
        mesh = ZOO[name]()
        rotation, _ = np.linalg.qr(rng.normal(size=(mesh.dim, mesh.dim)))  # reflections too
        moved = mesh.moved(rotation, rng.normal(size=mesh.dim), 2.0)
        np.testing.assert_allclose(moved.volumes, mesh.volumes / 2**mesh.dim, rtol=1e-12)
        assert list(moved.groups) == list(mesh.groups)


def test_a_mesh_never_changes():
    mesh = square()
    with pytest.raises(ValueError, match="read-only"):
        mesh.points[0, 0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        mesh.cells[0, 0] = 1
    with pytest.raises(TypeError):
        mesh.groups["left"] = mesh.groups["right"]  # pyright: ignore


def test_groups_can_be_joined_by_renaming():
    mesh = square().renamed({"left": "side", "right": "side"})
    assert list(mesh.groups) == ["side", "bottom", "top"]
    assert len(mesh.facets_of("side")) == 16


TRIANGLE = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
ONE = np.array([[0, 1, 2]])
FAR = TRIANGLE + 10


@pytest.mark.parametrize(
    ("points", "cells", "message"),
    [
        (TRIANGLE, np.zeros((0, 3), dtype=int), "no cells"),
        (TRIANGLE * [[1], [np.nan], [1]], ONE, "1 of 3 nodes have non-finite .* first node 1"),
        (TRIANGLE + np.array([[0], [np.inf], [0]]), ONE, "non-finite"),
        (TRIANGLE * 1e200, ONE, "coordinates as large as 1e\\+200"),
        (TRIANGLE, np.array([[0, 1, 3]]), "cells refer to nodes 0 to 3, but there are 3"),
        (TRIANGLE, np.array([[-1, 1, 2]]), "cells refer to nodes -1 to 2"),
        (np.concatenate([TRIANGLE, FAR]), ONE, "3 of 6 nodes belong to no cell"),
        (TRIANGLE[[0, 1, 1]], ONE, "1 of 1 cells have no volume, first cell 0"),
        (TRIANGLE, ONE[:, ::-1], "1 of 1 cells are inverted"),
        (TRIANGLE, np.repeat(ONE, 3, axis=0), "3 facets belong to more than two cells"),
        (TRIANGLE, np.repeat(ONE, 2, axis=0), "1 cells are listed twice"),
        (np.concatenate([TRIANGLE, FAR]), np.array([[0, 1, 2], [3, 4, 5]]), "2 parts"),
    ],
)
def test_refused_meshes_say_why(points, cells, message):
    with pytest.raises(MeshError, match=message):
        Mesh(points, cells)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"wall": np.zeros((0, 2), dtype=int)}, "'wall' has no facets"),
        (
            {"wall": np.array([[0, 10]])},
            "1 of the 1 facets of group 'wall' are not on the boundary",
        ),
        ({"wall": np.array([[0, 99999]])}, "not on the boundary"),
        ({"a": np.array([[0, 1]]), "b": np.array([[1, 0]])}, r"\['a', 'b'\] overlap in 1 facets"),
        ({"": np.array([[0, 1]])}, "empty name"),
    ],
)
def test_refused_groups_say_why(groups, message):
    mesh = square()
    with pytest.raises(GroupError, match=message):
        mesh.with_groups(groups)


def test_wrong_shapes_are_refused():
    """Below the constructor: there the shape checks of the tests themselves would come first."""
    with pytest.raises(MeshError, match=r"points have shape \(3, 4\)"):
        _check_arrays(np.zeros((3, 4)), ONE)
    with pytest.raises(MeshError, match=r"cells have shape \(1, 4\); a 2D mesh needs"):
        _check_arrays(TRIANGLE, np.array([[0, 1, 2, 2]]))
    with pytest.raises(GroupError, match=r"'wall' has facets of shape \(1, 3\)"):
        _canonical_group(square(), "wall", np.array([[0, 1, 2]]))


def test_unknown_group_lists_the_known_ones():
    with pytest.raises(GroupError, match=r"no boundary group 'inlet'; it has \['bottom'"):
        one_triangle().facets_of("inlet")
