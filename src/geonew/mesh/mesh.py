r"""The mesh: a conforming simplicial complex in 2D or 3D with named boundary groups.

A mesh holds vertices :math:`x_0, ..., x_{N-1}`, cells (triangles or tetrahedra, positively
oriented), and for every named group the boundary facets that carry it. Everything else is derived
and computed once: edges and faces as sorted vertex tuples, so that an edge points from its lower
to its higher vertex, boundary facets with outward normals, volumes.

Identity kept: every interior facet has two cells and every boundary facet one, hence the boundary
is closed, :math:`\sum_f |f| n_f = 0`.

A ``Mesh`` is checked when it is built and never changes afterwards. Repair (orientation, duplicate
nodes, splitting of quadrilaterals) happens before, in :mod:`geonew.mesh.repair`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from types import MappingProxyType

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from geonew.errors import GroupError, MeshError

# A cell flatter than this, relative to (longest edge)^d, is degenerate: gradients are round-off.
FLAT_CELL = 1e-14
# Beyond this the volume of a cell, a product of three lengths, leaves the range of float64.
LARGEST_COORDINATE = 1e100


@dataclass(frozen=True, eq=False)
class Mesh:
    """Vertices, cells and named boundary groups; see the module docstring.

    Args:
        points: vertex coordinates, d = 2 or 3.
        cells: vertex numbers of each cell, positively oriented.
        groups: name -> boundary facets as vertex numbers, in any order.
        notes: what was repaired or dropped on the way here, for people to read.

    """

    points: Float[ndarray, "N d"]
    cells: Int[ndarray, "C d+1"]
    groups: Mapping[str, Int[ndarray, "_ d"]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        points = np.array(self.points, dtype=np.float64, order="C")
        cells = np.array(self.cells, dtype=np.int64, order="C")
        _check_arrays(points, cells)
        object.__setattr__(self, "points", _frozen(points))
        object.__setattr__(self, "cells", _frozen(cells))
        _check_cells(self)
        _check_manifold(self)
        _set_groups(self, self.groups)
        object.__setattr__(self, "notes", tuple(self.notes))

    # -- sizes ---------------------------------------------------------------------------------

    @property
    def dim(self) -> int:
        """Dimension d of the space, 2 or 3."""
        return self.points.shape[1]

    @property
    def n_nodes(self) -> int:
        """Number of vertices N."""
        return self.points.shape[0]

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return self.cells.shape[0]

    def __repr__(self) -> str:
        groups = ", ".join(f"{name}: {len(facets)}" for name, facets in self.groups.items())
        return f"Mesh({self.dim}D, {self.n_nodes} nodes, {self.n_cells} cells, groups {{{groups}}})"

    # -- topology ------------------------------------------------------------------------------

    @cached_property
    def edges(self) -> Int[ndarray, "E 2"]:
        """Edges (i, j) with i < j, in lexicographic order."""
        return _unique_rows(_subsimplices(self.cells, 2), self.n_nodes)[0]

    @cached_property
    def faces(self) -> Int[ndarray, "Fc 3"]:
        """Triangles (i, j, k) with i < j < k, in lexicographic order; in 2D, the sorted cells."""
        return _unique_rows(_subsimplices(self.cells, 3), self.n_nodes)[0]

    @cached_property
    def _facet_table(self) -> tuple[ndarray, ndarray, ndarray]:
        """All facets (sorted vertices), how many cells each has, and one (cell, slot) of each."""
        facets = _subsimplices(self.cells, self.dim)
        unique, first, count = _unique_rows(facets, self.n_nodes)
        return unique, count, first

    @cached_property
    def boundary_facets(self) -> Int[ndarray, "B d"]:
        """Facets with one cell, as sorted vertex numbers in lexicographic order."""
        facets, count, _ = self._facet_table
        return _frozen(facets[count == 1])

    @cached_property
    def boundary_cells(self) -> Int[ndarray, "B"]:
        """The one cell of each boundary facet."""
        _, count, first = self._facet_table
        return _frozen(first[count == 1] % self.n_cells)

    @cached_property
    def boundary_nodes(self) -> Int[ndarray, "_"]:
        """Vertices on the boundary, ascending."""
        return _frozen(np.unique(self.boundary_facets))

    @cached_property
    def group_index(self) -> Int[ndarray, "B"]:
        """For each boundary facet, the position of its group in ``groups``; -1 without one."""
        index = np.full(len(self.boundary_facets), -1)
        for number, facets in enumerate(self.groups.values()):
            index[find_rows(facets, self.boundary_facets, self.n_nodes)] = number
        return _frozen(index)

    def nodes_of(self, group: str) -> Int[ndarray, "_"]:
        """Vertices of a boundary group, ascending."""
        return np.unique(self.facets_of(group))

    def facets_of(self, group: str) -> Int[ndarray, "_ d"]:
        """Facets of a boundary group; a :class:`GroupError` lists the known names."""
        if group not in self.groups:
            raise GroupError(
                f"the mesh has no boundary group {group!r}; it has {sorted(self.groups)}",
                "use one of these names, or rename the group",
            )
        return self.groups[group]

    # -- metric --------------------------------------------------------------------------------

    @cached_property
    def volumes(self) -> Float[ndarray, "C"]:
        """Area or volume of each cell."""
        return _frozen(_signed_volumes(self.points, self.cells))

    @cached_property
    def volume(self) -> float:
        """Measure of the domain."""
        return float(self.volumes.sum())

    @cached_property
    def boundary_normals(self) -> Float[ndarray, "B d"]:
        """Outward normals of the boundary facets, each as long as the facet's measure."""
        corners = self.points[self.boundary_facets]  # (B, d, d)
        inside = self.points[self.cells[self.boundary_cells]].mean(axis=1)
        if self.dim == 2:
            along = corners[:, 1] - corners[:, 0]
            normals = np.stack([along[:, 1], -along[:, 0]], axis=1)
        else:
            normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]) / 2
        outward = np.einsum("bd,bd->b", normals, corners[:, 0] - inside)
        return _frozen(normals * np.sign(outward)[:, None])

    @cached_property
    def digest(self) -> str:
        """Hash of the content (points, cells, groups), the same on every machine."""
        state = hashlib.sha256()
        for name, array in [("points", self.points), ("cells", self.cells), *self.groups.items()]:
            state.update(f"{name}:{array.shape}:".encode())
            state.update(array.astype("<f8" if array.dtype.kind == "f" else "<i8").tobytes())
        return state.hexdigest()

    # -- new meshes ----------------------------------------------------------------------------

    def with_groups(
        self,
        groups: Mapping[str, Int[ndarray, "_ d"]],
        notes: tuple[str, ...] | None = None,
    ) -> Mesh:
        """The same mesh with other boundary groups; what does not depend on them is shared."""
        kept = {name: v for name, v in vars(self).items() if name not in _OF_GROUPS}
        mesh = object.__new__(Mesh)
        mesh.__dict__.update(kept, notes=tuple(self.notes if notes is None else notes))
        _set_groups(mesh, groups)
        return mesh

    def renamed(self, names: Mapping[str, str]) -> Mesh:
        """The same mesh with groups renamed, ``{old: new}``; equal new names join groups."""
        for old in names:
            self.facets_of(old)
        joined: dict[str, list[ndarray]] = {}
        for name, facets in self.groups.items():
            joined.setdefault(names.get(name, name), []).append(facets)
        return self.with_groups({name: np.concatenate(parts) for name, parts in joined.items()})

    def moved(self, rotation: ndarray, shift: ndarray, scale: float = 1.0) -> Mesh:
        r"""The mesh under :math:`x \mapsto R (x - b) / s`: rotation R, shift b, scale s > 0."""
        points = (self.points - np.asarray(shift)) @ np.asarray(rotation).T / scale
        cells = self.cells
        if np.linalg.det(rotation) < 0:  # a reflection turns every cell inside out
            cells = cells[:, [1, 0, *range(2, self.dim + 1)]]
            return Mesh(points, cells, self.groups, self.notes)
        mesh = object.__new__(Mesh)  # the same complex: only what depends on places is new
        kept = {name: v for name, v in vars(self).items() if name in _OF_COMPLEX}
        points = np.array(points, dtype=np.float64, order="C")
        _check_points(points)
        mesh.__dict__.update(kept, points=_frozen(points), notes=self.notes)
        if not mesh.volumes.min() > 0:  # they underflow
            _check_cells(mesh)
        return mesh


# What changes with the groups, and what neither place nor orientation of the mesh changes.
_OF_GROUPS = ("groups", "group_index", "digest", "notes")
_OF_COMPLEX = ("cells", "groups", "edges", "faces", "_facet_table", "group_index")
_OF_COMPLEX += ("boundary_facets", "boundary_cells", "boundary_nodes")


# -- checks ------------------------------------------------------------------------------------


def _check_arrays(points: ndarray, cells: ndarray) -> None:
    if points.ndim != 2 or points.shape[1] not in (2, 3):
        raise MeshError(f"points have shape {points.shape}; expected (N, 2) or (N, 3)")
    if cells.ndim != 2 or cells.shape[1] != points.shape[1] + 1:
        raise MeshError(
            f"cells have shape {cells.shape}; a {points.shape[1]}D mesh needs "
            f"(C, {points.shape[1] + 1})",
            "give triangles in 2D and tetrahedra in 3D",
        )
    if len(cells) == 0:
        raise MeshError("the mesh has no cells", "give at least one triangle or tetrahedron")
    _check_points(points)
    if cells.min() < 0 or cells.max() >= len(points):
        raise MeshError(
            f"cells refer to nodes {cells.min()} to {cells.max()}, "
            f"but there are {len(points)} nodes",
            "node numbers start at 0 here; the file may be damaged or numbered from 1",
        )
    unused = len(points) - np.unique(cells).size
    if unused:
        raise MeshError(
            f"{unused} of {len(points)} nodes belong to no cell",
            "drop them with geonew.mesh.repair.clean, which reading a file does by itself",
        )


def _check_points(points: ndarray) -> None:
    bad = np.flatnonzero(~np.isfinite(points).all(axis=1))
    if bad.size:
        raise MeshError(
            f"{bad.size} of {len(points)} nodes have non-finite coordinates, first node {bad[0]}",
            "export the mesh again; such values come from a failed mesher or a damaged file",
        )
    if len(points) and np.abs(points).max() > LARGEST_COORDINATE:
        raise MeshError(
            f"the mesh has coordinates as large as {np.abs(points).max():.3g}",
            f"volumes overflow beyond {LARGEST_COORDINATE:g}; rescale it if it is not damaged",
        )


def _check_cells(mesh: Mesh) -> None:
    volumes = mesh.volumes
    corners = mesh.points[mesh.cells]
    longest = np.zeros(len(volumes))
    for a in range(mesh.dim + 1):
        for b in range(a):
            longest = np.maximum(longest, np.linalg.norm(corners[:, a] - corners[:, b], axis=1))
    flat = np.flatnonzero(~(np.abs(volumes) > FLAT_CELL * longest**mesh.dim))
    if flat.size:
        raise MeshError(
            f"{flat.size} of {len(volumes)} cells have no volume, first cell {flat[0]} "
            f"(volume {volumes[flat[0]]:.3g}, longest edge {longest[flat[0]]:.3g})",
            "remesh, or merge the coinciding nodes of these cells",
        )
    negative = np.flatnonzero(volumes < 0)
    if negative.size:
        raise MeshError(
            f"{negative.size} of {len(volumes)} cells are inverted, first cell {negative[0]}",
            "orient them with geonew.mesh.repair.clean, which reading a file does by itself",
        )


def _check_manifold(mesh: Mesh) -> None:
    facets, count, _ = mesh._facet_table
    bad = np.flatnonzero(count > 2)
    if bad.size:
        raise MeshError(
            f"{bad.size} facets belong to more than two cells, first facet "
            f"{facets[bad[0]].tolist()} with {count[bad[0]]} cells",
            "the cells overlap or are listed twice; remove the duplicates and export again",
        )
    rows = np.sort(mesh.cells, axis=1)
    rows = rows[np.lexsort(rows.T)]
    repeated = int((rows[1:] == rows[:-1]).all(axis=1).sum())
    if repeated:  # a lone cell listed twice has no facet with more than two cells
        raise MeshError(
            f"{repeated} cells are listed twice",
            "remove the duplicates and export again",
        )
    parts = _components(mesh.n_nodes, mesh.edges)
    if parts > 1:
        raise MeshError(
            f"the mesh falls into {parts} parts that share no node",
            "keep one part (geonew.mesh.repair.clean(..., keep='largest')), or glue them by "
            "merging the nodes of their interface",
        )


def _set_groups(mesh: Mesh, groups: Mapping[str, ndarray]) -> None:
    """Give a mesh its groups, each checked and in canonical order."""
    canonical = {
        str(name): _frozen(_canonical_group(mesh, str(name), facets))
        for name, facets in groups.items()
    }
    _check_disjoint(canonical)
    object.__setattr__(mesh, "groups", MappingProxyType(canonical))


def _canonical_group(mesh: Mesh, name: str, facets: ndarray) -> ndarray:
    facets = np.asarray(facets)
    if not name.strip():
        raise GroupError("a boundary group has an empty name", "give it a name")
    if facets.size == 0:
        raise GroupError(
            f"boundary group {name!r} has no facets",
            "leave the group out, or give it at least one boundary facet",
        )
    if facets.ndim != 2 or facets.shape[1] != mesh.dim:
        raise GroupError(
            f"boundary group {name!r} has facets of shape {facets.shape}; "
            f"a {mesh.dim}D mesh needs (n, {mesh.dim})"
        )
    facets = np.unique(np.sort(facets.astype(np.int64), axis=1), axis=0)
    position = find_rows(facets, mesh.boundary_facets, mesh.n_nodes)
    inside = np.flatnonzero(position < 0)
    if inside.size:
        raise GroupError(
            f"{inside.size} of the {len(facets)} facets of group {name!r} are not on the boundary, "
            f"first facet {facets[inside[0]].tolist()}",
            "a boundary group may hold only facets with a single cell; drop interior interfaces",
        )
    return facets


def _check_disjoint(groups: Mapping[str, ndarray]) -> None:
    names = list(groups)
    if not names:
        return
    stacked = np.concatenate([groups[name] for name in names])
    owner = np.repeat(np.arange(len(names)), [len(groups[name]) for name in names])
    _, inverse, count = np.unique(stacked, axis=0, return_inverse=True, return_counts=True)
    shared = count[inverse.ravel()] > 1
    if shared.any():
        pair = sorted({names[k] for k in owner[shared]})
        raise GroupError(
            f"boundary groups {pair} overlap in {int((count > 1).sum())} facets",
            "give each boundary facet to one group",
        )


# -- small integer machinery -------------------------------------------------------------------


def _frozen(array: ndarray) -> ndarray:
    array.setflags(write=False)
    return array


def _signed_volumes(points: ndarray, cells: ndarray) -> ndarray:
    """Area or volume of simplices, negative where they are inverted."""
    corners = points[cells]
    jacobian = corners[:, 1:] - corners[:, :1]
    return np.linalg.det(jacobian) / (2.0 if points.shape[1] == 2 else 6.0)


def _subsimplices(cells: ndarray, size: int) -> ndarray:
    """All sub-simplices with ``size`` vertices of all cells, sorted; slot-major over the cells."""
    slots = list(combinations(range(cells.shape[1]), size))
    return np.concatenate([np.sort(cells[:, slot], axis=1) for slot in slots])


def _row_keys(rows: ndarray, n_nodes: int) -> ndarray:
    """One integer per sorted row, in lexicographic order; exact while n_nodes^columns < 2^63."""
    if rows.shape[1] * np.log2(max(n_nodes, 2)) >= 63:
        raise MeshError(f"a mesh of {n_nodes} nodes is too large for the facet index")
    key = rows[:, 0].astype(np.int64)
    for column in range(1, rows.shape[1]):
        key = key * n_nodes + rows[:, column]
    return key


def _unique_rows(rows: ndarray, n_nodes: int) -> tuple[ndarray, ndarray, ndarray]:
    """Distinct rows in lexicographic order, first position and multiplicity of each."""
    _, first, count = np.unique(_row_keys(rows, n_nodes), return_index=True, return_counts=True)
    return _frozen(rows[first]), first, count


def find_rows(rows: ndarray, table: ndarray, n_nodes: int) -> Int[ndarray, "_"]:
    """Position of each sorted row in a lexicographically sorted table; -1 where absent."""
    known, wanted = _row_keys(table, n_nodes), _row_keys(rows, n_nodes)
    inside = (rows >= 0).all(axis=1) & (rows < n_nodes).all(axis=1)
    position = np.minimum(np.searchsorted(known, wanted), max(len(known) - 1, 0))
    return np.where(inside & (known[position] == wanted), position, -1)


def _components(n_nodes: int, edges: ndarray) -> int:
    graph = coo_array((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(n_nodes, n_nodes))
    return int(connected_components(graph, directed=False)[0])
