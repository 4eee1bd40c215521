r"""Narrow gaps of a shape: where two of its loops come near each other.

With one cell across a gap all of its nodes are on the boundary, and a field that is given on both
sides has no freedom between them. So a mesh needs a size of at most g/n at a gap of width g,

.. math:: h(x) \le \min_k ( g_k / n + \gamma |x - x_k| ),

:math:`x_k` points along the loops, :math:`g_k` their distances from the other loops and
:math:`\gamma` the growth of the cell size. A loop that comes near itself (a slit) is not looked at.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from geonew.shape.shape import Shape

# Points along the loops are at most this fraction of the widest gap of interest apart, so that the
# width at a point between them is known to a quarter of that.
SPACING = 0.5


def narrow_gaps(shape: Shape, widest: float) -> tuple[Float[ndarray, "K 2"], Float[ndarray, "K"]]:
    """Points on the loops that are nearer than ``widest`` to another loop, and how near."""
    points, widths = [np.empty((0, 2))], [np.empty(0)]
    for k, loop in enumerate(shape.loops):
        others = [other.polygon for j, other in enumerate(shape.loops) if j != k]
        if not others:
            continue
        start = np.concatenate(others)
        end = np.concatenate([np.roll(corners, -1, axis=0) for corners in others])
        along = _subdivided(loop.polygon, SPACING * widest)
        low, high = start.min(axis=0) - widest, start.max(axis=0) + widest
        along = along[((along > low) & (along < high)).all(axis=1)]
        width = _distance(along, start, end)
        points.append(along[width < widest])
        widths.append(width[width < widest])
    return np.concatenate(points), np.concatenate(widths)


def _subdivided(corners: ndarray, spacing: float) -> ndarray:
    """The corners of a closed polygon and points between them, at most ``spacing`` apart."""
    sides = np.roll(corners, -1, axis=0) - corners
    parts = np.ceil(np.hypot(*sides.T) / spacing).astype(int)
    owner = np.repeat(np.arange(len(corners)), parts)
    step = np.arange(len(owner)) - np.repeat(np.cumsum(parts) - parts, parts)
    return corners[owner] + sides[owner] * (step / parts[owner])[:, None]


def _distance(points: ndarray, start: ndarray, end: ndarray) -> ndarray:
    """Distance of each point from the nearest of some segments."""
    sides = end - start
    nearest = np.full(len(points), np.inf)
    for a, side in zip(start, sides, strict=True):
        t = np.clip((points - a) @ side / (side @ side), 0, 1)
        nearest = np.minimum(nearest, np.hypot(*(points - a - t[:, None] * side).T))
    return nearest
