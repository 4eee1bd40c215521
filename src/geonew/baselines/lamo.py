r"""LaMO-style latent operator: nodes to latent tokens, a state-space model over them, and back.

Per block, with M learned queries r and node embeddings x,

.. math::
    z &= \mathrm{Attn}(r, x; \text{mass}), \quad
    z \leftarrow z + \mathrm{SSM}^{\rightleftarrows}(z), \quad
    z \leftarrow z + \mathrm{FFN}(z), \\
    x &\leftarrow x + \mathrm{Attn}(x, z), \quad x \leftarrow x + \mathrm{FFN}(x).

The selective state-space model runs over the tokens in both directions, per head with state H,

.. math:: H_t = a_t H_{t-1} + \Delta_t\, b_t \xi_t^\top, \qquad y_t = c_t^\top H_t + D\,\xi_t,
          \qquad a_t = e^{-\alpha \Delta_t},

evaluated in its dual form :math:`y = (L \circ C B^\top)(\Delta\xi) + D\xi` with
:math:`L_{ts} = a_{s+1} \cdots a_t`, s <= t: the tokens are few, so one M x M product beats a loop
over them. O(N M + M^2).

Identities kept: the dual form is the recurrence, to round-off; encoding is an average with weights
proportional to nodal mass times attention, hence an integral: coincident nodes that share their
mass are one node.

Tiwari et al., "Latent Mamba Operator for Partial Differential Equations", ICML 2025: we implement
its idea for irregular meshes, the latent-token variant (latent tokens by attention, bidirectional
scan, decoding by attention). The scan is the scalar-decay form of Dao and Gu, "Transformers are
SSMs", ICML 2024, without Mamba's short convolution along the sequence: learned latent tokens have
an order, but no neighbourhoods. Mass weights are ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention, silu, softplus

from geonew.baselines.harness import Baseline, BaselineConfig
from geonew.features import FeatureSpec
from geonew.model.batch import Batch
from geonew.model.encoder import Attention, FeedForward
from geonew.problem import Problem

# Steps Delta at the start: a head forgets over 1 / (alpha Delta) tokens, from a few to all.
FIRST_STEP, LAST_STEP = 1e-2, 1e0


def scan(
    log_decay: Float[Tensor, "B h M"],
    b: Float[Tensor, "B M n"],
    c: Float[Tensor, "B M n"],
    x: Float[Tensor, "B h M p"],
) -> Float[Tensor, "B h M p"]:
    """Outputs ``y_t = c_t H_t`` of the recurrence ``H_t = exp(log_decay_t) H_(t-1) + b_t x_t``."""
    summed = log_decay.cumsum(-1)
    gap = summed[..., :, None] - summed[..., None, :]  # (B, h, t, s)
    past = torch.ones(gap.shape[-2:], dtype=torch.bool, device=gap.device).tril()
    # Masked before the exponential: above the diagonal it may overflow, and inf times 0 is NaN.
    decay = torch.exp(gap.masked_fill(~past, -torch.inf))
    return (decay * (c @ b.mT)[:, None]) @ x


class Scan(nn.Module):
    """A selective state-space model in one direction; b, c and the step depend on the token."""

    def __init__(self, width: int, heads: int, state: int) -> None:
        super().__init__()
        self.sizes = (state, state, heads)
        self.select = nn.Linear(width, sum(self.sizes))
        steps = torch.logspace(0, 1, heads, base=LAST_STEP / FIRST_STEP) * FIRST_STEP
        self.step_bias = nn.Parameter(torch.log(torch.expm1(steps)))  # inverse of softplus
        self.log_rate = nn.Parameter(torch.zeros(heads))
        self.skip = nn.Parameter(torch.ones(heads, 1, 1))

    def forward(
        self, z: Float[Tensor, "B M d"], x: Float[Tensor, "B h M p"]
    ) -> Float[Tensor, "B h M p"]:
        """Scan the sequence x with what z selects."""
        b, c, raw = self.select(z).split(self.sizes, dim=-1)
        step = softplus(raw + self.step_bias).mT  # (B, h, M)
        log_decay = -step * self.log_rate.exp()[:, None]
        return scan(log_decay, b, c, step[..., None] * x) + self.skip * x


class BidirectionalScan(nn.Module):
    """Scans from both ends, added, gated and mixed.

    Args:
        width: embedding width d.
        heads: heads of the scan, each with its own decay.
        state: size of the state per channel.

    """

    def __init__(self, width: int, heads: int, state: int) -> None:
        super().__init__()
        self.heads = heads
        self.inner = nn.Linear(width, 2 * width)
        self.ahead = Scan(width, heads, state)
        self.back = Scan(width, heads, state)
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, width)

    def forward(self, z: Float[Tensor, "B M d"]) -> Float[Tensor, "B M d"]:
        """What each token reads from the ones before and after it."""
        sequence, gate = self.inner(z).chunk(2, dim=-1)
        x = silu(sequence).unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (B, h, M, p)
        y = self.ahead(z, x) + self.back(z.flip(1), x.flip(2)).flip(2)
        return self.out(self.norm(y.transpose(1, 2).flatten(-2)) * silu(gate))


class LatentEncoder(nn.Module):
    """M latent tokens from the nodes, by learned queries and mass-weighted attention."""

    def __init__(self, width: int, heads: int, latents: int) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.randn(heads, latents, width // heads))
        self.key_value = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)

    def forward(
        self, x: Float[Tensor, "B N d"], log_mass: Float[Tensor, "B N"]
    ) -> Float[Tensor, "B M d"]:
        """Averages of the nodes; padding has log mass -FAR."""
        heads = len(self.query)
        k, v = self.key_value(x).unflatten(-1, (2, heads, -1)).permute(2, 0, 3, 1, 4)
        q = self.query.to(k.dtype).expand(len(x), -1, -1, -1)
        weight = log_mass[:, None, None, :].to(k.dtype)
        return self.out(
            scaled_dot_product_attention(q, k, v, attn_mask=weight).transpose(1, 2).flatten(-2)
        )


class LatentBlock(nn.Module):
    """Encode, scan, decode."""

    def __init__(self, width: int, heads: int, latents: int, state: int) -> None:
        super().__init__()
        self.norm_encode = nn.LayerNorm(width)
        self.encode = LatentEncoder(width, heads, latents)
        self.norm_scan = nn.LayerNorm(width)
        self.scan = BidirectionalScan(width, heads, state)
        self.norm_latent = nn.LayerNorm(width)
        self.latent_ffn = FeedForward(width)
        self.norm_decode = nn.LayerNorm(width)
        self.decode = Attention(width, heads)
        self.norm_node = nn.LayerNorm(width)
        self.node_ffn = FeedForward(width)

    def forward(
        self, x: Float[Tensor, "B N d"], log_mass: Float[Tensor, "B N"]
    ) -> Float[Tensor, "B N d"]:
        """The next node embeddings."""
        z = self.encode(self.norm_encode(x), log_mass)
        z = z + self.scan(self.norm_scan(z))
        z = z + self.latent_ffn(self.norm_latent(z))
        x = x + self.decode(self.norm_decode(x), z, None)
        return x + self.node_ffn(self.norm_node(x))


@dataclass(frozen=True)
class LaMOConfig(BaselineConfig):
    """Sizes of a latent operator.

    Args:
        heads: heads of attention and scan.
        latents: latent tokens M.
        state: size of the state per channel.

    """

    heads: int = 4
    latents: int = 64
    state: int = 16


class LaMO(Baseline):
    """Latent operator with bidirectional scans over latent tokens."""

    config_type: ClassVar[type[BaselineConfig]] = LaMOConfig
    config: LaMOConfig

    def __init__(
        self,
        problem: Problem,
        spec: FeatureSpec,
        columns: Sequence[str],
        config: LaMOConfig | None = None,
    ) -> None:
        super().__init__(problem, spec, columns, config)
        own, d = self.config, self.config.width
        self.embed = nn.Linear(self.input_width, d)
        self.blocks = nn.ModuleList(
            LatentBlock(d, own.heads, own.latents, own.state) for _ in range(own.depth)
        )
        self.norm = nn.LayerNorm(d)
        self.head = nn.Linear(d, problem.n_components)

    def approximate(self, x: Float[Tensor, "B N I"], batch: Batch) -> Float[Tensor, "B N F"]:
        """Embed, pass through latent tokens, read off."""
        x, log_mass = self.embed(x), batch.log_mass
        for block in self.blocks:
            x = block(x, log_mass)
        return self.head(self.norm(x))
