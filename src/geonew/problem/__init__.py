"""What is asked for: fields, groups, conditions, parameters, known terms, boundary data."""

from geonew.problem.boundary import (
    BoundaryData,
    BoundaryValues,
    check_groups,
    neumann_loads,
    resolve,
    resolve_neumann,
)
from geonew.problem.declarations import (
    Derived,
    Dirichlet,
    Field,
    FrameRule,
    Neumann,
    Parameter,
    Term,
)
from geonew.problem.equations import elasticity_terms, stokes_terms
from geonew.problem.inputs import resolve_loads, resolve_parameters, resolve_sources
from geonew.problem.problem import Problem

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
    "neumann_loads",
    "resolve",
    "resolve_loads",
    "resolve_neumann",
    "resolve_parameters",
    "resolve_sources",
    "stokes_terms",
]
