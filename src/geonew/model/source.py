r"""A learned source, on the nodes: relaxation to a learned state.

.. math:: R_f(u) \mathrel{+}= \varrho\,(u_f - E_f - s).

E is the extension of the data; the rate rho > 0 says how far the state E + s is trusted against
everything else in the balance: known terms, where there are some, correct the state as far as they
are trusted. What is no conserved quantity (a Mach number) is the divergence of nothing and has this
alone. State and logarithm of the rate are linear in the embedding and start at s = 0 and the given
trust. The lift ends at the state (:mod:`geonew.model.space`), so what the partitions add is the
correction.

A component with a gauge has the mean of its state taken off, and one rate for the whole domain: the
balances then sum to rho times the mean of the correction, which the gauge makes zero.

Identity kept: the rate is positive and its term symmetric, so the certificate's margin only grows;
on components with a gauge the source has no net load.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from geonew.model.batch import Batch
from geonew.model.space import Relaxation

# Bound on the logarithm of the rate: no weights make a system that float64 cannot solve.
LIMIT = 6.0
MOST_TRUST = math.exp(LIMIT)  # a bound on the rate itself


class LearnedSource(nn.Module):
    """State and rate from node embeddings.

    Args:
        width: embedding width d.
        components: number of components F.
        gauged: components with a gauge.
        trust: the rate at the start.

    """

    gauged: Bool[Tensor, "F"]

    def __init__(
        self, width: int, components: int, gauged: tuple[int, ...], trust: float = 1.0
    ) -> None:
        super().__init__()
        self.head = nn.Linear(width, 2 * components)  # states, rates
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        start = LIMIT * math.atanh(math.log(trust) / LIMIT)
        nn.init.constant_(self.head.bias[components:], start / 2)  # it enters twice
        levels = torch.tensor([f in gauged for f in range(components)])
        self.register_buffer("gauged", levels, persistent=False)

    def forward(
        self, nodes: Float[Tensor, "B N d"], context: Float[Tensor, "B _ d"], batch: Batch
    ) -> Relaxation:
        """State and rate of each sample; the mean context token enters every node."""
        raw = (self.head(nodes) + self.head(context.mean(1, keepdim=True))).double()
        given, sizes = raw.chunk(2, dim=-1)
        levels = batch.extension
        if self.gauged.any():
            levels = torch.where(self.gauged, -_mean(given, batch), levels)
            sizes = torch.where(self.gauged, _mean(sizes, batch), sizes)
        rate = batch.mass[..., None] * torch.exp(LIMIT * torch.tanh(sizes / LIMIT))
        return Relaxation(given + levels, rate)


def _mean(values: Float[Tensor, "B N F"], batch: Batch) -> Float[Tensor, "B 1 F"]:
    """Mean over the domain."""
    return (batch.mass[..., None] * values).sum(1, keepdim=True) / batch.volume[:, None, None]
