r"""The flux graph: one node per interior partition, one per boundary group.

Edges join every two interior partitions of a window (:mod:`geonew.model.windows`; mostly there is
one) and every partition with every group. With d0 the incidence
matrix (row :math:`e_j - e_i` for an edge from i to j, i < j) and F the flux out of i into j, the
balances receive

.. math:: \sum_j F_{ij} = -(d_0^\top F)_i,

+F in row i and -F in row j. Identity kept: the sum over all nodes is zero, whatever F is.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from geonew.errors import ConfigError

# Most entries (edges times nodes) of a table: half a gigabyte, and there are four such tables.
LARGEST_TABLE = 2**26


class FluxGraph(nn.Module):
    """Index tables of the complete graph, as float64 buffers.

    Args:
        partitions: interior nodes of a window P.
        groups: boundary nodes G.
        windows: number of windows K; the graph has K P interior nodes, window by window.

    """

    tail: Int[Tensor, "E"]
    head: Int[Tensor, "E"]
    divergence: Float[Tensor, "E V"]
    magnitude: Float[Tensor, "E V"]
    pairing: Float[Tensor, "V E2"]
    linked: Float[Tensor, "V V"]
    layout: Int[Tensor, "PP"]

    def __init__(self, partitions: int, groups: int, windows: int = 1) -> None:
        super().__init__()
        self.windows, self.groups = windows, groups
        self.partitions = windows * partitions  # all interior nodes
        nodes = self.partitions + groups
        edges = self.partitions * (partitions - 1) // 2 + self.partitions * groups
        if edges * nodes > LARGEST_TABLE:
            raise ConfigError(
                f"the flux graph of {partitions} partitions, {groups} groups and {windows} windows "
                f"is too large: its tables have {edges * nodes:.2g} entries each",
                f"choose fewer partitions or windows; {LARGEST_TABLE:.2g} entries are possible",
            )
        self._make_tables(partitions, nodes)

    def _make_tables(self, partitions: int, nodes: int) -> None:
        """All tables of the class, for so many partitions of a window and nodes in all."""
        i, j = torch.triu_indices(nodes, nodes, offset=1)
        inner = i < self.partitions  # edges between two groups carry nothing
        inner &= (j >= self.partitions) | (i // partitions == j // partitions)
        i, j = i[inner], j[inner]
        linked = torch.zeros(nodes, nodes, dtype=torch.float64)
        linked[i, j] = linked[j, i] = 1.0
        edge = torch.arange(len(i))
        divergence = torch.zeros(len(i), nodes, dtype=torch.float64)
        divergence[edge, i], divergence[edge, j] = 1.0, -1.0
        # persistent=False: tables follow from P and G and have no business in a checkpoint.
        self.register_buffer("tail", i, persistent=False)
        self.register_buffer("head", j, persistent=False)
        self.register_buffer("divergence", divergence, persistent=False)
        self.register_buffer("magnitude", divergence.abs(), persistent=False)
        self.register_buffer(
            "pairing",
            torch.cat([divergence, divergence.abs() / 2]).mT.contiguous(),
            persistent=False,
        )
        self.register_buffer("linked", linked, persistent=False)
        # Where an interior matrix entry stands among [edges i->j, edges j->i, nodes, nothing].
        P, inside = self.partitions, j < self.partitions
        layout = torch.full((P, P), 2 * len(i) + P, dtype=torch.int64)
        layout[i[inside], j[inside]] = edge[inside]
        layout[j[inside], i[inside]] = edge[inside] + len(i)
        layout.diagonal().copy_(torch.arange(P) + 2 * len(i))
        self.register_buffer("layout", layout.flatten(), persistent=False)

    def _apply(self, fn, recurse=True):  # type: ignore[override]
        """Follow the module to another device, never to another precision."""
        super()._apply(fn, recurse)
        for name in ("divergence", "magnitude", "pairing", "linked"):
            setattr(self, name, getattr(self, name).double())
        return self

    @property
    def edges(self) -> int:
        """Number of edges E."""
        return len(self.tail)

    def difference(self, u: Float[Tensor, "B F V"]) -> Float[Tensor, "B F E"]:
        """u_i - u_j."""
        return u @ self.divergence.mT

    def mean(self, u: Float[Tensor, "B F V"]) -> Float[Tensor, "B F E"]:
        """(u_i + u_j) / 2."""
        return u @ (0.5 * self.magnitude.mT)

    def pair(self, u: Float[Tensor, "B F V"]) -> Float[Tensor, "B F2 E"]:
        """Differences of all components, then means of all components."""
        B, F, _ = u.shape
        return (u @ self.pairing).view(B, F, 2, -1).transpose(1, 2).reshape(B, 2 * F, -1)

    def balance(self, flux: Float[Tensor, "B F E"]) -> Float[Tensor, "B F V"]:
        """Net flux out of each node, -d0^T F."""
        return flux @ self.divergence

    def interior_balance(self, flux: Float[Tensor, "B F E"]) -> Float[Tensor, "B F P"]:
        """Net flux out of each interior node."""
        return flux @ self.divergence[:, : self.partitions]

    def balance_jacobian(
        self, by_difference: Float[Tensor, "B F F E"], by_mean: Float[Tensor, "B F F E"]
    ) -> Float[Tensor, "B F F P P"]:
        r"""Derivative of the interior balances by interior values.

        With :math:`F_{ij} = F(u_i - u_j, (u_i + u_j)/2)` and its two derivatives Jd, Jm per edge:
        row i gets Jd + Jm/2 in column i and -Jd + Jm/2 in column j, row j the opposite.
        """
        P = self.partitions
        half = 0.5 * by_mean
        diagonal = by_difference @ self.magnitude[:, :P] + half @ self.divergence[:, :P]
        parts = [half - by_difference, -half - by_difference, diagonal]
        if self.windows > 1:
            parts.append(torch.zeros_like(diagonal[..., :1]))
        entries = torch.cat(parts, dim=-1)
        where = self.layout.expand(*entries.shape[:-1], P * P)
        return entries.gather(-1, where).unflatten(-1, (P, P))

    def laplacian(self, weight: Float[Tensor, "*B E"]) -> Float[Tensor, "*B P P"]:
        """Interior block of the weighted graph Laplacian, d0^T diag(w) d0."""
        inner = self.divergence[:, : self.partitions]
        return inner.mT @ (weight[..., None] * inner)
