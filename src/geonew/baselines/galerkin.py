r"""Galerkin transformer: attention without softmax, as a Petrov-Galerkin projection.

.. math:: \mathrm{Attn}(x) = Q \, \frac{1}{|\Omega|}
          \int_\Omega \mathrm{LN}(K)^\top \mathrm{LN}(V) \, dx

Columns of V are projected onto those of K in the inner product of the domain and expanded in those
of Q; layer norms per head take the place of the softmax. O(N d^2 / h) in time.

Identity kept: the integral is one. The paper's 1/n sum over a uniform grid becomes the quadrature
with lumped masses, its meaning on a graded mesh: splitting a node into coincident ones that share
its mass changes nothing.

Cao, "Choose a Transformer: Fourier or Galerkin", NeurIPS 2021, equation 6. Projections start near
a small multiple of the identity, as there; coordinates are among the inputs and not appended to
every head again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from geonew.baselines.harness import BaselineConfig, mass_measure
from geonew.baselines.linear import Projections
from geonew.baselines.transformer import NodeTransformer
from geonew.model.batch import Batch

# Gain of the random part and weight of the identity at the start (the paper's section 4).
START = 1e-2


class GalerkinAttention(Projections):
    """Galerkin-type attention of h heads."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__(width, heads)
        self.norm_key = nn.LayerNorm(width // heads)
        self.norm_value = nn.LayerNorm(width // heads)
        with torch.no_grad():
            for part in self.query_key_value.weight.split(width):
                nn.init.xavier_uniform_(part, gain=START)
                part.add_(START * torch.eye(width))
        nn.init.zeros_(self.query_key_value.bias)

    def forward(
        self, x: Float[Tensor, "B N d"], weight: Float[Tensor, "B N"]
    ) -> Float[Tensor, "B N d"]:
        """The projection of the values; ``weight`` sums to 1 over each sample's nodes."""
        q, k, v = self.split(x)
        k, v = self.norm_key(k), self.norm_value(v)
        inner = (k * weight[:, None, :, None]).mT @ v  # (B, h, c, c)
        return self.join(q @ inner)


@dataclass(frozen=True)
class GalerkinConfig(BaselineConfig):
    """Sizes of a Galerkin transformer.

    Args:
        heads: attention heads.

    """

    heads: int = 4


class GalerkinTransformer(NodeTransformer):
    """Transformer over nodes with Galerkin-type attention."""

    config_type: ClassVar[type[BaselineConfig]] = GalerkinConfig
    config: GalerkinConfig

    def mixer(self) -> nn.Module:
        """Galerkin attention."""
        return GalerkinAttention(self.config.width, self.config.heads)

    def measure(self, batch: Batch) -> Float[Tensor, "B N"]:
        """The measure of the domain."""
        return mass_measure(batch)
