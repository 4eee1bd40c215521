r"""What a flux law is: conditioned once per solve, evaluated many times.

The learned flux enters the balance of partition i as :math:`\sum_j F_{ij}(u)`, F antisymmetric. A
law turns context tokens and partitions into a :class:`Flux`, in which everything that does not
depend on u is computed; the flux and its closed-form derivatives are then cheap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from geonew.model.graph import FluxGraph


@dataclass(frozen=True, eq=False)
class Partitions:
    """What a law may know of the reduced space.

    Args:
        embedding: mean of the node embeddings over each partition and group row.
        live: 1 where a node carries a component: all interior nodes, groups with data.
        floating: 1 for components without any Dirichlet data.
        graph: which partitions exchange fluxes.
        held: which groups the window of each partition holds; none for a single window, which
            holds them all.

    """

    embedding: Float[Tensor, "B V d"]
    live: Float[Tensor, "B F V"]
    floating: Float[Tensor, "B F"]
    graph: FluxGraph
    held: Float[Tensor, "B P G"] | None = None

    def edge_mask(self) -> Float[Tensor, "B F E"]:
        """1 on edges both of whose ends carry the component."""
        mask = self.live[..., self.graph.tail] * self.live[..., self.graph.head]
        if self.held is not None:
            mask = mask * self.links()[:, None, self.graph.tail, self.graph.head]
        return mask

    def links(self) -> Float[Tensor, "#B V V"]:
        """1 where two nodes may exchange a flux."""
        if self.held is None:
            return self.graph.linked[None]
        P = self.graph.partitions
        links = self.graph.linked.repeat(len(self.held), 1, 1)
        links[:, :P, P:] *= self.held
        links[:, P:, :P] *= self.held.mT
        return links


@dataclass(frozen=True, eq=False)
class EdgeJacobian:
    """Derivatives of each edge's flux by u_i - u_j and by (u_i + u_j)/2."""

    by_difference: Float[Tensor, "B F F E"]
    by_mean: Float[Tensor, "B F F E"]


@dataclass(frozen=True, eq=False)
class Monotonicity:
    r"""What a law guarantees: for v = u - w that vanishes on group nodes,

    .. math:: \sum_{ij} (F_{ij}(u) - F_{ij}(w)) \cdot v_i \;\ge\; v^\top Q\, v

    Args:
        form: Q, block diagonal over components.
        lipschitz: Lipschitz constant of the part of the law that is bounded rather than monotone.
        bound: what that constant may be at most.
        certified: whether the inequality is proven for this law.
        remark: for people.

    """

    form: Float[Tensor, "B F P P"]
    lipschitz: Float[Tensor, "B"]
    bound: Float[Tensor, "B"]
    certified: bool
    remark: str


@runtime_checkable
class Flux(Protocol):
    """A law conditioned on a batch of samples: a linear part, known once, and the rest."""

    @property
    def partitions(self) -> Partitions:
        """The nodes of the flux graph."""
        ...

    def linear_part(self) -> EdgeJacobian | None:
        """The part of the flux that is linear in u, which the solve folds into its matrix."""
        ...

    def nonlinear(self, u: Float[Tensor, "B F V"]) -> Float[Tensor, "B F E"]:
        """The rest of F_ij, on every edge from tail i to head j."""
        ...

    def linearise_nonlinear(
        self, u: Float[Tensor, "B F V"]
    ) -> tuple[Float[Tensor, "B F E"], EdgeJacobian | Float[Tensor, "B F F P P"]]:
        """The rest and its derivative: per edge, or of the balances where the law couples edges."""
        ...

    def evaluate(
        self, u: Float[Tensor, "B F V"]
    ) -> tuple[Tensor, Callable[[], EdgeJacobian | Tensor]]:
        """The rest, with its derivative left to be asked for."""
        ...

    def monotonicity(self, backbone: Float[Tensor, "B FP FP"]) -> Monotonicity:
        """The guarantee, given the linear backbone without the law."""
        ...


def linear_flux(part: EdgeJacobian, graph: FluxGraph, u: Float[Tensor, "B F V"]) -> Tensor:
    """The flux of a linear part."""
    difference, mean = graph.difference(u), graph.mean(u)
    return (part.by_difference * difference[:, None] + part.by_mean * mean[:, None]).sum(2)


def edge_flux(flux: Flux, u: Float[Tensor, "B F V"]) -> Float[Tensor, "B F E"]:
    """F_ij on every edge, linear part and rest."""
    part = flux.linear_part()
    rest = flux.nonlinear(u)
    return rest if part is None else rest + linear_flux(part, flux.partitions.graph, u)


def finite_or_zero(matrix: Float[Tensor, "*B m n"]) -> Float[Tensor, "*B m n"]:
    """Matrices with NaN or infinity replaced by zero: decompositions of a batch raise on them."""
    finite = torch.isfinite(matrix).all(-1, keepdim=True).all(-2, keepdim=True)
    return torch.where(finite, matrix, 0.0)


def schur_norm(matrix: Float[Tensor, "*B m n"]) -> Float[Tensor, "*B"]:
    r"""Schur's test: :math:`|A|_2 \le \sqrt{|A|_1 |A|_\infty}`, cheap and differentiable."""
    size = matrix.abs()
    return torch.sqrt(
        size.sum(-1).amax(-1) * size.sum(-2).amax(-1) + torch.finfo(matrix.dtype).tiny
    )


def contract(matrix: Float[Tensor, "*B m n"]) -> Float[Tensor, "*B m n"]:
    """The matrix, divided by its norm bound where that exceeds 1: its 2-norm is at most 1."""
    return matrix / schur_norm(matrix).clamp_min(1.0)[..., None, None]
