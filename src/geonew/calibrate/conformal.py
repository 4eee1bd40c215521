r"""Split-conformal factors: how many scales an error is, at most, in nine cases of ten.

With :math:`r_{in}` the error of sample i at node n over the scale there, two statements, each for a
new sample that is exchangeable with the n calibration samples:

*Share.* The band of factor q misses the part :math:`L_i(q)` of sample i's domain, by mass. With the
least q for which

.. math:: \frac{1}{n + 1} \Big( \sum_i L_i(q) + 1 \Big) \le \alpha,

the expected part of a new sample's domain outside the band is at most alpha (conformal risk
control).

*Whole.* With q the :math:`\lceil (n + 1)(1 - \alpha) \rceil`-th smallest of
:math:`\max_n r_{in}`, a new sample lies inside the band everywhere with probability at least
1 - alpha.

Both hold without any assumption about the model; neither says anything about samples from another
distribution, for which the distance to the training data is given beside.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from geonew.errors import DataError


def least_samples(level: float) -> int:
    """So many calibration samples are needed for a level."""
    return ceil(1 / (1 - level) - 1e-9) - 1


def whole_factor(ratios: Sequence[Float[ndarray, "_"]], level: float) -> float:
    """Q of the second statement."""
    _check(len(ratios), level)
    worst = np.sort([float(np.max(r, initial=0.0)) for r in ratios])
    rank = ceil((len(ratios) + 1) * level - 1e-9)
    return float(worst[min(rank, len(worst)) - 1])


def share_factor(
    ratios: Sequence[Float[ndarray, "_"]], masses: Sequence[Float[ndarray, "_"]], level: float
) -> float:
    """Q of the first statement.

    Args:
        ratios: error over scale at the nodes of each sample.
        masses: of the same nodes, in any unit.
        level: 1 - alpha.

    """
    _check(len(ratios), level)
    values = np.concatenate([np.asarray(r) for r in ratios])
    weights = np.concatenate([np.asarray(m) / np.sum(m) for m in masses])
    order = np.argsort(values)[::-1]
    # Missed with q = values[order[k]]: all nodes with larger ratios; ties are inside.
    missed = np.cumsum(weights[order]) - weights[order]
    allowed = (1 - level) * (len(ratios) + 1) - 1
    fitting = np.flatnonzero(missed <= allowed + 1e-12)
    return float(values[order[fitting[-1]]])


def missed_share(ratio: Float[ndarray, "n"], mass: Float[ndarray, "n"], factor: float) -> float:
    """The part L of one sample's domain outside the band."""
    return float(mass[ratio > factor].sum() / mass.sum())


def _check(count: int, level: float) -> None:
    if not 0 < level < 1:
        raise DataError(f"the level is {level}", "give a number between 0 and 1, such as 0.9")
    if count < least_samples(level):
        raise DataError(
            f"{count} calibration samples are too few for the level {level}",
            f"give at least {least_samples(level)}",
        )
