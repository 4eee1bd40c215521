r"""Linear solvers for one Newton step of a flow: direct in 2D, block-preconditioned GMRES in 3D.

The system is :math:`\begin{pmatrix} F & -B^T \\ B & 0 \end{pmatrix}` with
:math:`F = \nu K + C(w) + N(w)` or, for Stokes flow, :math:`F = \nu K`.

**Direct.** LU of the matrix with :math:`\delta M_p / \nu` in the zero block, reused from step to
step as the preconditioner of GMRES on the current matrix, and made anew when GMRES needs too many
steps.

**Iterative.** GMRES with the block triangle: the pressure block by
:math:`S^{-1} \approx \nu M_p^{-1}` for Stokes and the pressure convection-diffusion operator
:math:`M_p^{-1} F_p A_p^{-1}` of Kay, Loghin and Wathen (2002) for Navier-Stokes; the velocity
block by one two-level cycle for :math:`\nu K + C(w)`, components with the same
free nodes at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from time import perf_counter

import numpy as np
from numpy import ndarray
from scipy.sparse import csr_matrix

from geonew.fem.reference.flow_system import FlowSystem
from geonew.fem.reference.linear_solver import (
    Factorization,
    KrylovResult,
    Operator,
    TwoLevel,
    factorize,
    factorized,
    gmres,
)
from geonew.fem.reference.poisson import free_order

# Pressure mass in the zero block, relative to that of the Schur complement: small enough that GMRES
# needs about five steps to 1e-12, large enough that LU without pivoting loses six digits at most.
REGULARIZATION = 1e-6

# With an old factorisation GMRES may take this many steps: about what a new one would cost.
FROZEN_STEPS = 10
FRESH_STEPS = 60

# Steps for the block-preconditioned GMRES; Stokes takes about 60, convection more.
BLOCK_STEPS = 250

# Unknowns up to which LU is affordable in 3D where the block preconditioner fails.
DIRECT_UP_TO = 60_000


@dataclass
class SolverStatistics:
    """What the linear solver did: seconds by kind, factorisations, Krylov steps."""

    assembly_seconds: float = 0.0
    solve_seconds: float = 0.0
    factorizations: int = 0
    krylov_steps: int = 0
    backends: set[str] = field(default_factory=set)


class DirectFlowSolver:
    """Newton's linear systems by a frozen LU and GMRES; see the module docstring."""

    def __init__(self, system: FlowSystem) -> None:
        self.system = system
        self.statistics = SolverStatistics()
        self._factor: Factorization | None = None

    def solve(
        self, w: ndarray, viscosity: float, convection: ndarray | None, rhs: ndarray, rtol: float
    ) -> KrylovResult:
        """Solve J(w) x = rhs to a relative residual."""
        start = perf_counter()
        matrix = self.system.jacobian(w, viscosity, convection)
        self.statistics.assembly_seconds += perf_counter() - start
        start = perf_counter()
        result = None
        if self._factor is not None:
            result = gmres(matrix.dot, rhs, self._factor.solve, rtol, FROZEN_STEPS, impatient=True)
            self.statistics.krylov_steps += len(result.residuals) - 1
        if result is None or not result.converged:
            regular = self.system.regularized(matrix, REGULARIZATION / viscosity)
            self._factor = factorize(regular, definite=True)
            self.statistics.factorizations += 1
            self.statistics.backends.add(self._factor.backend)
            result = gmres(matrix.dot, rhs, self._factor.solve, rtol, FRESH_STEPS)
            self.statistics.krylov_steps += len(result.residuals) - 1
        self.statistics.solve_seconds += perf_counter() - start
        return result


class BlockFlowSolver:
    """Newton's linear systems by block-preconditioned GMRES; see the module docstring."""

    def __init__(self, system: FlowSystem) -> None:
        self.system = system
        self.statistics = SolverStatistics(backends={"GMRES, two-level blocks"})
        Q = system.Q
        self._order = free_order(Q, np.arange(Q.n))
        self._mass = factorized(Q.matrix(Q.mass()), self._order)
        # The cycles work in Cartesian components, all free at turned nodes: prescribed tangential
        # components are cut off afterwards. Components with the same free nodes share a cycle.
        free = ~system.fixed
        free[system.turned] = True
        same = (free[:, :, None] == free[:, None, :]).all(axis=0)
        self._inside = [
            (np.flatnonzero(free[:, a]), np.flatnonzero(same[a]))
            for a in range(system.mesh.dim)
            if not same[a, :a].any()
        ]
        self._direct: DirectFlowSolver | None = None
        self._gradient = [B.T.tocsr() for B in system.divergence]

    def solve(
        self, w: ndarray, viscosity: float, convection: ndarray | None, rhs: ndarray, rtol: float
    ) -> KrylovResult:
        """Solve J(w) x = rhs to a relative residual."""
        start = perf_counter()
        matrix = self._operator(w, viscosity, convection)
        self.statistics.assembly_seconds += perf_counter() - start
        start = perf_counter()
        inverse = self._preconditioner(w, viscosity, convection)
        result = gmres(matrix, rhs, inverse, rtol, BLOCK_STEPS, always_twice=False)
        self.statistics.krylov_steps += len(result.residuals) - 1
        self.statistics.solve_seconds += perf_counter() - start
        if not result.converged and len(rhs) <= DIRECT_UP_TO:
            # Strong convection on a coarse mesh defeats the block preconditioner, not LU.
            if self._direct is None:
                self._direct = DirectFlowSolver(replace(self.system, dissected=True))
                self._direct.statistics = self.statistics
            dissected = self._direct.system
            result = self._direct.solve(
                w, viscosity, convection, dissected.pack(*self.system.unpack(rhs)), rtol
            )
            x = self.system.pack(*dissected.unpack(result.x))
            result = KrylovResult(x, result.residuals, result.converged)
        return result

    def _operator(self, w: ndarray, viscosity: float, convection: ndarray | None) -> Operator:
        system, V = self.system, self.system.V
        dim = system.mesh.dim
        entries = viscosity * system.stiffness
        F = V.matrix(entries if convection is None else entries + convection)
        N: list[list[csr_matrix]] = []
        if convection is not None:
            N = [[V.matrix(system.reaction(w, a, b)) for b in range(dim)] for a in range(dim)]

        def apply(x: ndarray) -> ndarray:
            u, p = system.unpack(x)
            u = system.cartesian(u)
            momentum = F @ u - np.stack([G @ p for G in self._gradient], axis=1)
            for a, row in enumerate(N):
                for b, block in enumerate(row):
                    momentum[:, a] += block @ u[:, b]
            continuity = sum(B @ u[:, a] for a, B in enumerate(system.divergence))
            return system.pack(system.local(momentum), np.asarray(continuity))

        return apply

    def _preconditioner(self, w: ndarray, viscosity: float, convection: ndarray | None) -> Operator:
        system = self.system
        entries = viscosity * system.stiffness
        F = system.V.matrix(entries if convection is None else entries + convection)
        cycles = [(*part, self._velocity_cycle(F, part[0])) for part in self._inside]
        schur = self._schur(w, viscosity, convection)

        def apply(r: ndarray) -> ndarray:
            ru, rp = system.unpack(r)
            p = schur(rp)
            ru = system.cartesian(ru) + np.stack([G @ p for G in self._gradient], axis=1)
            u = np.zeros_like(ru)
            for inside, components, cycle in cycles:
                part = np.ix_(inside, components)
                u[part] = cycle(ru[part])
            return system.pack(system.local(u), p)

        return apply

    def _velocity_cycle(self, F: csr_matrix, inside: ndarray) -> Operator:
        """The cycle on these nodes, for columns."""
        V, Q = self.system.V, self.system.Q
        vertices = inside[inside < Q.n]
        prolongation = V.prolongation[inside][:, vertices].tocsr()
        return TwoLevel(F[inside][:, inside].tocsr(), prolongation, self._restricted(vertices))

    def _restricted(self, vertices: ndarray) -> ndarray:
        """Elimination order of some vertices, as positions among them."""
        position = np.full(self.system.Q.n, -1)
        position[vertices] = np.arange(len(vertices))
        order = position[self._order]
        return order[order >= 0]

    def _schur(self, w: ndarray, viscosity: float, convection: ndarray | None) -> Operator:
        if convection is None:
            return lambda r: viscosity * self._mass(r)
        Q = self.system.Q
        laplace = Q.matrix(Q.stiffness())
        wind = Q.matrix(p1_convection(self.system, w))
        # Where velocity is natural the pressure is nearly prescribed: Dirichlet there. A closed
        # domain has the constants in its kernel; one vertex is pinned.
        weight = sum(abs(np.asarray(B.sum(axis=0)).ravel()) for B in self.system.divergence)
        natural = (np.asarray(weight) > 1e-12) & ~self.system.fixed.all(axis=1)
        kept = np.flatnonzero(~natural[: Q.n])
        kept = kept[1:] if len(kept) == Q.n else kept
        solve = factorized(laplace[kept][:, kept].tocsr(), self._restricted(kept))

        def apply(r: ndarray) -> ndarray:
            z = np.zeros_like(r)
            z[kept] = solve(r[kept])
            return self._mass(viscosity * r + wind @ z)  # F_p = nu A_p + C_p

        return apply


def p1_convection(system: FlowSystem, w: ndarray) -> ndarray:
    """Entries of the convection matrix on the pressure space, wind taken at the vertices."""
    Q = system.Q
    table = Q.table(2)
    tensor = np.einsum("q,iq,kq,jrq->krij", table.weights, table.phi, table.phi, table.dphi)
    wind = np.einsum("cka,cra,c->ckr", w[Q.cell_nodes], Q.inverse, Q.determinant, optimize=True)
    k, r = tensor.shape[:2]
    return Q.entries(wind.reshape(len(wind), -1) @ tensor.reshape(k * r, -1))
