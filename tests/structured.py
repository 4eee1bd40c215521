"""Structured meshes of shapes with closed-form answers, for convergence tests."""

from __future__ import annotations

import numpy as np

from geonew.mesh import Mesh
from zoo import build, grid


def everywhere(x: np.ndarray) -> np.ndarray:
    return np.ones(len(x), dtype=bool)


def box(n: int, dim: int) -> Mesh:
    """Unit square or cube with n intervals a side."""
    return build(*grid([np.linspace(0, 1, n + 1)] * dim), {"wall": everywhere})


def disc(rings: int) -> Mesh:
    """Unit disc of rings with 6 k nodes on ring k, joined sector by sector."""
    start = [0] + [1 + 3 * k * (k - 1) for k in range(1, rings + 1)]
    points = [np.zeros((1, 2))]
    for k in range(1, rings + 1):
        angle = 2 * np.pi * np.arange(6 * k) / (6 * k)
        points.append(k / rings * np.stack([np.cos(angle), np.sin(angle)], axis=1))

    def node(ring: int, place: int) -> int:
        return 0 if ring == 0 else start[ring] + place % (6 * ring)

    cells = []
    for k in range(1, rings + 1):
        for sector in range(6):
            inner, outer = sector * (k - 1), sector * k
            for step in range(k):
                cells.append(
                    [node(k, outer + step), node(k, outer + step + 1), node(k - 1, inner + step)]
                )
                if step < k - 1:
                    cells.append(
                        [
                            node(k - 1, inner + step),
                            node(k, outer + step + 1),
                            node(k - 1, inner + step + 1),
                        ]
                    )
    return build(np.concatenate(points), np.array(cells), {"rim": everywhere})


def annulus(n: int, inner: float = 0.4) -> Mesh:
    """Ring between two circles, n intervals across and 8 n around."""
    around = 8 * n + 1
    points, cells = grid([np.linspace(inner, 1.0, n + 1), np.linspace(0, 2 * np.pi, around)])
    points = points[:, :1] * np.stack([np.cos(points[:, 1]), np.sin(points[:, 1])], axis=1)
    cells[cells % around == around - 1] -= around - 1
    middle = (inner + 1) / 2
    return build(
        points, cells, {"inner": lambda x: np.linalg.norm(x, axis=1) < middle, "outer": everywhere}
    )


def trapezium(n: int) -> Mesh:
    """A quadrilateral without symmetry; nodes of n are nodes of 2 n."""
    points, cells = grid([np.linspace(0, 1, n + 1)] * 2)
    s, t = points.T
    x, y = s * (1.6 + 0.5 * t), t * (1.0 + 0.3 * s)
    sides = {
        "inlet": lambda m: np.abs(m[:, 0]) < 1e-9,
        "bottom": lambda m: np.abs(m[:, 1]) < 1e-9,
        "outlet": lambda m: m[:, 0] > 1.6 + 0.5 * m[:, 1] / 1.3 - 1e-6,
        "top": everywhere,
    }
    return build(np.stack([x, y], axis=1), cells, sides)


def nested_nodes(n: int, factor: int) -> np.ndarray:
    """Numbers, in the mesh of ``factor * n`` intervals, of the nodes of the mesh of n."""
    fine = np.arange((factor * n + 1) ** 2).reshape(factor * n + 1, factor * n + 1)
    return fine[::factor, ::factor].ravel()


def order(errors: list[float]) -> float:
    """Fitted slope of errors under halving of the mesh size."""
    return float(-np.polyfit(np.arange(len(errors)), np.log2(errors), 1)[0])
