"""Reference solutions on a finer mesh, at the vertices of the given one.

Uniform refinement keeps the vertices of a mesh as the first ones of the refined mesh, so a solution
there is restricted by taking its first N values. With meshes halved once, the error at the stored
vertices falls by the order of the method: 4 for P1, 8 for P2 velocities.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from geonew.errors import ProblemError
from geonew.fem.reference.elasticity import ElasticitySolution
from geonew.fem.reference.navier_stokes import FlowSolution
from geonew.fem.reference.poisson import PoissonSolution
from geonew.mesh import Mesh
from geonew.mesh.refine import refine

S = TypeVar("S", PoissonSolution, ElasticitySolution, FlowSolution)


def solve_on_refined(mesh: Mesh, solve: Callable[[Mesh], S], times: int = 1) -> S:
    """Solve on the mesh refined ``times`` times; vertex values at the vertices of ``mesh``.

    Args:
        mesh: the mesh whose vertices are asked for.
        solve: the solver, for instance ``lambda m: solve_poisson(m, dirichlet=...)``. It is called
            with the refined mesh, which has the same groups.
        times: how often the mesh size is halved.

    """
    if times < 0:
        raise ProblemError(f"refinement {times} times", "give 0 or more")
    return solve(refine(mesh, times)).restricted(mesh.n_nodes)
