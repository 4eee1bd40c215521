r"""A learned linear constitutive law: constants of the medium, the same on every geometry.

Where the equation is not known, the flux of a linear, homogeneous medium still has a known form,
:math:`J_k = -\sum_l S^{kl}\,\partial_l u + C^k u`. Tested with a basis function it gives

.. math:: \sum_{g,k,l} S^{kl}_{fg} \int \partial_k\psi_i\, \partial_l u_g
          + \sum_{g,k} \Big[ C^k_{fg} \int \psi_i\, \partial_k u_g
          - C^k_{gf} \int u_g\, \partial_k \psi_i \Big],

S symmetric positive definite, C free: diffusion within and across components, and first-order
coupling as in a Friedrichs system (advection, pressure with velocity). Both are learned as numbers
of the whole data set, which may follow the global parameters; geometry enters by the integrals
alone, so what was learned holds on geometries of any size. The paper learns all coupling from
embeddings, which are unlike those of training as soon as the geometry is.

A medium is alike in all directions, :math:`S^{kl} = \delta_{kl} S`, unless it is asked for an
``anisotropic`` one. With :math:`S = L L^T` its tensor is :math:`(L \otimes I)\, e^A (L \otimes
I)^T`, A symmetric: any elasticity tensor is one of these, or the limit of some.

Fields with a gauge keep balances that sum to zero for any C: their rows have the second form of the
coupling alone.

Identity kept: the first sum is symmetric positive definite and the second exactly skew, computed in
float64, so the certificate's margin only grows. Directions need axes: C and A exist where a vector
field gives the problem a frame.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from geonew.model.batch import Batch
from geonew.model.space import ReducedSpace
from geonew.model.terms import STIFFNESS, gradient_positions, part_positions

# Bound on the logarithm of L, and on half of A: S stays within e^(4 LIMIT) of its start, so
# that no weights make a system that float64 cannot solve.
LIMIT = 4.0
# An optimiser's steps have one size for all weights, and constants that nothing is known of may
# have to go far: a viscosity over a pressure scale is off by e^4 at the start. Those that were
# identified stay near: a space that has not been trained yet would lead them away.
GAIN, SMALL_GAIN = 10.0, 0.01
# How far towards a bound given constants may begin.
WITHIN = 0.99
# Parameters enter by value and by logarithm, which is cut off here.
SMALLEST = 1e-3


@dataclass(frozen=True, eq=False)
class Coupling:
    """One fine matrix in the balances of all components.

    Args:
        matrix: its position.
        factor: what it is multiplied with, (test, trial).
        mirror: sign with which the transpose of both stands beside it; 0 for none.

    """

    matrix: int
    factor: Float[Tensor, "B F F"]
    mirror: int


class Constitutive(nn.Module):
    """The constants S and C of a medium.

    Args:
        components: number of components F.
        directions: number of matrices C^k: the dimension, or 0 where there is no frame.
        parameters: number of global parameters the constants may follow.
        diffusion: S at the start; A and C start at 0.
        gauged: components with a gauge.
        anisotropic: whether there is an A.
        identified: whether the constants begin where they should be.

    """

    own: Float[Tensor, "F 1"]  # 0 in rows with a gauge
    given: Float[Tensor, "k F F"] | None
    given_tensor: Float[Tensor, "m m"] | None

    def __init__(
        self,
        components: int,
        directions: int,
        parameters: int,
        diffusion: float,
        gauged: tuple[int, ...] = (),
        *,
        anisotropic: bool = False,
        identified: bool = False,
    ) -> None:
        super().__init__()
        self.components, self.directions = components, directions
        self.diffusion, self.gauged = diffusion, gauged
        self.gain = SMALL_GAIN if identified else GAIN
        shape = (1 + directions, components, components)
        self.base = nn.Parameter(torch.zeros(shape))  # for a Cholesky factor of S; C^k
        self.follow = nn.Parameter(torch.zeros(2 * parameters, *shape))
        self.tensor = None  # A, and how it follows the parameters
        size = directions * components
        if anisotropic and directions:
            self.tensor = nn.Parameter(torch.zeros(1 + 2 * parameters, size, size))
        self._gradients = gradient_positions(directions)
        self._parts = part_positions(directions) if self.tensor is not None else {}
        self._start = math.log(diffusion) / 2
        # What was identified: weights say how far from it the constants are.
        self.register_buffer("given", torch.zeros_like(self.base) if identified else None)
        tensorial = identified and self.tensor is not None
        self.register_buffer("given_tensor", torch.zeros(size, size) if tensorial else None)
        own = torch.ones(components, 1, dtype=torch.float64)
        own[list(gauged)] = 0
        self.register_buffer("own", own, persistent=False)

    def start_at(self, S: Float[Tensor, "m m"], C: Float[Tensor, "k F F"]) -> None:
        """Take over identified constants, as far as the bounds allow.

        Args:
            S: positive definite, over components, or (direction, component) if anisotropic.
            C: one matrix per direction.

        """
        assert self.given is not None
        if self.given_tensor is not None:
            values, vectors = torch.linalg.eigh(S)
            logs = torch.log(values)
            A = (vectors * (logs - logs.mean())) @ vectors.mT
            part = (A.norm() / (2 * LIMIT)).clamp(max=WITHIN)
            self.given_tensor.copy_(A / (1 - part**2).sqrt())
            S = torch.exp(logs.mean()) * torch.eye(self.components, dtype=S.dtype)
        L = torch.linalg.cholesky(S)
        sizes = L.diagonal()
        root = torch.atanh((L / sizes[:, None]).tril(-1).clamp(-WITHIN, WITHIN))
        within = ((torch.log(sizes) - self._start) / LIMIT).clamp(-WITHIN, WITHIN)
        self.given[0] = root + torch.diag(LIMIT * torch.atanh(within))
        self.given[1:] = C

    @property
    def matrices(self) -> tuple[int, ...]:
        """Positions of the fine matrices it needs."""
        return (*(self._parts.values() or (STIFFNESS,)), *self._gradients)

    def constants(
        self, parameters: Float[Tensor, "B p"]
    ) -> tuple[Float[Tensor, "B F F"], Float[Tensor, "B k F F"]]:
        """The factor L of S, and C, for global parameters of unit size."""
        moved = torch.einsum("bp,pkfg->bkfg", _readings(parameters), self.follow.double())
        raw = self.gain * (self.base.double() + moved)
        raw = raw if self.given is None else raw + self.given.double()
        root, C = raw[:, 0], raw[:, 1:] * self.own.double()
        size = LIMIT * torch.tanh(root.diagonal(dim1=-2, dim2=-1) / LIMIT) + self._start
        unit = torch.eye(root.shape[-1], dtype=root.dtype, device=root.device)
        return torch.exp(size)[..., None] * (unit + torch.tanh(root).tril(-1)), C

    def anisotropy(self, parameters: Float[Tensor, "B p"]) -> Float[Tensor, "B k F l F"]:
        """The exponential of A."""
        assert self.tensor is not None
        base, follow = self.tensor[0].double(), self.tensor[1:].double()
        raw = self.gain * (base + torch.einsum("bp,pij->bij", _readings(parameters), follow))
        raw = raw if self.given_tensor is None else raw + self.given_tensor.double()
        A = (raw + raw.mT) / 2
        size = A.flatten(1).norm(dim=1)[:, None, None] / (2 * LIMIT)
        d, F = len(self._gradients), self.base.shape[-1]
        return torch.linalg.matrix_exp(A / (1 + size**2).sqrt()).view(-1, d, F, d, F)

    def couplings(self, parameters: Float[Tensor, "B p"]) -> list[Coupling]:
        """The law as a sum over fine matrices."""
        L, C = self.constants(parameters)
        if self._parts:
            tensor = self.anisotropy(parameters)
            found = [
                Coupling(matrix, L @ tensor[:, j, :, k] @ L.mT, int(j != k))
                for (j, k), matrix in self._parts.items()
            ]
        else:
            found = [Coupling(STIFFNESS, L @ L.mT, 0)]
        return found + [Coupling(m, C[:, k], -1) for k, m in enumerate(self._gradients)]

    def forward(
        self, space: ReducedSpace, batch: Batch
    ) -> tuple[Float[Tensor, "B F F P P"], Float[Tensor, "B F F P"]]:
        """Blocks of the law, and what each makes of the lift."""
        B, N, F, Q = space.trial.shape
        flat, rows = space.trial.reshape(B * N, F * Q), space.trial.reshape(B, N, F * Q).mT
        full = space.trial.new_zeros(())
        for coupling in self.couplings(batch.parameters):
            product = rows @ (batch.operators[coupling.matrix] @ flat).view(B, N, F * Q)
            block = coupling.factor[..., None, None] * product.view(B, F, Q, F, Q).transpose(2, 3)
            across = block.transpose(1, 2).mT
            if coupling.mirror:
                full = full + (block + coupling.mirror * across)
            else:  # two triangles, equal up to round-off
                full = full + (block + across) / 2
        return full[..., :-1, :-1], full[..., :-1, -1]


def _readings(parameters: Float[Tensor, "B p"]) -> Float[Tensor, "B r"]:
    """Parameters by value and by logarithm, 0 at unit size."""
    return torch.cat([parameters - 1, torch.log(parameters.abs() + SMALLEST)], dim=-1)
