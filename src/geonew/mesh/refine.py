r"""Uniform (red) refinement: every edge halved, every cell cut into :math:`2^d` of equal volume.

A triangle gives four similar triangles. A tetrahedron gives four similar ones at its corners and an
octahedron between them, which is cut into four along one of its three diagonals; the shortest one
keeps the angles of repeated refinements bounded (Bey 1995; Zhang 1995).

Identity kept: the children's volumes sum to the parent's, and each is :math:`2^{-d}` of it.
Boundary facets are halved with their groups. The refined mesh fills the same polygon:
it does not move new nodes onto the curve behind it (mesh the shape at the next level for that).
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy import ndarray

from geonew.mesh.mesh import Mesh, find_rows

# The three diagonals of the octahedron in a tetrahedron 0123, as pairs of edges (opposite edges
# have no common vertex), each with the four remaining edges in order around it.
_DIAGONALS = (
    (((0, 1), (2, 3)), ((0, 2), (0, 3), (1, 3), (1, 2))),
    (((0, 2), (1, 3)), ((0, 1), (0, 3), (2, 3), (1, 2))),
    (((0, 3), (1, 2)), ((0, 1), (0, 2), (2, 3), (1, 3))),
)


def refine(mesh: Mesh, times: int = 1) -> Mesh:
    """The mesh after ``times`` uniform refinements; groups and notes are kept."""
    for _ in range(times):
        points, cells, groups = refined_parts(mesh)
        mesh = Mesh(points, cells, groups, mesh.notes)
    return mesh


def refined_parts(mesh: Mesh) -> tuple[ndarray, ndarray, dict[str, ndarray]]:
    """Points, cells and groups of the mesh refined once, for those who go on to change them."""
    points = np.concatenate([mesh.points, mesh.points[mesh.edges].mean(axis=1)])

    def middle(a: ndarray, b: ndarray) -> ndarray:
        """Number of the new node halfway between nodes a and b."""
        pair = np.sort(np.stack([a, b], axis=1), axis=1)
        return mesh.n_nodes + find_rows(pair, mesh.edges, mesh.n_nodes)

    def halves(simplices: ndarray) -> dict[tuple[int, int], ndarray]:
        corners = range(simplices.shape[1])
        return {
            (i, j): middle(simplices[:, i], simplices[:, j]) for i, j in combinations(corners, 2)
        }

    def children(simplices: ndarray) -> ndarray:
        """Parts of segments or triangles, all in the parent's orientation."""
        m = halves(simplices)
        if simplices.shape[1] == 2:
            a, b = simplices.T
            parts = [(a, m[0, 1]), (m[0, 1], b)]
        else:
            a, b, c = simplices.T
            ab, ac, bc = m[0, 1], m[0, 2], m[1, 2]
            parts = [(a, ab, ac), (ab, b, bc), (ac, bc, c), (ab, bc, ac)]
        return np.concatenate([np.stack(part, axis=1) for part in parts])

    if mesh.dim == 2:
        cells = children(mesh.cells)
    else:
        cells = _tetrahedra(mesh.cells, halves(mesh.cells), points)
    groups = {name: children(facets) for name, facets in mesh.groups.items()}
    return points, cells, groups


def _tetrahedra(cells: ndarray, m: dict[tuple[int, int], ndarray], points: ndarray) -> ndarray:
    """Eight children of each tetrahedron; ``m`` numbers the middle of each edge."""
    corner = [
        np.stack([cells[:, i], *(m[min(i, j), max(i, j)] for j in range(4) if j != i)], axis=1)
        for i in range(4)
    ]
    lengths = np.stack(
        [np.linalg.norm(points[m[p]] - points[m[q]], axis=1) for (p, q), _ in _DIAGONALS]
    )
    shortest = lengths.argmin(axis=0)
    inner = []
    for k, ((p, q), ring) in enumerate(_DIAGONALS):
        mine = shortest == k
        for a, b in zip(ring, (*ring[1:], ring[0]), strict=True):
            inner.append(np.stack([m[p][mine], m[q][mine], m[a][mine], m[b][mine]], axis=1))
    children = np.concatenate([*corner, *inner])
    sides = points[children[:, 1:]] - points[children[:, :1]]
    inverted = np.linalg.det(sides) < 0
    children[inverted] = children[inverted][:, [1, 0, 2, 3]]
    return children
