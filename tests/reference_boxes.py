"""Unit boxes with one boundary group per side, for the reference solvers' tests."""

from __future__ import annotations

import numpy as np

from geonew.mesh import Mesh
from zoo import build, grid

SIDES = (("left", "right"), ("bottom", "top"), ("front", "back"))


def sided_box(n: int, dim: int, lengths: tuple[float, ...] = (1.0, 1.0, 1.0)) -> Mesh:
    """Box of n intervals a side; groups left, right, bottom, top and, in 3D, front, back."""
    points, cells = grid([np.linspace(0, lengths[a], n + 1) for a in range(dim)])

    def on(axis: int, value: float):
        return lambda x: np.abs(x[:, axis] - value) < 1e-9

    labels = {}
    for axis, (low, high) in enumerate(SIDES[:dim]):
        labels[low], labels[high] = on(axis, 0.0), on(axis, lengths[axis])
    return build(points, cells, labels)


def bent(mesh: Mesh) -> Mesh:
    """The mesh under a smooth map without symmetry: no two cells are congruent."""
    x = mesh.points.copy()
    x[:, 0] += 0.08 * np.sin(2 * mesh.points[:, 1] + 0.3)
    x[:, 1] += 0.06 * np.sin(3 * mesh.points[:, 0])
    return Mesh(x, mesh.cells, mesh.groups)
