r"""How good the cells are: radius ratio, smallest angle, edge lengths.

The quality of a cell is :math:`q = d\, r / R`, inradius over circumradius, scaled to 1 for the
equilateral simplex and 0 for a flat one; it sees needles, caps and slivers alike. In 2D
:math:`r = 2A/\sum\ell`, :math:`R = \ell_1\ell_2\ell_3/(4A)`. In 3D :math:`r = 3V/\sum A_f`, and
:math:`6 V R` is the area of the triangle whose sides are the products of opposite edges.
Angles are those between edges in 2D, between faces (dihedral) in 3D.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from geonew.mesh.mesh import Mesh


@dataclass(frozen=True, eq=False)
class MeshQuality:
    """Quality and smallest angle of each cell, range of edge lengths of the mesh."""

    quality: Float[ndarray, "C"]  # in [0, 1]
    smallest_angle: Float[ndarray, "C"]  # in degrees
    shortest_edge: float
    longest_edge: float
    mean_edge: float

    def histogram(self, bins: int = 10) -> list[tuple[float, float, int]]:
        """Lower end, upper end and number of cells of equal intervals of quality."""
        count, edges = np.histogram(self.quality, bins=bins, range=(0.0, 1.0))
        return [(float(edges[k]), float(edges[k + 1]), int(count[k])) for k in range(bins)]


def mesh_quality(mesh: Mesh) -> MeshQuality:
    """Quality of all cells of a mesh."""
    corners = mesh.points[mesh.cells]
    ratio, angle = _triangles(corners) if mesh.dim == 2 else _tetrahedra(corners)
    along = mesh.points[mesh.edges[:, 1]] - mesh.points[mesh.edges[:, 0]]
    length = np.linalg.norm(along, axis=1)
    return MeshQuality(
        np.clip(ratio, 0.0, 1.0),
        np.rad2deg(angle),
        float(length.min()),
        float(length.max()),
        float(length.mean()),
    )


def _triangles(corners: ndarray) -> tuple[ndarray, ndarray]:
    sides = [corners[:, (k + 2) % 3] - corners[:, (k + 1) % 3] for k in range(3)]
    a, b, c = (np.linalg.norm(side, axis=1) for side in sides)
    area = _cross_2d(sides[0], sides[1]) / 2
    ratio = 16 * area**2 / ((a + b + c) * a * b * c)
    # atan2 keeps the small angles of needles, where arccos would lose them.
    angles = [
        np.arctan2(2 * area, -np.einsum("cd,cd->c", sides[(k + 1) % 3], sides[(k + 2) % 3]))
        for k in range(3)
    ]
    return ratio, np.min(angles, axis=0)


def _cross_2d(one: ndarray, two: ndarray) -> ndarray:
    return np.abs(one[:, 0] * two[:, 1] - one[:, 1] * two[:, 0])


def _tetrahedra(corners: ndarray) -> tuple[ndarray, ndarray]:
    others = [(1, 2, 3), (0, 3, 2), (0, 1, 3), (0, 2, 1)]  # face opposite to each corner, outward
    normals = [
        np.cross(corners[:, b] - corners[:, a], corners[:, c] - corners[:, a]) / 2
        for a, b, c in others
    ]
    areas = [np.linalg.norm(normal, axis=1) for normal in normals]
    volume = np.abs(np.linalg.det(corners[:, 1:] - corners[:, :1])) / 6
    inradius = 3 * volume / np.sum(areas, axis=0)

    def length(i: int, j: int) -> ndarray:
        return np.linalg.norm(corners[:, i] - corners[:, j], axis=1)

    p, q, r = (length(0, i) * length(j, k) for i, j, k in [(1, 2, 3), (2, 1, 3), (3, 1, 2)])
    heron = (p + q + r) * np.abs((p + q - r) * (p - q + r) * (q + r - p))
    # q = 3 r / R with 6 V R = sqrt(heron)/4; a flat cell has R -> infinity and q -> 0.
    ratio = 3 * inradius * 24 * volume / np.sqrt(heron)
    angles = []
    for i, j in combinations(range(4), 2):
        sine = np.linalg.norm(np.cross(normals[i], normals[j]), axis=1)
        angles.append(np.arctan2(sine, -np.einsum("cd,cd->c", normals[i], normals[j])))
    return ratio, np.min(angles, axis=0)
