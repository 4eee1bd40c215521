"""Finite elements on the fine mesh: the only package that imports scikit-fem."""

from geonew.fem.dirichlet import DirichletSolver, SolverPool
from geonew.fem.operators import FineOperators, assemble

__all__ = ["DirichletSolver", "FineOperators", "SolverPool", "assemble"]
