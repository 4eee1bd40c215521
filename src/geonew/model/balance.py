r"""The balance law on the reduced space: what a prediction solves.

.. math:: G(u)_i = (A u + a)_i + N_i(u) + \sum_j F_{ij}(u) = 0 \quad \text{for interior } i,

A u + a the linear backbone (known terms, lift, load), N known quadratic terms (convection), F the
learned flux on the graph whose group nodes carry the mean of their data. The flux's linear part is
folded into one matrix with A; what remains to be evaluated in a Newton step is small.

Identity kept (conservation): fluxes cancel in pairs, so the sum of all balances, group nodes
included, is the sum of the backbone's balances alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from geonew.model.backbone import LinearSystem, flatten_blocks
from geonew.model.convection import Convection
from geonew.model.flux.law import EdgeJacobian, Flux, edge_flux, linear_flux
from geonew.model.graph import FluxGraph


@dataclass(frozen=True, eq=False)
class Balance:
    """G(u) and its Jacobian for a batch.

    Args:
        linear: the backbone.
        flux: the conditioned law; none leaves the backbone alone.
        graph: the flux graph.
        group_value: fixed values of the group nodes.
        matrix, constant: everything linear, backbone and flux.
        convection: known quadratic terms.

    """

    linear: LinearSystem
    flux: Flux | None
    graph: FluxGraph
    group_value: Float[Tensor, "B F G"]
    matrix: Float[Tensor, "B FP FP"]
    constant: Float[Tensor, "B F P"]
    convection: tuple[Convection, ...] = ()

    def nodes(self, u: Float[Tensor, "B F P"]) -> Float[Tensor, "B F V"]:
        """Values on all nodes of the flux graph."""
        return torch.cat([u, self.group_value], dim=-1)

    def residual(self, u: Float[Tensor, "B F P"]) -> Float[Tensor, "B F P"]:
        """G(u)."""
        r = self._linear_residual(u)
        for term in self.convection:
            r = term.add_residual(r, u)
        if self.flux is not None:
            r = r + self._interior(self.flux.nonlinear(self.nodes(u)))
        return r

    def linearise(
        self, u: Float[Tensor, "B F P"]
    ) -> tuple[Float[Tensor, "B F P"], Float[Tensor, "B FP FP"]]:
        """G(u) and its Jacobian."""
        r, jacobian = self.evaluate(u)
        return r, jacobian()

    def differentiable_residual(self, u: Float[Tensor, "B F P"]) -> Float[Tensor, "B F P"]:
        """G(u) as a function of all it is made of."""
        galerkin = self.linear.galerkin
        if galerkin is None:
            return self.residual(u)
        field = galerkin.space.field(u)
        nodal = galerkin.nodal(field)
        for term in self.convection:
            nodal = term.add_nodal(nodal, field)
        r = galerkin.balances(nodal, u)
        return r if self.flux is None else r + self._interior(edge_flux(self.flux, self.nodes(u)))

    def evaluate(
        self, u: Float[Tensor, "B F P"]
    ) -> tuple[Float[Tensor, "B F P"], Callable[[], Float[Tensor, "B FP FP"]]]:
        """G(u), with its Jacobian left to be asked for; both share their root."""
        r = self._linear_residual(u)
        for term in self.convection:
            r = term.add_residual(r, u)
        derivative = None
        if self.flux is not None:
            flux, derivative = self.flux.evaluate(self.nodes(u))
            r = r + self._interior(flux)

        def jacobian() -> Tensor:
            J = self.matrix
            if self.convection:
                blocks = torch.zeros_like(self.linear.matrix)
                for term in self.convection:
                    blocks = term.add_jacobian(blocks, u)
                J = J + flatten_blocks(blocks)
            if derivative is not None:
                slopes = derivative()
                if isinstance(slopes, EdgeJacobian):
                    slopes = self.graph.balance_jacobian(slopes.by_difference, slopes.by_mean)
                J = J + flatten_blocks(slopes)
            return J

        return r, jacobian

    @property
    def has_exact_jacobian(self) -> bool:
        """Whether the Jacobian is one of float64."""
        return all(term.inside.dtype == torch.float64 for term in self.convection)

    def with_exact_jacobian(self) -> Balance:
        """The same with an exact Jacobian."""
        return replace(
            self, convection=tuple(term.with_exact_jacobian() for term in self.convection)
        )

    def scale(self) -> Float[Tensor, "B"]:
        """Size of the data in the balances, against which a residual is judged."""
        return self.constant.flatten(1).norm(dim=1)

    def _linear_residual(self, u: Float[Tensor, "B F P"]) -> Float[Tensor, "B F P"]:
        constant = self.constant.flatten(1)[..., None]
        return torch.baddbmm(constant, self.matrix, u.flatten(1)[..., None]).view_as(u)

    def _interior(self, flux: Float[Tensor, "B F E"]) -> Float[Tensor, "B F P"]:
        return self.graph.interior_balance(flux)


def assemble_balance(
    linear: LinearSystem,
    flux: Flux | None,
    graph: FluxGraph,
    group_value: Float[Tensor, "B F G"],
    convection: tuple[Convection, ...] = (),
) -> Balance:
    """The balance law, the flux's linear part folded into the backbone's matrix."""
    matrix, constant = linear.matrix, linear.constant
    with torch.set_grad_enabled(torch.is_grad_enabled() and linear.galerkin is None):
        part = None if flux is None else flux.linear_part()
        if part is not None:
            matrix = matrix + graph.balance_jacobian(part.by_difference, part.by_mean)
            at_rest = torch.cat([torch.zeros_like(constant), group_value], dim=-1)
            constant = constant + graph.interior_balance(linear_flux(part, graph, at_rest))
    return Balance(linear, flux, graph, group_value, flatten_blocks(matrix), constant, convection)
