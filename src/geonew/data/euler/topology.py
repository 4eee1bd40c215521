r"""Cells and faces of a C-grid as the finite volume scheme sees them.

Every interior face has a left and a right cell, the cell behind each of them (for the second-order
stencil; -1 where there is none) and a normal as long as the face, from left to right. The faces of
the wake cut are interior faces like all others, so nothing later knows that the grid is a C.

Identity kept: the normals of every cell sum to zero, hence a uniform stream is a steady solution.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from geonew.data.euler.grid import CGrid


@dataclass(frozen=True, eq=False)
class Faces:
    """Cells and faces of a grid; cell (i, j) has number i n + j, n the cells outwards.

    Args:
        volumes: areas of the cells.
        stencil: cells behind left, left, right, behind right of each interior face.
        normals: of the interior faces, from left to right.
        wall_cells: for each face of the airfoil its cell, and the one beyond it.
        wall_normals: out of the flow, into the airfoil.
        wall_middles: their mid-points.
        far_cells: the cell of each face of the far field.
        far_normals: out of the flow.
        far_middles: their mid-points.
        neighbours: interior faces of each cell, -1 where there are fewer than four.

    """

    volumes: Float[ndarray, "C"]
    stencil: Int[ndarray, "F 4"]
    normals: Float[ndarray, "F 2"]
    wall_cells: Int[ndarray, "W 2"]
    wall_normals: Float[ndarray, "W 2"]
    wall_middles: Float[ndarray, "W 2"]
    far_cells: Int[ndarray, "B"]
    far_normals: Float[ndarray, "B 2"]
    far_middles: Float[ndarray, "B 2"]
    neighbours: Int[ndarray, "C 4"]


def faces_of(grid: CGrid) -> Faces:
    """Cells and faces of a C-grid."""
    m, n = grid.cells
    p, wake = grid.nodes, grid.wake
    padded = np.full((m + 4, n + 4), -1)
    padded[2:-2, 2:-2] = cell = np.arange(m * n).reshape(m, n)
    along = [padded[k : k + m - 1, 2:-2] for k in (1, 2, 3, 4)]
    across = [padded[2:-2, k : k + n - 1] for k in (1, 2, 3, 4)]
    mirror = cell[::-1][:wake]
    cut = [cell[:wake, 1], cell[:wake, 0], mirror[:, 0], mirror[:, 1]]
    stencil = np.concatenate(
        [np.stack([k.ravel() for k in part], axis=1) for part in (along, across, cut)]
    )
    normals = np.concatenate(
        [
            _normals(p[1:-1, :-1], p[1:-1, 1:]),
            _normals(p[1:, 1:-1], p[:-1, 1:-1]),
            _normals(p[:wake, 0], p[1 : wake + 1, 0]),
        ]
    )
    body = slice(wake, m - wake)
    ends = [  # outer line, then the two ends of the wake
        (cell[:, -1], p[1:, -1], p[:-1, -1]),
        (cell[0], p[0, 1:], p[0, :-1]),
        (cell[-1], p[-1, :-1], p[-1, 1:]),
    ]
    return Faces(
        volumes=grid.areas.ravel(),
        stencil=np.ascontiguousarray(stencil),
        normals=normals,
        wall_cells=np.ascontiguousarray(cell[body, :2]),
        wall_normals=_normals(p[:-1, 0][body], p[1:, 0][body]),
        wall_middles=(p[:-1, 0][body] + p[1:, 0][body]) / 2,
        far_cells=np.concatenate([c for c, _, _ in ends]),
        far_normals=np.concatenate([_normals(a, b) for _, a, b in ends]),
        far_middles=np.concatenate([(a + b) / 2 for _, a, b in ends]),
        neighbours=_faces_of_cells(stencil, m * n),
    )


def _normals(start: ndarray, end: ndarray) -> ndarray:
    """Normals to the right of the way from start to end, (n, 2)."""
    way = (end - start).reshape(-1, 2)
    return np.stack([way[:, 1], -way[:, 0]], axis=1)


def _faces_of_cells(stencil: ndarray, cells: int) -> ndarray:
    owner = np.concatenate([stencil[:, 1], stencil[:, 2]])
    face = np.tile(np.arange(len(stencil)), 2)
    order = np.argsort(owner, kind="stable")
    owner, face = owner[order], face[order]
    place = np.arange(len(owner)) - np.searchsorted(owner, owner)
    table = np.full((cells, 4), -1)
    table[owner, place] = face
    return table
