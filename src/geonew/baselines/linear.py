r"""Linear attention: softmax attention with the kernel replaced by a product of features.

.. math::
    \mathrm{Attn}(x)_n = \frac{\phi(q_n)^\top \sum_m w_m \phi(k_m) v_m^\top}
                              {\phi(q_n)^\top \sum_m w_m \phi(k_m)}, \qquad
    \phi = \mathrm{elu} + 1 > 0

The sums over m do not depend on n: O(N d^2 / h) in time, no N x N matrix. Identity kept: the
weights that node n gives to the others are positive and sum to 1, so constant values are reproduced
and the result does not depend on the total weight.

Katharopoulos, Vyas, Pappas, Fleuret, "Transformers are RNNs", ICML 2020, equations 4 to 7, without
the causal mask (nodes have no order). w is the counting measure, as published.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import elu

from geonew.baselines.harness import BaselineConfig
from geonew.baselines.transformer import NodeTransformer
from geonew.model.integrals import Projections


def normalised_attention(
    q: Float[Tensor, "B h n c"],
    k: Float[Tensor, "B h N c"],
    v: Float[Tensor, "B h N e"],
    weight: Float[Tensor, "B N"],
) -> Float[Tensor, "B h n e"]:
    """Averages of the values with weights proportional to ``weight_m (q_n . k_m)``.

    Args:
        q: positive features of the queries.
        k: positive features of the keys.
        v: values.
        weight: measure of the nodes, 0 on padding.

    """
    weighted = k * weight[:, None, :, None]
    total = torch.einsum("bhnc,bhc->bhn", q, weighted.sum(2))
    return (q @ (weighted.mT @ v)) / total[..., None]


class LinearAttention(Projections):
    """Multi-head attention with the feature map elu + 1."""

    def forward(
        self, x: Float[Tensor, "B N d"], weight: Float[Tensor, "B N"]
    ) -> Float[Tensor, "B N d"]:
        """What each node reads from all others."""
        q, k, v = self.split(x)
        return self.join(normalised_attention(elu(q) + 1, elu(k) + 1, v, weight))


@dataclass(frozen=True)
class LinearConfig(BaselineConfig):
    """Sizes of a linear-attention transformer.

    Args:
        heads: attention heads.

    """

    heads: int = 4


class LinearTransformer(NodeTransformer):
    """Transformer over nodes with linear attention."""

    config_type: ClassVar[type[BaselineConfig]] = LinearConfig
    config: LinearConfig

    def mixer(self) -> nn.Module:
        """Linear attention."""
        return LinearAttention(self.config.width, self.config.heads)
