r"""The mesh a truth is computed on: twice finer than the stored one, true to curves and corners.

The stored mesh is refined uniformly, so that its vertices are the first ones of the fine mesh; new
vertices of a curved boundary move to the curve, so that the polygon gets its area; and cells at
reentrant corners get geometric layers: every edge from the corner c to a neighbour a is cut at
:math:`c + \kappa (a - c)`, again and again, which leaves no hanging node because only edges at the
corner are cut. With a singularity :math:`r^\lambda` the error that spreads from the corner falls by
:math:`\kappa^{2\lambda}` a layer.

A field that is infinite at a corner (pressure, stress) has no value to store there. What is stored
is its mean weighted by the stored mesh's hat function,

.. math:: \bar p_c = \int p\, \varphi_c \Big/ \int \varphi_c,

the L2 projection with lumped mass, which converges as fast as integrals of p do.

Identity kept: the hat functions sum to 1 at every vertex of the fine mesh.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray
from scipy.sparse import csr_matrix, identity, vstack
from scipy.spatial import KDTree

from geonew.mesh import Mesh
from geonew.mesh.mesh import find_rows
from geonew.mesh.refine import refined_parts
from geonew.shape import Arc, Ball, Shape, Solid, Spline

# Layers at a reentrant corner: at 3/4 of a turn, where flow goes like r^0.54, three layers of a
# quarter bring the corner's part of the error down to 1 % of what it is without.
LAYERS = 3
CUT = 0.25
# The last new vertices of a curve go 4/3 of the way from the chord to the curve: the polygon then
# has the area inside the curve, as Simpson's rule has that under a parabola (and the same factor
# gives a triangulated sphere its volume). On the curve they would leave it too small on average;
# measured, the error of flows past circles falls from 0.2 % to 0.04 %.
BULGE = 4 / 3
# Vertices stay nearer to the chord, by halves, where a cell would keep less than this part of its
# volume: a tetrahedron with two faces on a sphere is flat there.
KEPT_VOLUME = 0.05
MOST_HALVINGS = 8
# A vertex is on a curve within this fraction of the curve's size; the mesher puts it there to 1e-9.
ON_CURVE = 1e-6
# Points per interval of a spline among which the nearest is looked up before Newton's method.
SPLINE_SAMPLES = 40
NEWTON_STEPS = 4


@runtime_checkable
class Curve(Protocol):
    """A curve or surface that boundary vertices lie on."""

    def holds(self, points: Float[ndarray, "n d"]) -> ndarray:
        """Which points lie on it."""
        ...

    def nearest(self, points: Float[ndarray, "n d"]) -> ndarray:
        """The nearest points of it."""
        ...


@dataclass(frozen=True, eq=False)
class Sphere:
    """A circle or sphere."""

    center: Float[ndarray, "d"]
    radius: float

    def holds(self, points: Float[ndarray, "n d"]) -> ndarray:
        """Which points lie on it."""
        distance = np.linalg.norm(points - self.center, axis=1)
        return np.abs(distance - self.radius) < ON_CURVE * self.radius

    def nearest(self, points: Float[ndarray, "n d"]) -> ndarray:
        """The points moved along their radius."""
        ray = points - self.center
        return self.center + self.radius * ray / np.linalg.norm(ray, axis=1, keepdims=True)


class SplineCurve:
    """A spline of a shape."""

    def __init__(self, spline: Spline) -> None:
        self.curve = spline.curve
        self.at = np.linspace(0, 1, SPLINE_SAMPLES * (len(spline.points) - 1) + 1)
        samples = self.curve(self.at)
        self.tree = KDTree(samples)
        self.size = float(np.ptp(samples, axis=0).max())

    def holds(self, points: Float[ndarray, "n d"]) -> ndarray:
        """Which points lie on it."""
        return np.linalg.norm(self.nearest(points) - points, axis=1) < ON_CURVE * self.size

    def nearest(self, points: Float[ndarray, "n d"]) -> ndarray:
        """The nearest points, where (gamma - x) . gamma' = 0: Newton from the nearest sample."""
        t = self.at[self.tree.query(points)[1]]
        for _ in range(NEWTON_STEPS):
            gap, slope, bend = self.curve(t) - points, self.curve(t, 1), self.curve(t, 2)
            rise = (slope**2).sum(axis=1) + (gap * bend).sum(axis=1)
            t = np.clip(t - (gap * slope).sum(axis=1) / rise, 0, 1)
        return self.curve(t)


def curves_of(shape: Shape | Solid) -> list[Curve]:
    """The curved parts of a boundary."""
    if isinstance(shape, Solid):
        balls = [part for part in (shape.body, *shape.cavities) if isinstance(part, Ball)]
        return [Sphere(np.array(ball.center), float(ball.radius)) for ball in balls]
    found: list[Curve] = []
    for loop in shape.loops:
        for piece in loop.pieces:
            if isinstance(piece, Arc):
                found.append(Sphere(np.array(piece.center), float(piece.radius)))
            elif isinstance(piece, Spline):
                found.append(SplineCurve(piece))
    return found


@dataclass(frozen=True, eq=False)
class FineMesh:
    """A mesh finer than a stored one.

    Args:
        mesh: the fine mesh; its first N vertices are those of the stored mesh.
        hats: values of the stored mesh's hat functions at the fine vertices, (n, N).

    """

    mesh: Mesh
    hats: csr_matrix

    def mean(self, values: Float[ndarray, "n"], nodes: Int[ndarray, "m"]) -> Float[ndarray, "m"]:
        """Means of a P1 field of the fine mesh, weighted by the hat functions of stored nodes."""
        tested = _mass(self.mesh, values)
        weight = _mass(self.mesh, np.ones(self.mesh.n_nodes))
        hats = self.hats[:, nodes]
        return (hats.T @ tested) / (hats.T @ weight)


def finer(
    mesh: Mesh,
    curves: Sequence[Curve] = (),
    corners: Int[ndarray, "c"] | None = None,
    *,
    times: int = 1,
    layers: int = LAYERS,
) -> FineMesh:
    """The mesh refined ``times``, on its curves, with layers at corners.

    Args:
        mesh: the stored mesh.
        curves: curved parts of its boundary.
        corners: vertices with a singularity; 2D.
        times: how often the mesh size is halved.
        layers: geometric layers at the corners.

    """
    parts = _Parts(mesh.points, mesh.cells, mesh.groups, csr_matrix(identity(mesh.n_nodes)))
    for k in range(times):
        bulge = BULGE if k == times - 1 else 1.0
        parts = _halved(parts.mesh() if k else mesh, parts.hats, curves, bulge)
    if corners is not None and len(corners):
        for _ in range(layers):
            parts = _layer(parts, corners)
    return FineMesh(parts.mesh(), parts.hats)


def corner_nodes(mesh: Mesh, corners: Sequence[Sequence[float]] | ndarray) -> Int[ndarray, "c"]:
    """The vertices at given points."""
    if len(corners) == 0:
        return np.empty(0, dtype=np.int64)
    _, nodes = KDTree(mesh.points).query(np.asarray(corners, dtype=np.float64))
    return np.asarray(nodes, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class _Parts:
    """A mesh in the making: checked once, when it is finished."""

    points: ndarray
    cells: ndarray
    groups: Mapping[str, ndarray]
    hats: csr_matrix

    def mesh(self) -> Mesh:
        return Mesh(self.points, self.cells, self.groups)


def _halved(mesh: Mesh, hats: csr_matrix, curves: Sequence[Curve], bulge: float) -> _Parts:
    points, cells, groups = refined_parts(mesh)
    edges = mesh.edges
    halves = 0.5 * (hats[edges[:, 0]] + hats[edges[:, 1]])
    straight = points.copy()
    pairs = _boundary_edges(mesh)
    middle = mesh.n_nodes + find_rows(pairs, edges, mesh.n_nodes)
    for curve in curves:
        on = curve.holds(mesh.points[pairs[:, 0]]) & curve.holds(mesh.points[pairs[:, 1]])
        chord = points[middle[on]]
        points[middle[on]] = chord + bulge * (curve.nearest(chord) - chord)
    hats = csr_matrix(vstack([hats, halves]))
    return _Parts(_upright(straight, points, cells), cells, groups, hats)


def _upright(straight: ndarray, points: ndarray, cells: ndarray) -> ndarray:
    """The moved points, moved less where they would flatten or invert a cell."""
    before = _volumes(straight, cells)
    for _ in range(MOST_HALVINGS):
        flat = _volumes(points, cells) < KEPT_VOLUME * before
        if not flat.any():
            break
        nodes = np.unique(cells[flat])
        points = points.copy()
        points[nodes] = (points[nodes] + straight[nodes]) / 2
    return points


def _volumes(points: ndarray, cells: ndarray) -> ndarray:
    corners = points[cells]
    return np.linalg.det(corners[:, 1:] - corners[:, :1])


def _boundary_edges(mesh: Mesh) -> Int[ndarray, "b 2"]:
    facets = mesh.boundary_facets
    if mesh.dim == 2:
        return facets
    sides = [facets[:, [0, 1]], facets[:, [0, 2]], facets[:, [1, 2]]]
    return np.unique(np.concatenate(sides), axis=0)


def _layer(parts: _Parts, corners: ndarray) -> _Parts:
    """Cut every edge at a corner; no cell may have two corners, which one refinement sees to."""
    n = len(parts.points)
    at_corner = np.zeros(n, dtype=bool)
    at_corner[corners] = True
    touched = at_corner[parts.cells].any(axis=1)
    cells = parts.cells[touched]
    first = at_corner[cells].argmax(axis=1)
    c, a, b = (cells[np.arange(len(cells)), (first + k) % 3] for k in range(3))
    # No neighbour has two corners, so the far end of a cut edge and the corner number it together.
    spokes = np.unique(np.stack([np.tile(c, 2), np.concatenate([a, b])], axis=1), axis=0)
    corner, far = spokes.T
    points = parts.points[corner] + CUT * (parts.points[far] - parts.points[corner])
    hats = (1 - CUT) * parts.hats[corner] + CUT * parts.hats[far]

    def between(hub: ndarray, end: ndarray) -> ndarray:
        return n + find_rows(np.stack([hub, end], axis=1), spokes, n)

    near_a, near_b = between(c, a), between(c, b)
    pieces = [(c, near_a, near_b), (near_a, a, b), (near_a, b, near_b)]
    cells = np.concatenate([parts.cells[~touched], *(np.stack(p, axis=1) for p in pieces)])
    groups = {}
    for name, facets in parts.groups.items():
        ends = at_corner[facets]
        cut = ends.any(axis=1)
        hub = np.where(ends[cut, 0], facets[cut, 0], facets[cut, 1])
        end = facets[cut].sum(axis=1) - hub
        middle = between(hub, end)
        halves = [np.stack([hub, middle], axis=1), np.stack([middle, end], axis=1)]
        groups[name] = np.concatenate([facets[~cut], *halves])
    return _Parts(
        np.concatenate([parts.points, points]),
        cells,
        groups,
        csr_matrix(vstack([parts.hats, hats])),
    )


def _mass(mesh: Mesh, values: ndarray) -> ndarray:
    r"""The vector :math:`\int v \varphi_i`, exact for P1."""
    k = mesh.dim + 1
    local = values[mesh.cells]
    share = (local + local.sum(axis=1, keepdims=True)) * (mesh.volumes / (k * (k + 1)))[:, None]
    return np.bincount(mesh.cells.ravel(), weights=share.ravel(), minlength=mesh.n_nodes)
