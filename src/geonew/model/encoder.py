r"""The geometry encoder: an anchor (inducing-point) transformer, O(N M + M^2) in time and memory.

Per block, with M anchors a out of the N node embeddings x (pre-norm, residual), the first line
``exchanges`` times: among few anchors, depth is cheap.

.. math::
    a &\leftarrow a + \mathrm{Attn}(a, a), \quad a \leftarrow a + \mathrm{FFN}(a), \\
    x &\leftarrow x + \mathrm{Attn}(x, a), \quad x \leftarrow x + \mathrm{FFN}(x).

Identities kept: node embeddings are equivariant under renumbering; padding nodes are never anchors
and so influence nothing; a sample's embedding does not depend on its batch mates. Which nodes are
anchors is decided outside (:mod:`geonew.model.anchors`), so the encoder is a pure function.

The anchors' states are returned as a ``memory``: another mesh of the same geometry is embedded from
it alone, block by block, which separates encoding from evaluation (paper, section 3.2).

Paper: section 3, "Geometry encoder", and the appendix on the inducing-point encoder. Any module
from (tokens, anchors) to node embeddings can take this one's place.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

# What is kept of a geometry, block by block: anchors' states (B, M, d), or other tensors.
Memory = list[Float[Tensor, "B ..."]]


class Attention(nn.Module):
    """Multi-head attention of queries x over keys and values y."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)

    def forward(
        self,
        x: Float[Tensor, "B n d"],
        y: Float[Tensor, "B m d"],
        allowed: Bool[Tensor, "B 1 1 m"] | None,
    ) -> Float[Tensor, "B n d"]:
        """What each query reads; ``allowed`` tells which keys exist (none: all)."""
        q = self.query(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (B, h, n, d/h)
        k, v = self.key_value(y).unflatten(-1, (2, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = scaled_dot_product_attention(q, k, v, attn_mask=allowed)
        return self.out(mixed.transpose(1, 2).flatten(-2))


class FeedForward(nn.Sequential):
    """Position-wise network, four times as wide inside."""

    def __init__(self, width: int) -> None:
        super().__init__(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))


class Exchange(nn.Module):
    """Anchors attend to each other."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attend = Attention(width, heads)
        self.norm_ffn = nn.LayerNorm(width)
        self.ffn = FeedForward(width)

    def forward(
        self, a: Float[Tensor, "B M d"], allowed: Bool[Tensor, "B 1 1 M"] | None
    ) -> Float[Tensor, "B M d"]:
        """The anchors' next states."""
        a_norm = self.norm(a)
        a = a + self.attend(a_norm, a_norm, allowed)
        return a + self.ffn(self.norm_ffn(a))


class Block(nn.Module):
    """One block: anchors talk to each other, then every node listens to them."""

    def __init__(self, width: int, heads: int, exchanges: int) -> None:
        super().__init__()
        self.exchanges = nn.ModuleList(Exchange(width, heads) for _ in range(exchanges))
        self.norm_node = nn.LayerNorm(width)
        self.attend_node = Attention(width, heads)
        self.norm_node_ffn = nn.LayerNorm(width)
        self.node_ffn = FeedForward(width)

    def update_anchors(
        self, a: Float[Tensor, "B M d"], allowed: Bool[Tensor, "B 1 1 M"] | None
    ) -> Float[Tensor, "B M d"]:
        """All exchanges, one after another."""
        for exchange in self.exchanges:
            a = exchange(a, allowed)
        return a

    def update_nodes(
        self,
        x: Float[Tensor, "B N d"],
        a: Float[Tensor, "B M d"],
        allowed: Bool[Tensor, "B 1 1 M"] | None,
    ) -> Float[Tensor, "B N d"]:
        """Nodes attend to the anchors."""
        x = x + self.attend_node(self.norm_node(x), a, allowed)
        return x + self.node_ffn(self.norm_node_ffn(x))


class AnchorTransformer(nn.Module):
    """Node embeddings from node tokens.

    Args:
        tokens: number of token columns C.
        width: embedding width d.
        depth: number of blocks L.
        heads: attention heads.
        exchanges: times the anchors attend to each other in a block.

    """

    def __init__(self, tokens: int, width: int, depth: int, heads: int, exchanges: int) -> None:
        super().__init__()
        self.embed = nn.Linear(tokens, width)
        self.blocks = nn.ModuleList(Block(width, heads, exchanges) for _ in range(depth))
        self.norm = nn.LayerNorm(width)

    def forward(
        self,
        tokens: Float[Tensor, "B N C"],
        anchors: Int[Tensor, "B L M"],
        allowed: Bool[Tensor, "B 1 1 M"] | None = None,
    ) -> tuple[Float[Tensor, "B N d"], Memory]:
        """Embeddings of all nodes, and the anchors' states of every block.

        Args:
            tokens: node features; padding rows are ignored by everything but themselves.
            anchors: for each block, the nodes that serve as anchors.
            allowed: which anchors exist, where a mesh has fewer nodes than anchors are wanted.

        """
        x = self.embed(tokens)
        memory: Memory = []
        for number, block in enumerate(self.blocks):
            index = anchors[:, number, :, None].expand(-1, -1, x.shape[-1])
            a = block.update_anchors(torch.gather(x, 1, index), allowed)  # type: ignore[operator]
            x = block.update_nodes(x, a, allowed)  # type: ignore[operator]
            memory.append(a)
        return self.norm(x), memory

    def evaluate(
        self,
        tokens: Float[Tensor, "B N C"],
        memory: Memory,
        allowed: Bool[Tensor, "B 1 1 M"] | None = None,
    ) -> Float[Tensor, "B N d"]:
        """Embeddings of other nodes of the same geometries, from the anchors' states alone."""
        x = self.embed(tokens)
        for block, a in zip(self.blocks, memory, strict=True):
            x = block.update_nodes(x, a, allowed)  # type: ignore[operator]
        return self.norm(x)


class ContextPooling(nn.Module):
    r"""Context tokens by learned queries, weighted by nodal mass.

    .. math:: c_q = V \sum_n \alpha_{qn} z_n, \qquad
              \alpha_{qn} \propto m_n \exp(q^\top z_n / \sqrt{d})

    Mass weights make the sum an integral: a graded and a uniform mesh of one domain give the same
    context up to quadrature. Keys and values are applied to the few queries and pooled vectors
    instead of to all nodes, which is the same map at a fraction of the cost.

    Args:
        width: embedding width d.
        sizes: number of context tokens of each reader (partitions, flux, source).

    """

    def __init__(self, width: int, sizes: tuple[int, ...]) -> None:
        super().__init__()
        self.sizes = sizes
        self.query = nn.Parameter(torch.randn(sum(sizes), width))
        self.value = nn.Linear(width, width)

    def forward(
        self, z: Float[Tensor, "B N d"], log_mass: Float[Tensor, "B N"]
    ) -> tuple[Float[Tensor, "B _ d"], ...]:
        """Context tokens of each reader."""
        logits = (self.query * z.shape[-1] ** -0.5) @ z.mT + log_mass[:, None]  # (B, q, N)
        pooled = torch.softmax(logits, dim=-1) @ z
        return self.value(pooled).split(self.sizes, dim=1)
