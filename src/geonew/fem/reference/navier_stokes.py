r"""Reference solution of steady incompressible flow, Stokes and Navier-Stokes, in 2D and 3D.

.. math:: \rho (u \cdot \nabla) u - \rho \nu \Delta u + \nabla p = f, \qquad \nabla \cdot u = 0,

with Taylor-Hood elements (P2 velocity, P1 pressure; :mod:`geonew.fem.reference.flow_system`). On
every boundary group stands one of

* ``velocity``: u, or some of its components; on the others the traction is zero,
* ``pressure``: do nothing, :math:`\rho \nu\, \partial_n u - p n = -p_{out} n`,
* ``normal_pressure``: :math:`p = p_{out}` with flow along the normal, tangential velocity zero.

Where the velocity leaves no way out, the pressure is fixed by :math:`\int p = 0`.

Newton's method with a frozen Jacobian: it starts from Stokes flow or from a given guess, each step
is solved by GMRES with the last factorisation, which is renewed when GMRES needs too many steps;
steps are halved until the residual falls; where that fails, the solution at a higher viscosity is
found first and followed down. Everything is computed in units of the domain and of the data, so
that a mesh in millimetres takes the same steps as one in metres.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from time import perf_counter

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from geonew.errors import SolverError
from geonew.fem.reference.boundary import Scalar, Vector, dirichlet_components
from geonew.fem.reference.flow_linear import BlockFlowSolver, DirectFlowSolver
from geonew.fem.reference.flow_measures import divergence_norm, group_flux
from geonew.fem.reference.flow_statement import (
    check_net_flux,
    check_statement,
    is_enclosed,
    momentum_load,
    normal_frames,
    power_of_two,
    speed_scale,
)
from geonew.fem.reference.flow_system import FlowSystem
from geonew.fem.reference.space import LagrangeSpace
from geonew.mesh import Mesh

# Residual of a solution, relative to the size of the terms that cancel in it, or to this share of
# their size before the solve.
TOLERANCE = 1e-11
DATA_SHARE = 1e-2
MAX_NEWTON_STEPS = 25
MAX_HALVINGS = 8

# Newton's linear systems: never solved better than needed for the next residual.
LOOSEST_RTOL = 1e-2
TIGHTEST_RTOL = 1e-10

# One step solves a linear problem; a second one removes round-off.
STOKES_STEPS = 3

# Continuation: the viscosity is raised by this factor until Newton converges, at most so often.
VISCOSITY_FACTOR = 3.0
MAX_CONTINUATION = 6

# 3D unknowns from which the block preconditioner is faster than LU.
BLOCK_FROM = 12_000


@dataclass(frozen=True, eq=False)
class FlowSolution:
    """A steady flow.

    Args:
        velocity: u at the vertices.
        pressure: p at the vertices.
        coefficients: u at the nodes of the P2 space.
        pressure_coefficients: p at all vertices of the mesh solved on.
        space: the P2 space of each component.
        flux: group -> integral of u . n over it, outward; ``"(unnamed)"`` for the rest.
        divergence: L2 norm of div u.
        residual: residual relative to the size of its terms.
        residuals: the same by Newton step, all continuation stages in a row.
        iterations: Newton steps.
        krylov_steps: GMRES steps in all.
        factorizations: LU factorisations in all; 0 for the block solver.
        method: the linear solver.
        seconds: wall time, and how much of it went into assembly and into linear solves.
        assembly_seconds: see ``seconds``.
        solve_seconds: see ``seconds``.

    """

    velocity: Float[ndarray, "N d"]
    pressure: Float[ndarray, "N"]
    coefficients: Float[ndarray, "n d"] = field(repr=False)
    pressure_coefficients: Float[ndarray, "M"] = field(repr=False)
    space: LagrangeSpace = field(repr=False)
    flux: Mapping[str, float]
    divergence: float
    residual: float
    residuals: tuple[float, ...] = field(repr=False)
    iterations: int
    krylov_steps: int
    factorizations: int
    method: str
    seconds: float
    assembly_seconds: float
    solve_seconds: float

    def evaluate(
        self, points: Float[ndarray, "m d"]
    ) -> tuple[Float[ndarray, "m d"], Float[ndarray, "m"]]:
        """Velocity and pressure at points of the domain."""
        linear = LagrangeSpace(self.space.mesh, 1)
        u = self.space.evaluate(self.coefficients, points)
        return u, linear.evaluate(self.pressure_coefficients, points)

    def restricted(self, n_nodes: int) -> FlowSolution:
        """The same solution with vertex values at the first vertices only."""
        return replace(self, velocity=self.velocity[:n_nodes], pressure=self.pressure[:n_nodes])


def solve_stokes(
    mesh: Mesh,
    *,
    viscosity: float,
    density: float = 1.0,
    velocity: Mapping[str, Vector],
    pressure: Mapping[str, Scalar] | None = None,
    normal_pressure: Mapping[str, Scalar] | None = None,
    body_force: Vector | None = None,
) -> FlowSolution:
    """Solve the Stokes problem; arguments as in :func:`solve_navier_stokes`."""
    start = perf_counter()
    flow = _Flow.build(
        mesh, viscosity, density, velocity, pressure or {}, normal_pressure or {}, body_force
    )
    return flow.result(*flow.stokes(flow.viscosity, TOLERANCE), start)


def solve_navier_stokes(
    mesh: Mesh,
    *,
    viscosity: float,
    density: float = 1.0,
    velocity: Mapping[str, Vector],
    pressure: Mapping[str, Scalar] | None = None,
    normal_pressure: Mapping[str, Scalar] | None = None,
    body_force: Vector | None = None,
    guess: Float[ndarray, "N d"] | None = None,
) -> FlowSolution:
    """Solve the steady Navier-Stokes equations; see the module docstring.

    Args:
        mesh: the mesh with its named boundary groups.
        viscosity: kinematic viscosity nu > 0.
        density: rho > 0.
        velocity: group -> velocity; a node of two groups belongs to the first listed.
        pressure: group -> outlet pressure, do-nothing.
        normal_pressure: group -> outlet pressure, flow along the normal.
        body_force: force per volume.
        guess: velocity at the vertices to start from; without one, Stokes flow, which takes a
            factorisation of its own.

    Raises:
        SolverError: Newton did not converge, with the residuals of its steps.

    """
    start = perf_counter()
    flow = _Flow.build(
        mesh, viscosity, density, velocity, pressure or {}, normal_pressure or {}, body_force
    )
    if guess is None:
        u, p, _ = flow.stokes(flow.viscosity, LOOSEST_RTOL)
    else:
        u, p = flow.guessed(guess)
    return flow.result(*flow.follow(u, p), start)


@dataclass(eq=False)
class _Flow:
    """A flow problem in scaled units, x / L, u / U, p / (rho U^2), and the state of its solve."""

    mesh: Mesh
    system: FlowSystem
    viscosity: float
    length: float
    speed: float
    density: float
    solver: DirectFlowSolver | BlockFlowSolver
    history: list[float] = field(default_factory=list)
    steps: int = 0
    data_size: float | None = None

    # -- statement -----------------------------------------------------------------------------

    @classmethod
    def build(
        cls,
        mesh: Mesh,
        viscosity: float,
        density: float,
        velocity: Mapping[str, Vector],
        pressure: Mapping[str, Scalar],
        normal_pressure: Mapping[str, Scalar],
        body_force: Vector | None,
    ) -> _Flow:
        check_statement(mesh, viscosity, density, velocity, pressure, normal_pressure)
        space = LagrangeSpace(mesh, 2)
        fixed, values = dirichlet_components(space, velocity)
        turned, frames, fixed = normal_frames(space, fixed, normal_pressure)
        load, driving = momentum_load(space, pressure, normal_pressure, body_force)

        length = power_of_two(mesh.volume ** (1 / mesh.dim))
        speed = power_of_two(speed_scale(values, driving, viscosity, density, length))
        stress = density * speed**2
        scaled = Mesh(mesh.points / length, mesh.cells, mesh.groups) if length != 1 else mesh
        direct = mesh.dim == 2 or fixed.size + mesh.n_nodes < BLOCK_FROM
        system = FlowSystem(
            mesh=scaled,
            fixed=fixed,
            values=values / speed,
            load=load / (stress * length ** (mesh.dim - 1)),
            turned=turned,
            frames=frames,
            enclosed=is_enclosed(scaled, fixed, turned, frames),
            dissected=direct,
        )
        if system.enclosed:
            check_net_flux(system)
        solver = DirectFlowSolver(system) if direct else BlockFlowSolver(system)
        return cls(mesh, system, viscosity / (speed * length), length, speed, density, solver)

    # -- solution ------------------------------------------------------------------------------

    def stokes(self, viscosity: float, tolerance: float) -> tuple[ndarray, ndarray, float]:
        """Stokes flow from rest, to a relative residual."""
        system = self.system
        u, p = system.cartesian(system.values), np.zeros(system.Q.n)
        for attempt in range(STOKES_STEPS + 1):
            r, residual = self._residual(u, p, viscosity, None)
            self.history.append(residual)
            if residual <= tolerance:
                return u, p, residual
            if attempt < STOKES_STEPS:
                rtol = max(0.1 * tolerance / residual, np.finfo(float).eps)
                u, p = self._stepped(u, p, self._solve(u, viscosity, None, r, rtol), 1.0)
                self.steps += 1
        raise self._failure("Stokes flow", viscosity)

    def guessed(self, velocity: ndarray) -> tuple[ndarray, ndarray]:
        """A velocity given at the vertices, with the prescribed values, and no pressure."""
        system = self.system
        u = system.local(system.V.prolongation @ (velocity / self.speed))
        u[system.fixed] = system.values[system.fixed]
        return system.cartesian(u), np.zeros(system.Q.n)

    def follow(self, u: ndarray, p: ndarray) -> tuple[ndarray, ndarray, float]:
        """Newton from (u, p), through higher viscosities where needed."""
        found = self.newton(u, p, self.viscosity)
        if found is not None:
            return found
        # Down a ladder of viscosities: climb until Newton converges, then descend.
        for rungs in range(1, MAX_CONTINUATION + 1):
            u, p, _ = self.stokes(self.viscosity * VISCOSITY_FACTOR**rungs, LOOSEST_RTOL)
            state: tuple[ndarray, ndarray, float] | None = (u, p, 0.0)
            for rung in range(rungs, -1, -1):
                state = self.newton(state[0], state[1], self.viscosity * VISCOSITY_FACTOR**rung)
                if state is None:
                    break
            if state is not None:
                return state
        raise self._failure("Navier-Stokes flow", self.viscosity)

    def newton(
        self, u: ndarray, p: ndarray, viscosity: float
    ) -> tuple[ndarray, ndarray, float] | None:
        """Newton's method; None where it fails."""
        convection, r, residual = self._state(u, p, viscosity)
        rtol = LOOSEST_RTOL
        for _ in range(MAX_NEWTON_STEPS):
            if residual <= TOLERANCE:
                return u, p, residual
            step = self._solve(u, viscosity, convection, r, rtol)
            if step is None:
                return None
            self.steps += 1
            before, damping = residual, 1.0
            for _ in range(MAX_HALVINGS):
                trial = self._stepped(u, p, step, damping)
                convection, r, residual = self._state(*trial, viscosity)
                if residual < (1 - 1e-4 * damping) * before:
                    break
                damping /= 2
            else:
                return None
            u, p = trial
            self.history.append(residual)
            # Eisenstat and Walker's second choice, but no finer than the goal needs.
            rtol = min(LOOSEST_RTOL, 0.9 * (residual / before) ** 2)
            rtol = max(rtol, 0.1 * TOLERANCE / residual, TIGHTEST_RTOL)
        return None

    def _state(self, u: ndarray, p: ndarray, viscosity: float) -> tuple[ndarray, ndarray, float]:
        start = perf_counter()
        convection = self.system.convection(u)
        r, residual = self._residual(u, p, viscosity, convection)
        self.solver.statistics.assembly_seconds += perf_counter() - start
        return convection, r, residual

    def _residual(
        self, u: ndarray, p: ndarray, viscosity: float, convection: ndarray | None
    ) -> tuple[ndarray, float]:
        """Residual, and its norm relative to its terms.

        In a linear shear flow every term vanishes, so those of the bare data count too, a little.
        """
        r, size = self.system.residual(u, p, viscosity, convection)
        if self.data_size is None:
            self.data_size = size
        size = max(size, DATA_SHARE * self.data_size)
        return r, float(np.linalg.norm(r)) / size if size > 0 else 0.0

    def _solve(
        self, u: ndarray, viscosity: float, convection: ndarray | None, r: ndarray, rtol: float
    ) -> ndarray | None:
        result = self.solver.solve(u, viscosity, convection, r, rtol)
        # A step that reduces the linear residual at all is worth trying: the line search judges it.
        return result.x if result.residuals[-1] < 0.5 and np.isfinite(result.x).all() else None

    def _stepped(
        self, u: ndarray, p: ndarray, step: ndarray | None, damping: float
    ) -> tuple[ndarray, ndarray]:
        if step is None:
            raise self._failure("the linear system of Stokes flow", self.viscosity)
        du, dp = self.system.unpack(step)
        p = p - damping * dp
        if self.system.enclosed:
            p = p - self.system.Q.integral @ p / self.system.Q.integral.sum()
        return u - damping * self.system.cartesian(du), p

    def _failure(self, what: str, viscosity: float) -> SolverError:
        tail = ", ".join(f"{value:.1e}" for value in self.history[-8:])
        return SolverError(
            f"{what} did not converge on {self.mesh!r} at Reynolds number about "
            f"{1 / viscosity:.3g}: last residuals {tail} (goal {TOLERANCE:.0e}), "
            f"{self.steps} Newton steps",
            "refine the mesh where the flow turns, raise the viscosity (a steady solution may not "
            "exist), and check that every inlet has an outlet to leave through",
        )

    # -- result --------------------------------------------------------------------------------

    def result(self, u: ndarray, p: ndarray, residual: float, start: float) -> FlowSolution:
        space = LagrangeSpace(self.mesh, 2)
        u, p = u * self.speed, p * (self.density * self.speed**2)
        statistics = self.solver.statistics
        n = self.mesh.n_nodes
        return FlowSolution(
            velocity=u[:n].copy(),
            pressure=p.copy(),
            coefficients=u,
            pressure_coefficients=p,
            space=space,
            flux=group_flux(space, u),
            divergence=divergence_norm(space, u),
            residual=residual,
            residuals=tuple(self.history),
            iterations=self.steps,
            krylov_steps=statistics.krylov_steps,
            factorizations=statistics.factorizations,
            method=", ".join(sorted(statistics.backends)),
            seconds=perf_counter() - start,
            assembly_seconds=statistics.assembly_seconds,
            solve_seconds=statistics.solve_seconds,
        )
