"""From raw cells to a mesh: splitting, merging, orienting, dropping, and what is said about it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from geonew.errors import GroupError, MeshError
from geonew.mesh import Mesh, RawMesh, clean
from geonew.mesh.split import FACES
from zoo import PLANAR, SOLID, ZOO, slit, square

SIMPLEX = {2: "triangle", 3: "tetra"}
FACET = {2: "line", 3: "triangle"}


def raw_of(mesh: Mesh, **changes) -> RawMesh:
    parts = {
        "points": mesh.points,
        "cells": [(SIMPLEX[mesh.dim], mesh.cells)],
        "groups": {name: [(FACET[mesh.dim], f)] for name, f in mesh.groups.items()},
    }
    return RawMesh(**(parts | changes))


def said(mesh: Mesh, words: str) -> bool:
    return any(words in note for note in mesh.notes)


def hexes(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """n^3 hexahedra in the unit cube, and the quadrilaterals on z = 0."""
    k = np.arange((n + 1) ** 3).reshape((n + 1,) * 3)
    ring = [(0, 0), (1, 0), (1, 1), (0, 1)]

    def shifted(a, b, c):
        return k[a : n + a, b : n + b, c : n + c].ravel()

    cells = np.stack([shifted(a, b, c) for c in (0, 1) for a, b in ring], axis=1)
    floor = np.stack([k[a : n + a, b : n + b, 0].ravel() for a, b in ring], axis=1)
    axis = np.linspace(0, 1, n + 1)
    points = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1).reshape(-1, 3)
    return points, cells, floor


def test_a_valid_mesh_passes_unchanged(zoo_mesh):
    again = clean(raw_of(zoo_mesh))
    assert again.digest == zoo_mesh.digest
    assert list(again.groups) == list(zoo_mesh.groups)
    assert not [note for note in again.notes if "crack" not in note]


@given(st.integers(0, 2**32 - 1))
def test_hexahedra_split_conformingly_whatever_the_numbering(seed):
    """A wrong diagonal would leave interior facets with one cell: the surface would not be 6."""
    points, cells, floor = hexes(3)
    shuffle = np.random.default_rng(seed).permutation(len(points))
    moved = np.empty_like(points)
    moved[shuffle] = points
    raw = RawMesh(moved, [("hexahedron", shuffle[cells])], {"floor": [("quad", shuffle[floor])]})
    mesh = clean(raw)
    assert mesh.n_cells == 6 * 27
    assert len(mesh.boundary_facets) == 6 * 9 * 2
    assert np.linalg.norm(mesh.boundary_normals, axis=1).sum() == pytest.approx(6, abs=1e-13)
    assert mesh.volume == pytest.approx(1, abs=1e-14)
    assert len(mesh.facets_of("floor")) == 18
    assert (mesh.points[mesh.nodes_of("floor")][:, 2] == 0).all()
    assert said(mesh, "27 hexahedron cells were split into 162 tetrahedra")


@given(st.integers(0, 2**32 - 1))
def test_mixed_solid_cells_split_conformingly(seed):
    """A hexahedron, a wedge on its side and a pyramid on top share quadrilaterals."""
    points = np.array(
        [
            *([0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]),
            *([0, 0, 1], [1, 0, 1], [1, 1, 1], [0, 1, 1]),
            *([2, 0.5, 0], [2, 0.5, 1], [0.5, 0.5, 2]),
        ],
        dtype=float,
    )
    order = np.random.default_rng(seed).permutation(len(points))
    moved = np.empty_like(points)
    moved[order] = points
    cells = [
        ("hexahedron", order[np.array([[0, 1, 2, 3, 4, 5, 6, 7]])]),
        ("wedge", order[np.array([[1, 8, 2, 5, 9, 6]])]),
        ("pyramid", order[np.array([[4, 5, 6, 7, 10]])]),
    ]
    mesh = clean(RawMesh(moved, cells))
    assert mesh.n_cells == 6 + 3 + 2
    assert mesh.volume == pytest.approx(1 + 0.5 + 1 / 3, abs=1e-14)
    assert np.abs(mesh.boundary_normals.sum(axis=0)).max() < 1e-14
    # 4 free squares of the hexahedron, 2 squares and 2 triangles of the wedge, 4 of the pyramid
    assert len(mesh.boundary_facets) == 2 * 4 + 2 * 2 + 2 + 4


def test_faces_of_every_shape_are_closed():
    for shape, faces in FACES.items():
        directed = [(f[k], f[(k + 1) % len(f)]) for f in faces for k in range(len(f))]
        assert len(set(directed)) == len(directed), shape
        assert {(b, a) for a, b in directed} == set(directed), shape


def test_quadrilaterals_take_the_better_diagonal():
    dart = np.array([[0.0, 0.0], [1.0, -1.0], [0.2, 0.0], [1.0, 1.0]])  # reflex at node 2
    for turn in range(4):
        for cell in (np.roll([0, 1, 2, 3], turn), np.roll([3, 2, 1, 0], turn)):
            mesh = clean(RawMesh(dart, [("quad", cell[None])]))
            assert mesh.n_cells == 2
            assert mesh.volume == pytest.approx(0.2, abs=1e-15)


def test_folded_cells_are_refused():
    bow = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.2]])
    with pytest.raises(MeshError, match="1 of 1 quad cells are folded"):
        clean(RawMesh(bow, [("quad", np.array([[0, 1, 2, 3]]))]))


def test_collapsed_hexahedra_are_wedges():
    points, cells, _ = hexes(1)
    wedge = cells.copy()
    wedge[0, [3, 7]] = wedge[0, [2, 6]]
    mesh = clean(RawMesh(points, [("hexahedron", wedge)]))
    assert mesh.volume == pytest.approx(0.5, abs=1e-15)
    assert mesh.n_nodes == 6
    assert said(mesh, "2 of 8 nodes belong to no cell")


def test_mid_side_nodes_are_dropped():
    corner = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    middle = (corner + np.roll(corner, -1, axis=0)) / 2
    raw = RawMesh(
        np.concatenate([middle, corner]),
        [("triangle6", np.array([[3, 4, 5, 0, 1, 2]]))],
        {"base": [("line3", np.array([[3, 4, 0]]))]},
    )
    mesh = clean(raw)
    np.testing.assert_array_equal(mesh.points, corner)
    assert said(mesh, "1 cells of higher order became straight: 3 mid-side nodes dropped")
    np.testing.assert_array_equal(mesh.groups["base"], [[0, 1]])


def test_inverted_cells_are_turned():
    mesh = square()
    cells = mesh.cells.copy()
    cells[::3] = cells[::3, ::-1]
    again = clean(raw_of(mesh, cells=[("triangle", cells)]))
    np.testing.assert_allclose(again.volumes, mesh.volumes)
    assert said(again, "43 of 128 cells were inverted")


def test_unused_nodes_are_dropped_even_when_not_finite():
    mesh = square()
    points = np.concatenate([[[np.nan, 7.0]], mesh.points, [[1e300, 0.0]]])
    shifted = {n: [("line", f + 1)] for n, f in mesh.groups.items()}
    again = clean(RawMesh(points, [("triangle", mesh.cells + 1)], shifted))
    assert again.digest == mesh.digest
    assert said(again, "2 of 83 nodes belong to no cell")


@pytest.mark.parametrize("name", ["square", "l_shape", "cube", "annulus"])
def test_a_mesh_torn_into_cells_is_glued(name):
    mesh = ZOO[name]()
    torn = np.arange(mesh.cells.size).reshape(mesh.cells.shape)
    raw = RawMesh(mesh.points[mesh.cells.ravel()], [(SIMPLEX[mesh.dim], torn)])
    again = clean(raw)
    assert again.n_nodes == mesh.n_nodes
    assert len(again.boundary_facets) == len(mesh.boundary_facets)
    assert said(
        again, f"{mesh.cells.size - mesh.n_nodes} nodes coincide with others and were merged"
    )


def test_cracks_stay_open_unless_asked():
    mesh = slit()
    kept = clean(raw_of(mesh))
    assert kept.n_nodes == mesh.n_nodes
    assert said(kept, "3 pairs of coinciding nodes were kept apart as the two faces of a crack")
    closed = clean(raw_of(mesh), merge="all")
    assert closed.n_nodes == mesh.n_nodes - 3
    assert "crack" not in closed.groups  # its facets lie inside now
    assert said(closed, "8 of 8 facets of group 'crack' lie inside the domain")


def test_plates_side_by_side_are_joined_within_tolerance():
    mesh = square()
    beside = mesh.points + np.array([1 + 1e-11, 0])
    cells = np.concatenate([mesh.cells, mesh.cells + mesh.n_nodes])
    raw = RawMesh(np.concatenate([mesh.points, beside]), [("triangle", cells)])
    joined = clean(raw)
    assert joined.volume == pytest.approx(2)
    assert said(joined, "9 nodes coincide with others and were merged, which joins parts")
    with pytest.raises(MeshError, match="2 parts that share no node"):
        clean(raw, merge="none")


def test_largest_part_is_kept_when_asked():
    big, small = PLANAR["square"](), PLANAR["two_triangles"]()
    points = np.concatenate([small.points * 0.1 + 5, big.points])
    cells = np.concatenate([small.cells, big.cells + small.n_nodes])
    groups = {n: [("line", f + small.n_nodes)] for n, f in big.groups.items()}
    raw = RawMesh(points, [("triangle", cells)], groups)
    with pytest.raises(MeshError, match="2 parts that share no node"):
        clean(raw)
    mesh = clean(raw, keep="largest")
    assert mesh.digest == big.digest
    assert said(mesh, "kept the largest of 2 unconnected parts: 128 of 130 cells, 99 % of the")


@pytest.mark.parametrize("height", [0.0, -2.5])
def test_planes_become_2d(height):
    mesh = square()
    points = np.column_stack([mesh.points, np.full(mesh.n_nodes, height)])
    again = clean(raw_of(mesh, points=points))
    assert again.digest == mesh.digest
    assert said(again, "the plane z = -2.5") == (height != 0)


def test_interfaces_are_dropped_with_a_note():
    mesh = square()
    groups = {n: [("line", f)] for n, f in mesh.groups.items()}
    inner = np.array([e for e in mesh.edges if (mesh.points[e][:, 0] == 0.5).all()])
    again = clean(raw_of(mesh, groups=groups | {"weld": [("line", inner)]}))
    assert "weld" not in again.groups
    assert said(again, "8 of 8 facets of group 'weld' lie inside the domain (all of them")
    mixed = np.concatenate([inner, mesh.groups["left"]])
    again = clean(raw_of(mesh, groups={"left": [("line", mixed)]}))
    assert again.groups["left"].tolist() == mesh.groups["left"].tolist()
    assert said(again, "24 of 32 boundary facets have no group")


def test_node_sets_become_groups():
    mesh = square()
    sets = {name: mesh.nodes_of(name) for name in mesh.groups}
    sets |= {"ALL": np.arange(mesh.n_nodes), "corner": np.array([0]), "far": np.array([99999])}
    again = clean(raw_of(mesh, groups={}, node_groups=sets))
    assert again.digest == mesh.digest
    assert said(again, "node set 'ALL' holds every node and was dropped")
    assert said(again, "node set 'corner' (1 nodes) holds no free boundary facet")


def test_groups_of_cells_are_not_boundary_groups():
    mesh = SOLID["cube"]()
    groups = {"steel": [("tetra", mesh.cells[:5])], "all": [("tetra", mesh.cells)]}
    again = clean(raw_of(mesh, groups=groups))
    assert not again.groups
    assert again.notes == ("groups of cells are not boundary groups and were dropped: ['steel']",)


POINTS = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
TRIANGLE = [("triangle", np.array([[0, 1, 2]]))]


@pytest.mark.parametrize(
    ("points", "cells", "message"),
    [
        (POINTS, [("line", np.array([[0, 1]]))], "4 nodes but no triangles"),
        (POINTS, [], "no triangles"),
        (POINTS, [("triangle", np.array([[0, 1, 4]]))], "refer to nodes 0 to 4, but there are 4"),
        (POINTS, [("triangle", np.array([[0, 1, 3], [0, 2, 3]]))], "surface in space"),
        (
            POINTS,
            [("polygon", np.array([[0, 1, 2, 3, 3]]))],
            "1 cells are of kind 'polygon' with 5",
        ),
        (POINTS, [("polyhedron12", np.zeros((1, 12), int))], "'polyhedron12'.* cannot be split"),
        (POINTS, [("triangle", np.array([[0.0, 1, 2]]))], "no regular table of node numbers"),
        (POINTS[:, :2], [("tetra", np.array([[0, 1, 2, 3]]))], "3D cells have points with 2"),
        (POINTS[:, :2] * np.nan, TRIANGLE, "3 of 4 nodes have non-finite"),
        (POINTS[:, :2] * 1e150, TRIANGLE, "coordinates as large as 1e\\+150"),
        (POINTS[:, :2] * 0, TRIANGLE, "1 of 1 cells have no volume"),
        (POINTS, [("tetra", np.array([[0, 1, 2, 3]] * 3))], "belong to more than two cells"),
    ],
)
def test_what_cannot_be_repaired_is_refused(points, cells, message):
    with pytest.raises(MeshError, match=message):
        clean(RawMesh(points, cells))


def test_collapsed_meshes_are_refused_at_once():
    rng = np.random.default_rng(0)
    points = rng.uniform(size=(3000, 2))
    points[0] = 1e40  # all others coincide at this scale
    cells = np.stack([np.arange(2998), np.arange(1, 2999), np.arange(2, 3000)], axis=1)
    with pytest.raises(MeshError, match="pairs of 3000 nodes coincide"):
        clean(RawMesh(points, [("triangle", cells)]))


def test_options_and_foreign_groups_are_checked():
    mesh = square()
    with pytest.raises(MeshError, match="keep = 'smallest' is unknown"):
        clean(raw_of(mesh), keep="smallest")
    with pytest.raises(MeshError, match="merge = 'some' is unknown"):
        clean(raw_of(mesh), merge="some")
    stray = {"wall": [("line", np.array([[0, 80], [1, 79]]))]}
    with pytest.raises(GroupError, match="'wall' has 2 facets, and none is a facet of a cell"):
        clean(raw_of(mesh, groups=stray))
    double = {"a": [("line", mesh.groups["left"])], "b": [("line", mesh.groups["left"])]}
    with pytest.raises(GroupError, match=r"\['a', 'b'\] overlap in 8 facets"):
        clean(raw_of(mesh, groups=double))
