"""A zoo of tiny and awkward meshes, built without a mesher: every test of structure runs over it.

``ZOO[name]()`` builds one mesh; all are conforming, connected, fully labelled, of 3 to 400 nodes.
``PLANAR`` and ``SOLID`` are the names of the 2D and the 3D ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from itertools import permutations

import numpy as np
from numpy import ndarray
from scipy.spatial import Delaunay

from geonew.mesh import Mesh

Predicate = Callable[[ndarray], ndarray]


# -- pieces ------------------------------------------------------------------------------------


def grid(axes: list[ndarray], keep: Predicate | None = None) -> tuple[ndarray, ndarray]:
    """Kuhn's triangulation of a tensor grid: each box split along all monotone paths.

    ``keep`` selects boxes by their midpoints, so that holes and notches can be cut out.
    """
    dim = len(axes)
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, dim)
    shape = tuple(len(axis) for axis in axes)
    numbers = np.arange(len(points)).reshape(shape)
    corner = np.stack(np.meshgrid(*[np.arange(n - 1) for n in shape], indexing="ij"), axis=-1)
    corner = corner.reshape(-1, dim)
    if keep is not None:
        middle = np.stack(
            [(axes[k][corner[:, k]] + axes[k][corner[:, k] + 1]) / 2 for k in range(dim)], axis=1
        )
        corner = corner[keep(middle)]
    cells = []
    for path in permutations(range(dim)):
        step, rows = np.zeros(dim, dtype=int), [numbers[tuple(corner.T)]]
        for axis in path:
            step[axis] = 1
            rows.append(numbers[tuple((corner + step).T)])
        cells.append(np.stack(rows, axis=1))
    return points, np.concatenate(cells)


def build(points: ndarray, cells: ndarray, labels: Mapping[str, Predicate]) -> Mesh:
    """Orient, drop unused nodes, and label boundary facets by their midpoints, first match wins."""
    used, flat = np.unique(cells, return_inverse=True)
    points, cells = points[used], flat.reshape(cells.shape)
    inverted = np.linalg.det(points[cells[:, 1:]] - points[cells[:, :1]]) < 0
    cells[inverted, :2] = cells[inverted, 1::-1]
    bare = Mesh(points, cells)
    middle = points[bare.boundary_facets].mean(axis=1)
    free = np.ones(len(middle), dtype=bool)
    groups = {}
    for name, predicate in labels.items():
        mine = free & predicate(middle)
        free &= ~mine
        groups[name] = bare.boundary_facets[mine]
    assert not free.any(), "a zoo mesh labels its whole boundary"
    return bare.with_groups(groups)


def _at(axis: int, value: float, tolerance: float = 1e-9) -> Predicate:
    return lambda x: np.abs(x[:, axis] - value) < tolerance


def _rest(x: ndarray) -> ndarray:
    return np.ones(len(x), dtype=bool)


def _sides(width: float = 1.0, height: float = 1.0) -> dict[str, Predicate]:
    return {
        "left": _at(0, 0.0, 1e-9 * width),
        "right": _at(0, width, 1e-9 * width),
        "bottom": _at(1, 0.0, 1e-9 * height),
        "top": _at(1, height, 1e-9 * height),
    }


def _line(n: int) -> ndarray:
    return np.linspace(0.0, 1.0, n + 1)


# -- 2D ----------------------------------------------------------------------------------------


def one_triangle() -> Mesh:
    points = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    labels = {"bottom": _at(1, 0.0), "left": _at(0, 0.0), "slope": _rest}
    return build(points, np.array([[0, 1, 2]]), labels)


def two_triangles() -> Mesh:
    points = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    return build(points, np.array([[0, 1, 2], [0, 2, 3]]), _sides())


def square() -> Mesh:
    return build(*grid([_line(8), _line(8)]), _sides())


def square_with_hole() -> Mesh:
    outside = lambda x: np.abs(x - 0.5).max(axis=1) > 1 / 6  # noqa: E731
    return build(*grid([_line(9), _line(9)], outside), {**_sides(), "hole": _rest})


def square_with_holes() -> Mesh:
    centres = np.array([[0.25, 0.25], [0.75, 0.25], [0.25, 0.75], [0.75, 0.75]])
    outside = lambda x: (  # noqa: E731
        np.abs(x[:, None] - centres).max(axis=2).min(axis=1) > 1 / 12
    )
    return build(*grid([_line(12), _line(12)], outside), {**_sides(), "holes": _rest})


def plate() -> Mesh:
    """Square with a round hole, meshed along rays."""
    angle = np.linspace(-np.pi, np.pi, 33)
    points, cells = grid([_line(5), angle])
    t, ray = points[:, :1], np.stack([np.cos(points[:, 1]), np.sin(points[:, 1])], axis=1)
    outer = ray / np.abs(ray).max(axis=1, keepdims=True)
    points = 0.5 + 0.5 * ((1 - t**1.3) * 0.4 * ray + t**1.3 * outer)
    cells[cells % 33 == 32] -= 32  # glue -pi to pi
    return build(points, cells, {**_sides(), "hole": _rest})


def slit() -> Mesh:
    """Square with a crack along y = 1/2, 1/4 <= x <= 3/4: nodes doubled, both tips shared."""
    points, cells = grid([_line(8), _line(8)])
    on_crack = (points[:, 1] == 0.5) & (points[:, 0] > 0.25) & (points[:, 0] < 0.75)
    twin = np.arange(len(points))
    twin[on_crack] = len(points) + np.arange(on_crack.sum())
    above = points[cells].mean(axis=1)[:, 1] > 0.5
    cells[above] = twin[cells[above]]
    points = np.concatenate([points, points[on_crack]])
    return build(points, cells, {**_sides(), "crack": _rest})


def l_shape() -> Mesh:
    notch = lambda x: ~((x[:, 0] > 0.5) & (x[:, 1] > 0.5))  # noqa: E731
    return build(*grid([_line(8), _line(8)], notch), {**_sides(), "notch": _rest})


def graded() -> Mesh:
    """Square graded to the corner (0, 0): smallest edge 1e-3 of the largest."""
    return build(*grid([_line(10) ** 3, _line(10) ** 3]), _sides())


def needles() -> Mesh:
    """Triangles of aspect ratio 1e4."""
    points, cells = grid([_line(10), _line(4)])
    return build(points * [1.0, 4e-5], cells, _sides(1.0, 4e-5))


def disc() -> Mesh:
    rings = [np.zeros((1, 2))]
    for k in range(1, 7):
        angle = 2 * np.pi * np.arange(6 * k) / (6 * k)
        rings.append(k / 6 * np.stack([np.cos(angle), np.sin(angle)], axis=1))
    points = np.concatenate(rings)
    return build(points, Delaunay(points).simplices, {"rim": _rest})


def annulus() -> Mesh:
    points, cells = grid([np.linspace(0.4, 1.0, 6), np.linspace(0, 2 * np.pi, 37)])
    points = points[:, :1] * np.stack([np.cos(points[:, 1]), np.sin(points[:, 1])], axis=1)
    cells[cells % 37 == 36] -= 36  # glue 0 to 2 pi
    near = lambda x: np.linalg.norm(x, axis=1) < 0.7  # noqa: E731
    return build(points, cells, {"inner": near, "outer": _rest})


def random_delaunay() -> Mesh:
    inside = np.random.default_rng(0).uniform(0.03, 0.97, (120, 2))
    t = _line(10)[:-1]
    zero, one = np.zeros_like(t), np.ones_like(t)
    rim = [np.stack(side, axis=1) for side in [(t, zero), (one, t), (1 - t, one), (zero, 1 - t)]]
    points = np.concatenate([inside, *rim])
    return build(points, Delaunay(points).simplices, _sides())


def obtuse() -> Mesh:
    """Structured square sheared by 60 degrees: obtuse, not Delaunay, stiffness with wrong signs."""
    mesh = square()
    shear = np.array([[1.0, 0.0], [1.7, 1.0]])
    return Mesh(mesh.points @ shear, mesh.cells, mesh.groups)


def millimetres() -> Mesh:
    """The L-shape in millimetres, rotated by 30 degrees, far from the origin."""
    c, s = np.cos(np.pi / 6), np.sin(np.pi / 6)
    return l_shape().moved(np.array([[c, -s], [s, c]]), np.array([-3.0, 7.0]), scale=1e-3)


# -- 3D ----------------------------------------------------------------------------------------

_WALLS: dict[str, Predicate] = {
    "left": _at(0, 0.0),
    "right": _at(0, 1.0),
    "front": _at(1, 0.0),
    "back": _at(1, 1.0),
    "bottom": _at(2, 0.0),
    "top": _at(2, 1.0),
}


def one_tetrahedron() -> Mesh:
    points = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    labels = {"left": _at(0, 0.0), "front": _at(1, 0.0), "bottom": _at(2, 0.0), "slope": _rest}
    return build(points, np.array([[0, 1, 2, 3]]), labels)


def cube() -> Mesh:
    return build(*grid([_line(4)] * 3), _WALLS)


def hollow_cube() -> Mesh:
    """Cube with a cubic cavity: two boundary components."""
    outside = lambda x: np.abs(x - 0.5).max(axis=1) > 1 / 6  # noqa: E731
    return build(*grid([_line(3)] * 3, outside), {**_WALLS, "cavity": _rest})


def torus_block() -> Mesh:
    """Block with a square hole through it: a solid torus, one boundary component of genus 1."""
    outside = lambda x: np.abs(x[:, :2] - 0.5).max(axis=1) > 1 / 6  # noqa: E731
    return build(*grid([_line(3), _line(3), _line(2)], outside), {**_WALLS, "tunnel": _rest})


def l_brick() -> Mesh:
    notch = lambda x: ~((x[:, 0] > 0.5) & (x[:, 1] > 0.5))  # noqa: E731
    return build(*grid([_line(4), _line(4), _line(2)], notch), {**_WALLS, "notch": _rest})


def ball() -> Mesh:
    """A cube blown up to a ball, boxes becoming spheres."""
    points, cells = grid([np.linspace(-1, 1, 7)] * 3)
    size = np.linalg.norm(points, axis=1, keepdims=True)
    points = points * np.abs(points).max(axis=1, keepdims=True) / np.where(size > 0, size, 1)
    north = lambda x: x[:, 2] > 0  # noqa: E731
    return build(points, cells, {"north": north, "south": _rest})


def slivers() -> Mesh:
    """Flat tetrahedra inside squashed octahedra, stacked: positive volumes, far from Delaunay."""
    flat = 1e-3
    ring = np.array([[1, 0, flat], [0, 1, -flat], [-1, 0, flat], [0, -1, -flat]])
    points, cells = [np.array([[0.0, 0.0, -0.8]])], []
    for k in range(3):
        low, r = 5 * k, 5 * k + 1  # low pole, ring r ... r+3, high pole r+4
        points += [ring + np.array([0, 0, 1.6 * k]), np.array([[0, 0, 1.6 * k + 0.8]])]
        cells += [[r, r + 1, r + 2, r + 3]]
        cells += [[r, r + 2, r + 1, r + 4], [r, r + 2, r + 3, r + 4]]
        cells += [[r + 1, r + 3, r, low], [r + 1, r + 3, r + 2, low]]
        if k:  # fill the gap to the octahedron below, so that the stack is a solid
            below = 5 * (k - 1) + 1
            for a in range(4):
                b = (a + 1) % 4
                cells += [[low, below + a, below + b, r + a], [low, below + b, r + a, r + b]]
    upper = lambda x: x[:, 2] > 1.6  # noqa: E731
    return build(np.concatenate(points), np.array(cells), {"upper": upper, "lower": _rest})


def _known(builders: list[Callable[[], Mesh]]) -> dict[str, Callable[[], Mesh]]:
    return {builder.__name__: cache(builder) for builder in builders}


PLANAR = _known(
    [
        one_triangle,
        two_triangles,
        square,
        square_with_hole,
        square_with_holes,
        plate,
        slit,
        l_shape,
        graded,
        needles,
        disc,
        annulus,
        random_delaunay,
        obtuse,
        millimetres,
    ]
)
SOLID = _known([one_tetrahedron, cube, hollow_cube, torus_block, l_brick, ball, slivers])
ZOO = {**PLANAR, **SOLID}
