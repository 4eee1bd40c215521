r"""A learned linear constitutive law: constants of the medium, the same on every geometry.

Where the equation is not known, the flux of a linear, homogeneous medium still has a known form,
:math:`J_k = -S\,\partial_k u + C^k u`. Tested with a basis function it gives

.. math:: \sum_g S_{fg} \int \nabla\psi_i \cdot \nabla u_g
          + \sum_{g,k} \Big[ C^k_{fg} \int \psi_i\, \partial_k u_g
          - C^k_{gf} \int u_g\, \partial_k \psi_i \Big],

S symmetric positive definite, C free: diffusion within and across components, and first-order
coupling as in a Friedrichs system (advection, pressure with velocity). Both are learned as numbers
of the whole data set, which may follow the global parameters; geometry enters by the integrals
alone, so what was learned holds on geometries of any size. The paper learns all coupling from
embeddings, which are unlike those of training as soon as the geometry is.

Fields with a gauge keep balances that sum to zero for any C: their rows have the second form of the
coupling alone.

Identity kept: the first sum is symmetric positive definite and the second exactly skew, computed in
float64, so the certificate's margin only grows. Directions need axes: C exists where a vector field
gives the problem a frame.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from geonew.model.batch import Batch
from geonew.model.space import ReducedSpace
from geonew.model.terms import STIFFNESS, gradient_positions

# Bound on the logarithm of S's factor: S stays within e^(2 LIMIT) of its start, so that no weights
# make a system that float64 cannot solve.
LIMIT = 4.0
# An optimiser's steps have one size for all weights, and these constants may have to go far: a
# viscosity over a pressure scale is off by e^4 at the start.
GAIN = 10.0
# Parameters enter by value and by logarithm, which is cut off here.
SMALLEST = 1e-3


class Constitutive(nn.Module):
    """The constants S and C of a medium.

    Args:
        components: number of components F.
        directions: number of matrices C^k: the dimension, or 0 where there is no frame.
        parameters: number of global parameters the constants may follow.
        diffusion: S at the start; C starts at 0.
        gauged: components with a gauge.

    """

    own: Float[Tensor, "F 1"]  # 0 in rows with a gauge

    def __init__(
        self,
        components: int,
        directions: int,
        parameters: int,
        diffusion: float,
        gauged: tuple[int, ...] = (),
    ) -> None:
        super().__init__()
        shape = (1 + directions, components, components)
        self.base = nn.Parameter(torch.zeros(shape))  # for a Cholesky factor of S; C^k
        self.follow = nn.Parameter(torch.zeros(2 * parameters, *shape))
        self.matrices = (STIFFNESS, *gradient_positions(directions))
        self._start = math.log(diffusion) / 2
        own = torch.ones(components, 1, dtype=torch.float64)
        own[list(gauged)] = 0
        self.register_buffer("own", own, persistent=False)

    def constants(
        self, parameters: Float[Tensor, "B p"]
    ) -> tuple[Float[Tensor, "B F F"], Float[Tensor, "B k F F"]]:
        """S and C for global parameters of unit size."""
        known = torch.cat([parameters - 1, torch.log(parameters.abs() + SMALLEST)], dim=-1)
        moved = torch.einsum("bp,pkfg->bkfg", known, self.follow.double())
        raw = GAIN * (self.base.double() + moved)
        root, C = raw[:, 0], raw[:, 1:] * self.own.double()
        size = LIMIT * torch.tanh(root.diagonal(dim1=-2, dim2=-1) / LIMIT) + self._start
        unit = torch.eye(root.shape[-1], dtype=root.dtype, device=root.device)
        factor = torch.exp(size)[..., None] * (unit + torch.tanh(root).tril(-1))
        return factor @ factor.mT, C

    def forward(
        self, space: ReducedSpace, batch: Batch
    ) -> tuple[Float[Tensor, "B F F P P"], Float[Tensor, "B F F P"]]:
        """Blocks of the law, and what each makes of the lift."""
        B, N, F, Q = space.trial.shape
        flat, rows = space.trial.reshape(B * N, F * Q), space.trial.reshape(B, N, F * Q).mT

        def gram(matrix: int) -> Float[Tensor, "B F F Q Q"]:
            product = rows @ (batch.operators[matrix] @ flat).view(B, N, F * Q)
            return product.view(B, F, Q, F, Q).transpose(2, 3)

        S, C = self.constants(batch.parameters)
        stiffness, *gradients = self.matrices
        full = S[..., None, None] * gram(stiffness)
        full = (full + full.transpose(1, 2).mT) / 2  # two triangles, equal up to round-off
        for k, matrix in enumerate(gradients):
            first = C[:, k, ..., None, None] * gram(matrix)
            full = full + (first - first.transpose(1, 2).mT)
        return full[..., :-1, :-1], full[..., :-1, -1]
