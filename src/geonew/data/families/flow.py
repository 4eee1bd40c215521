r"""What the flow families share: the statement, and the truth on a refined mesh.

.. math:: \rho (u \cdot \nabla) u - \mu \Delta u + \nabla p = 0, \qquad \nabla \cdot u = 0,

u given at the inlet, 0 on walls and obstacles, and at the outlet p = 0 with flow along the normal
(no tangential velocity). On a straight outlet the tangential derivative of the tangential velocity
vanishes, so by continuity :math:`\partial_n u_n = 0`, and the natural condition of the weak form,
:math:`\mu \partial_n u_n - p = 0`, is p = 0 pointwise: stored p is exactly 0 there.

The problem is in the user's units: p is the pressure itself, not p/rho, and the diffusion term has
the dynamic viscosity :math:`\mu = \rho \nu`. With references U for velocity, P for pressure and H
for length, the dimensionless equation is :math:`Re\, (u \cdot \nabla) u - \Delta u
+ (P H / \mu U) \nabla p = 0`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from time import perf_counter

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from geonew.data.families.truth import FineMesh
from geonew.data.record import Case, Record
from geonew.fem.reference import FlowSolution, solve_navier_stokes, solve_stokes
from geonew.mesh import Mesh
from geonew.problem import Dirichlet, Field, FrameRule, Parameter, Problem, Term, stokes_terms

Inflow = Callable[[Float[ndarray, "n d"]], Float[ndarray, "n d"]]


@dataclass(frozen=True)
class Fluid:
    """Constants of a flow.

    Args:
        viscosity: kinematic viscosity nu.
        density: rho.

    """

    viscosity: float
    density: float

    @property
    def dynamic(self) -> float:
        """Dynamic viscosity mu = rho nu."""
        return self.viscosity * self.density


def flow_problem(
    name: str,
    fluid: Fluid,
    *,
    speed: float,
    pressure: float,
    convection: bool = False,
    reynolds: float | None = None,
    dim: int = 2,
    walls: tuple[str, ...] = ("wall", "obstacle"),
    frame: tuple[FrameRule, ...] = (FrameRule("normal", "inlet"),),
) -> Problem:
    """Stokes terms, and convection where there is any, with the data of the module docstring.

    Args:
        name: of the problem.
        fluid: its constants.
        speed: reference of the velocity.
        pressure: reference of the pressure.
        convection: whether the fluid has inertia.
        reynolds: reference of the parameter ``reynolds``, by which convection is multiplied.
        dim: 2 or 3.
        walls: groups without slip.
        frame: how directions are found.

    """
    terms = stokes_terms("velocity", "pressure", fluid.dynamic)
    if convection:
        powers = {} if reynolds is None else {"reynolds": 1.0}
        terms = (*terms, Term("convection", ("velocity",), fluid.density, powers))
    labels = ("u", "v", "w")[:dim]
    return Problem(
        name=name,
        dim=dim,
        fields=(
            Field("velocity", "vector", reference=speed, labels=labels),
            Field("pressure", reference=pressure, labels=("p",)),
        ),
        groups=("inlet", *walls, "outlet"),
        dirichlet=(
            Dirichlet("velocity", "inlet"),
            *(Dirichlet("velocity", wall) for wall in walls),
            Dirichlet("velocity", "outlet", axes=tuple(range(1, dim))),
            Dirichlet("pressure", "outlet"),
        ),
        parameters=() if reynolds is None else (Parameter("reynolds", reference=reynolds),),
        terms=terms,
        frame=frame,
        harmonic=(("inlet", "outlet"), (walls[-1], "outlet")),
    )


def solve_flow(
    mesh: Mesh,
    fine: FineMesh,
    fluid: Fluid,
    inflow: Inflow,
    case: Case,
    start: float,
    *,
    singular: Int[ndarray, "c"],
    parameters: Mapping[str, float] | None = None,
    stokes: bool = False,
    guess: Float[ndarray, "n d"] | None = None,
) -> Record:
    """The flow on the fine mesh, at the vertices of the stored one.

    Args:
        mesh: the stored mesh.
        fine: the mesh solved on.
        fluid: its constants.
        inflow: velocity at points of the inlet.
        case: what is solved.
        start: when the work on this sample began, by ``perf_counter``.
        singular: vertices at which the pressure is infinite and its mean is stored.
        parameters: of the problem.
        stokes: without convection.
        guess: velocity at the fine mesh's vertices to start Newton's method from.

    """
    walls = [group for group in mesh.groups if group not in ("inlet", "outlet")]
    rest = (0.0,) * mesh.dim
    solver = solve_stokes if stokes else partial(solve_navier_stokes, guess=guess)
    truth = solver(
        fine.mesh,
        viscosity=fluid.viscosity,
        density=fluid.density,
        velocity={"inlet": inflow, **dict.fromkeys(walls, rest)},
        normal_pressure={"outlet": 0.0},
    )
    velocity, pressure = (
        truth.velocity[: mesh.n_nodes].copy(),
        truth.pressure[: mesh.n_nodes].copy(),
    )
    pressure[singular] = fine.mean(truth.pressure, singular)
    outlet = mesh.nodes_of("outlet")
    defect = float(np.abs(pressure[outlet]).max() / np.abs(pressure).max())
    pressure[outlet] = 0.0
    boundary = _boundary(mesh, inflow, walls)
    return Record(
        mesh=mesh,
        fields={"velocity": velocity, "pressure": pressure},
        boundary=boundary,
        case=case,
        parameters=dict(parameters or {}),
        info={
            "residual": float(truth.residual),
            "seconds": perf_counter() - start,
            "truth_nodes": float(fine.mesh.n_nodes),
            "newton_steps": float(truth.iterations),
            "mass_balance": mass_balance(truth),
            "outlet_defect": defect,
        },
    )


def mass_balance(truth: FlowSolution) -> float:
    """Net flux through the whole boundary over the flux through the inlet."""
    return float(abs(sum(truth.flux.values())) / abs(truth.flux["inlet"]))


def _boundary(
    mesh: Mesh, inflow: Inflow, walls: list[str]
) -> dict[str, dict[str, Float[ndarray, "n w"]]]:
    n_outlet = len(mesh.nodes_of("outlet"))
    data = {wall: {"velocity": np.zeros((len(mesh.nodes_of(wall)), mesh.dim))} for wall in walls}
    data["inlet"] = {"velocity": inflow(mesh.points[mesh.nodes_of("inlet")])}
    data["outlet"] = {
        "velocity": np.zeros((n_outlet, mesh.dim - 1)),
        "pressure": np.zeros((n_outlet, 1)),
    }
    return data
