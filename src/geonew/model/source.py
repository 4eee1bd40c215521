r"""A learned source, on the nodes.

.. math:: R_f(u) \mathrel{-}= f \qquad\text{or}\qquad R_f(u) \mathrel{+}= \varrho\,(u_f - E_f - s),

the second where no symmetric term is known: a source alone would have to be the derivative of what
is wanted, and what is no conserved quantity (a Mach number) relaxes to a learned state, E + s with
E the extension of the data, at a learned rate rho > 0. All are linear in the embedding and start at
f = s = 0, rho = 1. The lift of such a component ends at the state (:mod:`geonew.model.space`): what
the partitions add is what diffusion takes from it.

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
        relaxed: components that relax to a state.
        gauged: components with a gauge.

    """

    def __init__(
        self, width: int, components: int, relaxed: tuple[int, ...], gauged: tuple[int, ...]
    ) -> None:
        super().__init__()
        self.components, self.relaxed, self.gauged = components, relaxed, gauged
        self.head = nn.Linear(width, components + len(relaxed))
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(
        self, nodes: Float[Tensor, "B N d"], context: Float[Tensor, "B _ d"], batch: Batch
    ) -> NodalSource:
        """The source of each sample."""
        raw = self._raw(nodes, context)
        given, sizes = raw[..., : self.components].unbind(-1), raw[..., self.components :]
        positive = torch.exp(LIMIT * torch.tanh(sizes / LIMIT))
        density, rate = [], []
        for f, own in enumerate(given):
            speed = torch.zeros_like(own)
            if f in self.relaxed:
                speed = positive[..., self.relaxed.index(f)]
                own = speed * (own + batch.extension[..., f])
            own = batch.mass * own
            if f in self.gauged:
                own = own - batch.mass * (own.sum(1) / batch.volume)[:, None]
            density.append(own)
            rate.append(batch.mass * speed)
        return NodalSource(
            torch.stack(density, dim=-1), torch.stack(rate, dim=-1) if self.relaxed else None
        )

    def state(
        self, nodes: Float[Tensor, "B N d"], context: Float[Tensor, "B _ d"], batch: Batch
    ) -> Float[Tensor, "B N F"]:
        """What each component relaxes to; zero for those that do not."""
        chosen = torch.zeros(self.components, dtype=torch.float64, device=nodes.device)
        chosen[list(self.relaxed)] = 1.0
        return chosen * (self._raw(nodes, context)[..., : self.components] + batch.extension)

    def _raw(self, nodes: Tensor, context: Tensor) -> Float[Tensor, "B N _"]:
        """What the head says; the mean context token enters every node."""
        return (self.head(nodes) + self.head(context.mean(1, keepdim=True))).double()
