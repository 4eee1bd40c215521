r"""Transolver: attention among learned slices of the domain.

Per head, with S slices,

.. math::
    w_n = \mathrm{softmax}\bigl(P\,a_n / \tau\bigr) \in \mathbb{R}^S, \qquad
    z_s = \frac{\sum_n w_{ns} b_n}{\sum_n w_{ns}}, \qquad
    z' = \mathrm{Attn}(z, z), \qquad x'_n = \sum_s w_{ns} z'_s

with a = A x, b = B x two projections of the nodes and tau a learned temperature. O(N S + S^2).
Identities kept: a node's slice weights sum to 1; a slice token is an average of nodes, so that it
does not grow with their number.

Wu, Luo, Wang, Wang, Long, "Transolver", ICML 2024, equations 1 to 4 (physics attention). Slices are
averages over nodes, not integrals, as published.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from geonew.baselines.harness import BaselineConfig
from geonew.baselines.transformer import NodeTransformer

# The temperature at the start, and the least it may become: below, a softmax is a choice.
TEMPERATURE, COLDEST = 0.5, 0.1
# A slice with less than this share of the nodes is empty; its token goes to zero, not to 0/0.
EMPTY = 1e-8


class PhysicsAttention(nn.Module):
    """Slice, attend, deslice.

    Args:
        width: embedding width d.
        heads: attention heads h.
        slices: slices S of each head.

    """

    def __init__(self, width: int, heads: int, slices: int) -> None:
        super().__init__()
        self.heads, c = heads, width // heads
        self.to_slices = nn.Linear(width, width)
        self.to_values = nn.Linear(width, width)
        self.slice = nn.Linear(c, slices)
        self.temperature = nn.Parameter(torch.full((heads, 1, 1), TEMPERATURE))
        self.query_key_value = nn.Linear(c, 3 * c, bias=False)
        self.out = nn.Linear(width, width)
        nn.init.orthogonal_(self.slice.weight)

    def slice_weights(self, x: Float[Tensor, "B N d"]) -> Float[Tensor, "B h N S"]:
        """How much of each node belongs to each slice; sums to 1 over slices."""
        a = self.to_slices(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        return torch.softmax(self.slice(a) / self.temperature.clamp_min(COLDEST), dim=-1)

    def forward(
        self, x: Float[Tensor, "B N d"], weight: Float[Tensor, "B N"]
    ) -> Float[Tensor, "B N d"]:
        """What each node reads from the slices it belongs to."""
        w = self.slice_weights(x)
        b = self.to_values(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (B, h, N, c)
        counted = w * weight[:, None, :, None]
        z = (counted.mT @ b) / counted.sum(2)[..., None].clamp_min(EMPTY)  # (B, h, S, c)
        q, k, v = self.query_key_value(z).chunk(3, dim=-1)
        mixed = w @ scaled_dot_product_attention(q, k, v)
        return self.out(mixed.transpose(1, 2).flatten(-2))


@dataclass(frozen=True)
class TransolverConfig(BaselineConfig):
    """Sizes of a Transolver.

    Args:
        heads: attention heads.
        slices: slices of each head.

    """

    heads: int = 4
    slices: int = 64


class Transolver(NodeTransformer):
    """Transformer over nodes with physics attention."""

    config_type: ClassVar[type[BaselineConfig]] = TransolverConfig
    config: TransolverConfig

    def mixer(self) -> nn.Module:
        """Physics attention."""
        return PhysicsAttention(self.config.width, self.config.heads, self.config.slices)
