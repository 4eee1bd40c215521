r"""A situation: a mesh with all that is prescribed on it, and how its truth is computed.

One function per kind of equation, for shapes made on the page and for uploaded meshes alike. The
truth is P2 (flows: P2/P1) on the mesh halved once, as in the data sets; curved parts of a shape's
boundary are followed, those of an uploaded mesh are the polygon that they are.

Flow enters through the inlet along its mean normal, with the profile

.. math:: 4 U s (1 - s) [1 + a (2 s - 1) + b (1 - 5 s (1 - s))], \qquad s \in [0, 1]

across it (in space the product of :math:`4 s (1 - s)` over both directions), that of the data sets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from geonew.data.families.elasticity import POISSON, PULL, YOUNG
from geonew.data.families.flow import Fluid, Inflow, solve_flow
from geonew.data.families.truth import Curve, corner_nodes, curves_of, finer
from geonew.data.record import Case
from geonew.errors import InputError
from geonew.fem.loads import group_normals
from geonew.fem.reference import Material, solve_elasticity, solve_poisson
from geonew.mesh import Mesh
from geonew.problem import BoundaryData
from geonew.shape import Shape, Solid

# A truth on the page is computed while somebody waits: meshes with more nodes take too long.
MOST_NODES = {2: 4000, 3: 3000}

Truth = Callable[[], dict[str, ndarray]]


@dataclass(frozen=True, eq=False)
class Situation:
    """See the module docstring.

    Args:
        mesh: the domain.
        boundary: Dirichlet data.
        parameters: of the problem.
        source: by field.
        neumann: fluxes or tractions.
        truth: computes the fields on the mesh's nodes; none where nobody knows how.

    """

    mesh: Mesh
    boundary: BoundaryData
    parameters: Mapping[str, Any] = field(default_factory=dict)
    source: Mapping[str, Any] = field(default_factory=dict)
    neumann: BoundaryData = field(default_factory=dict)
    truth: Truth | None = None

    def solve(self) -> dict[str, ndarray]:
        """The truth, or an error where there is none or it would take too long."""
        if self.truth is None:
            raise InputError(
                "there is no reference solver for this problem",
                "compare with a solution of your own, from geonew.fem.reference or elsewhere",
            )
        most = MOST_NODES[self.mesh.dim]
        if self.mesh.n_nodes > most:
            raise InputError(
                f"the mesh has {self.mesh.n_nodes} nodes; the page solves up to {most}",
                "solve it in Python: geonew.fem.reference has the solvers",
            )
        return self.truth()


def poisson(
    mesh: Mesh, groups: Mapping[str, float], source: float, shape: Shape | Solid | None = None
) -> Situation:
    """Poisson's equation with constant data."""

    def truth() -> dict[str, ndarray]:
        fine = finer(mesh, _curves(shape), _corners(mesh, shape))
        found = solve_poisson(fine.mesh, dirichlet=dict(groups), source=source, degree=2)
        return {"u": found.values[: mesh.n_nodes].copy()}

    boundary = {group: {"u": value} for group, value in groups.items()}
    return Situation(mesh, boundary, source={"u": source}, truth=truth)


def elasticity(mesh: Mesh, shape: Shape | None = None) -> Situation:
    """The unit cell of the family: clamped below, pulled above."""
    _need(mesh, "bottom", "top")

    def truth() -> dict[str, ndarray]:
        below = mesh.nodes_of("bottom")
        x = mesh.points[below, 0]
        singular = below[[x.argmin(), x.argmax()]]  # where the clamped side ends
        fine = finer(mesh, _curves(shape), singular)
        found = solve_elasticity(
            fine.mesh,
            Material.from_young(YOUNG, POISSON),
            dirichlet={"bottom": (0.0, 0.0)},
            traction={"top": (0.0, PULL)},
            degree=2,
        )
        stress = found.von_mises[: mesh.n_nodes].copy()
        stress[singular] = fine.mean(found.von_mises, singular)
        moved = found.displacement[: mesh.n_nodes].copy()
        return {"displacement": moved, "von_mises": stress}

    return Situation(
        mesh,
        {"bottom": {"displacement": (0.0, 0.0)}},
        neumann={"top": {"displacement": (0.0, PULL)}},
        truth=truth,
    )


def flow(
    mesh: Mesh,
    fluid: Fluid,
    inflow: Inflow,
    *,
    shape: Shape | Solid | None = None,
    parameters: Mapping[str, float] | None = None,
    stokes: bool = False,
    truth: Truth | None = None,
) -> Situation:
    """Flow in through ``inlet`` and out through ``outlet``, at rest on all other groups.

    Args:
        mesh: the domain.
        fluid: its constants.
        inflow: velocity at points of the inlet.
        shape: what the mesh was made of.
        parameters: of the problem.
        stokes: without convection.
        truth: how the solution is computed, where not as here.

    """
    walls = [group for group in mesh.groups if group not in ("inlet", "outlet")]
    rest = (0.0,) * mesh.dim
    across = 0.0 if mesh.dim == 2 else (0.0, 0.0)

    def solved() -> dict[str, ndarray]:
        corners = _corners(mesh, shape)
        record = solve_flow(
            mesh,
            finer(mesh, _curves(shape), corners),
            fluid,
            inflow,
            Case("page", "test", {}, {}, {}),
            perf_counter(),
            singular=corners,
            parameters=parameters,
            stokes=stokes,
        )
        return {name: np.asarray(values) for name, values in record.fields.items()}

    return Situation(
        mesh,
        {
            "inlet": {"velocity": inflow},
            "outlet": {"velocity": across, "pressure": 0.0},
            **{wall: {"velocity": rest} for wall in walls},
        },
        parameters=dict(parameters or {}),
        truth=truth or solved,
    )


def inflow_into(mesh: Mesh, speed: float, skew: float = 0.0, flatness: float = 0.0) -> Inflow:
    """The profile of the module docstring over the inlet of a mesh."""
    _need(mesh, "inlet", "outlet")
    outward = group_normals(mesh, "inlet").sum(axis=0)
    size = float(np.linalg.norm(outward))
    area = float(np.linalg.norm(group_normals(mesh, "inlet"), axis=1).sum())
    if not size > 1e-6 * area:
        raise InputError(
            "the inlet has no direction: its normals cancel", "let flow enter from one side"
        )
    inward = -outward / size
    # Directions across the inlet, each pointing up or to the right.
    axes = np.linalg.svd(inward[None])[2][1:]
    axes = np.array([a if a[np.abs(a).argmax()] > 0 else -a for a in axes])
    if mesh.dim == 3:
        axes = _box_axes(mesh.points[mesh.nodes_of("inlet")], inward)
    at = mesh.points[mesh.nodes_of("inlet")] @ axes.T
    low, width = at.min(axis=0), np.ptp(at, axis=0)

    def velocity(x: ndarray) -> ndarray:
        s = np.clip((x @ axes.T - low) / width, 0.0, 1.0)
        profile = speed * np.prod(4 * s * (1 - s), axis=1)
        if mesh.dim == 2:
            bump = s[:, 0] * (1 - s[:, 0])
            profile = profile * (1 + skew * (2 * s[:, 0] - 1) + flatness * (1 - 5 * bump))
        return profile[:, None] * inward

    return velocity


def _box_axes(points: Float[ndarray, "n 3"], normal: Float[ndarray, "3"]) -> Float[ndarray, "2 3"]:
    """Axes of the space nearest to a plane, made orthogonal in it: the sides of a box's face."""
    kept = [k for k in range(3) if k != int(np.abs(normal).argmax())]
    rows = np.eye(3)[kept]
    rows = rows - (rows @ normal)[:, None] * normal
    q, r = np.linalg.qr(rows.T)
    return (q * np.sign(np.diag(r))).T


def _need(mesh: Mesh, *groups: str) -> None:
    missing = [group for group in groups if group not in mesh.groups]
    if missing:
        raise InputError(
            f"the mesh has no group {' and no group '.join(map(repr, missing))}; it has "
            f"{list(mesh.groups)}",
            "say which of its groups they are",
        )


def _curves(shape: Shape | Solid | None) -> Sequence[Curve]:
    return () if shape is None else curves_of(shape)


def _corners(mesh: Mesh, shape: Shape | Solid | None) -> Int[ndarray, "c"]:
    points = shape.reentrant_corners if isinstance(shape, Shape) else ()
    return corner_nodes(mesh, points)
