r"""Triangles for clouds of points whose connectivity was lost, holes and notches left open.

The Delaunay triangulation of the points fills their convex hull. A triangle belongs to the domain
unless it is much larger than the cloud is dense there: with :math:`h_i` the distance of point i to
its nearest neighbours, it is kept when its circumradius satisfies

.. math:: R_T \le \alpha \max_{i \in T} h_i

(an alpha shape with local density). Triangles across a hole have its boundary nodes as corners and
a circumradius comparable to the hole's radius. Triangles in the domain that fail are few, isolated
and surrounded by kept ones, so cavities of a single triangle are filled again; slivers on the hull
are dropped first. In a sharp re-entrant corner one triangle too many may stay: nodes alone do not
tell that it lies outside.

Identity kept: every point is used, and the result is a conforming connected mesh; a cloud for which
that fails is refused with its numbers, never silently thinned.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray
from scipy.spatial import Delaunay, KDTree, QhullError

from geonew.errors import DataError, MeshError
from geonew.mesh import Mesh

# Equilateral triangles have R = 0.58 h; well-shaped graded ones stay below 1.2 h, holes of a few
# cells across lie above 1.5 h.
ALPHA = 1.35
# Neighbours whose mean distance is the local spacing.
NEIGHBOURS = 4
# Flatter than this relative to its longest edge squared, a triangle on the hull is none.
SLIVER = 1e-3


def triangulate_cloud(points: Float[ndarray, "N 2"], alpha: float = ALPHA) -> Mesh:
    """A mesh, without groups, of a planar cloud of points; see the module docstring.

    Args:
        points: all of them become nodes.
        alpha: largest circumradius over local spacing.

    """
    points = np.asarray(points, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] != 2 or len(points) < 3:
        raise DataError(f"a cloud of shape {points.shape} cannot be triangulated in the plane")
    if not np.isfinite(points).all():
        raise DataError("the cloud has coordinates that are not finite")
    try:
        cells = Delaunay(points).simplices.astype(np.int64)
    except QhullError as error:
        raise DataError(
            f"the cloud cannot be triangulated: {str(error).split(chr(10))[0]}"
        ) from error
    area, radius, longest = _measures(points, cells)
    cells = cells[np.abs(area) > SLIVER * longest**2]
    _, radius, _ = _measures(points, cells)
    nearest = KDTree(points).query(points, min(NEIGHBOURS + 1, len(points)))[0][:, 1:]
    spacing = nearest.mean(axis=1)
    keep = radius <= alpha * spacing[cells].max(axis=1)
    keep |= _enclosed(cells, keep)
    cells = _oriented(points, cells[keep])
    missing = np.setdiff1d(np.arange(len(points)), cells)
    if missing.size:
        raise DataError(
            f"{missing.size} of {len(points)} points have no triangle, first point {missing[0]} at "
            f"{points[missing[0]].tolist()}",
            f"give a larger alpha than {alpha:g} in the recipe, or the cells themselves",
        )
    try:
        return Mesh(points, cells)
    except MeshError as error:
        raise DataError(
            f"the triangles found for a cloud of {len(points)} points are no mesh: {error.what}",
            f"give another alpha than {alpha:g} in the recipe, or the cells themselves",
        ) from error


def _measures(points: ndarray, cells: ndarray) -> tuple[ndarray, ndarray, ndarray]:
    """Signed area, circumradius and longest edge of each triangle."""
    a, b, c = (points[cells[:, k]] for k in range(3))
    ab, ac = b - a, c - a
    area = (ab[:, 0] * ac[:, 1] - ab[:, 1] * ac[:, 0]) / 2
    edges = [np.linalg.norm(p - q, axis=1) for p, q in ((a, b), (b, c), (c, a))]
    tiny = np.finfo(float).tiny
    radius = edges[0] * edges[1] * edges[2] / np.maximum(4 * np.abs(area), tiny)
    return area, radius, np.maximum(np.maximum(edges[0], edges[1]), edges[2])


def _enclosed(cells: Int[ndarray, "C 3"], keep: ndarray) -> ndarray:
    """Dropped triangles all of whose neighbours are kept: irregular spots, not holes."""
    edges = np.sort(np.concatenate([cells[:, [0, 1]], cells[:, [1, 2]], cells[:, [2, 0]]]), axis=1)
    owner = np.tile(np.arange(len(cells)), 3)
    _, inverse = np.unique(edges, axis=0, return_inverse=True)
    inverse = inverse.ravel()
    kept_sides = np.bincount(inverse, keep[owner])  # kept triangles at each edge
    neighbours = (kept_sides[inverse] - keep[owner]).reshape(3, -1)
    return ~keep & (neighbours == 1).all(axis=0)


def _oriented(points: ndarray, cells: ndarray) -> ndarray:
    area, _, _ = _measures(points, cells)
    turned = cells.copy()
    turned[area < 0, :2] = turned[area < 0, 1::-1]
    return turned
