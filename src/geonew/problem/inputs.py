r"""What a sample brings besides its mesh and boundary data: parameters and sources.

Both are read like boundary data (:mod:`geonew.problem.values`) and turned into the frame. Sources
and Neumann data together make the load

.. math:: \ell_i = \int_\Omega f \phi_i + \int_\Gamma g\, \phi_i .

Identity kept: a field with a gauge has the constants in the kernel of its operator, so its load
sums to zero, :math:`\sum_i \ell_i = 0`, unless a skew pair ties it to another field whose boundary
data may take up the rest; and a factor of a symmetric term is finite and not negative.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from geonew.errors import InputError
from geonew.fem.forms import known_form
from geonew.fem.loads import source_load
from geonew.mesh import Mesh
from geonew.problem.boundary import BoundaryData, check_rotation, neumann_loads
from geonew.problem.declarations import Parameter
from geonew.problem.problem import Problem
from geonew.problem.values import Value, evaluate

Parameters = dict[str, float | ndarray]

# Largest sum of a gauged field's load, relative to the sum of its sizes: above round-off, far below
# what a source with a mean would give.
BALANCE = 1e-6


def resolve_parameters(
    problem: Problem,
    mesh: Mesh,
    values: Mapping[str, Value],
    rotation: Float[ndarray, "d d"] | None = None,
) -> Parameters:
    """Parameters of one sample: a float, (d,), (N,) or (N, d) by support and rank.

    Args:
        problem: declares them.
        mesh: where nodal ones live; in the user's coordinates.
        values: name -> value, in the user's units and axes.
        rotation: rows are the frame's axes, into which vectors are turned.

    """
    axes = check_rotation(mesh.dim, rotation)
    _check_names("parameters", [p.name for p in problem.parameters], values, problem)
    result: Parameters = {}
    for parameter in problem.parameters:
        given = _parameter(parameter, mesh, values[parameter.name])
        if parameter.rank == "vector":
            result[parameter.name] = given @ axes.T
        else:
            _check_factor(problem, parameter, given)
            result[parameter.name] = float(given[0]) if parameter.support == "global" else given
    return result


def resolve_sources(
    problem: Problem,
    mesh: Mesh,
    values: Mapping[str, Value],
    rotation: Float[ndarray, "d d"] | None = None,
) -> Float[ndarray, "N F"]:
    """Sources on the nodes, per component in the frame, user's units; zero where none is declared.

    Args:
        problem: declares which fields have one.
        mesh: where; in the user's coordinates.
        values: field -> constant, nodal array or function; vectors in the user's axes.
        rotation: rows are the frame's axes.

    """
    axes = check_rotation(mesh.dim, rotation)
    _check_names("sources", problem.sources, values, problem)
    result = np.zeros((mesh.n_nodes, problem.n_components))
    everywhere = np.arange(mesh.n_nodes)
    for name in problem.sources:
        width = problem.width(name)
        given = evaluate(mesh, everywhere, values[name], width, f"source of field {name!r}")
        vector = problem.field(name).rank == "vector"
        result[:, problem.columns(name)] = given @ axes.T if vector else given
    return result


def resolve_loads(
    problem: Problem,
    mesh: Mesh,
    sources: Mapping[str, Value],
    neumann: BoundaryData,
    rotation: Float[ndarray, "d d"] | None = None,
) -> Float[ndarray, "N F"]:
    """Sources and Neumann data tested with the hat functions, in the frame and the user's units.

    Multiply a field's columns by ``Problem.load_scale`` for the dimensionless system.
    """
    load = source_load(mesh, resolve_sources(problem, mesh, sources, rotation))
    load = load + neumann_loads(problem, mesh, neumann, rotation)
    paired = {name for term in problem.terms if len(term.fields) == 2 for name in term.fields}
    for column, owner in enumerate(problem.component_fields):
        total, size = load[:, column].sum(), np.abs(load[:, column]).sum()
        if owner.level != "gauge" or owner.name in paired:
            continue
        if abs(total) > BALANCE * size:
            raise InputError(
                f"the load of {problem.component_names[column]!r} sums to {total:.6g} (sizes to "
                f"{size:.6g}), but its level is a gauge: no solution takes up a net load",
                "subtract the mean from the source, balance the Neumann data, or fix the level by "
                "Dirichlet data",
            )
    return load


def _parameter(parameter: Parameter, mesh: Mesh, value: Value) -> Float[ndarray, "..."]:
    """The values given: (N,) or (N, d) for nodal support, (1,) or (d,) for global."""
    what = f"values of the {parameter.support} parameter {parameter.name!r}"
    width = mesh.dim if parameter.rank == "vector" else 1
    if parameter.support == "nodal":
        given = evaluate(mesh, np.arange(mesh.n_nodes), value, width, what)
        return given if parameter.rank == "vector" else given[:, 0]
    if callable(value) or np.shape(value) not in ((width,), () if width == 1 else (width,)):
        shape = "a function" if callable(value) else f"of shape {np.shape(value)}"
        raise InputError(
            f"{what} are {shape}; a global one has {width} number(s)",
            "give the number(s), or declare the parameter with support='nodal'",
        )
    return evaluate(mesh, np.arange(1), value, width, what)[0]


def _check_factor(problem: Problem, parameter: Parameter, given: Float[ndarray, "..."]) -> None:
    """A parameter that multiplies known terms keeps them finite and symmetric ones positive."""
    for term in problem.terms:
        if parameter.name not in term.powers:
            continue
        power = term.powers[parameter.name]
        with np.errstate(all="ignore"):  # the outcome is looked at next
            factor = given**power
        signed = known_form(term.form).kind in ("symmetric", "stabilisation")
        bad = ~np.isfinite(factor) | (signed & (factor < 0))
        if bad.any():
            raise InputError(
                f"parameter {parameter.name!r} is {given[bad][0]:.6g} at {int(bad.sum())} of "
                f"{given.size} places, which makes its factor (power {power:g}) in the known term "
                f"{term.form!r} {factor[bad][0]:.6g}",
                "give values for which the term keeps its sign and stays finite; most are positive",
            )


def _check_names(
    what: str, declared: list[str] | tuple[str, ...], values: Mapping[str, Value], problem: Problem
) -> None:
    if not isinstance(values, Mapping):
        raise InputError(f"{what} are {values!r}", "give {name: value, ...}")
    missing = [name for name in declared if name not in values]
    unknown = [str(name) for name in values if name not in declared]
    if missing or unknown:
        raise InputError(
            f"the {what} do not match problem {problem.name!r}: missing {missing}, "
            f"unknown {unknown}",
            f"it declares {list(declared)}",
        )
