r"""Torsion function of a Dirichlet part.

.. math:: -\Delta\phi = 1,\quad \phi = 0 \text{ on the Dirichlet part},\quad
          \partial_n \phi = 0 \text{ elsewhere}.

A smooth, mesh-independent measure of depth. For Poisson's equation with a constant load it *is* the
answer up to a factor: leave it out of comparisons on such problems.
"""

from __future__ import annotations

from jaxtyping import Float, Int
from numpy import ndarray

from geonew.fem.dirichlet import SolverPool


def torsion_function(
    pool: SolverPool, lumped: Float[ndarray, "N"], fixed: Int[ndarray, "D"]
) -> Float[ndarray, "N"]:
    r"""Solve K phi = m with phi = 0 on the fixed nodes; m_i = int phi_i is the exact load."""
    return pool.fixing(fixed).solve(lumped)
