r"""Editors of plane families: obstacles in channels, polygonal cut-outs, cavities, bent pipes.

Meshes have the data sets' number of nodes and grading, found in one try wherever possible: while a
shape is dragged, a mesh that is a little too fine beats one that comes late.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from geonew.data.families import channel, elasticity, family, pipe, poisson
from geonew.data.families.flow import Fluid
from geonew.data.families.placing import Obstacle
from geonew.data.families.sizing import mesh_of
from geonew.data.record import Case
from geonew.errors import ShapeError
from geonew.mesh import Mesh
from geonew.serve import situation
from geonew.serve.controls import Control, Draft, not_mine, settled
from geonew.serve.scene import (
    ChannelGeometry,
    CurveGeometry,
    Geometry,
    PlacedObstacle,
    PlainGeometry,
    PolygonGeometry,
)
from geonew.serve.situation import Situation, inflow_into
from geonew.shape import Shape, disc, polygon, rectangle, spline_loop

# Numbers of nodes to be content with at the first try.
FEWEST, MOST = 450, 2200
SWAP = Control("swap", "reverse the flow", 0.0, 1.0, 0.0, toggle=True)
LENGTH = Control("length", "length", 1.0, channel.LONGEST, 1.0, "m", (1.0, 1.0))
ANGLE = Control("angle", "step angle", 0.0, channel.STEEPEST, 0.0, "°", (0.0, 0.0))
START = Control("start", "step begins at", 0.2, 4.3, 0.25, "m")
REYNOLDS = Control(
    "reynolds", "Reynolds number", 1.0, 200.0, 20.0, "", (1.0, 100.0), False, True, True
)
SKEW = Control("skew", "inlet skew", -0.9, 0.9, 0.0, "", (-0.5, 0.5), on_meshes=True)
FLATNESS = Control("flatness", "inlet flatness", -0.5, 0.5, 0.0, "", on_meshes=True)
# A pipe whose inner wall, half a width inside the centre line, would fold.
TIGHTEST_PIPE = 0.55
# Handles of a cavity: twice its five waves, and some to spare.
CAVITY_HANDLES = 16


@dataclass(frozen=True)
class ChannelEditor:
    """Obstacles in a channel.

    Args:
        name: of the family.
        controls: what can be changed besides the obstacles.

    """

    name: str
    controls: tuple[Control, ...] = (SWAP,)
    kind: str = "channel"

    @property
    def units(self) -> Mapping[str, str]:
        """Of the family."""
        return family(self.name).units

    def draw(self, generator: np.random.Generator, outside: bool) -> Draft:
        """A case of the family."""
        case = family(self.name).draw("ood" if outside else "train", generator)
        data = case.parameters
        count = sum(name.startswith("x_") for name in data)
        obstacles = tuple(
            PlacedObstacle(
                x=data[f"x_{k}"],
                y=data[f"y_{k}"],
                radius=data[f"radius_{k}"],
                square=bool(data.get(f"square_{k}", 0)),
                angle=data.get(f"angle_{k}", 0.0),
            )
            for k in range(count)
        )
        values = {c.name: float(data[c.name]) for c in self.controls if c.name in data}
        values = {
            c.name: min(max(values[c.name], c.low), c.high)
            for c in self.controls
            if c.name in values
        }
        return Draft(ChannelGeometry(kind="channel", obstacles=obstacles), values)

    def situation(self, geometry: Geometry, values: Mapping[str, float]) -> Situation:
        """The channel's mesh and flow."""
        if not isinstance(geometry, ChannelGeometry):
            raise not_mine(self.kind, geometry)
        shape = self.shape(geometry, values)
        squares = sum(len(hole.pieces) > 1 for hole in shape.holes)
        circles = len(shape.holes) - squares
        sharp = bool(shape.reentrant_corners)
        mesh = mesh_of(
            shape,
            "coarse",
            channel.NODES,
            shape.area,
            extra=channel.NODES_PER_SQUARE * squares + channel.NODES_PER_CIRCLE * circles,
            per_cell=channel.NODES_PER_CELL_CORNERS if sharp else channel.NODES_PER_CELL,
            fewest=FEWEST,
            most=MOST,
            corner_refinement=channel.CORNER_REFINEMENT,
            curve_points=channel.CURVE_POINTS,
        )
        return self._flow(mesh, values, shape)

    def shape(self, geometry: ChannelGeometry, values: Mapping[str, float]) -> Shape:
        """The domain."""
        at = settled(self.controls, values)
        length, angle = at.get("length", 1.0), at.get("angle", 0.0)
        before, after = channel.RAMP_ENDS
        start = float(np.clip(at.get("start", before), before, length - channel.RUN - after))
        walls = channel.Channel(length, angle, start if angle > 0 else 0.0)
        placed = [Obstacle(o.x, o.y, o.radius, o.square, o.angle) for o in geometry.obstacles]
        return walls.shape(placed, bool(round(at["swap"])))

    def on_mesh(self, mesh: Mesh, values: Mapping[str, float]) -> Situation:
        """The same flow through any domain with an inlet and an outlet."""
        return self._flow(mesh, values, None)

    def _flow(self, mesh: Mesh, values: Mapping[str, float], shape: Shape | None) -> Situation:
        at = settled(self.controls, values)
        if "reynolds" not in at:
            return situation.flow(mesh, channel.AIR, inflow_into(mesh, channel.SPEED), shape=shape)
        reynolds = at["reynolds"]
        inflow = inflow_into(mesh, 1.0, at["skew"], at["flatness"])
        fluid = Fluid(viscosity=1 / reynolds, density=reynolds)
        return situation.flow(mesh, fluid, inflow, shape=shape, parameters={"reynolds": reynolds})


@dataclass(frozen=True)
class PolygonEditor:
    """A polygonal cut-out of the unit disc.

    Args:
        name: of the family.
        controls: source and boundary values, where they can be changed.

    """

    name: str
    controls: tuple[Control, ...] = ()
    kind: str = "polygon"

    @property
    def units(self) -> Mapping[str, str]:
        """Of the family."""
        return family(self.name).units

    def draw(self, generator: np.random.Generator, outside: bool) -> Draft:
        """A case of the family."""
        case = family(self.name).draw("ood" if outside else "train", generator)
        cutout = Shape.from_dict(case.shape).holes[0]
        corners = tuple((float(p.start[0]), float(p.start[1])) for p in cutout.pieces)
        values = {c.name: float(case.parameters[c.name]) for c in self.controls}
        return Draft(PolygonGeometry(kind="polygon", corners=corners), values)

    def situation(self, geometry: Geometry, values: Mapping[str, float]) -> Situation:
        """The disc without the polygon."""
        if not isinstance(geometry, PolygonGeometry):
            raise not_mine(self.kind, geometry)
        cutout = polygon(list(geometry.corners), "cutout")
        shape = Shape(disc((0.0, 0.0), 1.0, "circle"), (cutout,))
        density = 1.65 + 0.08 * len(shape.reentrant_corners)  # as the family has it
        mesh = mesh_of(
            shape,
            "coarse",
            poisson.NODES,
            shape.area,
            extra=200.0,
            per_cell=density,
            fewest=FEWEST,
            most=MOST,
        )
        return self._poisson(mesh, values, shape)

    def on_mesh(self, mesh: Mesh, values: Mapping[str, float]) -> Situation:
        """The same data on any domain with the two groups."""
        return self._poisson(mesh, values, None)

    def _poisson(self, mesh: Mesh, values: Mapping[str, float], shape: Shape | None) -> Situation:
        at = {"source": 1.0, "inside": 1.0, "outside": 0.0} | settled(self.controls, values)
        groups = {"cutout": at["inside"], "circle": at["outside"]}
        return situation.poisson(mesh, groups, at["source"], shape)


@dataclass(frozen=True)
class CavityEditor:
    """A cavity in the unit cell of elasticity."""

    name: str = "elasticity"
    controls: tuple[Control, ...] = ()
    kind: str = "curve"

    @property
    def units(self) -> Mapping[str, str]:
        """Of the family."""
        return family(self.name).units

    def draw(self, generator: np.random.Generator, outside: bool) -> Draft:
        """A case of the family, its rim by fewer points."""
        case = family(self.name).draw("ood" if outside else "train", generator)
        rim = Shape.from_dict(case.shape).holes[0].pieces[0].points[:-1]  # type: ignore[union-attr]
        chosen = rim[:: len(rim) // CAVITY_HANDLES]
        corners = tuple((float(x), float(y)) for x, y in chosen)
        return Draft(CurveGeometry(kind="curve", corners=corners))

    def situation(self, geometry: Geometry, values: Mapping[str, float]) -> Situation:
        """The cell without the cavity."""
        settled(self.controls, values)
        if not isinstance(geometry, CurveGeometry):
            raise not_mine(self.kind, geometry)
        cell = rectangle((0.0, 0.0), (1.0, 1.0), ("bottom", "side", "top", "side"))
        shape = Shape(cell, (spline_loop(list(geometry.corners), "cavity"),))
        mesh = mesh_of(
            shape,
            "coarse",
            elasticity.NODES,
            shape.area,
            extra=250.0,
            per_cell=1.2,
            fewest=FEWEST,
            most=MOST,
            curve_points=elasticity.CURVE_POINTS,
        )
        return situation.elasticity(mesh, shape)

    def on_mesh(self, mesh: Mesh, values: Mapping[str, float]) -> Situation:
        """The same load on any cell."""
        settled(self.controls, values)
        return situation.elasticity(mesh)


@dataclass(frozen=True)
class PipeEditor:
    """Bent pipes, by the three coefficients of the centre line."""

    name: str = "pipe"
    controls: tuple[Control, ...] = field(
        default=(
            Control("b_1", "rise", -1.5, 1.5, 0.5, "", (-1.0, 1.0)),
            Control("b_2", "hill", -1.5, 1.5, 0.6, "", (-1.0, 1.0)),
            Control("b_3", "wave", -1.5, 1.5, -0.4, "", (-1.0, 1.0)),
            SWAP,
        )
    )
    kind: str = "plain"

    @property
    def units(self) -> Mapping[str, str]:
        """Of the family."""
        return family(self.name).units

    def draw(self, generator: np.random.Generator, outside: bool) -> Draft:
        """A case of the family."""
        case = family(self.name).draw("ood" if outside else "train", generator)
        values = {c.name: float(case.parameters[c.name]) for c in self.controls}
        return Draft(PlainGeometry(kind="plain"), values)

    def situation(self, geometry: Geometry, values: Mapping[str, float]) -> Situation:
        """The grid along the centre line."""
        if not isinstance(geometry, PlainGeometry):
            raise not_mine(self.kind, geometry)
        at = settled(self.controls, values)
        line = pipe.CentreLine((at["b_1"], at["b_2"], at["b_3"]))
        if line.tightest() < TIGHTEST_PIPE:
            raise ShapeError(
                f"the pipe bends with a radius of {line.tightest():.2f}, and is 1 wide",
                f"bend it less: radii of at least {TIGHTEST_PIPE} keep its inner wall smooth",
            )
        numbers = {name: at[name] for name in ("b_1", "b_2", "b_3")}
        made = pipe.Pipe()
        case = Case(
            self.name, "ood", {"kind": "pipe", **numbers, "swap": round(at["swap"])}, numbers, {}
        )
        mesh = made.mesh(case, "coarse")
        return situation.flow(
            mesh,
            pipe.FLUID,
            inflow_into(mesh, 1.0),
            truth=lambda: {
                name: np.asarray(values)
                for name, values in made.solve(case, "coarse").fields.items()
            },
        )

    def on_mesh(self, mesh: Mesh, values: Mapping[str, float]) -> Situation:
        """The same flow through any domain with an inlet and an outlet."""
        settled(self.controls, values)
        return situation.flow(mesh, pipe.FLUID, inflow_into(mesh, 1.0))
