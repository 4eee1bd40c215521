"""Euler solutions: smooth flow at its order, shocks where others find them, failures by name."""

from __future__ import annotations

import numpy as np
import pytest

from geonew.data.euler import solver
from geonew.data.euler.airfoil import Airfoil
from geonew.data.euler.flux import GAMMA
from geonew.data.euler.grid import c_grid
from geonew.data.euler.measures import (
    forces,
    mach_number,
    mass_balance,
    nodal_state,
    pressure_coefficient,
    shocks,
    sonic_ends,
)
from geonew.data.euler.solver import EulerSolution, FreeStream, solve_euler
from geonew.data.families.naca import nested
from geonew.errors import InputError, SolverError


def flow(refinement: int, mach: float, angle: float) -> EulerSolution:
    return solve_euler(nested(c_grid(Airfoil.naca0012(), refinement)), FreeStream(mach, angle))


def entropy_error(solution: EulerSolution) -> float:
    """L2 norm of p / rho^gamma, relative to the stream, less 1: zero in smooth flow."""
    r, p = solution.state[..., 0], solution.state[..., 3]
    return float(np.sqrt(((GAMMA * p / r**GAMMA - 1) ** 2 * solution.grid.areas).sum()))


def test_smooth_flow_keeps_its_entropy_and_has_no_drag():
    coarse, medium = flow(1, 0.3, 0.0), flow(2, 0.3, 0.0)
    order = np.log2(entropy_error(coarse) / entropy_error(medium))
    assert order > 1.9
    assert entropy_error(medium) < 5e-4
    drags = forces(coarse).drag, forces(medium).drag
    assert np.log2(drags[0] / drags[1]) > 1.9
    assert 0 < drags[1] < 1.5e-3
    assert abs(forces(medium).lift) < 1e-6  # of a symmetric flow
    stagnation = pressure_coefficient(medium)[1].max()
    isentropic = ((1 + 0.2 * 0.3**2) ** 3.5 - 1) * 2 / (GAMMA * 0.3**2)
    assert stagnation == pytest.approx(isentropic, rel=0.02)


def test_transonic_flow_over_naca0012():
    """Published: lift 0.35 to 0.36, shocks near 0.62 and 0.35; drag as on our finer grids."""
    solution = flow(2, 0.8, 1.25)
    assert solution.fall <= 1e-8
    assert 0.97 * 0.35 < forces(solution).lift < 1.03 * 0.36
    assert 0.0215 < forces(solution).drag < 0.0240
    lower, upper = shocks(solution)
    assert lower is not None
    assert upper is not None
    assert abs(lower - 0.35) < 0.02
    assert abs(upper - 0.62) < 0.02
    ends = sonic_ends(solution)
    assert lower < ends[0] < lower + 0.03
    assert upper < ends[1] < upper + 0.03
    assert mass_balance(solution) < 1e-9
    assert 1.3 < mach_number(solution.state).max() < 1.45
    assert solution.state[..., [0, 3]].min() > 0.2  # density and pressure stay positive
    nodes = nodal_state(solution)
    cut = solution.grid.wake + 1
    assert np.array_equal(nodes[:cut, 0], nodes[::-1, 0][:cut])


def test_mirrored_flow_is_the_mirror_image():
    up, down = flow(1, 0.7, 1.0), flow(1, 0.7, -1.0)
    assert forces(up).lift == pytest.approx(-forces(down).lift, rel=1e-5)
    gap = mach_number(up.state) - mach_number(down.state)[::-1]
    assert np.abs(gap).max() < 1e-5


def test_failures_have_names(monkeypatch):
    monkeypatch.setattr(solver, "MOST_STEPS", 3)
    monkeypatch.setattr(solver, "COARSE_STEPS", 3)
    grid = c_grid(Airfoil.naca0012())
    with pytest.raises(SolverError, match="residual fell to"):
        solve_euler([grid], FreeStream(0.5))
    with pytest.raises(InputError, match="Mach"):
        FreeStream(1.2)
    with pytest.raises(InputError, match="angle"):
        FreeStream(0.8, 45.0)
    with pytest.raises(InputError, match="no grid"):
        solve_euler([], FreeStream())
    with pytest.raises(InputError, match="refine"):
        solve_euler([grid, grid], FreeStream(0.5))


@pytest.mark.slow
def test_forces_and_shocks_over_three_grids():
    solutions = [flow(k, 0.8, 1.25) for k in (1, 2, 4)]
    lifts, drags = zip(*((forces(s).lift, forces(s).drag) for s in solutions), strict=True)
    assert abs(drags[2] - drags[1]) < 0.4 * abs(drags[1] - drags[0])
    assert 0.0221 < drags[2] < 0.0233
    assert 0.97 * 0.35 < lifts[2] < 1.03 * 0.36
    lower, upper = shocks(solutions[2])
    assert lower is not None
    assert upper is not None
    assert abs(lower - 0.35) < 0.02
    assert abs(upper - 0.62) < 0.02
