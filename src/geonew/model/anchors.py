r"""Which nodes are anchors: random in training, farthest points at inference.

Training: M nodes without replacement, with probability proportional to lumped mass, drawn anew for
every block by a generator keyed by (seed, epoch, sample), so that a resumed run and several
processes draw the same. With Gumbel noise g the M largest of :math:`\log m_n + g_n` are such a
draw.

Inference: farthest-point sampling, started at the node nearest the mean of all nodes,

.. math:: a_{k+1} = \arg\max_n \min_{j \le k} |x_n - x_{a_j}|.

Identity kept: the chosen set does not depend on the numbering of the nodes. Symmetric geometries
have ties, which round-off would break by numbering: distances within ``TIE`` of the best count
as equal and the largest invariant key (a rounded token) decides.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

# Distances closer than this (relative to the diameter) are a tie; well above round-off after a
# rigid motion, well below any mesh width.
TIE = 1e-6
# Invariant keys are compared after rounding, for the same reason.
KEY_DIGITS = 6


def farthest_points(
    points: Float[ndarray, "N d"], key: Float[ndarray, "N k"], count: int
) -> Int[ndarray, "_"]:
    """Farthest-point sample of at most ``count`` nodes, independent of their numbering.

    Args:
        points: coordinates.
        key: invariant features that order tied nodes.
        count: how many nodes are wanted.

    """
    n = len(points)
    count = min(count, n)
    rank = np.empty(n, dtype=np.int64)
    rank[_rank(key)] = np.arange(n)  # position of each node in the invariant order
    spread = points - points.mean(axis=0)
    tie = TIE * np.sqrt((spread**2).sum(axis=1).max())
    chosen = np.empty(count, dtype=np.int64)
    away = np.sqrt(((points - points.mean(axis=0)) ** 2).sum(axis=1))
    chosen[0] = _first(np.flatnonzero(away <= away.min() + tie), rank)
    distance = np.full(n, np.inf)
    for k in range(1, count):
        step = points - points[chosen[k - 1]]
        distance = np.minimum(distance, np.sqrt(np.einsum("nd,nd->n", step, step)))
        distance[chosen[k - 1]] = -np.inf  # never again, though others may share its place
        chosen[k] = _first(np.flatnonzero(distance >= distance.max() - tie), rank)
    return chosen


def mass_weighted_draw(
    mass: Float[ndarray, "N"], blocks: int, count: int, key: tuple[int, int, int]
) -> Int[ndarray, "L M"]:
    """For each block, distinct nodes drawn with probability proportional to mass.

    Args:
        mass: lumped mass.
        blocks: number of draws.
        count: nodes per draw (all nodes where there are fewer).
        key: (seed, epoch, sample number), which fixes the draw.

    """
    generator = np.random.Generator(np.random.Philox(key=_philox_key(key)))
    gumbel = generator.gumbel(size=(blocks, len(mass))) + np.log(mass)
    count = min(count, len(mass))
    return np.argpartition(-gumbel, count - 1, axis=1)[:, :count]


def _philox_key(key: tuple[int, int, int]) -> ndarray:
    return np.random.SeedSequence(list(key)).generate_state(2, np.uint64)


def _rank(key: ndarray) -> ndarray:
    """Nodes in the order of their rounded keys, first column most significant."""
    return np.lexsort(np.round(key, KEY_DIGITS).T[::-1])


def _first(candidates: ndarray, rank: ndarray) -> int:
    return int(candidates[np.argmin(rank[candidates])])
