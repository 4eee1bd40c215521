r"""Windows: as many reduced functions per volume on a large domain as on those of training.

A model learns P functions per component on domains of a certain size. On a domain K times as large
each of them is multiplied by a geometric partition of unity,

.. math:: \psi_{ik} = \psi_i\, \chi_k, \qquad
          \chi = \mathrm{softmax}_k\big(-\beta\, |x - x_k|^2 / s^2\big), \qquad s^d = |\Omega| / K,

with centres x_k spread by Lloyd's iteration from farthest points. Partitions of one window exchange
fluxes with each other and with the groups that the window holds; windows are coupled by known terms
or learned constants alone, so that a law that is learned as a whole keeps to one.

A larger domain may have more windows than its size asks for: a finer space for the same equation,
at the price of a larger solve and of no training. A domain like those of training keeps the space
that was trained for it, which does better there than a finer one of linear elements.

Identity kept: the windows sum to 1, so that the products are a partition of unity again, boundary
values stay exact and the flux law stays antisymmetric; with K = 1 nothing changes. The paper's
space keeps its P functions however large the domain: on channels five times longer than those of
training its best approximation alone is off by a fifth.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from torch import Tensor

# More would make the dense solve the dearest part of a prediction.
MOST = 16
# Sharpness beta: a window falls from 0.9 to 0.1 over three quarters of its size.
SHARPNESS = 3.0
# Lloyd's iterations; centres have settled to a few percent of a window's size.
ITERATIONS = 20
# A domain counts as larger than those of training from this multiple of the largest on.
LARGER = 1.1


def window_count(volume: float, largest: float, density: int = 1) -> int:
    """Windows of a domain.

    Args:
        volume: of the domain.
        largest: of the domains of training, which have one.
        density: windows of a larger domain per volume of training.

    """
    if volume <= LARGER * largest:
        return 1
    return int(np.clip(np.rint(density * volume / largest), 1, MOST))


def window_centres(
    points: Float[ndarray, "N d"], mass: Float[ndarray, "N"], start: Int[ndarray, "K"]
) -> Float[ndarray, "K d"]:
    """Centres of mass of the nodes nearest to each centre, iterated from given nodes."""
    centres = points[start]
    for _ in range(ITERATIONS):
        nearest = ((points[:, None] - centres) ** 2).sum(-1).argmin(1)
        weight = np.bincount(nearest, mass, len(centres))
        moved = [np.bincount(nearest, mass * x, len(centres)) for x in points.T]
        held = weight > 0
        centres = centres.copy()
        centres[held] = np.stack(moved, axis=1)[held] / weight[held, None]
    return centres


def window_weights(
    points: Float[Tensor, "B N d"], centres: Float[Tensor, "B K d"], volume: Float[Tensor, "B"]
) -> Float[Tensor, "B N K"]:
    """The windows chi of the module docstring."""
    d, K = points.shape[-1], centres.shape[1]
    distance = (points[:, :, None] - centres[:, None]).square().sum(-1)
    size = (volume / K) ** (2 / d)
    return torch.softmax(-SHARPNESS * distance / size[:, None, None], dim=-1)
