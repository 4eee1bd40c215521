r"""The reference solution of a problem on the user's own mesh, found by its known terms.

    terms = diffusion                     --> Poisson, P2
    terms = strain (+ div div)            --> linear elasticity, P2
    terms = Stokes (+ convection)         --> Navier-Stokes, Taylor-Hood

The equation is read off the problem, so that problems of users have a reference too. Data given at
nodes are interpolated linearly along the boundary (on the nearest facet) and in the domain, since
quadratic elements ask for values between vertices; functions are asked themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from time import process_time

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from geonew.errors import SolverError
from geonew.fem.interpolate import interpolate
from geonew.fem.reference import (
    Material,
    solve_elasticity,
    solve_navier_stokes,
    solve_poisson,
    solve_stokes,
)
from geonew.mesh import Mesh
from geonew.model.prediction import named_fields
from geonew.problem import BoundaryData, Problem, Term
from geonew.problem.values import Value, evaluate

Function = Callable[[ndarray], ndarray]
_NO_SOLVER = "references exist for diffusion, linear elasticity, Stokes and Navier-Stokes flow"


@dataclass(frozen=True, eq=False)
class ReferenceSolution:
    """What a classical solver says.

    Args:
        problem: what was asked.
        mesh: where.
        components: all components on the nodes, in the user's axes and units.
        seconds: processor time of the solve.
        method: for people.

    """

    problem: Problem
    mesh: Mesh
    components: Float[ndarray, "N F"]
    seconds: float
    method: str

    @cached_property
    def fields(self) -> dict[str, Float[ndarray, "N *d"]]:
        """Fields by name, derived ones last, as a prediction has them."""
        return named_fields(self.problem, self.mesh, self.components)


@dataclass(frozen=True, eq=False)
class _Statement:
    """A problem with the data of one mesh."""

    problem: Problem
    mesh: Mesh
    boundary: BoundaryData
    parameters: Mapping[str, Value]
    source: Mapping[str, Value]
    neumann: BoundaryData

    def term(self, form: str) -> Term | None:
        found = [t for t in self.problem.terms if t.form == form]
        return found[0] if len(found) == 1 else None

    def coefficient(self, term: Term) -> float:
        """The term's coefficient at the given parameters, which must be numbers."""
        value = term.coefficient
        for name, power in term.powers.items():
            given = np.asarray(self.parameters[name], dtype=np.float64)
            if given.size != 1 or self.problem.parameter(name).support == "nodal":
                raise SolverError(
                    f"parameter {name!r} varies over the mesh: no reference solver takes that here",
                    "compare without it",
                )
            value *= float(given.item()) ** power
        return value

    def on(self, group: str, name: str, data: BoundaryData) -> Function:
        """Data of a group as a function of points on it, (n, w)."""
        value, width = data[group][name], self.problem.width(name)
        axes = [d.axes for d in self.problem.dirichlet if (d.field, d.group) == (name, group)]
        width = len(axes[0]) if axes and axes[0] is not None and data is self.boundary else width
        nodes = self.mesh.nodes_of(group)
        what = f"values of {name!r} on {group!r}"
        given = evaluate(self.mesh, nodes, value, width, what)
        if callable(value):
            return lambda x: np.asarray(value(x), dtype=np.float64).reshape(len(x), width)
        if np.ptp(given, axis=0).max(initial=0.0) == 0:
            return lambda x: np.repeat(given[:1], len(x), axis=0)
        full = np.zeros((self.mesh.n_nodes, width))
        full[nodes] = given
        return lambda x: trace(self.mesh, group, full, x)

    def inside(self, name: str) -> Function | None:
        """A source as a function of points of the domain; none where there is none."""
        if name not in self.source:
            return None
        value, width = self.source[name], self.problem.width(name)
        everywhere = np.arange(self.mesh.n_nodes)
        given = evaluate(self.mesh, everywhere, value, width, f"source of {name!r}")
        if callable(value):
            return lambda x: np.asarray(value(x), dtype=np.float64).reshape(len(x), width)
        if np.ptp(given, axis=0).max() == 0:
            return lambda x: np.repeat(given[:1], len(x), axis=0)
        return lambda x: interpolate(self.mesh, given, x)


def solve_reference(
    problem: Problem,
    mesh: Mesh,
    boundary: BoundaryData,
    parameters: Mapping[str, Value] | None = None,
    source: Mapping[str, Value] | None = None,
    neumann: BoundaryData | None = None,
) -> ReferenceSolution:
    """Solve a problem on a mesh by finite elements.

    Args:
        problem: whose known terms are the whole equation.
        mesh: in the user's coordinates.
        boundary: Dirichlet data, group -> field -> value.
        parameters: name -> value.
        source: field -> value.
        neumann: group -> field -> value.

    """
    stated = _Statement(problem, mesh, boundary, parameters or {}, source or {}, neumann or {})
    forms = sorted(t.form for t in problem.terms)
    ranks = [f.rank for f in problem.fields]
    start = process_time()
    if forms == ["diffusion"] and ranks == ["scalar"]:
        components, method = _poisson(stated), "Poisson, P2"
    elif forms in (["strain"], ["div_div", "strain"]) and ranks == ["vector"]:
        components, method = _elasticity(stated), "elasticity, P2"
    elif set(forms) - {"convection"} == {"diffusion", "divergence", "stabilisation"}:
        components, method = _flow(stated)
    else:
        raise SolverError(
            f"problem {problem.name!r} has the known terms {forms}, which no reference solver "
            "takes for the whole equation",
            _NO_SOLVER,
        )
    return ReferenceSolution(problem, mesh, components, process_time() - start, method)


def _poisson(stated: _Statement) -> Float[ndarray, "N 1"]:
    (u,), term = stated.problem.fields, stated.term("diffusion")
    assert term is not None
    source = stated.inside(u.name)
    truth = solve_poisson(
        stated.mesh,
        dirichlet={g: _scalar(stated.on(g, u.name, stated.boundary)) for g in stated.boundary},
        neumann={g: _scalar(stated.on(g, u.name, stated.neumann)) for g in stated.neumann},
        source=0.0 if source is None else _scalar(source),
        conductivity=stated.coefficient(term),
        degree=2,
    )
    return truth.values[: stated.mesh.n_nodes, None]


def _elasticity(stated: _Statement) -> Float[ndarray, "N d"]:
    (u,), strain, volume = stated.problem.fields, stated.term("strain"), stated.term("div_div")
    assert strain is not None
    if any(d.axes is not None for d in stated.problem.dirichlet):
        raise SolverError(
            "displacements along axes of the frame have no reference here", _NO_SOLVER
        )
    lam = 0.0 if volume is None else stated.coefficient(volume)
    truth = solve_elasticity(
        stated.mesh,
        Material(lam, stated.coefficient(strain)),
        dirichlet={g: stated.on(g, u.name, stated.boundary) for g in stated.boundary},
        traction={g: stated.on(g, u.name, stated.neumann) for g in stated.neumann},
        body_force=stated.inside(u.name),
        degree=2,
    )
    return truth.displacement[: stated.mesh.n_nodes]


def _flow(stated: _Statement) -> tuple[Float[ndarray, "N F"], str]:
    problem, mesh = stated.problem, stated.mesh
    diffusion, divergence = stated.term("diffusion"), stated.term("divergence")
    convection = stated.term("convection")
    assert diffusion is not None
    assert divergence is not None
    if stated.coefficient(divergence) != 1 or stated.neumann:
        raise SolverError("this flow has terms or tractions that no reference solver takes")
    p, u = divergence.fields
    dynamic = stated.coefficient(diffusion)
    density = 1.0 if convection is None else stated.coefficient(convection)
    held: dict[str, Function] = {}
    normal, natural = {}, {}
    for group in problem.groups:
        if group not in mesh.groups or group not in stated.boundary:
            continue
        conditions = [d for d in problem.dirichlet if d.group == group and d.field == u]
        has_pressure = p in stated.boundary[group]
        if conditions and conditions[0].axes is None:
            held[group] = stated.on(group, u, stated.boundary)
        elif has_pressure:
            kind = normal if conditions else natural
            kind[group] = _scalar(stated.on(group, p, stated.boundary))
    solver = solve_stokes if convection is None else solve_navier_stokes
    truth = solver(
        mesh,
        viscosity=dynamic / density,
        density=density,
        velocity=held,
        pressure=natural,
        normal_pressure=normal,
        body_force=stated.inside(u),
    )
    components = np.zeros((mesh.n_nodes, problem.n_components))
    components[:, problem.columns(u)] = truth.velocity[: mesh.n_nodes]
    components[:, problem.columns(p)] = truth.pressure[: mesh.n_nodes, None]
    return components, "Stokes, P2/P1" if convection is None else "Navier-Stokes, P2/P1"


def trace(
    mesh: Mesh, group: str, values: Float[ndarray, "N w"], points: Float[ndarray, "n d"]
) -> Float[ndarray, "n w"]:
    """P1 values of a boundary group at points on it: those of the nearest facet."""
    facets = mesh.facets_of(group)
    corners = mesh.points[facets]  # (B, d, d)
    edges = (corners[:, 1:] - corners[:, :1]).transpose(0, 2, 1)  # (B, d, d - 1)
    inverse = np.linalg.pinv(edges)
    best = np.full(len(points), np.inf)
    result = np.zeros((len(points), values.shape[1]))
    for facet, corner, basis, dual in zip(facets, corners[:, 0], edges, inverse, strict=True):
        t = np.clip((points - corner) @ dual.T, 0.0, 1.0)
        t /= np.maximum(t.sum(axis=1, keepdims=True), 1.0)
        gap = ((points - corner - t @ basis.T) ** 2).sum(axis=1)
        nearer = gap < best
        best = np.where(nearer, gap, best)
        weights = np.column_stack([1 - t.sum(axis=1), t])
        result = np.where(nearer[:, None], weights @ values[facet], result)
    return result


def _scalar(function: Function) -> Function:
    return lambda x: function(x)[:, 0]
