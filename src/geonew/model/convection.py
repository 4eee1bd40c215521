r"""Known convection on the reduced space: quadratic, energy-neutral, not monotone.

.. math:: N_i^f(u) = \kappa \sum_n \psi_i^f(x_n) \sum_k u_k(x_n)\, (G_k u_f)_n
          \approx \kappa \int (u\cdot\nabla u_f)\, \psi_i,

the transporting velocity taken at the nodes, the gradient in the mean around them (G_k is the fine
gradient operator). With it the solution is unique only locally; the certificate says so.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from geonew.model.batch import Batch
from geonew.model.space import ReducedSpace
from geonew.model.terms import gradient_positions


@dataclass(frozen=True, eq=False)
class Convection:
    """One convective term.

    Args:
        first: column of the velocity's first component.
        basis: trial functions of the velocity components, lift last.
        slopes: G_k applied to them.
        coefficient: kappa.

    """

    first: int
    basis: Float[Tensor, "B d N Q"]
    slopes: Float[Tensor, "B d d N Q"]  # component, direction
    coefficient: float | Tensor  # or (B, 1, 1)

    def add_residual(
        self, residual: Float[Tensor, "B F P"], u: Float[Tensor, "B F P"]
    ) -> Float[Tensor, "B F P"]:
        """The residual with the term's balances added."""
        velocity, gradient = self._state(u)
        moved = torch.einsum("bkn,bfkn->bfn", velocity, gradient) * self.coefficient
        rows = (moved[:, :, None] @ self.basis[..., :-1])[:, :, 0]  # (B, d, P)
        return torch.cat(
            [
                residual[:, : self.first],
                residual[:, self._columns] + rows,
                residual[:, self._end :],
            ],
            1,
        )

    def add_jacobian(
        self, blocks: Float[Tensor, "B F F P P"], u: Float[Tensor, "B F P"]
    ) -> Float[Tensor, "B F F P P"]:
        """The Jacobian's blocks with the term's derivative added."""
        velocity, gradient = self._state(u)
        kappa = self.coefficient
        if isinstance(kappa, Tensor):
            kappa = kappa[..., None]
        test = self.basis[..., :-1].mT * kappa  # (B, d, P, N)
        blocks = blocks.clone()
        carried = torch.einsum("bkn,bfknp->bfnp", velocity, self.slopes[..., :-1])
        for f in range(velocity.shape[1]):
            row = self.first + f
            blocks[:, row, row] += test[:, f] @ carried[:, f]
            for g in range(velocity.shape[1]):
                pushed = gradient[:, f, g, :, None] * self.basis[:, g, :, :-1]
                blocks[:, row, self.first + g] += test[:, f] @ pushed
        return blocks

    @property
    def _end(self) -> int:
        return self.first + self.basis.shape[1]

    @property
    def _columns(self) -> slice:
        return slice(self.first, self._end)

    def _state(self, u: Tensor) -> tuple[Float[Tensor, "B d N"], Float[Tensor, "B d d N"]]:
        """Velocity, and its gradient times mass, on the nodes."""
        part = u[:, self._columns]
        full = torch.cat([part, torch.ones_like(part[..., :1])], dim=-1)[..., None]
        return (self.basis @ full)[..., 0], (self.slopes @ full[:, :, None])[..., 0]


def convective_term(
    first: int,
    dim: int,
    coefficient: float | Tensor,
    space: ReducedSpace,
    batch: Batch,
) -> Convection:
    """The convective term of the velocity whose components start at column ``first``."""
    B, N, _, Q = space.trial.shape
    basis = space.trial[:, :, first : first + dim].transpose(1, 2)  # (B, d, N, Q)
    flat = space.trial[:, :, first : first + dim].reshape(B * N, dim * Q)
    slopes = [
        (batch.operators[k] @ flat).view(B, N, dim, Q).transpose(1, 2)
        for k in gradient_positions(dim)
    ]
    return Convection(first, basis, torch.stack(slopes, dim=2), coefficient)
