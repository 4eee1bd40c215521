"""The editor of every family, and what is left of one for problems nobody has declared here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy import ndarray

from geonew.data.euler.grid import c_grid
from geonew.data.families import family, naca
from geonew.data.families.flow import Fluid
from geonew.data.families.solids import BallPoisson, DuctStokes
from geonew.data.record import Case, Family
from geonew.errors import InputError
from geonew.inference.reference import solve_reference
from geonew.mesh import Mesh
from geonew.problem import Problem
from geonew.serve import situation
from geonew.serve.controls import Control, Draft, Editor, not_mine, settled
from geonew.serve.planar import (
    ANGLE,
    FLATNESS,
    LENGTH,
    REYNOLDS,
    SKEW,
    START,
    SWAP,
    CavityEditor,
    ChannelEditor,
    PipeEditor,
    PolygonEditor,
)
from geonew.serve.scene import DrawnGeometry, Geometry
from geonew.serve.situation import Situation, inflow_into
from geonew.shape import Solid

# Values of a problem that nothing is known of may be anything a person types.
ANYTHING = 1e6
VISCOUS = Fluid(1.0, 1.0)


@dataclass(frozen=True)
class DrawnEditor:
    """Shapes that are drawn at random, not dragged.

    Args:
        family: they come from.
        build: from a case to a situation.
        place: the same data on a mesh from elsewhere; none where it would mean nothing.
        focus: lower and upper corner of what is shown first; all if none.

    """

    family: Family
    build: Callable[[Case], Situation]
    place: Callable[[Mesh], Situation] | None = None
    focus: tuple[tuple[float, float], tuple[float, float]] | None = None
    kind: str = "drawn"
    controls: tuple[Control, ...] = ()

    @property
    def units(self) -> Mapping[str, str]:
        """Of the family."""
        return self.family.units

    def draw(self, generator: np.random.Generator, outside: bool) -> Draft:
        """The number of a shape."""
        seed = int(generator.integers(2**31))
        return Draft(DrawnGeometry(kind="drawn", seed=seed, outside=outside))

    def situation(self, geometry: Geometry, values: Mapping[str, float]) -> Situation:
        """The shape of that number."""
        settled(self.controls, values)
        if not isinstance(geometry, DrawnGeometry):
            raise not_mine(self.kind, geometry)
        generator = np.random.default_rng(geometry.seed)
        return self.build(self.family.draw("ood" if geometry.outside else "train", generator))

    def on_mesh(self, mesh: Mesh, values: Mapping[str, float]) -> Situation:
        """The family's data on any mesh with its groups."""
        settled(self.controls, values)
        if self.place is None:
            raise InputError("this model takes no uploaded meshes", "choose another model")
        return self.place(mesh)


@dataclass(frozen=True)
class AnyEditor:
    """A problem of somebody's own: an uploaded mesh, and constants for everything prescribed.

    Args:
        problem: of the model.

    """

    problem: Problem
    kind: str = "upload"

    @property
    def units(self) -> Mapping[str, str]:
        """Unknown."""
        return {}

    @property
    def controls(self) -> tuple[Control, ...]:
        """Each prescribed number: boundary values, sources, fluxes, parameters."""
        problem = self.problem
        made = []
        for d in problem.dirichlet:
            width = len(d.axes) if d.axes is not None else problem.width(d.field)
            made += _numbers(f"{d.field} on {d.group}", width, 0.0)
        for name in problem.sources:
            made += _numbers(f"source of {name}", problem.width(name), 0.0)
        for n in problem.neumann:
            made += _numbers(f"flux of {n.field} on {n.group}", problem.width(n.field), 0.0)
        for p in problem.parameters:
            made += _numbers(p.name, problem.dim if p.rank == "vector" else 1, p.reference)
        return tuple(made)

    def draw(self, generator: np.random.Generator, outside: bool) -> Draft:
        """There are no shapes to draw."""
        raise InputError(
            f"no shapes are known for the problem {self.problem.name!r}", "upload a mesh"
        )

    def situation(self, geometry: Geometry, values: Mapping[str, float]) -> Situation:
        """Only uploaded meshes are understood."""
        raise not_mine(self.kind, geometry)

    def on_mesh(self, mesh: Mesh, values: Mapping[str, float]) -> Situation:
        """Constants everywhere."""
        at = settled(self.controls, values)
        problem = self.problem
        boundary: dict[str, dict[str, tuple[float, ...]]] = {}
        neumann: dict[str, dict[str, tuple[float, ...]]] = {}
        for d in problem.dirichlet:
            if d.group in mesh.groups:
                width = len(d.axes) if d.axes is not None else problem.width(d.field)
                value = _read(at, f"{d.field} on {d.group}", width)
                boundary.setdefault(d.group, {})[d.field] = value
        for n in problem.neumann:
            if n.group in mesh.groups:
                value = _read(at, f"flux of {n.field} on {n.group}", problem.width(n.field))
                neumann.setdefault(n.group, {})[n.field] = value
        source = {
            name: _read(at, f"source of {name}", problem.width(name)) for name in problem.sources
        }
        parameters = {
            p.name: _read(at, p.name, problem.dim if p.rank == "vector" else 1)
            for p in problem.parameters
        }
        mu = {name: _plainly(value) for name, value in parameters.items()}
        loads = {name: _plainly(value) for name, value in source.items()}

        def truth() -> dict[str, ndarray]:
            return solve_reference(problem, mesh, boundary, mu, loads, neumann).fields

        return Situation(mesh, boundary, mu, loads, neumann, truth)


def _plainly(value: tuple[float, ...]) -> float | tuple[float, ...]:
    """One number as a number."""
    return value[0] if len(value) == 1 else value


def _numbers(label: str, width: int, value: float) -> list[Control]:
    names = [label] if width == 1 else [f"{label}, {k + 1}" for k in range(width)]
    return [Control(n, n, -ANYTHING, ANYTHING, value, on_meshes=True) for n in names]


def _read(at: Mapping[str, float], label: str, width: int) -> tuple[float, ...]:
    names = [label] if width == 1 else [f"{label}, {k + 1}" for k in range(width)]
    return tuple(at[n] for n in names)


# -- the families ------------------------------------------------------------------------------


def _ball(case: Case) -> Situation:
    mesh = BallPoisson().mesh(case, "coarse")
    return situation.poisson(mesh, {"cavity": 1.0, "sphere": 0.0}, 1.0, Solid.from_dict(case.shape))


def _duct(case: Case) -> Situation:
    mesh = DuctStokes().mesh(case, "coarse")
    return situation.flow(
        mesh,
        VISCOUS,
        inflow_into(mesh, 1.0),
        shape=Solid.from_dict(case.shape),
        stokes=True,
        truth=lambda: _fields(DuctStokes(), case),
    )


def _airfoil(case: Case) -> Situation:
    made = naca.NacaEuler()
    factor = naca.TRUTH["coarse"] // naca.FACTOR["coarse"]
    grid = c_grid(made.airfoil(case), naca.TRUTH["coarse"])
    mesh = (grid.coarsened(factor) if factor > 1 else grid).triangulated()
    mach, angle = float(case.parameters["mach"]), np.radians(float(case.parameters["angle"]))
    return Situation(
        mesh,
        {"farfield": {"mach": mach}},
        {"stream": mach * np.array([np.cos(angle), np.sin(angle)])},
        truth=lambda: _fields(made, case),
    )


def _fields(solver: Family, case: Case) -> dict[str, ndarray]:
    return {
        name: np.asarray(values) for name, values in solver.solve(case, "coarse").fields.items()
    }


def _poisson_in_space(mesh: Mesh) -> Situation:
    return situation.poisson(mesh, {"cavity": 1.0, "sphere": 0.0}, 1.0)


def _stokes_in_space(mesh: Mesh) -> Situation:
    return situation.flow(mesh, VISCOUS, inflow_into(mesh, 1.0), stokes=True)


EDITORS: dict[str, Editor] = {
    "ns2d-c": ChannelEditor("ns2d-c"),
    "ns2d-c++": ChannelEditor("ns2d-c++", (LENGTH, ANGLE, START, SWAP)),
    "ns2d-re": ChannelEditor("ns2d-re", (REYNOLDS, SKEW, FLATNESS, SWAP)),
    "poly-poisson": PolygonEditor("poly-poisson"),
    "poly-poisson-var": PolygonEditor(
        "poly-poisson-var",
        (
            Control("source", "source", 0.0, 4.0, 1.0, on_meshes=True),
            Control("inside", "value on the cut-out", -1.0, 2.0, 1.0, on_meshes=True),
            Control("outside", "value on the circle", -1.0, 1.0, 0.0, on_meshes=True),
        ),
    ),
    "elasticity": CavityEditor(),
    "pipe": PipeEditor(),
    "ball-poisson": DrawnEditor(BallPoisson(), _ball, _poisson_in_space),
    "duct-stokes": DrawnEditor(DuctStokes(), _duct, _stokes_in_space),
    "naca": DrawnEditor(naca.NacaEuler(), _airfoil, focus=((-0.5, -0.75), (1.5, 0.75))),
}


def editor_of(problem: Problem) -> Editor:
    """The editor of a model's problem, known by its name, fields and groups."""
    known = EDITORS.get(problem.name)
    if known is None:
        return AnyEditor(problem)
    ours = family(problem.name).problem
    alike = ours.groups == problem.groups and ours.component_names == problem.component_names
    return known if alike else AnyEditor(problem)
