r"""Values of P1 fields at arbitrary points: :math:`u(x) = \sum_i u_i \phi_i(x)`."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray
from scipy.spatial import KDTree

from geonew.mesh import Mesh

# A point is inside a cell when no barycentric coordinate is below this: boundaries belong in.
INSIDE = -1e-9
# Cells tried around a point before it counts as outside; grows fourfold until all are found.
FIRST_TRIES = 8


def interpolate(
    mesh: Mesh, values: Float[ndarray, "N *F"], points: Float[ndarray, "n d"]
) -> Float[ndarray, "n *F"]:
    """P1 interpolation at points; NaN outside the mesh."""
    cell, weights = locate(mesh, points)
    inside = cell >= 0
    result = np.full((len(points), *values.shape[1:]), np.nan)
    corners = values[mesh.cells[cell[inside]]]  # (m, d+1, *F)
    result[inside] = np.einsum("mk,mk...->m...", weights[inside], corners)
    return result


def locate(
    mesh: Mesh, points: Float[ndarray, "n d"]
) -> tuple[Int[ndarray, "n"], Float[ndarray, "n d+1"]]:
    """The cell of each point (-1 outside) and its barycentric coordinates there."""
    points = np.asarray(points, dtype=np.float64)
    corners = mesh.points[mesh.cells]
    centre = corners.mean(axis=1)
    # No point of a cell is further from its centre than this; cells beyond need not be tried.
    reach = np.linalg.norm(corners - centre[:, None], axis=2).max()
    inverse = np.linalg.inv((corners[:, 1:] - corners[:, :1]).transpose(0, 2, 1))
    tree = KDTree(centre)
    cell = np.full(len(points), -1)
    weights = np.zeros((len(points), mesh.dim + 1))
    left = np.flatnonzero(np.isfinite(points).all(axis=1))
    tries = min(FIRST_TRIES, mesh.n_cells)
    while left.size:
        distance, near = tree.query(points[left], k=tries)
        distance, near = distance.reshape(len(left), -1), near.reshape(len(left), -1)
        step = points[left][:, None] - corners[near][:, :, 0]
        inner = np.einsum("mkab,mkb->mka", inverse[near], step)
        barycentric = np.concatenate([1 - inner.sum(-1, keepdims=True), inner], axis=-1)
        best = barycentric.min(-1).argmax(1)
        rows = np.arange(len(left))
        found = barycentric[rows, best].min(-1) >= INSIDE
        cell[left[found]] = near[rows, best][found]
        weights[left[found]] = barycentric[rows, best][found]
        # A point whose farthest candidate is out of reach lies in no further cell.
        open_ended = ~found & (distance[:, -1] <= reach)
        left = left[open_ended] if tries < mesh.n_cells else left[:0]
        tries = min(4 * tries, mesh.n_cells)
    return cell, weights
