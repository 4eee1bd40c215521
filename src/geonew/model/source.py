r"""A learned source, on the nodes: relaxation to a learned state.

.. math:: R_f(u) \mathrel{+}= \varrho\,(u_f - E_f - s) \qquad\text{or}\qquad R_f(u) \mathrel{-}= f,

the second for components with a gauge. E is the extension of the data; the rate rho > 0 says how
far the state E + s is trusted against everything else in the balance: known terms, where there are
some, correct the state as far as they are trusted. What is no conserved quantity (a Mach number) is
the divergence of nothing and has this alone. All are linear in the embedding and start at
f = s = 0, rho = 1. The lift ends at the state (:mod:`geonew.model.space`), so what the partitions
add is the correction.

Identity kept: the rate is positive and its term symmetric, so the certificate's margin only grows;
on components with a gauge the source has no net load.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from geonew.model.batch import Batch
from geonew.model.galerkin import NodalSource

# Bound on the logarithm of the rate: no weights make a system that float64 cannot solve.
LIMIT = 6.0


class LearnedSource(nn.Module):
    """Source, state and rate from node embeddings.

    Args:
        width: embedding width d.
        components: number of components F.
        gauged: components with a gauge; all others relax.

    """

    relaxed: Float[Tensor, "F"]

    def __init__(self, width: int, components: int, gauged: tuple[int, ...]) -> None:
        super().__init__()
        self.components, self.gauged = components, gauged
        self.head = nn.Linear(width, 2 * components)  # states or sources, rates
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        relaxed = torch.tensor([f not in gauged for f in range(components)], dtype=torch.float64)
        self.register_buffer("relaxed", relaxed, persistent=False)

    def forward(
        self, nodes: Float[Tensor, "B N d"], context: Float[Tensor, "B _ d"], batch: Batch
    ) -> NodalSource:
        """The source of each sample."""
        given, sizes = self._raw(nodes, context).chunk(2, dim=-1)
        rate = self.relaxed * torch.exp(LIMIT * torch.tanh(sizes / LIMIT))
        mass = batch.mass[..., None]
        density = mass * torch.where(self.relaxed > 0, rate * (given + batch.extension), given)
        if self.gauged:
            mean = density.sum(1, keepdim=True) / batch.volume[:, None, None]
            density = density - (1 - self.relaxed) * mass * mean
        return NodalSource(density, mass * rate)

    def state(
        self, nodes: Float[Tensor, "B N d"], context: Float[Tensor, "B _ d"], batch: Batch
    ) -> Float[Tensor, "B N F"]:
        """The state E + s that each component relaxes to; zero for those with a gauge."""
        given, _ = self._raw(nodes, context).chunk(2, dim=-1)
        return self.relaxed * (given + batch.extension)

    def _raw(self, nodes: Tensor, context: Tensor) -> Float[Tensor, "B N _"]:
        """What the head says; the mean context token enters every node."""
        return (self.head(nodes) + self.head(context.mean(1, keepdim=True))).double()
