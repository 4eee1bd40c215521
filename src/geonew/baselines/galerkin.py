r"""Galerkin transformer: attention without softmax, as a Petrov-Galerkin projection.

.. math:: \mathrm{Attn}(x) = Q \, \frac{1}{|\Omega|}
          \int_\Omega \mathrm{LN}(K)^\top \mathrm{LN}(V) \, dx

The attention is that of :mod:`geonew.model.integrals`. Identity kept: the integral is one. The
paper's 1/n sum over a uniform grid becomes the quadrature with lumped masses, its meaning on a
graded mesh.

Cao, "Choose a Transformer: Fourier or Galerkin", NeurIPS 2021, equation 6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor, nn

from geonew.baselines.harness import BaselineConfig
from geonew.baselines.transformer import NodeTransformer
from geonew.model.batch import Batch
from geonew.model.integrals import GalerkinAttention, mass_measure


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
