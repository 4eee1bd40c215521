"""Which samples go together: batches of similar size, in an order fixed by (seed, epoch).

Samples are shuffled, cut into pools of a few batches, sorted by size within a pool and cut into
batches, whose order is shuffled again: little padding, and still random batches.

Identity kept: every sample appears once per epoch; the order depends on seed and epoch alone, so a
resumed run and every process of several see the same batches.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Int
from numpy import ndarray

# Batches per pool: more means less padding and less chance.
POOL = 8


def epoch_batches(
    sizes: Int[ndarray, "n"], batch: int, seed: int, epoch: int
) -> list[Int[ndarray, "_"]]:
    """The batches of one epoch, as sample numbers.

    Args:
        sizes: number of nodes of each sample.
        batch: samples per batch; the last of an epoch may be smaller.
        seed: of the run.
        epoch: its number.

    """
    generator = np.random.default_rng([seed, epoch])
    order = generator.permutation(len(sizes))
    batches: list[ndarray] = []
    for first in range(0, len(order), POOL * batch):
        pool = order[first : first + POOL * batch]
        pool = pool[np.argsort(sizes[pool], kind="stable")]
        batches.extend(pool[start : start + batch] for start in range(0, len(pool), batch))
    return [batches[k] for k in generator.permutation(len(batches))]
