r"""The Galerkin residual: the fine residual of the field, tested with the reduced functions.

.. math:: (A u + a + N(u))_i = \langle R(u_h), \psi_i \rangle, \qquad
          R(v) = \sum_k A_k\, v\, C_k^\top + \varrho\,(v - s) + N(v) - f,

A_k fine matrices, C_k how they couple the components, rho a rate of relaxation, N convection and f
the load, all on the nodes. The reduced matrices say the same and are what a solve wants; a gradient
of the balances at given coefficients wants this: it needs products with one field, where the
matrices would need products with every function, forwards and backwards.

Identity kept: both agree to round-off for every u (tests).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from geonew.model.batch import SparseOperator
from geonew.model.space import ReducedSpace, tested


@dataclass(frozen=True, eq=False)
class NodalOperators:
    """Fine matrices of a batch, for all of its samples or some.

    Args:
        operators: block diagonal over the whole batch.
        size: samples of the whole batch.
        which: the samples meant; none for all.

    """

    operators: tuple[SparseOperator, ...]
    size: int
    which: Int[Tensor, "B"] | None = None

    def __call__(self, fields: Float[Tensor, "B N c"]) -> list[Float[Tensor, "B N c"]]:
        """Every matrix, applied to fields."""
        _, N, c = fields.shape
        if self.which is not None:
            nothing = fields.new_zeros(self.size, N, c)
            fields = nothing.index_copy(0, self.which, fields)
        flat = fields.reshape(self.size * N, c)
        made = [(operator @ flat).view(self.size, N, c) for operator in self.operators]
        return made if self.which is None else [part[self.which] for part in made]

    def to(self, dtype: torch.dtype) -> NodalOperators:
        """The same in another precision."""
        return replace(self, operators=tuple(op.rounded(dtype) for op in self.operators))

    def select(self, index: Int[Tensor, "_"]) -> NodalOperators:
        """The same for some of the samples."""
        return replace(self, which=index if self.which is None else self.which[index])


@dataclass(frozen=True, eq=False)
class Galerkin:
    """What is linear in R, and its test functions.

    Args:
        space: reduced space.
        operators: the matrices A_k.
        couplings: C_k, rows the balances.
        load: f, with rho times s.
        rate: rho.
        mass: lumped mass.
        gauged: components with a gauge.
        gauge_size: of the rank-one terms that fix them.
        conductance: between partitions, the one part that is not on the nodes.

    """

    space: ReducedSpace
    operators: NodalOperators
    couplings: tuple[Float[Tensor, "#B F F"], ...]
    load: Float[Tensor, "B N F"]
    rate: Float[Tensor, "B N F"] | None
    mass: Float[Tensor, "B N"]
    gauged: tuple[int, ...]
    gauge_size: tuple[Float[Tensor, "B"], ...]
    conductance: Float[Tensor, "B P P"]

    def nodal(self, field: Float[Tensor, "B N F"]) -> Float[Tensor, "B N F"]:
        """R(v), without convection."""
        result = -self.load if self.rate is None else self.rate * field - self.load
        for product, coupling in zip(self.operators(field), self.couplings, strict=True):
            result = result + product @ coupling.mT
        return result + self._levels(field)

    def balances(
        self, nodal: Float[Tensor, "B N F"], u: Float[Tensor, "B F P"]
    ) -> Float[Tensor, "B F P"]:
        """Nodal values, tested with every function, and the conductance."""
        return tested(nodal, self.space.trial) + u @ self.conductance

    def _levels(self, field: Tensor) -> float | Float[Tensor, "B N F"]:
        """The rank-one terms of gauged components: they act on the mean without the lift."""
        if not self.gauged:
            return 0.0
        result = torch.zeros_like(field)
        for f, size in zip(self.gauged, self.gauge_size, strict=True):
            covered = self.space.components[f][..., :-1].sum(-1)
            share = self.mass / (self.mass * covered).sum(1, keepdim=True)
            level = (share * (field[..., f] - self.space.lift[..., f])).sum(1)
            result[..., f] = share * (size * level)[:, None]
        return result
