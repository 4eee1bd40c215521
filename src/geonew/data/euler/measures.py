r"""What is read off an Euler solution: nodal fields, forces, pressure along the airfoil, shocks.

Nodal values are means over the cells around a node, linear in the indices of the grid; at the
boundaries they are extrapolated linearly from the two nearest layers of cells, except where that
would leave less than half of a density or pressure. Across the wake cut the cells of both sides
are neighbours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from geonew.data.euler.flux import GAMMA, conserved
from geonew.data.euler.solver import EulerSolution, System


@dataclass(frozen=True)
class Forces:
    """Coefficients per unit chord: lift across the stream, drag along it."""

    lift: float
    drag: float


def forces(solution: EulerSolution) -> Forces:
    """Lift and drag by the pressure on the airfoil."""
    system = System(solution.grid, solution.stream)
    return Forces(*system.force(conserved(solution.state.reshape(-1, 4))))


def mass_balance(solution: EulerSolution) -> float:
    """Mass that enters through the far field and does not leave, as a part of what enters."""
    system = System(solution.grid, solution.stream)
    U = conserved(solution.state.reshape(-1, 4))
    system.set_lift(system.force(U)[0])
    net = system(U)[:, 0].sum()  # fluxes between cells cancel, the airfoil lets nothing through
    entering = np.minimum(system.faces.far_normals @ solution.stream.primitive[1:3], 0).sum()
    return float(abs(net / entering))


def nodal_state(solution: EulerSolution) -> Float[ndarray, "I J 4"]:
    """Density, velocity, pressure at the nodes of the grid."""
    cells, wake = solution.state, solution.grid.wake
    m, n = solution.grid.cells
    padded = np.empty((m + 2, n + 2, 4))
    padded[1:-1, 1:-1] = cells
    padded[1:-1, 0] = _beyond(cells[:, 0], cells[:, 1])
    padded[1:-1, -1] = _beyond(cells[:, -1], cells[:, -2])
    mirror = cells[::-1, 0]
    padded[1 : wake + 1, 0] = mirror[:wake]
    padded[m - wake + 1 : m + 1, 0] = mirror[m - wake :]
    padded[0] = _beyond(padded[1], padded[2])
    padded[-1] = _beyond(padded[-2], padded[-3])
    nodes = (padded[1:, 1:] + padded[1:, :-1] + padded[:-1, 1:] + padded[:-1, :-1]) / 4
    # round-off may differ between the two sides of the cut, whose nodes are the same
    cut = (nodes[: wake + 1, 0] + nodes[::-1, 0][: wake + 1]) / 2
    nodes[: wake + 1, 0] = cut
    nodes[m - wake :, 0] = cut[::-1]
    return nodes


def mach_number(state: Float[ndarray, "*n 4"]) -> Float[ndarray, "*n"]:
    """Mach number of density, velocity, pressure."""
    r, u, v, p = np.moveaxis(state, -1, 0)
    return np.sqrt((u * u + v * v) * r / (GAMMA * p))


def pressure_coefficient(
    solution: EulerSolution,
) -> tuple[Float[ndarray, "W"], Float[ndarray, "W"]]:
    """Mid-points x of the faces of the airfoil, from below to above, and c_p on them."""
    wake, m = solution.grid.wake, solution.grid.cells[0]
    near, beyond = solution.state[wake : m - wake, :2, 3].T
    p = near * np.sqrt(near / beyond)
    x = solution.grid.nodes[wake : m - wake + 1, 0, 0]
    return (x[:-1] + x[1:]) / 2, (p - 1 / GAMMA) / (0.5 * solution.stream.mach**2)


def shocks(solution: EulerSolution) -> tuple[float | None, float | None]:
    r"""Where the shock on the lower and on the upper side stands, in chords; none without one.

    The middle of the jump: where the pressure on the surface, on its way up, passes the mean of the
    lowest one ahead of it and of that behind a normal shock there (Rankine-Hugoniot),
    :math:`p_2 / p_1 = 1 + \tfrac{2 \gamma}{\gamma + 1} (M_1^2 - 1)`, :math:`M_1` from
    :math:`p_1` without loss of total pressure.
    """
    return _along_sides(solution, _middle_of_jump)


def sonic_ends(solution: EulerSolution) -> tuple[float | None, float | None]:
    """Where the flow on the lower and on the upper side turns subsonic, in chords.

    The place where the pressure passes the sonic one on its way up, behind the middle of a shock.
    """
    return _along_sides(solution, lambda p: _SONIC)


# Pressure over the total one where the flow is sonic.
_SONIC = (2 / (GAMMA + 1)) ** (GAMMA / (GAMMA - 1))


def _middle_of_jump(p: ndarray) -> float:
    """Mean pressure of a normal shock from the lowest pressure, both over the total one."""
    low = float(p.min())
    mach2 = (low ** ((1 - GAMMA) / GAMMA) - 1) * 2 / (GAMMA - 1)
    return low * (1 + GAMMA / (GAMMA + 1) * (mach2 - 1))


def _along_sides(
    solution: EulerSolution, level: Callable[[ndarray], float]
) -> tuple[float | None, float | None]:
    x, c = pressure_coefficient(solution)
    mach, half = solution.stream.mach, len(x) // 2
    total = (1 + (GAMMA - 1) / 2 * mach**2) ** (GAMMA / (GAMMA - 1))
    p = (1 + GAMMA / 2 * mach**2 * c) / total
    sides = (x[:half][::-1], p[:half][::-1]), (x[half:], p[half:])
    lower, upper = (_crossing(x, p, level(p)) if p.min() < _SONIC else None for x, p in sides)
    return lower, upper


def _crossing(x: ndarray, c: ndarray, level: float) -> float | None:
    """The last place where c rises through the level."""
    up = np.flatnonzero((c[:-1] < level) & (c[1:] >= level))
    if up.size == 0:
        return None
    k = up[-1]
    return float(x[k] + (x[k + 1] - x[k]) * (level - c[k]) / (c[k + 1] - c[k]))


def _beyond(edge: ndarray, inner: ndarray) -> ndarray:
    """Linear continuation of two layers; of the edge alone where it would lose half of it."""
    out = 2 * edge - inner
    bad = (out[..., 0] < 0.5 * edge[..., 0]) | (out[..., 3] < 0.5 * edge[..., 3])
    return np.where(bad[..., None], edge, out)
