r"""The linear backbone: known terms or learned constants, projected on the reduced space.

.. math:: (A u + a)_i = \sum_t \kappa_t\, a_t(u_h, \psi_i)
          + \varepsilon \int \nabla\psi_i\cdot\nabla u_h + r \int \psi_i u_h
          + \sigma\, m_i\, m^\top u - \mathrm{load}_i

with u_h = lift + sum u_i psi_i, so that the lift contributes the constant a. Where nothing is
known, a learned constitutive law (:mod:`geonew.model.constitutive`) takes the place of the terms.
Epsilon acts on components without a symmetric term, r > 0 (learned) on ``reaction`` fields, and the
rank-one term on ``gauge`` fields, m the partition masses: balances sum to zero there, so it
vanishes at the solution and its size does not matter. Last comes a conductance tau between the
partitions of one window, :math:`\tau (u_i - \bar u)`, far below every accuracy: learned functions
may be all but dependent, and it keeps their coefficients within what float64 can solve for. It is
conservative and symmetric.

Identity kept: symmetric terms give symmetric positive semidefinite blocks and skew terms exactly
skew ones, computed in float64; the backbone never lowers the certificate's margin. Equal-order
pressure is stabilised by :math:`\theta H^2/\nu`, :math:`H^d = |\Omega|/P`, theta in (0, 1] learned.

Tuned coefficients: a Galerkin solution in a space of P1 functions is too stiff, whatever the space:
a load does less work on it than on the exact one (3 % less on the meshes of ``elasticity``). Each
symmetric term has a factor :math:`e^{\tanh \epsilon w\cdot c}`, c the context of a sample, that
takes this back; it is positive, so nothing above changes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from geonew.fem.forms import known_form
from geonew.model.batch import Batch
from geonew.model.constitutive import Constitutive
from geonew.model.galerkin import Galerkin, NodalOperators
from geonew.model.space import ReducedSpace
from geonew.model.terms import (
    MASS,
    STIFFNESS,
    TermPlan,
    global_parameters,
    global_powers,
    gradient_positions,
    term_plan,
)
from geonew.problem import Problem

# The conductance tau.
CONDUCTANCE = 1e-12
# The epsilon of tuned coefficients: a step of the optimiser moves them by a percent at most.
TUNING = 0.01

Coefficients = Mapping[int, float | Tensor]  # of the terms; a tensor is (B, 1, 1)


@dataclass(frozen=True, eq=False)
class LinearSystem:
    """A u + a.

    Args:
        matrix: blocks of A, component by component.
        constant: a.
        galerkin: the same on the nodes, which carries the gradient; none where the matrix does.

    """

    matrix: Float[Tensor, "B F F P P"]
    constant: Float[Tensor, "B F P"]
    galerkin: Galerkin | None = None

    def residual(self, u: Float[Tensor, "B F P"]) -> Float[Tensor, "B F P"]:
        """A u + a."""
        return (self.matrix @ u[:, None, ..., None]).sum(2)[..., 0] + self.constant

    def dense(self) -> Float[Tensor, "B FP FP"]:
        """A as one square matrix."""
        return flatten_blocks(self.matrix)


def flatten_blocks(blocks: Float[Tensor, "B F F P P"]) -> Float[Tensor, "B FP FP"]:
    """Component blocks as one square matrix."""
    B, F, _, P, _ = blocks.shape
    return blocks.transpose(2, 3).reshape(B, F * P, F * P)


class Backbone(nn.Module):
    """Known terms of a problem on a reduced space.

    Args:
        problem: whose terms.
        diffusion: epsilon, for components without a symmetric known term.
        stabilisation: theta at the start.
        learned: whether a constitutive law is learned beside the terms,
        anisotropic: and of a medium that tells directions apart,
        identified: which is identified before training.
        tuned: width of the context from which factors of the symmetric terms come; 0 for none.
        traced: whether the matrix itself is differentiated, as a law that reads it needs it.

    """

    def __init__(
        self,
        problem: Problem,
        diffusion: float,
        stabilisation: float,
        *,
        learned: bool = False,
        anisotropic: bool = False,
        identified: bool = False,
        tuned: int = 0,
        traced: bool = False,
    ) -> None:
        super().__init__()
        self.problem, self.diffusion, self.traced = problem, diffusion, traced
        self.plan: TermPlan = term_plan(problem)
        kinds = [known_form(t.form).kind for t in problem.terms]
        self._sign = tuple(-1.0 if kind == "skew" else 1.0 for kind in kinds)
        start = math.log(stabilisation / (1 - stabilisation))  # of a sigmoid
        self.theta = nn.Parameter(torch.full((kinds.count("stabilisation"),), start))
        self._theta_of = {
            n: kinds[:n].count("stabilisation") for n, k in enumerate(kinds) if k == "stabilisation"
        }
        symmetric = [n for n, kind in enumerate(kinds) if kind == "symmetric"]
        self._tuned_of = {n: k for k, n in enumerate(symmetric)} if tuned else {}
        self.tuning = nn.Linear(tuned, len(symmetric)) if self._tuned_of else None
        if self.tuning is not None:
            nn.init.zeros_(self.tuning.weight)
            nn.init.zeros_(self.tuning.bias)
        held = {b.test for b in self.plan.blocks if kinds[b.term] in ("symmetric", "stabilisation")}
        F = problem.n_components
        levels = [f.level for f in problem.component_fields]
        self.gauged = tuple(f for f in range(F) if levels[f] == "gauge")
        self.reacting = tuple(f for f in range(F) if levels[f] == "reaction")
        self.constitutive = None
        if learned:
            directed = any(field.rank == "vector" for field in problem.fields)
            self.constitutive = Constitutive(
                F,
                problem.dim if directed else 0,
                len(global_parameters(problem)),
                diffusion,
                self.gauged,
                anisotropic=anisotropic,
                identified=identified,
            )
            held = set(range(F))
        self.diffused = tuple(f for f in range(F) if f not in held and diffusion > 0)
        self.reaction = nn.Parameter(torch.zeros(len(self.reacting)))
        acted_on = {*problem.sources, *(n.field for n in problem.neumann)}
        names = [f.name for f in problem.component_fields]
        self.loaded = tuple(f for f in range(F) if names[f] in acted_on)
        scales = [problem.term_scale(t) * problem.coefficient_reference(t) for t in problem.terms]
        self._scales = tuple(scales)
        self._powers = tuple(global_powers(problem, t) for t in problem.terms)

    @property
    def couples(self) -> bool:
        """Whether anything but epsilon couples functions with their neighbours."""
        return bool(self.problem.terms) or self.constitutive is not None

    @property
    def matrices(self) -> tuple[int, ...]:
        """Positions of the fine matrices it needs."""
        needed = {block.matrix for block in self.plan.blocks}
        if self.plan.convected:
            needed.update(gradient_positions(self.problem.dim))
        if self.constitutive is not None:
            needed.update(self.constitutive.matrices)
        needed.update([STIFFNESS] if self.diffused else [], [MASS] if self.reacting else [])
        return tuple(sorted(needed))

    def coefficient(
        self,
        term: int,
        batch: Batch,
        partitions: int,
        context: Float[Tensor, "B c d"] | None = None,
    ) -> float | Tensor:
        """The dimensionless coefficient of a term: one for all samples, or (B, 1, 1)."""
        value: float | Tensor = self._scales[term]
        if term in self._tuned_of and self.tuning is not None and context is not None:
            found = self.tuning(context.mean(1))[:, self._tuned_of[term]]
            value = value * torch.exp(torch.tanh(TUNING * found.double()))[:, None, None]
        for position, power in self._powers[term].items():
            value = value * batch.parameters[:, position, None, None] ** power
        if term in self._theta_of:
            theta = torch.sigmoid(self.theta[self._theta_of[term]].double())
            cell = (batch.volume / partitions) ** (2 / self.problem.dim)  # H^2
            value = value * (self.problem.reference_length**2 * theta * cell)[:, None, None]
        return value

    def forward(
        self,
        space: ReducedSpace,
        batch: Batch,
        context: Float[Tensor, "B c d"] | None = None,
    ) -> LinearSystem:
        """Project everything linear.

        Args:
            space: the basis, and the state that is relaxed to.
            batch: the fine operators.
            context: what tuned coefficients depend on.

        """
        kappa = {
            term: self.coefficient(term, batch, space.partitions, context)
            for term in {block.term for block in self.plan.blocks}
        }
        if self.traced or not torch.is_grad_enabled():
            return self._projected(space, batch, kappa)[0]
        with torch.no_grad():
            system, gauge_size = self._projected(space.detached(), batch, kappa)
        return replace(system, galerkin=self._galerkin(space, batch, kappa, gauge_size))

    def _projected(
        self, space: ReducedSpace, batch: Batch, kappa: Coefficients
    ) -> tuple[LinearSystem, tuple[Tensor, ...]]:
        """The reduced matrices, and the sizes of the gauges' terms."""
        F, P = self.problem.n_components, space.partitions
        products = _Products(space, batch)
        nothing = space.trial.new_zeros(batch.size, P)
        blocks: dict[tuple[int, int], Tensor] = {}
        constants: dict[int, Tensor] = {}

        def add(f: int, g: int, block: Tensor, column: Tensor) -> None:
            blocks[f, g] = blocks[f, g] + block if (f, g) in blocks else block
            constants[f] = constants[f] + column if f in constants else column

        def add_symmetric(f: int, gram: Tensor) -> None:  # its two triangles differ by round-off
            add(f, f, (gram[:, :P, :P] + gram[:, :P, :P].mT) / 2, gram[:, :P, P])

        for block in self.plan.blocks:
            gram = kappa[block.term] * products(block.matrix, block.test, block.trial)
            inner = gram[:, :P, :P]  # of (B, P+1, P+1): the last row and column are the lift's
            if not block.mirror:  # a form's two triangles differ by round-off only
                inner = torch.add(inner, inner.mT, alpha=self._sign[block.term]) / 2
            add(block.test, block.trial, inner, gram[:, :P, P])
            if block.mirror:
                add(block.trial, block.test, block.mirror * inner.mT, block.mirror * gram[:, P, :P])
        if self.constitutive is not None:
            learned, lifted = self.constitutive(space, batch)
            for f in range(F):
                for g in range(F):
                    add(f, g, learned[:, f, g], lifted[:, f, g])
        for f in self.diffused:
            add_symmetric(f, self.diffusion * products(STIFFNESS, f, f))
        for f, r in zip(self.reacting, self._reaction_rates(), strict=True):
            add_symmetric(f, r * products(MASS, f, f))
        if space.relaxation is not None:
            for f, own in enumerate(space.components):
                add_symmetric(f, own.mT @ (space.relaxation.rate[..., f, None] * own))
        gauge_size = []
        for f in self.gauged:
            masses = (batch.mass[:, None] @ space.components[f])[:, 0, :P]
            masses = masses / masses.sum(-1, keepdim=True)
            size = torch.ones_like(batch.volume)
            if (f, f) in blocks:  # of the size of the block it completes, which may all but vanish
                size = size + blocks[f, f].diagonal(dim1=-2, dim2=-1).sum(-1).detach()
            outer = size[:, None, None] * masses[:, :, None] * masses[:, None]
            add(f, f, outer, nothing)
            gauge_size.append(size)
        total = _load(space, batch)
        for f in self.loaded if space.relaxation is None else range(F):
            load = (total[:, None, :, f] @ space.components[f])[:, 0, :P]
            constants[f] = constants[f] - load if f in constants else -load
        for f in range(F):
            add(f, f, conductance(space), nothing)
        zero = space.trial.new_zeros(batch.size, P, P)
        rows = [blocks.get((f, g), zero) for f in range(F) for g in range(F)]
        constant = torch.stack([constants[f] for f in range(F)], dim=1)
        matrix = torch.stack(rows, dim=1).unflatten(1, (F, F))
        return LinearSystem(matrix, constant), tuple(gauge_size)

    def _galerkin(
        self,
        space: ReducedSpace,
        batch: Batch,
        kappa: Coefficients,
        gauge_size: tuple[Tensor, ...],
    ) -> Galerkin:
        """The same on the nodes."""
        F = self.problem.n_components
        couplings: dict[tuple[int, bool], Tensor] = {}  # by matrix, and whether transposed
        unit = torch.eye(F, dtype=torch.float64, device=space.trial.device)

        def couple(matrix: int, coupling: Tensor, transposed: bool = False) -> None:
            known = couplings.get((matrix, transposed))
            couplings[matrix, transposed] = coupling if known is None else known + coupling

        for block in self.plan.blocks:
            entry = kappa[block.term] * torch.outer(unit[block.test], unit[block.trial])[None]
            couple(block.matrix, entry)
            if block.mirror:
                couple(block.matrix, block.mirror * entry.mT, transposed=True)
        if self.constitutive is not None:
            for c in self.constitutive.couplings(batch.parameters):
                couple(c.matrix, c.factor)
                if c.mirror:
                    couple(c.matrix, c.mirror * c.factor.mT, transposed=True)
        for f in self.diffused:
            couple(STIFFNESS, self.diffusion * torch.outer(unit[f], unit[f])[None])
        for f, r in zip(self.reacting, self._reaction_rates(), strict=True):
            couple(MASS, r * torch.outer(unit[f], unit[f])[None])
        operators = (
            batch.operators[matrix].mT if transposed else batch.operators[matrix]
            for matrix, transposed in couplings
        )
        return Galerkin(
            space=space,
            operators=NodalOperators(tuple(operators), batch.size),
            couplings=tuple(c.expand(batch.size, F, F) for c in couplings.values()),
            load=_load(space, batch),
            rate=None if space.relaxation is None else space.relaxation.rate,
            mass=batch.mass,
            gauged=self.gauged,
            gauge_size=gauge_size,
            conductance=conductance(space),
        )

    def _reaction_rates(self) -> list[Tensor]:
        return [torch.nn.functional.softplus(r.double()) for r in self.reaction]


def _load(space: ReducedSpace, batch: Batch) -> Float[Tensor, "B N F"]:
    """The load on the nodes, with what draws to the learned state."""
    drawn = space.relaxation
    return batch.load if drawn is None else batch.load + drawn.rate * drawn.state


def conductance(space: ReducedSpace) -> Float[Tensor, "B P P"]:
    """The matrix of tau times u_i minus the mean of u over i's window."""
    P = space.partitions // space.windows
    one = torch.eye(P, dtype=space.trial.dtype, device=space.trial.device) - 1 / P
    whole = CONDUCTANCE * torch.block_diag(*[one] * space.windows)
    return whole.expand(len(space.trial), *whole.shape)


class _Products:
    """Gram matrices trial_f^T A trial_g; each sparse product is made once."""

    def __init__(self, space: ReducedSpace, batch: Batch) -> None:
        self.trial, self.components, self.batch = space.trial, space.components, batch
        self._all: dict[int, tuple[Tensor, ...]] = {}
        self._one: dict[tuple[int, int], Tensor] = {}

    def __call__(self, matrix: int, test: int, trial: int) -> Float[Tensor, "B Q Q"]:
        return self.components[test].mT @ self._applied(matrix, trial)

    def _applied(self, matrix: int, component: int) -> Float[Tensor, "B N Q"]:
        B, N, F, Q = self.trial.shape
        operator = self.batch.operators[matrix]
        if matrix in (STIFFNESS, MASS):  # used by most components: all of them in one product
            if matrix not in self._all:
                product = operator @ self.trial.reshape(B * N, F * Q)
                self._all[matrix] = product.view(B, N, F, Q).unbind(2)
            return self._all[matrix][component]
        key = (matrix, component)
        if key not in self._one:
            flat = self.components[component].reshape(B * N, Q)
            self._one[key] = (operator @ flat).view(B, N, Q)
        return self._one[key]
