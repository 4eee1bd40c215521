r"""From what a mesh file holds to a :class:`Mesh`: split, merge, orient, drop, and say so.

Each repair leaves a sentence with numbers in ``Mesh.notes``; what cannot be repaired without a
guess is an error. Order of the steps: corner nodes only, coinciding nodes merged, cells split
(:mod:`geonew.mesh.split`), oriented, one connected part kept, unused nodes dropped, groups carried
over. Nodes and cells keep their order: a valid simplicial mesh passes through unchanged.

Coinciding nodes are ambiguous: they may be a seam that the mesher forgot to close, or the two
faces of a crack. The rule (``merge="parts"``): nodes are merged only where this connects parts of
the mesh that share no node, which could not be solved on together otherwise; coinciding nodes
within one connected part are the faces of a crack and stay apart. ``merge="all"`` closes cracks
too, ``merge="none"`` merges nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Int
from numpy import ndarray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import KDTree

from geonew.errors import GroupError, MeshError
from geonew.mesh.mesh import LARGEST_COORDINATE, Mesh, _signed_volumes, find_rows
from geonew.mesh.split import DIMENSION, shape_of, split_cells, split_faces

# Nodes closer than this, relative to the size of the mesh, are at the same place: exporters print
# 9 digits or more, and no sensible mesh has cells that small.
SAME_PLACE = 1e-9
# More coinciding pairs than this per node means a collapsed mesh, not a seam.
MOST_PAIRS_PER_NODE = 64
# A planar mesh may leave its plane by round-off only.
PLANAR = 1e-12

# Number of a node that belongs to a part of the mesh that is not kept (-1: to no cell at all).
OTHER_PART = -2

Cells = Sequence[tuple[str, ndarray]]


@dataclass(frozen=True, eq=False)
class RawMesh:
    """What a file holds, before repair.

    Args:
        points: coordinates, one to three columns.
        cells: (kind, node numbers) of all elements, facets among them.
        groups: name -> (kind, node numbers) of the elements that carry the name.
        node_groups: name -> node numbers; a boundary facet belongs to it when all its nodes do.
        notes: what the reader had to say.

    """

    points: ndarray
    cells: Cells
    groups: Mapping[str, Cells] = field(default_factory=dict)
    node_groups: Mapping[str, ndarray] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def clean(raw: RawMesh, keep: str | None = None, merge: str = "parts") -> Mesh:
    """Build a :class:`Mesh` from raw data; see the module docstring.

    Args:
        raw: points, cells of any kind, groups.
        keep: ``"largest"`` keeps the connected part of largest measure; ``None`` refuses several.
        merge: which coinciding nodes are one: ``"parts"``, ``"all"`` or ``"none"``.

    """
    if keep not in (None, "largest"):
        raise MeshError(f"keep = {keep!r} is unknown", "use 'largest', or leave it out")
    if merge not in ("parts", "all", "none"):
        raise MeshError(f"merge = {merge!r} is unknown", "use 'parts', 'all' or 'none'")
    notes = list(raw.notes)
    blocks = _corner_blocks(raw, notes)
    dim = DIMENSION[blocks[0][0]]
    points = _in_dimension(raw.points, blocks, dim, notes)
    number = _merged(points, blocks, merge, notes)
    cells = _simplices(points, [(shape, number[nodes]) for shape, nodes in blocks], notes)
    everything = np.unique(cells)
    cells = _one_part(points, cells, keep, notes)
    used, flat = np.unique(cells, return_inverse=True)
    compact = np.full(len(points), -1)
    compact[everything] = OTHER_PART
    compact[used] = np.arange(len(used))
    bare = Mesh(points[used], flat.reshape(cells.shape))
    groups = _carry_groups(bare, raw, compact[number], notes)
    return bare.with_groups(groups, tuple(notes))


# -- nodes -------------------------------------------------------------------------------------


def _corner_blocks(raw: RawMesh, notes: list[str]) -> list[tuple[str, ndarray]]:
    """Corner nodes of the cells of highest dimension; mid-side and unused nodes are reported."""
    n_nodes = len(raw.points)
    filled = [(kind, nodes) for kind, nodes in raw.cells if len(nodes)]
    blocks = [shape_of(kind, nodes) for kind, nodes in filled]
    dim = max((DIMENSION[shape] for shape, _ in blocks), default=0)
    if dim < 2:
        raise MeshError(
            f"the mesh has {n_nodes} nodes but no triangles, quadrilaterals or solid cells",
            "export the elements of the domain itself, not only its points or lines",
        )
    for _, nodes in blocks:
        if nodes.min() < 0 or nodes.max() >= n_nodes:
            raise MeshError(
                f"cells refer to nodes {nodes.min()} to {nodes.max()}, "
                f"but there are {n_nodes} nodes",
                "the file is damaged or incomplete; export it again",
            )
    corner, other, curved = np.zeros(n_nodes, bool), np.zeros(n_nodes, bool), 0
    chosen = []
    for (_, full), (shape, nodes) in zip(filled, blocks, strict=True):
        if DIMENSION[shape] < dim:
            continue
        chosen.append((shape, nodes))
        corner[nodes] = True
        if full.shape[1] > nodes.shape[1]:
            curved += len(full)
            extra = full[:, nodes.shape[1] :]
            other[extra[(extra >= 0) & (extra < n_nodes)].astype(np.int64)] = True
    middle = int((other & ~corner).sum())
    if curved:
        notes.append(
            f"{curved} cells of higher order became straight: {middle} mid-side nodes dropped"
        )
    unused = n_nodes - int(corner.sum()) - middle
    if unused:
        notes.append(f"{unused} of {n_nodes} nodes belong to no cell and were dropped")
    return chosen


def _in_dimension(points: ndarray, blocks: Cells, dim: int, notes: list[str]) -> ndarray:
    """Coordinates of as many columns as the cells have dimensions."""
    points = np.array(points, dtype=np.float64)
    used = np.unique(np.concatenate([nodes.ravel() for _, nodes in blocks]))
    idle = np.ones(len(points), dtype=bool)
    idle[used] = False
    points[idle] = 0.0  # whatever stands there is dropped, and must not disturb the rest
    if points.shape[1] < dim:
        raise MeshError(
            f"{dim}D cells have points with {points.shape[1]} coordinates",
            "the file is damaged; export it again",
        )
    bad = np.flatnonzero(~np.isfinite(points).all(axis=1))
    if bad.size:
        raise MeshError(
            f"{bad.size} of {len(points)} nodes have non-finite coordinates, first node {bad[0]}",
            "export the mesh again; such values come from a failed mesher or a damaged file",
        )
    if np.abs(points).max() > LARGEST_COORDINATE:
        raise MeshError(
            f"the mesh has coordinates as large as {np.abs(points).max():.3g}",
            f"volumes overflow beyond {LARGEST_COORDINATE:g}; rescale it if it is not damaged",
        )
    if dim == 3 or points.shape[1] == 2:
        return points
    z = points[used, 2]
    size = float(np.ptp(points[used], axis=0).max())
    if np.ptp(z) > PLANAR * max(size, abs(float(z[0]))):
        spans = ", ".join(f"{span:.3g}" for span in np.ptp(points[used], axis=0))
        raise MeshError(
            f"the cells form a surface in space (extents {spans}), not a plane z = constant",
            "give a solid mesh of the domain, or a plane one in the plane z = 0",
        )
    if z[0] != 0:
        notes.append(f"the plane z = {z[0]:.6g} became the plane of the 2D mesh")
    return np.ascontiguousarray(points[:, :2])


def _merged(points: ndarray, blocks: Cells, merge: str, notes: list[str]) -> ndarray:
    """For each node the lowest node it is merged with, by the rule of the module docstring."""
    everyone = np.arange(len(points))
    used = np.unique(np.concatenate([nodes.ravel() for _, nodes in blocks]))
    part = _parts(len(points), blocks)[1]
    several = np.unique(part[used]).size
    pairs = used[_coinciding(points[used])]
    if not len(pairs):
        return everyone
    apart = part[pairs[:, 0]] != part[pairs[:, 1]]
    chosen = pairs if merge == "all" else pairs[apart] if merge == "parts" else pairs[:0]
    if len(chosen):
        _, cluster = _connected(len(points), chosen)
        lowest = np.full(cluster.max() + 1, len(points))
        np.minimum.at(lowest, cluster, everyone)
        number = lowest[cluster]
        notes.append(
            f"{int((number != everyone).sum())} nodes coincide with others and were merged"
            + (f", which joins parts of the mesh ({several} before)" if several > 1 else "")
        )
    else:
        number = everyone
    kept = int((number[pairs[:, 0]] != number[pairs[:, 1]]).sum())
    if kept:
        notes.append(
            f"{kept} pairs of coinciding nodes were kept apart as the two faces of a crack "
            "(merge='all' would close it)"
        )
    return number


def _coinciding(points: ndarray) -> Int[ndarray, "_ 2"]:
    """Pairs of points at the same place, up to :data:`SAME_PLACE` of the extent."""
    radius = SAME_PLACE * float(np.linalg.norm(np.ptp(points, axis=0)))
    order = np.lexsort(points.T)
    repeats = (points[order[1:]] == points[order[:-1]]).all(axis=1)
    pairs = [np.stack([order[:-1][repeats], order[1:][repeats]], axis=1)]
    first = order[np.concatenate([[True], ~repeats])]
    distinct = points[first] - points.min(axis=0)
    tree = KDTree(distinct)
    close = int(tree.count_neighbors(tree, radius)) - len(distinct)
    if close > MOST_PAIRS_PER_NODE * len(distinct):
        raise MeshError(
            f"{close // 2} pairs of {len(points)} nodes coincide to {SAME_PLACE:g} of the extent",
            "some coordinates are far outside the mesh, or it has collapsed; export it again",
        )
    if close:
        pairs.append(first[tree.query_pairs(radius, output_type="ndarray")])
    return np.concatenate(pairs)


def _connected(n_nodes: int, pairs: ndarray) -> tuple[int, ndarray]:
    ones = np.ones(len(pairs), dtype=np.int8)
    graph = coo_array((ones, (pairs[:, 0], pairs[:, 1])), shape=(n_nodes, n_nodes))
    count, label = connected_components(graph, directed=False)
    return int(count), label


def _parts(n_nodes: int, blocks: Cells) -> tuple[int, ndarray]:
    """Connected parts of the nodes, joined where they share a cell."""
    pairs = [
        np.stack([nodes[:, 0], nodes[:, k]], axis=1)
        for _, nodes in blocks
        for k in range(1, nodes.shape[1])
    ]
    return _connected(n_nodes, np.concatenate(pairs))


# -- cells -------------------------------------------------------------------------------------


def _simplices(points: ndarray, blocks: Cells, notes: list[str]) -> ndarray:
    """All cells as positively oriented simplices."""
    every = []
    turned = total = 0
    for shape, nodes in blocks:
        parts, parent = split_cells(shape, nodes, points)
        volumes = _signed_volumes(points, parts)
        negative = np.bincount(parent, volumes < 0, len(nodes)) > 0
        positive = np.bincount(parent, volumes > 0, len(nodes)) > 0
        twisted = np.flatnonzero(negative & positive)
        if twisted.size:
            raise MeshError(
                f"{twisted.size} of {len(nodes)} {shape} cells are folded or too distorted to be "
                f"split, first cell {twisted[0]}",
                "improve these cells in the mesher, or export triangles or tetrahedra",
            )
        flip = volumes < 0
        parts = parts.copy()
        parts[flip, :2] = parts[flip, 1::-1]
        if len(parts) != len(nodes) or shape in ("quad", "pyramid", "wedge", "hexahedron"):
            target = "triangles" if shape == "quad" else "tetrahedra"
            notes.append(f"{len(nodes)} {shape} cells were split into {len(parts)} {target}")
        turned, total = turned + int(negative.sum()), total + len(nodes)
        every.append(parts)
    if turned:
        notes.append(f"{turned} of {total} cells were inverted and have been turned")
    return np.concatenate(every)


def _one_part(points: ndarray, cells: ndarray, keep: str | None, notes: list[str]) -> ndarray:
    """The cells of the largest connected part, when asked for; several parts are refused later."""
    if keep is None or not len(cells):
        return cells
    _, label = _parts(len(points), [("", cells)])
    of_cell = label[cells[:, 0]]
    if (of_cell == of_cell[0]).all():
        return cells
    sizes = np.bincount(of_cell, np.abs(_signed_volumes(points, cells)))
    mine = of_cell == sizes.argmax()
    notes.append(
        f"kept the largest of {np.unique(of_cell).size} unconnected parts: {int(mine.sum())} of "
        f"{len(cells)} cells, {100 * sizes.max() / sizes.sum():.3g} % of the measure"
    )
    return cells[mine]


# -- groups ------------------------------------------------------------------------------------


def _carry_groups(
    mesh: Mesh, raw: RawMesh, number: ndarray, notes: list[str]
) -> dict[str, ndarray]:
    """Boundary facets of each group in the new numbering; interior and volume groups dropped."""
    groups: dict[str, ndarray] = {}
    volumes = []
    n_cells = sum(
        len(n)
        for s, n in (shape_of(*b) for b in raw.cells if len(b[1]))
        if DIMENSION[s] == mesh.dim
    )
    for name, blocks in raw.groups.items():
        shaped = [shape_of(kind, nodes) for kind, nodes in blocks if len(nodes)]
        facets = [(s, nodes) for s, nodes in shaped if DIMENSION[s] == mesh.dim - 1]
        if not facets:
            inside = sum(len(nodes) for s, nodes in shaped if DIMENSION[s] == mesh.dim)
            volumes += [name] if 0 < inside < n_cells else []  # the whole domain needs no name
            continue
        simplices = _renumbered(facets, number)
        on_boundary = _on_boundary(mesh, name, simplices, notes)
        if on_boundary.any():
            groups[name] = np.unique(np.sort(simplices[on_boundary], axis=1), axis=0)
    if volumes:
        notes.append(f"groups of cells are not boundary groups and were dropped: {volumes}")
    groups |= _node_groups(mesh, raw, number, groups, notes)
    if groups:
        _, labelled = np.unique(np.concatenate(list(groups.values())), axis=0, return_index=True)
        free = len(mesh.boundary_facets) - len(labelled)
        if free:
            notes.append(f"{free} of {len(mesh.boundary_facets)} boundary facets have no group")
    return groups


def _renumbered(facets: Cells, number: ndarray) -> ndarray:
    """Facets as simplices in the new numbering, -1 for nodes that were dropped."""
    parts = []
    for shape, nodes in facets:
        known = (nodes >= 0) & (nodes < len(number))
        new = np.where(known, number[np.where(known, nodes, 0)], -1)
        # The cut of a quadrilateral depends on the order of the merged numbers, which renumbering
        # keeps; facets with dropped nodes are cut anyhow and then found nowhere.
        parts.append(split_faces(shape, new))
    return np.concatenate(parts)


def _on_boundary(mesh: Mesh, name: str, facets: ndarray, notes: list[str]) -> Bool[ndarray, "_"]:
    """Which facets of a group are on the boundary; the others are noted, or all refused."""
    ordered = np.sort(facets, axis=1)
    on_boundary = find_rows(ordered, mesh.boundary_facets, mesh.n_nodes) >= 0
    inside = find_rows(ordered, mesh.edges if mesh.dim == 2 else mesh.faces, mesh.n_nodes) >= 0
    inside &= ~on_boundary
    elsewhere = (facets == OTHER_PART).any(axis=1)
    if len(facets) and elsewhere.all():
        notes.append(f"group {name!r} lies on a part that was not kept; dropped")
        return on_boundary
    if not on_boundary.any() and not inside.any():
        raise GroupError(
            f"group {name!r} has {len(facets)} facets, and none is a facet of a cell of the mesh",
            "mesh the domain and its boundary together so that they share nodes, or drop it",
        )
    if inside.any():
        what = "all of them, and the group was dropped" if not on_boundary.any() else "dropped"
        notes.append(
            f"{int(inside.sum())} of {len(facets)} facets of group {name!r} lie inside the domain "
            f"({what}): an interface, not a boundary"
        )
    lost = int((~on_boundary & ~inside).sum())
    if lost:
        notes.append(f"{lost} of {len(facets)} facets of group {name!r} belong to no cell; dropped")
    return on_boundary


def _node_groups(
    mesh: Mesh,
    raw: RawMesh,
    number: ndarray,
    taken: Mapping[str, ndarray],
    notes: list[str],
) -> dict[str, ndarray]:
    """Groups given by nodes: boundary facets with all nodes in the set and in no facet group."""
    free = np.ones(len(mesh.boundary_facets), dtype=bool)
    for facets in taken.values():
        free[find_rows(facets, mesh.boundary_facets, mesh.n_nodes)] = False
    groups = {}
    for name, nodes in raw.node_groups.items():
        if name in taken:
            continue
        nodes = np.asarray(nodes, dtype=np.int64)
        nodes = number[nodes[(nodes >= 0) & (nodes < len(number))]]
        member = np.zeros(mesh.n_nodes, dtype=bool)
        member[nodes[nodes >= 0]] = True
        facets = mesh.boundary_facets[member[mesh.boundary_facets].all(axis=1) & free]
        if member.all():
            notes.append(f"node set {name!r} holds every node and was dropped")
        elif len(facets):
            groups[name] = facets
        else:
            notes.append(f"node set {name!r} ({member.sum()} nodes) holds no free boundary facet")
    return groups
