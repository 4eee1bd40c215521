"""What is asked for: fields, groups, conditions, parameters, known terms, boundary data."""

from geonew.problem.boundary import BoundaryData, BoundaryValues, check_groups, resolve
from geonew.problem.problem import (
    Derived,
    Dirichlet,
    Field,
    FrameRule,
    Neumann,
    Parameter,
    Problem,
    Term,
    elasticity_terms,
    stokes_terms,
)

__all__ = [
    "BoundaryData",
    "BoundaryValues",
    "Derived",
    "Dirichlet",
    "Field",
    "FrameRule",
    "Neumann",
    "Parameter",
    "Problem",
    "Term",
    "check_groups",
    "elasticity_terms",
    "resolve",
    "stokes_terms",
]
