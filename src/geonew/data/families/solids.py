r"""``ball-poisson`` and ``duct-stokes``: the two families in space.

``ball-poisson``: :math:`-\Delta u = 1` in the unit ball without a convex polyhedron, u = 1 on the
polyhedron and 0 on the sphere. The polyhedron is the hull of points on a sphere of their own, apart
from each other: 4 to 6 of them in distribution, 8 to 12 out of it.

``duct-stokes``: :math:`-\Delta u + \nabla p = 0, \nabla \cdot u = 0` in a square duct of width 1
and length 2, past a ball; out of distribution past a cube of the ball's volume. Inflow
:math:`16\, y (1 - y)\, z (1 - z)`, no slip on walls and obstacle, p = 0 and normal flow at the
outlet. Dimensionless: p is in units of :math:`\mu U / H`.

Meshes have 800 to 1,000 vertices; the truth is P2 (P2/P1 for the flow) on the mesh refined once.
The pressure is infinite at the edges of a cube, where its mean over the stored hat function is
stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from geonew.data.families.flow import Fluid, flow_problem, solve_flow
from geonew.data.families.sizing import check_axis, check_case, is_ood, mesh_of, refuse_swap
from geonew.data.families.truth import curves_of, finer
from geonew.data.record import Case, Level, Record, Split
from geonew.errors import ShapeError
from geonew.fem.reference import solve_poisson
from geonew.mesh import Mesh
from geonew.problem import Dirichlet, Field, FrameRule, Problem, Term
from geonew.shape import Ball, Box, Polyhedron, Solid
from geonew.shape.solids import Body

FEWEST, MOST, NODES = 800, 1000, 900

# -- ball --------------------------------------------------------------------------------------

CORNERS, CORNERS_OOD = (4, 6), (8, 12)
CAVITY_RADIUS = (0.35, 0.5)
CAVITY_OFFSET = 0.15
# Corners are at least this fraction of sqrt(4 pi / n) radians apart: no slivers, and room to draw.
APART = 0.75
# Least distance of the faces from the center, over the radius: the polyhedron is not flat.
DEEP = 0.15
TRIES = 2000


@dataclass(frozen=True)
class BallPoisson:
    """Ball with a polyhedral cavity; see the module docstring."""

    name: str = "ball-poisson"

    @property
    def problem(self) -> Problem:
        """Diffusion known, one scalar."""
        return Problem(
            name=self.name,
            dim=3,
            fields=(Field("u"),),
            groups=("cavity", "sphere"),
            dirichlet=(Dirichlet("u", "cavity"), Dirichlet("u", "sphere")),
            sources=("u",),
            terms=(Term("diffusion", ("u",)),),
            harmonic=(("cavity", "sphere"),),
        )

    @property
    def ranges(self) -> Mapping[str, str]:
        """Drawn parameters."""
        return {
            "corners": f"of the polyhedron: ID {CORNERS[0]} to {CORNERS[1]}, OOD {CORNERS_OOD[0]} "
            f"to {CORNERS_OOD[1]}",
            "radius": f"of the sphere through them, uniform in {CAVITY_RADIUS}",
            "center": f"uniform in the ball of radius {CAVITY_OFFSET}",
            "directions": f"uniform, at least {APART} sqrt(4 pi / n) apart, faces at least {DEEP} "
            "radii from the center",
        }

    @property
    def units(self) -> Mapping[str, str]:
        """Dimensionless: lengths over the ball's radius."""
        drawn = ("corners", "radius", "center_x", "center_y", "center_z", "tries")
        return dict.fromkeys(("length", "u", "source", *drawn), "1")

    def draw(
        self,
        split: Split,
        generator: np.random.Generator,
        axis: tuple[str, float] | None = None,
        swap: bool = False,
    ) -> Case:
        """A random case; the axis ``corners`` sets their number."""
        refuse_swap(self.name, swap)
        axis = check_axis(self.name, axis, {"corners": (4.0, 12.0)})
        low, high = CORNERS_OOD if is_ood(split, axis) else CORNERS
        count = int(generator.integers(low, high + 1))
        count = count if axis is None else round(axis[1])
        radius = float(generator.uniform(*CAVITY_RADIUS))
        center = _direction(generator) * CAVITY_OFFSET * generator.random() ** (1 / 3)
        rays, tries = _apart(generator, count)
        corners = [tuple(map(float, center + radius * ray)) for ray in rays]
        cavity = Polyhedron(tuple((x, y, z) for x, y, z in corners), "cavity")
        solid = Solid(Ball((0.0, 0.0, 0.0), 1.0, "sphere"), (cavity,))
        return Case(
            family=self.name,
            split=split,
            shape=solid.to_dict(),
            parameters={
                "corners": count,
                "radius": radius,
                **{f"center_{a}": float(x) for a, x in zip("xyz", center, strict=True)},
                "tries": tries,
            },
            axes={"corners": count},
        )

    def mesh(self, case: Case, level: Level) -> Mesh:
        """The mesh that is stored."""
        solid = Solid.from_dict(case.shape)
        return mesh_of(solid, level, NODES, 4 / 3 * np.pi, fewest=FEWEST, most=MOST, per_cell=1.5)

    def solve(self, case: Case, level: Level, *, times: int = 1) -> Record:
        """P2 on the mesh refined ``times``, restricted to the stored vertices."""
        start = perf_counter()
        check_case(self.name, case)
        mesh = self.mesh(case, level)
        fine = finer(mesh, curves_of(Solid.from_dict(case.shape)), times=times)
        values = {"cavity": 1.0, "sphere": 0.0}
        truth = solve_poisson(fine.mesh, dirichlet=values, source=1.0, degree=2)
        return Record(
            mesh=mesh,
            fields={"u": truth.values[: mesh.n_nodes].copy()},
            boundary={
                group: {"u": np.full((len(mesh.nodes_of(group)), 1), value)}
                for group, value in values.items()
            },
            sources={"u": np.ones(mesh.n_nodes)},
            case=case,
            info={
                "residual": float(truth.residual),
                "seconds": perf_counter() - start,
                "truth_nodes": float(fine.mesh.n_nodes),
            },
        )


def _direction(generator: np.random.Generator) -> ndarray:
    ray = generator.standard_normal(3)
    return ray / np.linalg.norm(ray)


def _apart(generator: np.random.Generator, count: int) -> tuple[ndarray, int]:
    """Directions apart from each other around the center, and how many draws they took."""
    least, tries = APART * np.sqrt(4 * np.pi / count), 0
    while tries < TRIES * count:
        rays: list[ndarray] = []
        for _ in range(20 * count):
            tries += 1
            ray = _direction(generator)
            if all(np.arccos(np.clip(ray @ other, -1, 1)) >= least for other in rays):
                rays.append(ray)
                if len(rays) == count:
                    break
        if len(rays) == count:
            hull = Polyhedron(tuple((float(x), float(y), float(z)) for x, y, z in rays), "cavity")
            if hull.faces(np.zeros((1, 3)))[0, 0] >= DEEP and _around(hull):
                return np.stack(rays), tries
    raise ShapeError(
        f"no polyhedron with {count} corners apart in {tries} draws", "draw from another seed"
    )


def _around(hull: Polyhedron) -> bool:
    """Whether the polyhedron holds the center: the planes of its faces all have it inside."""
    points = np.array(hull.vertices)
    for ring in hull.polygons:
        a, b, c = points[list(ring[:3])]
        normal = np.cross(b - a, c - a)
        if np.sign(normal @ (points.mean(axis=0) - a)) != np.sign(normal @ -a):
            return False
    return True


# -- duct --------------------------------------------------------------------------------------

LENGTH = 2.0
BALL_RADIUS = (0.12, 0.25)
WALL_GAP = 0.12
END_GAP = 0.3
DUCT_PRESSURE = 20.0
# A vertex is on a face of the obstacle within this distance; the mesher puts it there to 1e-9.
ON_EDGE = 1e-6
FACES = ("inlet", "outlet", "side", "side", "floor", "side")


@dataclass(frozen=True)
class DuctStokes:
    """Duct past an obstacle; see the module docstring."""

    name: str = "duct-stokes"

    @property
    def problem(self) -> Problem:
        """Stokes terms known: the whole equation."""
        return flow_problem(
            self.name,
            Fluid(1.0, 1.0),
            speed=1.0,
            pressure=DUCT_PRESSURE,
            dim=3,
            walls=("floor", "side", "obstacle"),
            frame=(FrameRule("normal", "inlet"), FrameRule("normal", "floor")),
        )

    @property
    def ranges(self) -> Mapping[str, str]:
        """Drawn parameters."""
        return {
            "obstacle": "ID a ball; OOD a cube of its volume, parallel to the duct",
            "radius": f"of the ball, uniform in {BALL_RADIUS}",
            "x, y, z": f"of its center, uniform with {WALL_GAP} between it and the walls, "
            f"{END_GAP} between it and the ends",
            "swap": "flow reversed: only on request",
        }

    @property
    def units(self) -> Mapping[str, str]:
        """Dimensionless: lengths over the width, pressure over the viscous stress."""
        drawn = ("radius", "cube", "x", "y", "z", "swap")
        return dict.fromkeys(("length", "velocity", "pressure", *drawn), "1")

    def draw(
        self,
        split: Split,
        generator: np.random.Generator,
        axis: tuple[str, float] | None = None,
        swap: bool = False,
    ) -> Case:
        """A random case; axes ``radius`` and ``cube`` (0 or 1)."""
        axis = check_axis(self.name, axis, {"radius": BALL_RADIUS, "cube": (0.0, 1.0)})
        fixed = {} if axis is None else {axis[0]: axis[1]}
        drawn = float(generator.uniform(*BALL_RADIUS))
        radius = float(fixed.get("radius", drawn))
        cube = bool(round(fixed.get("cube", float(is_ood(split, axis)))))
        half = radius * float((np.pi / 6) ** (1 / 3)) if cube else radius
        gaps = np.array([END_GAP, WALL_GAP, WALL_GAP])
        low, high = half + gaps, np.array([LENGTH, 1.0, 1.0]) - half - gaps
        center = tuple(map(float, generator.uniform(low, high)))
        x, y, z = center
        if cube:
            body = Box((x - half, y - half, z - half), (x + half, y + half, z + half), "obstacle")
        else:
            body = Ball((x, y, z), radius, "obstacle")
        names = (*FACES[1::-1], *FACES[2:]) if swap else FACES
        duct = Box((0.0, 0.0, 0.0), (LENGTH, 1.0, 1.0), names)
        return Case(
            family=self.name,
            split=split,
            shape=Solid(duct, (body,)).to_dict(),
            parameters={
                "radius": radius,
                "cube": int(cube),
                "x": x,
                "y": y,
                "z": z,
                "swap": int(swap),
            },
            axes={"radius": radius, "cube": int(cube)},
        )

    def mesh(self, case: Case, level: Level) -> Mesh:
        """The mesh that is stored."""
        solid = Solid.from_dict(case.shape)
        return mesh_of(
            solid, level, NODES, LENGTH, extra=100.0, fewest=FEWEST, most=MOST, per_cell=1.8
        )

    def solve(self, case: Case, level: Level, *, times: int = 1) -> Record:
        """P2/P1 on the mesh refined ``times``, restricted to the stored vertices."""
        start = perf_counter()
        check_case(self.name, case)
        mesh = self.mesh(case, level)
        solid = Solid.from_dict(case.shape)
        fine = finer(mesh, curves_of(solid), times=times)
        sign = -1.0 if case.parameters["swap"] else 1.0

        def inflow(x: ndarray) -> ndarray:
            y, z = np.clip(x[:, 1:], 0, 1).T
            profile = sign * 16 * y * (1 - y) * z * (1 - z)
            return np.stack([profile, np.zeros_like(profile), np.zeros_like(profile)], axis=1)

        return solve_flow(
            mesh,
            fine,
            Fluid(1.0, 1.0),
            inflow,
            case,
            start,
            singular=_edge_nodes(mesh, solid.cavities[0]),
            stokes=True,
        )


def _edge_nodes(mesh: Mesh, obstacle: Body) -> Int[ndarray, "c"]:
    """Vertices on the edges of a box; none on a ball."""
    on_faces = obstacle.faces(mesh.points) < ON_EDGE
    return np.flatnonzero(on_faces.sum(axis=1) > 1)
