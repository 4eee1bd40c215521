r"""Steady Euler flow over an airfoil: Newton's method in pseudo time, from coarse grids to fine.

The fluxes out of every cell vanish, R(U) = 0 (:mod:`geonew.data.euler.flux`). Each step solves

.. math:: \Bigl( \frac{V}{\Delta t} + R'(U) \Bigr) \delta = -R(U)

by GMRES, the second-order Jacobian by differences of R, preconditioned by incomplete factors of the
first-order one (:mod:`geonew.data.euler.jacobian`). The CFL number grows as the residual falls, so
that the last steps are Newton's; a step that would make density or pressure change by more than a
part of itself, or the residual grow, is shortened. Each grid starts from the solution on the next
coarser one, the coarsest from the free stream.

Far field: the free stream with the field of a compressible point vortex at the quarter chord, whose
circulation :math:`\Gamma = \tfrac12 M_\infty c_l` follows the lift, so that a finite far field does
not change it (Thomas and Salas).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import cos, pi, radians, sin, sqrt
from time import process_time

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from threadpoolctl import threadpool_limits

from geonew.data.euler.flux import GAMMA, conserved, residual, to_primitive
from geonew.data.euler.gmres import gmres
from geonew.data.euler.grid import CGrid
from geonew.data.euler.jacobian import assemble, factorise, solve_factors
from geonew.data.euler.topology import Faces, faces_of
from geonew.errors import InputError, SolverError

# Fall of the residual from that of the free stream, asked for on the last grid and on those before.
TOLERANCE, COARSE_TOLERANCE = 1e-8, 1e-3
# CFL numbers: at the free stream, after a change of grid, and the largest.
FIRST_CFL, NEXT_CFL, LARGEST_CFL = 5.0, 50.0, 1e7
# It is multiplied by: at a full step that lowers the residual (times the fall), at one that raises
# it, and at a step refused.
CFL_GROWTH, CFL_BACK, CFL_CUT, LEAST_CFL = 4.0, 0.5, 0.1, 0.05
# Newton's systems: fall of their residual, and most Krylov vectors.
FORCING, KRYLOV = 0.05, 60
MOST_STEPS, COARSE_STEPS = 150, 60
# Most a step may change density or pressure by, as a part of them; residual growth it may cause.
LARGEST_CHANGE, LARGEST_GROWTH = 0.3, 1.5
SHORTEST_STEP = 0.1
VORTEX_CENTRE = (0.25, 0.0)


@dataclass(frozen=True)
class FreeStream:
    """The flow far away, density and speed of sound 1.

    Args:
        mach: Mach number, below 1.
        angle: angle of attack in degrees.

    """

    mach: float = 0.8
    angle: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.mach < 1:
            raise InputError(
                f"free stream of Mach number {self.mach}", "give a subsonic one, between 0 and 1"
            )
        if not abs(self.angle) <= 20:
            raise InputError(
                f"angle of attack of {self.angle} degrees", "give one between -20 and 20"
            )

    @property
    def direction(self) -> tuple[float, float]:
        """Unit vector of the flow."""
        return cos(radians(self.angle)), sin(radians(self.angle))

    @property
    def primitive(self) -> Float[ndarray, "4"]:
        """Density, velocity, pressure."""
        cosine, sine = self.direction
        return np.array([1.0, self.mach * cosine, self.mach * sine, 1 / GAMMA])

    def with_vortex(self, points: Float[ndarray, "n 2"], lift: float) -> Float[ndarray, "n 4"]:
        """The stream with a point vortex for a lift coefficient; isentropic, isoenergetic."""
        x = points - np.array(VORTEX_CENTRE)
        r, theta = np.hypot(*x.T), np.arctan2(x[:, 1], x[:, 0])
        beta = sqrt(1 - self.mach**2)
        across = np.sin(theta - radians(self.angle))
        turn = 0.5 * self.mach * lift * beta / (2 * pi * r * (1 - (self.mach * across) ** 2))
        cosine, sine = self.direction
        u = self.mach * cosine + turn * np.sin(theta)
        v = self.mach * sine - turn * np.cos(theta)
        enthalpy = 1 / (GAMMA - 1) + self.mach**2 / 2
        density = ((GAMMA - 1) * (enthalpy - (u * u + v * v) / 2)) ** (1 / (GAMMA - 1))
        return np.stack([density, u, v, density**GAMMA / GAMMA], axis=1)


@dataclass(frozen=True, eq=False)
class EulerSolution:
    """A steady solution in the cells of a grid.

    Args:
        grid: the grid.
        stream: the free stream.
        state: density, velocity, pressure of each cell.
        fall: residual, relative to that of the free stream.
        steps: Newton steps on this grid.
        krylov: GMRES steps on this grid.
        seconds: processor time of all grids.

    """

    grid: CGrid
    stream: FreeStream
    state: Float[ndarray, "m n 4"]
    fall: float
    steps: int
    krylov: int
    seconds: float


class System:
    """R(U) on one grid, with its work space."""

    def __init__(self, grid: CGrid, stream: FreeStream, second: bool = True) -> None:
        self.grid, self.stream, self.second = grid, stream, second
        self.faces: Faces = faces_of(grid)
        cells = len(self.faces.volumes)
        self.W = np.empty((cells, 4))
        self.D = np.empty((cells, 4, 4), dtype=np.float32)
        self.B = np.empty((len(self.faces.stencil), 2, 4, 4), dtype=np.float32)
        self.inverse = np.empty((cells, 4, 4), dtype=np.float32)
        self.speed = np.empty(cells)
        self.set_lift(0.0)

    @cached_property
    def uniform(self) -> Float[ndarray, "C 4"]:
        """The free stream in every cell."""
        return np.tile(conserved(self.stream.primitive), (len(self.faces.volumes), 1))

    def set_lift(self, lift: float) -> None:
        """Let the far field carry the vortex of a lift coefficient."""
        self.lift = lift
        self.far = self.stream.with_vortex(self.faces.far_middles, lift)

    def __call__(self, U: Float[ndarray, "C 4"]) -> Float[ndarray, "C 4"]:
        """Sum of the fluxes out of each cell."""
        R, f = np.empty_like(U), self.faces
        residual(
            U, self.W, f.stencil, f.normals, f.wall_cells, f.wall_normals, f.far_cells,
            f.far_normals, self.far, self.second, R,
        )  # fmt: skip
        return R

    def force(self, U: Float[ndarray, "C 4"]) -> tuple[float, float]:
        """Lift and drag coefficients: the pressure on the airfoil."""
        f = self.faces
        to_primitive(U, self.W)
        near, beyond = self.W[f.wall_cells, 3].T
        p = near * np.sqrt(near / beyond)
        x, y = (p - 1 / GAMMA) @ f.wall_normals / (0.5 * self.stream.mach**2)
        cosine, sine = self.stream.direction
        return float(y * cosine - x * sine), float(x * cosine + y * sine)

    def precondition(self, U: Float[ndarray, "C 4"]) -> None:
        """Assemble the first-order Jacobian."""
        f = self.faces
        to_primitive(U, self.W)
        assemble(
            self.W, f.stencil, f.normals, f.wall_cells, f.wall_normals, f.far_cells, f.far_normals,
            self.far, self.D, self.B, self.speed,
        )  # fmt: skip

    def step(
        self, U: Float[ndarray, "C 4"], R: Float[ndarray, "C 4"], cfl: float
    ) -> tuple[Float[ndarray, "C 4"], int]:
        """One Newton step in pseudo time, and its number of Krylov vectors."""
        f, shift = self.faces, self.speed / cfl
        factorise(self.D, self.B, shift, f.stencil, f.neighbours, self.inverse)
        size = sqrt(np.finfo(float).eps) * np.linalg.norm(U)

        def solve(r: ndarray) -> ndarray:
            x = np.empty_like(U)
            solve_factors(self.inverse, self.B, f.stencil, f.neighbours, r.reshape(-1, 4), x)
            return x.ravel()

        def apply(x: ndarray) -> ndarray:
            v = x.reshape(-1, 4)
            e = size / np.linalg.norm(x)
            return ((self(U + e * v) - R) / e + shift[:, None] * v).ravel()

        x, count = gmres(apply, solve, -R.ravel(), FORCING, KRYLOV)
        return x.reshape(-1, 4), count


def solve_euler(
    grids: Sequence[CGrid], stream: FreeStream, tolerance: float = TOLERANCE
) -> EulerSolution:
    """Steady flow on the last of the grids, each of which refines the one before.

    Args:
        grids: from coarse to fine.
        stream: the flow far away.
        tolerance: fall of the residual, relative to that of the free stream.

    """
    start = process_time()
    if not grids:
        raise InputError("no grid to solve on", "give at least one")
    solution = None
    with threadpool_limits(1):  # vectors too short for threads; the same sums on every machine size
        for grid in grids[:-1]:
            # a start for the next grid and no more: it need not have converged
            solution = _newton(
                *_start(grid, stream, solution), COARSE_TOLERANCE, COARSE_STEPS, start
            )
        solution = _newton(*_start(grids[-1], stream, solution), tolerance, MOST_STEPS, start)
    if not solution.fall <= tolerance:
        cells = " x ".join(map(str, solution.grid.cells))
        raise SolverError(
            f"Euler flow on {cells} cells, Mach {stream.mach}, {stream.angle} degrees: residual "
            f"fell to {solution.fall:.1e} of that of the free stream in {solution.steps} steps, "
            f"asked {tolerance:g}",
            "the flow may have no steady state; use a smaller deformation, angle or Mach number",
        )
    return solution


def _start(
    grid: CGrid, stream: FreeStream, before: EulerSolution | None
) -> tuple[System, ndarray, float]:
    """System, first state and first CFL number on a grid."""
    system = System(grid, stream)
    if before is None:
        return system, system.uniform.copy(), FIRST_CFL
    return system, conserved(_prolonged(before.state, grid).reshape(-1, 4)), NEXT_CFL


def _newton(
    system: System, U: ndarray, cfl: float, tolerance: float, most: int, start: float
) -> EulerSolution:
    scale = float(np.linalg.norm(system(system.uniform)))
    system.set_lift(system.force(U)[0])
    R = system(U)
    norm, krylov = float(np.linalg.norm(R)), 0
    steps = 0
    while steps < most and norm > tolerance * scale and cfl >= LEAST_CFL:
        steps += 1
        system.precondition(U)
        change, count = system.step(U, R, cfl)
        krylov += count
        length = _longest_step(U, change)
        while length >= SHORTEST_STEP:
            trial = system(U + length * change)
            if np.linalg.norm(trial) <= LARGEST_GROWTH * norm:
                break
            length /= 2
        else:
            cfl *= CFL_CUT
            continue
        U = U + length * change
        system.set_lift(system.force(U)[0])
        R = system(U)
        before, norm = norm, float(np.linalg.norm(R))
        if length == 1:
            cfl *= CFL_GROWTH * before / norm if norm <= before else CFL_BACK
            cfl = min(cfl, LARGEST_CFL)
    to_primitive(U, system.W)
    return EulerSolution(
        grid=system.grid,
        stream=system.stream,
        state=system.W.reshape(*system.grid.cells, 4).copy(),
        fall=norm / scale,
        steps=steps,
        krylov=krylov,
        seconds=process_time() - start,
    )


def _longest_step(U: ndarray, change: ndarray) -> float:
    """At most 1, such that density and pressure change by at most a part of themselves."""
    r, m, n, e = U.T
    dr, dm, dn, de = change.T
    pressure = e - (m * m + n * n) / (2 * r)
    slope = de - (m * dm + n * dn) / r + (m * m + n * n) / (2 * r * r) * dr
    worst = max(np.abs(dr / r).max(), np.abs(slope / pressure).max())
    return 1.0 if worst <= LARGEST_CHANGE else float(LARGEST_CHANGE / worst)


def _prolonged(state: ndarray, grid: CGrid) -> ndarray:
    """Cell values on the grid with twice the cells, linear in the indices, constant at the ends."""
    for axis in (0, 1):
        state = np.moveaxis(state, axis, 0)
        padded = np.concatenate([state[:1], state, state[-1:]])
        fine = np.empty((2 * len(state), *state.shape[1:]))
        fine[::2] = 0.75 * state + 0.25 * padded[:-2]
        fine[1::2] = 0.75 * state + 0.25 * padded[2:]
        state = np.moveaxis(fine, 0, axis)
    if state.shape[:2] != grid.cells:
        raise InputError(f"a grid of {grid.cells} cells does not refine the one before it")
    return state
