r"""A geometry encoder by integrals: Galerkin attention, O(N d^2 / h) in time and O(N d) in memory.

Per block, pre-norm and residual, with a d/h x d/h matrix G for each of h heads in place of anchors:

.. math::
    G &= \frac{1}{|\Omega|} \int_\Omega \mathrm{LN}(K)^\top \mathrm{LN}(V) \, dx, \\
    x &\leftarrow x + Q\,G, \quad x \leftarrow x + \mathrm{FFN}(x).

Columns of V are projected onto those of K in the inner product of the domain and expanded in those
of Q; layer norms per head take the place of the softmax. Nothing is drawn: what is averaged is the
whole domain, in training as in prediction, where anchors are a sample of it. In return every node
is read, where few anchors are.

Identities kept: the integral is one, a quadrature with lumped masses, 0 on padding; splitting a
node into coincident ones that share its mass changes nothing. A sample's embedding does not depend
on its batch mates. The matrices G are returned as a ``memory``: another mesh of the same geometry
is embedded from them alone.

Cao, "Choose a Transformer: Fourier or Galerkin", NeurIPS 2021, equation 6. Projections start near
a small multiple of the identity, as there; coordinates are among the inputs and not appended to
every head again.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from geonew.model.batch import Batch
from geonew.model.encoder import FeedForward, Memory

# Gain of the random part and weight of the identity at the start (the paper's section 4).
START = 1e-2


def mass_measure(batch: Batch) -> Float[Tensor, "B N"]:
    """Lumped mass over the domain's measure: sums over nodes are means over the domain."""
    return (batch.mass / batch.volume[:, None]).to(batch.tokens.dtype)


class Projections(nn.Module):
    """Queries, keys and values of h heads, and the way back."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query_key_value = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def split(self, x: Float[Tensor, "B N d"]) -> Float[Tensor, "3 B h N c"]:
        """q, k, v of every head."""
        return self.query_key_value(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)

    def join(self, mixed: Float[Tensor, "B h N c"]) -> Float[Tensor, "B N d"]:
        """Heads side by side, mixed once more."""
        return self.out(mixed.transpose(1, 2).flatten(-2))


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

    def integrate(
        self, k: Float[Tensor, "B h N c"], v: Float[Tensor, "B h N c"], weight: Float[Tensor, "B N"]
    ) -> Float[Tensor, "B h c c"]:
        """The matrices G; ``weight`` sums to 1 over each sample's nodes."""
        return (self.norm_key(k) * weight[:, None, :, None]).mT @ self.norm_value(v)

    def forward(
        self, x: Float[Tensor, "B N d"], weight: Float[Tensor, "B N"]
    ) -> Float[Tensor, "B N d"]:
        """The projection of the values."""
        q, k, v = self.split(x)
        return self.join(q @ self.integrate(k, v, weight))


class Block(nn.Module):
    """One block around a mixer of nodes.

    Args:
        width: embedding width d.
        mixer: (x, measure of the nodes) -> what each node reads from all nodes.

    """

    def __init__(self, width: int, mixer: nn.Module) -> None:
        super().__init__()
        self.norm_mix = nn.LayerNorm(width)
        self.mixer = mixer
        self.norm_ffn = nn.LayerNorm(width)
        self.ffn = FeedForward(width)

    def forward(
        self, x: Float[Tensor, "B N d"], weight: Float[Tensor, "B N"]
    ) -> Float[Tensor, "B N d"]:
        """The next embeddings; ``weight`` is the nodes' measure, 0 on padding."""
        return self.add(x, self.mixer(self.norm_mix(x), weight))

    def add(self, x: Float[Tensor, "B N d"], read: Float[Tensor, "B N d"]) -> Tensor:
        """Embeddings with what they read from others."""
        x = x + read
        return x + self.ffn(self.norm_ffn(x))


class IntegralTransformer(nn.Module):
    """Node embeddings from node tokens, as :class:`~geonew.model.encoder.AnchorTransformer`.

    Args:
        tokens: number of token columns C.
        width: embedding width d.
        depth: number of blocks L.
        heads: attention heads.

    """

    def __init__(self, tokens: int, width: int, depth: int, heads: int) -> None:
        super().__init__()
        self.embed = nn.Linear(tokens, width)
        self.blocks = nn.ModuleList(
            Block(width, GalerkinAttention(width, heads)) for _ in range(depth)
        )
        self.norm = nn.LayerNorm(width)

    def forward(
        self, tokens: Float[Tensor, "B N C"], weight: Float[Tensor, "B N"]
    ) -> tuple[Float[Tensor, "B N d"], Memory]:
        """Embeddings of all nodes, and the matrices of every block."""
        x = self.embed(tokens)
        memory: Memory = []
        for block in self.blocks:
            attend = block.mixer
            q, k, v = attend.split(block.norm_mix(x))  # type: ignore[union-attr, operator]
            memory.append(attend.integrate(k, v, weight))  # type: ignore[union-attr, operator]
            x = block.add(x, attend.join(q @ memory[-1]))  # type: ignore[union-attr, operator]
        return self.norm(x), memory

    def evaluate(
        self,
        tokens: Float[Tensor, "B N C"],
        memory: Memory,
        allowed: Bool[Tensor, "B 1 1 M"] | None = None,
    ) -> Float[Tensor, "B N d"]:
        """Embeddings of other nodes of the same geometries; there are no anchors to mask."""
        x = self.embed(tokens)
        for block, inner in zip(self.blocks, memory, strict=True):
            attend = block.mixer
            q, _, _ = attend.split(block.norm_mix(x))  # type: ignore[union-attr, operator]
            x = block.add(x, attend.join(q @ inner))  # type: ignore[union-attr, operator]
        return self.norm(x)
