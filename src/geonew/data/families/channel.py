r"""``ns2d-c``, ``ns2d-c++``: steady flow past obstacles in a channel of height 1.

Navier-Stokes (:mod:`geonew.data.families.flow`) in :math:`[0, L] \times [0, 1]` without obstacles,
the lower wall rising by an angled step: from :math:`x_s` on at the angle theta over a run of 0.4,
level afterwards. The inlet is the left side, the outlet the right one; ``swap`` exchanges them, and
the truth is that of the reversed flow, with the same profile over the height of the new inlet.

* ``ns2d-c``: unit square, one circle in each quadrant. Out of distribution: larger circles.
* ``ns2d-c++``: in distribution L = 1, one to three circles, no step. Out of distribution, jointly,
  L in (1, 5], four to six obstacles, at least one of them square, theta in (0, 30] degrees. A sweep
  sets one of these axes and draws the others in distribution.

Both are air at U = 1e-4 m/s, H = 1 m: Re = U H / nu = 6.7. Reynolds number and profile are drawn in
:mod:`geonew.data.families.reynolds`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from geonew.data.families.flow import Fluid, Inflow, flow_problem, solve_flow
from geonew.data.families.placing import GAP, Obstacle, place
from geonew.data.families.sizing import check_axis, check_case, is_ood, mesh_of
from geonew.data.families.truth import corner_nodes, curves_of, finer
from geonew.data.record import Case, Level, Number, Record, Split
from geonew.mesh import Mesh
from geonew.problem import Problem
from geonew.shape import Loop, Segment, Shape, polygon

AIR = Fluid(viscosity=1.5e-5, density=1.2)
SPEED = 1e-4
# About the root mean square of p over the training samples of ns2d-c++.
PRESSURE = 1e-7

RADIUS = (0.05, 0.12)
OBSTACLES, OBSTACLES_OOD = (1, 3), (4, 6)
LONGEST = 5.0
STEEPEST = 30.0  # degrees
RUN = 0.4  # horizontal length of the ramp
RAMP_ENDS = (0.2, 0.3)  # least level floor before and after it
RADIUS_C_OOD = (0.12, 0.17)
AXES = {
    "obstacles": (1.0, 6.0),
    "squares": (0.0, 1.0),
    "length": (1.0, LONGEST),
    "angle": (0.0, STEEPEST),
}

# Units of obstacles; lengths come from the family. A square is 1 or 0, as is a reversed flow.
UNITS_OBSTACLES = {"square_k": "1", "angle_k": "rad", "swap": "1", "tries": "1"}
UNITS_AIR = {
    "length": "m",
    "velocity": "m/s",
    "pressure": "Pa",
    **dict.fromkeys(("x_k", "y_k", "radius_k"), "m"),
    **UNITS_OBSTACLES,
}

NODES = 1000
# Cells per turn of a circle and refinement at corners; the truth adds to both.
CURVE_POINTS, CORNER_REFINEMENT = 16, 2.0
# What boundaries take of the nodes, measured: per circle and square, and by their slow growth.
NODES_PER_CIRCLE, NODES_PER_SQUARE = 150.0, 70.0
NODES_PER_CELL = 1.1
NODES_PER_CELL_CORNERS = 1.9


# -- geometry ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Channel:
    """The channel's walls.

    Args:
        length: L.
        angle: of the step in degrees; 0 for none.
        start: where it begins.

    """

    length: float = 1.0
    angle: float = 0.0
    start: float = 0.0

    @property
    def rise(self) -> float:
        """Height of the step."""
        return float(RUN * np.tan(np.radians(self.angle)))

    @property
    def floor(self) -> list[tuple[float, float]]:
        """The lower wall, from left to right."""
        if self.angle == 0:
            return [(0.0, 0.0), (self.length, 0.0)]
        top = (self.start + RUN, self.rise)
        return [(0.0, 0.0), (self.start, 0.0), top, (self.length, self.rise)]

    @property
    def walls(self) -> Float[ndarray, "n 2 2"]:
        """Segments of floor and ceiling."""
        floor = np.array(self.floor)
        ceiling = np.array([[[0.0, 1.0], [self.length, 1.0]]])
        return np.concatenate([np.stack([floor[:-1], floor[1:]], axis=1), ceiling])

    def shape(self, obstacles: Sequence[Obstacle], swap: bool) -> Shape:
        """The domain with its named boundary."""
        first, last = ("outlet", "inlet") if swap else ("inlet", "outlet")
        floor = self.floor
        names = ["wall"] * (len(floor) - 1) + [last, "wall", first]
        outer = polygon([*floor, (self.length, 1.0), (0.0, 1.0)], names)
        return Shape(outer, tuple(obstacle.loop() for obstacle in obstacles))


def end_of(loop: Loop, name: str) -> tuple[ndarray, ndarray]:
    """Lower end and vector to the upper end of the straight part of that name."""
    piece = next(p for p in loop.pieces if p.name == name and isinstance(p, Segment))
    low, high = sorted([piece.start, piece.end], key=lambda point: point[1])
    return np.array(low, dtype=np.float64), np.subtract(high, low)


def inflow_through(shape: Shape, speed: float, skew: float = 0.0, flatness: float = 0.0) -> Inflow:
    r"""Velocity into the domain through the straight inlet, s in [0, 1] along it upwards,

    .. math:: 4 U s (1 - s) [1 + a (2 s - 1) + b (1 - 5 s (1 - s))],

    whose mean is 2/3 U whatever a and b; not negative for \|a\| + \|b\| at most 1.
    """
    low, along = end_of(shape.outer, "inlet")
    inward = 1.0 if low[0] < shape.bounds.mean(axis=0)[0] else -1.0

    def velocity(x: ndarray) -> ndarray:
        s = np.clip((x - low) @ along / (along @ along), 0, 1)
        bump = s * (1 - s)
        profile = 4 * speed * bump * (1 + skew * (2 * s - 1) + flatness * (1 - 5 * bump))
        return np.stack([inward * profile, np.zeros_like(profile)], axis=1)

    return velocity


def numbers_of(obstacles: Sequence[Obstacle]) -> dict[str, Number]:
    """Every number of the obstacles by name."""
    named: dict[str, Number] = {}
    for k, o in enumerate(obstacles):
        named |= {f"x_{k}": o.x, f"y_{k}": o.y, f"radius_{k}": o.radius}
        named |= {f"square_{k}": int(o.square), f"angle_{k}": o.angle}
    return named


def channel_mesh(shape: Shape, level: Level) -> Mesh:
    """The stored mesh of a channel with obstacles."""
    squares = sum(len(hole.pieces) > 1 for hole in shape.holes)
    extra = NODES_PER_SQUARE * squares + NODES_PER_CIRCLE * (len(shape.holes) - squares)
    return mesh_of(
        shape,
        level,
        NODES,
        shape.area,
        extra=extra,
        per_cell=NODES_PER_CELL_CORNERS if shape.reentrant_corners else NODES_PER_CELL,
        corner_refinement=CORNER_REFINEMENT,
        curve_points=CURVE_POINTS,
    )


def solve_channel(
    case: Case,
    level: Level,
    fluid: Fluid,
    inflow: Inflow,
    times: int,
    parameters: Mapping[str, float] | None = None,
) -> Record:
    """Mesh and solve a case whose shape is a channel."""
    start = perf_counter()
    shape = Shape.from_dict(case.shape)
    mesh = channel_mesh(shape, level)
    corners = corner_nodes(mesh, shape.reentrant_corners)
    fine = finer(mesh, curves_of(shape), corners, times=times)
    return solve_flow(
        mesh, fine, fluid, inflow, case, start, singular=corners, parameters=parameters
    )


# -- the families ------------------------------------------------------------------------------


@dataclass(frozen=True)
class QuadrantObstacles:
    """``ns2d-c``: unit square, a circle in each quadrant."""

    name: str = "ns2d-c"

    @property
    def problem(self) -> Problem:
        """The Navier-Stokes equations, all terms known."""
        return flow_problem(self.name, AIR, speed=SPEED, pressure=PRESSURE, convection=True)

    @property
    def ranges(self) -> Mapping[str, str]:
        """Drawn parameters."""
        return {
            "radius_k": f"each of four: ID uniform in {RADIUS}, OOD uniform in {RADIUS_C_OOD}",
            "x_k, y_k": f"uniform in quadrant k, at least {GAP} from walls and {GAP / 2} from the "
            "quadrant's other sides",
            "swap": "flow reversed: only on request",
        }

    @property
    def units(self) -> Mapping[str, str]:
        """SI."""
        return {**UNITS_AIR, "radius": "m"}

    def draw(
        self,
        split: Split,
        generator: np.random.Generator,
        axis: tuple[str, float] | None = None,
        swap: bool = False,
    ) -> Case:
        """A random case; the axis ``radius`` gives all four circles one radius."""
        axis = check_axis(self.name, axis, {"radius": (RADIUS[0], RADIUS_C_OOD[1])})
        sizes = RADIUS_C_OOD if is_ood(split, axis) else RADIUS
        obstacles = []
        for column, row in ((0, 0), (1, 0), (0, 1), (1, 1)):
            radius = float(generator.uniform(*sizes)) if axis is None else axis[1]
            # Distances of the center from the outer sides, in the quadrant [0, 1/2]^2.
            low, high = radius + GAP, 0.5 - radius - GAP / 2
            x, y = (float(generator.uniform(low, high)) for _ in range(2))
            obstacles.append(Obstacle(1 - x if column else x, 1 - y if row else y, radius))
        radii = [obstacle.radius for obstacle in obstacles]
        return Case(
            family=self.name,
            split=split,
            shape=Channel().shape(obstacles, swap).to_dict(),
            parameters={**numbers_of(obstacles), "swap": int(swap)},
            axes={"radius": float(np.mean(radii))},
        )

    def mesh(self, case: Case, level: Level) -> Mesh:
        """The mesh that is stored."""
        return channel_mesh(Shape.from_dict(case.shape), level)

    def solve(self, case: Case, level: Level, *, times: int = 1) -> Record:
        """P2/P1 on the mesh refined ``times``, restricted to the stored vertices."""
        check_case(self.name, case)
        inflow = inflow_through(Shape.from_dict(case.shape), SPEED)
        return solve_channel(case, level, AIR, inflow, times)


@dataclass(frozen=True)
class Sizes:
    """What is chosen of a channel before its obstacles are placed.

    Args:
        length: L.
        angle: of the step in degrees.
        squares: which obstacles are squares; as many as there are obstacles.

    """

    length: float
    angle: float
    squares: tuple[bool, ...]


Choose = Callable[[Split, np.random.Generator, tuple[str, float] | None], Sizes]


def drawn_sizes(
    split: Split, generator: np.random.Generator, axis: tuple[str, float] | None
) -> Sizes:
    """The distribution of ``ns2d-c++``; axes ``obstacles``, ``squares``, ``length``, ``angle``."""
    axis = check_axis("ns2d-c++", axis, AXES)
    ood = is_ood(split, axis)
    fixed = {} if axis is None else {axis[0]: axis[1]}
    low, high = OBSTACLES_OOD if ood else OBSTACLES
    count = round(fixed.get("obstacles", generator.integers(low, high + 1)))
    # 1 - random() is in (0, 1]: the interval without its end in distribution.
    length, angle = 1 - generator.random(), 1 - generator.random()
    length = fixed.get("length", 1 + (LONGEST - 1) * length if ood else 1.0)
    angle = fixed.get("angle", STEEPEST * angle if ood else 0.0)
    chosen = generator.random(count) < (0.5 if ood else fixed.get("squares", 0.0))
    return Sizes(
        float(length),
        float(angle),
        some_squares(chosen, generator) if ood else tuple(chosen.tolist()),
    )


def some_squares(chosen: Bool[ndarray, "n"], generator: np.random.Generator) -> tuple[bool, ...]:
    """At least one square."""
    if not chosen.any():
        chosen[generator.integers(len(chosen))] = True
    return tuple(chosen.tolist())


@dataclass(frozen=True)
class ChannelObstacles:
    """``ns2d-c++``: circles in a unit square, and what lies outside of that distribution.

    Args:
        name: of the family.
        choose: how length, step and kinds of obstacles are chosen.

    """

    name: str = "ns2d-c++"
    choose: Choose = drawn_sizes

    @property
    def problem(self) -> Problem:
        """The Navier-Stokes equations, all terms known."""
        return flow_problem(self.name, AIR, speed=SPEED, pressure=PRESSURE, convection=True)

    @property
    def ranges(self) -> Mapping[str, str]:
        """Drawn parameters."""
        return {
            "obstacles": f"ID {OBSTACLES[0]} to {OBSTACLES[1]}, OOD {OBSTACLES_OOD[0]} to "
            f"{OBSTACLES_OOD[1]}",
            "squares": "share of square obstacles: ID 0; OOD each with probability 1/2, at least "
            "one; a square has the area of its circle and any angle",
            "length": f"ID 1, OOD uniform in (1, {LONGEST:g}]",
            "angle": f"of the step: ID 0, OOD uniform in (0, {STEEPEST:g}] degrees",
            "start": f"of the step: uniform, level floor of {RAMP_ENDS[0]} before and "
            f"{RAMP_ENDS[1]} after a run of {RUN}",
            "radius_k": f"uniform in {RADIUS}",
            "x_k, y_k": f"uniform where the circle around it is {GAP} from the others and the "
            "walls, 0.12 from inlet and outlet",
            "swap": "flow reversed: only on request",
        }

    @property
    def units(self) -> Mapping[str, str]:
        """SI; the angle of the step in degrees, those of squares in radians."""
        return {**UNITS_AIR, "start": "m", "angle": "deg", "obstacles": "1", "squares": "1"}

    def draw(
        self,
        split: Split,
        generator: np.random.Generator,
        axis: tuple[str, float] | None = None,
        swap: bool = False,
    ) -> Case:
        """A random case, with the axes of the family's choice."""
        sizes = self.choose(split, generator, axis)
        start = float(generator.uniform(RAMP_ENDS[0], sizes.length - RUN - RAMP_ENDS[1]))
        channel = Channel(sizes.length, sizes.angle, start if sizes.angle > 0 else 0.0)
        squares = list(sizes.squares)
        obstacles, tries = place(generator, squares, RADIUS, channel.walls, channel.length)
        return Case(
            family=self.name,
            split=split,
            shape=channel.shape(obstacles, swap).to_dict(),
            parameters={
                "length": channel.length,
                "angle": channel.angle,
                "start": channel.start,
                **numbers_of(obstacles),
                "swap": int(swap),
                "tries": tries,
            },
            axes={
                "obstacles": len(squares),
                "squares": float(np.mean(squares)),
                "length": channel.length,
                "angle": channel.angle,
            },
        )

    def mesh(self, case: Case, level: Level) -> Mesh:
        """The mesh that is stored."""
        return channel_mesh(Shape.from_dict(case.shape), level)

    def solve(self, case: Case, level: Level, *, times: int = 1) -> Record:
        """P2/P1 on the mesh refined ``times``, restricted to the stored vertices."""
        check_case(self.name, case)
        inflow = inflow_through(Shape.from_dict(case.shape), SPEED)
        return solve_channel(case, level, AIR, inflow, times)
