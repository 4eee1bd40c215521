"""Reference solvers: the truth for data sets, and what the surrogate's speed is compared with."""

from geonew.fem.reference.elasticity import (
    ElasticitySolution,
    Material,
    solve_elasticity,
    von_mises,
)
from geonew.fem.reference.navier_stokes import FlowSolution, solve_navier_stokes, solve_stokes
from geonew.fem.reference.poisson import PoissonSolution, solve_poisson
from geonew.fem.reference.refined import solve_on_refined

__all__ = [
    "ElasticitySolution",
    "FlowSolution",
    "Material",
    "PoissonSolution",
    "solve_elasticity",
    "solve_navier_stokes",
    "solve_on_refined",
    "solve_poisson",
    "solve_stokes",
    "von_mises",
]
