r"""Reference solution of linear elasticity with P1 or P2 elements in 2D and 3D.

Weak form: the displacement u equals the Dirichlet data, component by component, and for every v
that vanishes there

.. math:: \int \lambda\, \nabla\!\cdot u\, \nabla\!\cdot v + 2 \mu\, \varepsilon(u) : \varepsilon(v)
          = \int f \cdot v + \int_{\text{traction}} t \cdot v .

In 2D the section is in plane strain, or in plane stress with
:math:`\lambda \to 2 \lambda \mu / (\lambda + 2 \mu)`.

The von Mises stress is that of the L2 projection of the stress into P1. Stresses of P2
displacements are piecewise linear and discontinuous; the projection reproduces every stress that is
linear on the whole domain, and recovers others to second order at the vertices, boundary included,
where plain averaging drops to first order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Literal

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.sparse import bmat, csr_matrix

from geonew.errors import ProblemError
from geonew.fem.reference.boundary import Vector, dirichlet_components, vector_values
from geonew.fem.reference.linear_solver import (
    LinearSolution,
    Operator,
    factorized,
    solve_definite,
)
from geonew.fem.reference.poisson import ITERATIVE_FROM, free_order, two_level
from geonew.fem.reference.space import LagrangeSpace
from geonew.mesh import Mesh

Plane = Literal["strain", "stress"]


@dataclass(frozen=True)
class Material:
    """An isotropic linear material by its Lame parameters.

    Args:
        lame_lambda: first Lame parameter.
        lame_mu: shear modulus, positive; 3 lambda + 2 mu must be positive too.

    """

    lame_lambda: float
    lame_mu: float

    def __post_init__(self) -> None:
        bulk = self.lame_lambda + 2 * self.lame_mu / 3
        if not (self.lame_mu > 0 and bulk > 0 and np.isfinite(bulk)):
            raise ProblemError(
                f"the material lambda = {self.lame_lambda:.4g}, mu = {self.lame_mu:.4g} is not "
                f"elastic: its bulk modulus is {bulk:.4g}",
                "give mu > 0 and 3 lambda + 2 mu > 0, that is E > 0 and -1 < nu < 1/2",
            )

    @classmethod
    def from_young(cls, young: float, poisson: float) -> Material:
        """The material with Young's modulus E and Poisson's ratio nu, -1 < nu < 1/2."""
        if not (young > 0 and -1 < poisson < 0.5):
            raise ProblemError(
                f"no elastic material has E = {young:.4g} and nu = {poisson:.4g}",
                "give E > 0 and -1 < nu < 1/2",
            )
        return cls(
            young * poisson / ((1 + poisson) * (1 - 2 * poisson)), young / (2 * (1 + poisson))
        )


@dataclass(frozen=True, eq=False)
class ElasticitySolution:
    """Solution of the elasticity problem.

    Args:
        displacement: u at the vertices.
        von_mises: von Mises stress at the vertices, from the recovered stress.
        stress: recovered stress tensor at the vertices; 3 x 3 also in 2D, where the stress
            across the plane is part of it in plane strain.
        coefficients: u at all nodes of the space.
        space: the space of each component.
        residual: relative residual of the linear system.
        iterations: Krylov steps; 1 for the direct solver.
        method: the linear solver used.
        seconds: wall time.

    """

    displacement: Float[ndarray, "N d"]
    von_mises: Float[ndarray, "N"]
    stress: Float[ndarray, "N 3 3"]
    coefficients: Float[ndarray, "n d"] = field(repr=False)
    space: LagrangeSpace = field(repr=False)
    residual: float
    iterations: int
    method: str
    seconds: float

    def evaluate(self, points: Float[ndarray, "m d"]) -> Float[ndarray, "m d"]:
        """U at points of the domain."""
        return self.space.evaluate(self.coefficients, points)

    def restricted(self, n_nodes: int) -> ElasticitySolution:
        """The same solution with vertex values at the first vertices only."""
        return replace(
            self,
            displacement=self.displacement[:n_nodes],
            von_mises=self.von_mises[:n_nodes],
            stress=self.stress[:n_nodes],
        )


def solve_elasticity(
    mesh: Mesh,
    material: Material,
    *,
    dirichlet: Mapping[str, Vector],
    traction: Mapping[str, Vector] | None = None,
    body_force: Vector | None = None,
    plane: Plane = "strain",
    degree: int = 2,
) -> ElasticitySolution:
    """Solve linear elasticity; see the module docstring.

    Args:
        mesh: the mesh with its named boundary groups.
        material: the isotropic material.
        dirichlet: group -> displacement; per component, ``None`` leaves one free.
        traction: group -> force per area.
        body_force: force per volume.
        plane: what a 2D section stands for.
        degree: 1 or 2.

    """
    start = perf_counter()
    dim = mesh.dim
    lam = _plane_lambda(material, plane, dim)
    space = LagrangeSpace(mesh, degree)
    matrix = _stiffness(space, lam, material.lame_mu)
    load = _load(space, body_force, traction or {})
    fixed, values = dirichlet_components(space, dirichlet)
    _check_rigid_motions(space, fixed)

    u = values.T.ravel()  # component by component
    free = np.flatnonzero(~fixed.T.ravel())
    rhs = (load.T.ravel() - matrix @ u)[free]
    solution = _solve(space, matrix[free][:, free].tocsr(), rhs, fixed)
    u[free] = solution.x
    coefficients = u.reshape(dim, space.n).T.copy()
    stress = _recovered_stress(space, coefficients, lam, material, plane)
    return ElasticitySolution(
        displacement=coefficients[: mesh.n_nodes].copy(),
        von_mises=von_mises(stress),
        stress=stress,
        coefficients=coefficients,
        space=space,
        residual=solution.residual,
        iterations=solution.iterations,
        method=solution.method,
        seconds=perf_counter() - start,
    )


def von_mises(stress: Float[ndarray, "n 3 3"]) -> Float[ndarray, "n"]:
    r"""Von Mises stress :math:`\sqrt{3/2\; s : s}`, s the deviator of the stress."""
    deviator = stress - np.trace(stress, axis1=1, axis2=2)[:, None, None] * np.eye(3) / 3
    return np.sqrt(1.5 * np.einsum("nab,nab->n", deviator, deviator))


def _plane_lambda(material: Material, plane: Plane, dim: int) -> float:
    lam, mu = material.lame_lambda, material.lame_mu
    return 2 * lam * mu / (lam + 2 * mu) if dim == 2 and plane == "stress" else lam


def _stiffness(space: LagrangeSpace, lam: float, mu: float) -> csr_matrix:
    """Blocks (a, b): lambda d_a d_b + mu d_b d_a + delta_ab mu grad . grad."""
    dim = space.mesh.dim
    products = {(a, b): space.gradient_product(a, b) for a in range(dim) for b in range(dim)}
    laplace = space.stiffness()
    blocks = [
        [
            space.matrix(lam * products[a, b] + mu * products[b, a] + mu * (a == b) * laplace)
            for b in range(dim)
        ]
        for a in range(dim)
    ]
    return csr_matrix(bmat(blocks, format="csr"))


def _load(
    space: LagrangeSpace, body_force: Vector | None, traction: Mapping[str, Vector]
) -> ndarray:
    dim = space.mesh.dim
    load = np.zeros((space.n, dim))
    if body_force is not None:
        x = space.physical(space.data_table.points)
        force = vector_values(body_force, x.reshape(-1, dim), "body force")[0].reshape(x.shape)
        load += np.stack([space.load(force[:, :, a]) for a in range(dim)], axis=1)
    for group, datum in traction.items():
        where = f"traction on {group!r}"
        load += space.facet_load(group, lambda x, t=datum, w=where: vector_values(t, x, w)[0])
    return load


def _check_rigid_motions(space: LagrangeSpace, fixed: ndarray) -> None:
    """Refuse data that leave a rigid motion free: the system would be singular."""
    dim = space.mesh.dim
    x = space.points - space.points.mean(axis=0)
    x = x / np.abs(x).max()
    motions = [np.broadcast_to(np.eye(dim)[a], x.shape) for a in range(dim)]
    for a in range(dim):
        for b in range(a):
            turn = np.zeros(x.shape)
            turn[:, a], turn[:, b] = x[:, b], -x[:, a]
            motions.append(turn)
    seen = np.stack([motion[fixed] for motion in motions], axis=1)
    rank = int(np.linalg.matrix_rank(seen, tol=1e-8)) if len(seen) else 0
    if rank < len(motions):
        raise ProblemError(
            f"the Dirichlet data leave {len(motions) - rank} of {len(motions)} rigid motions free",
            "prescribe more components of the displacement, or on more groups",
        )


def _solve(
    space: LagrangeSpace, matrix: csr_matrix, rhs: ndarray, fixed: ndarray
) -> LinearSolution:
    free = [np.flatnonzero(~fixed[:, a]) for a in range(space.mesh.dim)]
    offsets = np.concatenate([[0], np.cumsum([len(part) for part in free])])
    if space.mesh.dim == 3 and len(rhs) >= ITERATIVE_FROM:
        return solve_definite(
            matrix, rhs, np.arange(len(rhs)), lambda: _by_component(space, matrix, free, offsets)
        )
    # Nodes in nested-dissection order, the components of a node side by side.
    order = free_order(space, np.arange(space.n))
    rank = np.empty(space.n, dtype=np.int64)
    rank[order] = np.arange(space.n)
    return solve_definite(
        matrix, rhs, np.argsort(np.concatenate([rank[part] for part in free]), kind="stable")
    )


def _by_component(
    space: LagrangeSpace, matrix: csr_matrix, free: list[ndarray], offsets: ndarray
) -> Operator:
    """Approximate inverse of each component's own block: equivalent by Korn's inequality."""
    spans = [slice(offsets[a], offsets[a + 1]) for a in range(len(free))]
    cycles: list[Operator] = []
    for span, part in zip(spans, free, strict=True):
        block = matrix[span, span].tocsr()
        if space.degree == 2:
            cycles.append(two_level(space, block, part))
        else:
            cycles.append(factorized(block, free_order(space, part)))

    def apply(r: ndarray) -> ndarray:
        return np.concatenate([cycle(r[span]) for cycle, span in zip(cycles, spans, strict=True)])

    return apply


def _recovered_stress(
    space: LagrangeSpace, u: ndarray, lam: float, material: Material, plane: Plane
) -> Float[ndarray, "N 3 3"]:
    """L2 projection of the stress into P1, at the vertices."""
    dim, mu = space.mesh.dim, material.lame_mu
    linear = LagrangeSpace(space.mesh, 1)
    table = space.table(2)
    gradient = np.einsum(  # du_b / dx_a at the quadrature points
        "ckb,krq,cra->cqab", u[space.cell_nodes], table.dphi, space.inverse, optimize=True
    )
    strain = (gradient + np.swapaxes(gradient, 2, 3)) / 2
    stress = np.zeros((*strain.shape[:2], 3, 3))
    trace = np.trace(strain, axis1=2, axis2=3)
    stress[:, :, :dim, :dim] = 2 * mu * strain + lam * trace[:, :, None, None] * np.eye(dim)
    if dim == 2 and plane == "strain":
        stress[:, :, 2, 2] = lam * trace
    tested = linear.table(2).phi * table.weights  # (k, q)
    mass = linear.matrix(linear.mass())
    order = free_order(linear, np.arange(linear.n))
    recovered = np.zeros((linear.n, 3, 3))
    for a in range(3):
        for b in range(a, 3):
            rhs = linear.scatter((stress[:, :, a, b] * linear.determinant[:, None]) @ tested.T)
            recovered[:, a, b] = recovered[:, b, a] = solve_definite(mass, rhs, order).x
    return recovered


__all__ = ["ElasticitySolution", "Material", "solve_elasticity", "von_mises"]
