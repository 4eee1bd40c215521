r"""``poly-poisson`` and ``poly-poisson-var``: a disc with a polygonal cut-out.

.. math:: -\Delta u = f, \qquad u = u_{in} \text{ on the cut-out}, \quad
          u = u_{out} \text{ on the circle.}

f = 1, u_in = 1, u_out = 0 in ``poly-poisson``; drawn per sample in ``poly-poisson-var``. In
distribution the cut-out is a regular triangle or square, out of it a regular polygon of 6 to 12
sides; the axis ``star`` replaces it by a non-convex star, the hardest. The solution goes like
:math:`r^{\pi/\omega}` at corners of interior angle omega: 0.6 at a triangle, 0.5 at the thinnest
tip.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from geonew.data.families.sizing import check_axis, check_case, is_ood, mesh_of, refuse_swap
from geonew.data.families.truth import corner_nodes, curves_of, finer
from geonew.data.record import Case, Level, Record, Split
from geonew.fem.reference import solve_poisson
from geonew.mesh import Mesh
from geonew.problem import Dirichlet, Field, Problem, Term
from geonew.shape import Shape, disc, regular_polygon, star

RADIUS = (0.25, 0.5)  # of the circle through the corners of the cut-out; the disc has radius 1
OFFSET = 0.2  # largest distance of its center from the disc's
NOTCH = (0.45, 0.7)  # radius of a star's notches over that of its tips
SIDES = (3, 4)
SIDES_OOD = (6, 12)
AXES = {"sides": (3.0, 12.0), "star": (3.0, 8.0)}
# Ranges of the variant.
SOURCE = (0.0, 4.0)
INSIDE = (-1.0, 2.0)
OUTSIDE = (-1.0, 1.0)

NODES = 930


@dataclass(frozen=True)
class PolyPoisson:
    """Disc with a polygonal cut-out; see the module docstring.

    Args:
        name: of the family.
        drawn: source and boundary values are drawn per sample.

    """

    name: str = "poly-poisson"
    drawn: bool = False

    @property
    def problem(self) -> Problem:
        """Diffusion known, one scalar."""
        return Problem(
            name=self.name,
            dim=2,
            fields=(Field("u"),),
            groups=("cutout", "circle"),
            dirichlet=(Dirichlet("u", "cutout"), Dirichlet("u", "circle")),
            sources=("u",),
            terms=(Term("diffusion", ("u",)),),
            harmonic=(("cutout", "circle"),),
        )

    @property
    def ranges(self) -> Mapping[str, str]:
        """Drawn parameters."""
        values = {
            "source": f"uniform in {SOURCE}" if self.drawn else "1",
            "inside": f"uniform in {INSIDE}" if self.drawn else "1",
            "outside": f"uniform in {OUTSIDE}" if self.drawn else "0",
        }
        return {
            "sides": f"ID {SIDES[0]} or {SIDES[1]}; OOD {SIDES_OOD[0]} to {SIDES_OOD[1]}",
            "star": "ID and OOD 0; only as an axis: number of tips, 3 to 8",
            "radius": f"uniform in {RADIUS}, of the circle through the corners",
            "notch": f"stars: notch over tip radius, uniform in {NOTCH}",
            "offset": f"center uniform in the disc of radius {OFFSET}",
            "angle": "uniform in a full turn",
            **values,
        }

    @property
    def units(self) -> Mapping[str, str]:
        """Dimensionless; angles in radians."""
        ones = ("length", "u", "source", "inside", "outside", "sides", "star", "radius", "notch")
        return {**dict.fromkeys((*ones, "center_x", "center_y"), "1"), "angle": "rad"}

    def draw(
        self,
        split: Split,
        generator: np.random.Generator,
        axis: tuple[str, float] | None = None,
        swap: bool = False,
    ) -> Case:
        """A random case; axes ``sides`` and ``star`` (number of tips)."""
        refuse_swap(self.name, swap)
        axis = check_axis(self.name, axis, AXES)
        low, high = SIDES_OOD if is_ood(split, axis) else SIDES
        sides = int(generator.integers(low, high + 1))
        radius = float(generator.uniform(*RADIUS))
        distance, direction = OFFSET * np.sqrt(generator.random()), generator.uniform(0, 2 * np.pi)
        center = (float(distance * np.cos(direction)), float(distance * np.sin(direction)))
        angle = float(generator.uniform(0, 2 * np.pi))
        notch = float(generator.uniform(*NOTCH))
        values = [float(generator.uniform(*r)) for r in (SOURCE, INSIDE, OUTSIDE)]
        source, inside, outside = values if self.drawn else (1.0, 1.0, 0.0)
        tips = 0
        if axis is not None and axis[0] == "sides":
            sides = round(axis[1])
        elif axis is not None:
            sides = tips = round(axis[1])
        if tips:
            cutout = star(center, radius, notch * radius, tips, "cutout", angle)
        else:
            cutout = regular_polygon(center, radius, sides, "cutout", angle)
        return Case(
            family=self.name,
            split=split,
            shape=Shape(disc((0.0, 0.0), 1.0, "circle"), (cutout,)).to_dict(),
            parameters={
                "sides": sides,
                "radius": radius,
                "center_x": center[0],
                "center_y": center[1],
                "angle": angle,
                "notch": notch if tips else 1.0,
                "source": source,
                "inside": inside,
                "outside": outside,
            },
            axes={"sides": sides, "star": tips},
        )

    def mesh(self, case: Case, level: Level) -> Mesh:
        """The mesh that is stored."""
        return self._meshed(Shape.from_dict(case.shape), level)

    def _meshed(self, shape: Shape, level: Level) -> Mesh:
        # Cells grow slowly away from the small ones at the corners.
        density = 1.65 + 0.08 * len(shape.reentrant_corners)
        return mesh_of(shape, level, NODES, shape.area, extra=200.0, per_cell=density)

    def solve(self, case: Case, level: Level, *, times: int = 1) -> Record:
        """P2 on the mesh refined ``times``, restricted to the stored vertices."""
        start = perf_counter()
        check_case(self.name, case)
        shape = Shape.from_dict(case.shape)
        mesh = self._meshed(shape, level)
        data = case.parameters
        values = {"cutout": float(data["inside"]), "circle": float(data["outside"])}
        corners = corner_nodes(mesh, shape.reentrant_corners)
        fine = finer(mesh, curves_of(shape), corners, times=times)
        truth = solve_poisson(fine.mesh, dirichlet=values, source=float(data["source"]), degree=2)
        return Record(
            mesh=mesh,
            fields={"u": truth.values[: mesh.n_nodes].copy()},
            boundary={
                group: {"u": np.full((len(mesh.nodes_of(group)), 1), value)}
                for group, value in values.items()
            },
            sources={"u": np.full(mesh.n_nodes, float(data["source"]))},
            case=case,
            info={
                "residual": float(truth.residual),
                "seconds": perf_counter() - start,
                "truth_nodes": float(fine.mesh.n_nodes),
            },
        )
