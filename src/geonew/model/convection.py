r"""Known convection on the reduced space: quadratic, energy-neutral, not monotone.

.. math:: N_i^f(u) = \kappa \sum_n \psi_i^f(x_n) \sum_k u_k(x_n)\, (G_k u_f)_n
          \approx \kappa \int (u\cdot\nabla u_f)\, \psi_i,

the transporting velocity taken at the nodes, the gradient in the mean around them (G_k is the fine
gradient operator, applied to the field where a residual is wanted and to the basis for a Jacobian).
With it the solution is unique only locally; the certificate says so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from geonew.model.batch import Batch
from geonew.model.galerkin import NodalOperators
from geonew.model.space import ReducedSpace, lifted_field, tested
from geonew.model.terms import gradient_positions


@dataclass(frozen=True, eq=False)
class Convection:
    """One convective term.

    Args:
        first: column of the velocity's first component.
        basis: trial functions of the velocity components, lift last.
        gradient: the operators G_k.
        coefficient: kappa.
        inside: the interior functions for the Jacobian, without gradient and in the model's
            precision: Newton's method corrects what that costs, the residual is exact.
        slopes: G_k applied to them, by direction k.

    """

    first: int
    basis: Float[Tensor, "B N d Q"]
    gradient: NodalOperators
    coefficient: float | Tensor  # or (B, 1, 1)
    inside: Float[Tensor, "B N d P"]
    slopes: tuple[Float[Tensor, "B N d P"], ...]

    def transported(self, velocity: Float[Tensor, "B N d"]) -> Float[Tensor, "B N d"]:
        """The term on the nodes, times mass."""
        gradient = torch.stack(self.gradient(velocity), dim=-1)  # (component, direction)
        return (velocity[:, :, None] * gradient).sum(-1) * self.coefficient

    def add_nodal(
        self, nodal: Float[Tensor, "B N F"], field: Float[Tensor, "B N F"]
    ) -> Float[Tensor, "B N F"]:
        """A fine residual with the term added."""
        moved = self.transported(field[..., self._columns])
        parts = [nodal[..., : self.first], nodal[..., self._columns] + moved]
        return torch.cat([*parts, nodal[..., self._end :]], dim=-1)

    def add_residual(
        self, residual: Float[Tensor, "B F P"], u: Float[Tensor, "B F P"]
    ) -> Float[Tensor, "B F P"]:
        """The residual with the term's balances added."""
        moved = self.transported(self._velocity(u))
        rows = tested(moved, self.basis)
        columns = [residual[:, : self.first], residual[:, self._columns] + rows]
        return torch.cat([*columns, residual[:, self._end :]], 1)

    def add_jacobian(
        self, blocks: Float[Tensor, "B F F P P"], u: Float[Tensor, "B F P"]
    ) -> Float[Tensor, "B F F P P"]:
        """The Jacobian's blocks with the term's derivative added."""
        velocity = self._velocity(u)
        gradient = torch.stack(self.gradient(velocity), dim=-1).to(self.inside.dtype)
        velocity = velocity.to(self.inside.dtype)
        blocks = blocks.clone()
        for f in range(self.inside.shape[2]):
            # u_g moves f along by its gradient, and f is carried along by u.
            by = gradient[:, :, f, :, None] * self.inside  # (B, N, g, P)
            for k, slope in enumerate(self.slopes):
                by[:, :, f].addcmul_(velocity[:, :, k, None], slope[:, :, f])
            found = (self.inside[:, :, f].mT @ by.flatten(2)).to(blocks.dtype)  # (B, P, gP)
            found = (self.coefficient * found).unflatten(-1, (-1, found.shape[1]))
            blocks[:, self.first + f, self._columns] += found.transpose(1, 2)
        return blocks

    def with_exact_jacobian(self) -> Convection:
        """The same with a Jacobian in float64, for a certificate or a hard solve."""
        inside = self.basis[..., :-1].detach()
        return replace(self, inside=inside, slopes=_slopes(self.gradient, inside))

    @property
    def _end(self) -> int:
        return self.first + self.basis.shape[2]

    @property
    def _columns(self) -> slice:
        return slice(self.first, self._end)

    def _velocity(self, u: Tensor) -> Float[Tensor, "B N d"]:
        return lifted_field(self.basis, u[:, self._columns])


def convective_term(
    first: int, dim: int, coefficient: float | Tensor, space: ReducedSpace, batch: Batch
) -> Convection:
    """The convective term of the velocity whose components start at column ``first``."""
    operators = tuple(batch.operators[k] for k in gradient_positions(dim))
    gradient = NodalOperators(operators, batch.size)
    basis = space.trial[:, :, first : first + dim]
    dtype = batch.tokens.dtype
    inside = basis[..., :-1].detach().to(dtype).contiguous()
    return Convection(
        first, basis, gradient, coefficient, inside, _slopes(gradient.to(dtype), inside)
    )


def _slopes(
    gradient: NodalOperators, inside: Float[Tensor, "B N d P"]
) -> tuple[Float[Tensor, "B N d P"], ...]:
    return tuple(part.unflatten(-1, inside.shape[2:]) for part in gradient(inside.flatten(2)))
