r"""GNOT: normalised linear attention, and experts gated by geometry.

.. math::
    \tilde q = \mathrm{softmax}(q), \quad \tilde k = \mathrm{softmax}(k) \text{ (over features)},
    \qquad
    \mathrm{Attn}(x)_n = \tilde q_n + \frac{\sum_m w_m (\tilde q_n \cdot \tilde k_m)\, v_m}
                                {\sum_m w_m\, \tilde q_n \cdot \tilde k_m},

.. math:: \mathrm{FFN}(x)_n = \sum_{i=1}^{E} p_i(g_n)\, \mathrm{FFN}_i(x_n), \qquad
          p = \mathrm{softmax}(\mathrm{gate}(g_n))

g is the node's geometry: its coordinates in the frame where the tokens have them, else all tokens.
Identities kept: attention weights are positive and sum to 1, gates sum to 1; O(N d^2).

Hao et al., "GNOT: A General Neural Operator Transformer", ICML 2023, equations 7 to 14, as an
encoder over nodes, the variant of the paper's comparison: all input functions (boundary values,
loads, parameters) live on the nodes here and are tokens, so the heterogeneous cross-attention has
nothing left to join. Experts are twice as wide inside as outside, not four times: with four of
them a block then has as many parameters as one of Geo-NeW's encoder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from geonew.baselines.harness import Baseline, BaselineConfig, counting_measure
from geonew.baselines.linear import normalised_attention
from geonew.features import FeatureSpec
from geonew.model.batch import Batch
from geonew.model.integrals import Projections
from geonew.problem import Problem


class NormalisedAttention(Projections):
    """Linear attention with softmax features, and the queries as a skip."""

    def forward(
        self, x: Float[Tensor, "B N d"], weight: Float[Tensor, "B N"]
    ) -> Float[Tensor, "B N d"]:
        """What each node reads from all others."""
        q, k, v = self.split(x)
        q, k = torch.softmax(q, dim=-1), torch.softmax(k, dim=-1)
        return self.join(q + normalised_attention(q, k, v, weight))


class Experts(nn.Module):
    """E feed-forward networks side by side, mixed by given gates.

    Args:
        width: embedding width d.
        experts: their number E.
        hidden: width inside each.

    """

    def __init__(self, width: int, experts: int, hidden: int) -> None:
        super().__init__()
        self.experts = experts
        self.inner = nn.Linear(width, experts * hidden)
        self.outer = nn.Linear(experts * hidden, width, bias=False)
        self.bias = nn.Parameter(torch.zeros(experts, width))

    def forward(
        self, x: Float[Tensor, "B N d"], gates: Float[Tensor, "B N E"]
    ) -> Float[Tensor, "B N d"]:
        """The gated sum; gates multiply the hidden layers, which is the same by linearity."""
        inside = nn.functional.gelu(self.inner(x)).unflatten(-1, (self.experts, -1))
        return self.outer((inside * gates[..., None]).flatten(-2)) + gates @ self.bias


class ExpertBlock(nn.Module):
    """Attention, then the experts."""

    def __init__(self, width: int, heads: int, experts: int, hidden: int) -> None:
        super().__init__()
        self.norm_mix = nn.LayerNorm(width)
        self.mixer = NormalisedAttention(width, heads)
        self.norm_ffn = nn.LayerNorm(width)
        self.ffn = Experts(width, experts, hidden)

    def forward(
        self,
        x: Float[Tensor, "B N d"],
        weight: Float[Tensor, "B N"],
        gates: Float[Tensor, "B N E"],
    ) -> Float[Tensor, "B N d"]:
        """The next embeddings."""
        x = x + self.mixer(self.norm_mix(x), weight)
        return x + self.ffn(self.norm_ffn(x), gates)


@dataclass(frozen=True)
class GNOTConfig(BaselineConfig):
    """Sizes of a GNOT.

    Args:
        heads: attention heads.
        experts: experts of each feed-forward part.
        expert_ratio: width inside an expert over the embedding width.

    """

    heads: int = 4
    experts: int = 4
    expert_ratio: int = 2


class GNOT(Baseline):
    """Transformer over nodes with normalised attention and gated experts."""

    config_type: ClassVar[type[BaselineConfig]] = GNOTConfig
    config: GNOTConfig
    geometry: Int[Tensor, "g"]

    def __init__(
        self,
        problem: Problem,
        spec: FeatureSpec,
        columns: Sequence[str],
        config: GNOTConfig | None = None,
    ) -> None:
        super().__init__(problem, spec, columns, config)
        own, d = self.config, self.config.width
        if "x1" in self.columns:
            geometry = self.coordinate_columns()
        else:
            geometry = torch.arange(len(self.columns))
        self.register_buffer("geometry", geometry, persistent=False)
        self.gate = nn.Sequential(nn.Linear(len(geometry), d), nn.GELU(), nn.Linear(d, own.experts))
        self.embed = nn.Linear(self.input_width, d)
        self.blocks = nn.ModuleList(
            ExpertBlock(d, own.heads, own.experts, own.expert_ratio * d) for _ in range(own.depth)
        )
        self.norm = nn.LayerNorm(d)
        self.head = nn.Linear(d, problem.n_components)

    def gates(self, x: Float[Tensor, "B N I"]) -> Float[Tensor, "B N E"]:
        """Share of each expert at each node; sums to 1."""
        return torch.softmax(self.gate(x[..., self.geometry]), dim=-1)

    def approximate(self, x: Float[Tensor, "B N I"], batch: Batch) -> Float[Tensor, "B N F"]:
        """Gate once, embed, mix, read off."""
        gates, weight = self.gates(x), counting_measure(batch)
        x = self.embed(x)
        for block in self.blocks:
            x = block(x, weight, gates)
        return self.head(self.norm(x))
