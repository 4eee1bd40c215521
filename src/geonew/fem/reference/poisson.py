r"""Reference solution of :math:`-\nabla \cdot (k \nabla u) = f` with P1 or P2 in 2D and 3D.

Weak form: u equals the Dirichlet data at the nodes of their groups, and for every v that vanishes
there

.. math:: \int k \nabla u \cdot \nabla v = \int f v + \int_{\text{Neumann}} g v,
          \qquad g = k\, \partial_n u.

Boundary without data is natural, g = 0. Without any Dirichlet group u is fixed by
:math:`\int u = 0`, and the data must balance, :math:`\int f + \int g = 0`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from time import perf_counter

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from geonew.errors import ProblemError
from geonew.fem.reference.boundary import (
    Scalar,
    check_groups_apart,
    dirichlet_nodes,
    scalar_values,
)
from geonew.fem.reference.linear_solver import (
    LinearSolution,
    Operator,
    TwoLevel,
    nested_dissection,
    solve_definite,
)
from geonew.fem.reference.space import LagrangeSpace
from geonew.mesh import Mesh

# Loads of a problem without Dirichlet data must balance to this fraction of their size.
BALANCE_TOLERANCE = 1e-6

# Unknowns in 3D from which CG with the two-level cycle is faster than the direct solver.
ITERATIVE_FROM = 15_000


@dataclass(frozen=True, eq=False)
class PoissonSolution:
    """Solution of the Poisson problem.

    Args:
        values: u at the vertices of the mesh.
        coefficients: u at all nodes of the space.
        space: the space solved in.
        residual: relative residual of the linear system.
        iterations: Krylov steps; 1 for the direct solver.
        method: the linear solver used.
        seconds: wall time.

    """

    values: Float[ndarray, "N"]
    coefficients: Float[ndarray, "n"] = field(repr=False)
    space: LagrangeSpace = field(repr=False)
    residual: float
    iterations: int
    method: str
    seconds: float

    def evaluate(self, points: Float[ndarray, "m d"]) -> Float[ndarray, "m"]:
        """U at points of the domain."""
        return self.space.evaluate(self.coefficients, points)

    def restricted(self, n_nodes: int) -> PoissonSolution:
        """The same solution with ``values`` at the first vertices only."""
        return replace(self, values=self.values[:n_nodes])


def solve_poisson(
    mesh: Mesh,
    *,
    dirichlet: Mapping[str, Scalar] | None = None,
    neumann: Mapping[str, Scalar] | None = None,
    source: Scalar = 0.0,
    conductivity: Scalar = 1.0,
    degree: int = 1,
) -> PoissonSolution:
    """Solve the Poisson problem; see the module docstring.

    Args:
        mesh: the mesh with its named boundary groups.
        dirichlet: group -> u; a node of two groups belongs to the first listed.
        neumann: group -> k du/dn.
        source: f.
        conductivity: k > 0.
        degree: 1 or 2.

    """
    start = perf_counter()
    dirichlet, neumann = dirichlet or {}, neumann or {}
    check_groups_apart(dirichlet, neumann, "both Dirichlet and Neumann data")
    space = LagrangeSpace(mesh, degree)
    matrix = space.matrix(_stiffness(space, conductivity))
    load = _load(space, source, neumann)
    fixed, values = dirichlet_nodes(space, dirichlet)
    gauged = fixed.size == 0
    if gauged:
        _check_balance(load)
        load = load - load.sum() * space.integral / space.integral.sum()
        fixed, values = np.zeros(1, dtype=np.int64), np.zeros(1)  # a pin; the mean is removed below

    u = np.zeros(space.n)
    u[fixed] = values
    free = np.setdiff1d(np.arange(space.n), fixed)
    reduced = matrix[free][:, free].tocsr()
    solution = solve_scalar(space, reduced, (load - matrix @ u)[free], free)
    u[free] = solution.x
    if gauged:
        u -= space.integral @ u / space.integral.sum()
    return PoissonSolution(
        values=u[: mesh.n_nodes].copy(),
        coefficients=u,
        space=space,
        residual=solution.residual,
        iterations=solution.iterations,
        method=solution.method,
        seconds=perf_counter() - start,
    )


def solve_scalar(space: LagrangeSpace, matrix, rhs: ndarray, free: ndarray) -> LinearSolution:
    """Solve a symmetric positive definite system on the free nodes of a scalar space."""
    if space.mesh.dim == 3 and space.degree == 2 and len(free) >= ITERATIVE_FROM:
        return solve_definite(
            matrix, rhs, np.arange(len(free)), lambda: two_level(space, matrix, free)
        )
    return solve_definite(matrix, rhs, free_order(space, free))


def free_order(space: LagrangeSpace, free: ndarray) -> ndarray:
    """Elimination order of the free nodes, as positions in ``free``."""
    position = np.full(space.n, -1)
    position[free] = np.arange(len(free))
    order = position[nested_dissection(space.points, space.cell_nodes)]
    return order[order >= 0]


def two_level(space: LagrangeSpace, matrix, free: ndarray) -> Operator:
    """The two-level cycle for a scalar matrix on the free nodes of a P2 space."""
    vertices = free[free < space.mesh.n_nodes]
    order = free_order(LagrangeSpace(space.mesh, 1), vertices)
    return TwoLevel(matrix, space.prolongation[free][:, vertices].tocsr(), order)


def _stiffness(space: LagrangeSpace, conductivity: Scalar) -> ndarray:
    if not callable(conductivity):
        _check_conductivity(np.array([conductivity], dtype=np.float64))
        return float(conductivity) * space.stiffness()
    k = _sample(space, conductivity, "conductivity")
    _check_conductivity(k)
    return space.stiffness(k)


def _check_conductivity(k: ndarray) -> None:
    if not (k > 0).all():
        raise ProblemError(
            f"the conductivity falls to {k.min():.3g}", "give a positive conductivity"
        )


def _sample(space: LagrangeSpace, data: Scalar, name: str) -> ndarray:
    """A scalar datum at the quadrature points of every cell, (C, q)."""
    x = space.physical(space.data_table.points)
    return scalar_values(data, x.reshape(-1, x.shape[-1]), name).reshape(x.shape[:2])


def _load(space: LagrangeSpace, source: Scalar, neumann: Mapping[str, Scalar]) -> ndarray:
    if callable(source):
        load = space.load(_sample(space, source, "source"))
    else:
        load = float(source) * space.integral
    for group, datum in neumann.items():
        where = f"Neumann data on {group!r}"
        load = load + space.facet_load(group, lambda x, g=datum, w=where: scalar_values(g, x, w))
    return load


def _check_balance(load: ndarray) -> None:
    defect, size = abs(load.sum()), np.abs(load).sum()
    if defect > BALANCE_TOLERANCE * size:
        raise ProblemError(
            "no group carries Dirichlet data, and source and Neumann data do not balance: "
            f"they sum to {load.sum():.3e} of {size:.3e}",
            "prescribe u on some group, or balance the loads",
        )


__all__ = ["PoissonSolution", "solve_poisson"]
