r"""The shape: a plane domain bounded by closed loops of named curve pieces.

:math:`\Omega` is the inside of the outer loop without the closed insides of the holes. The outer
loop runs counterclockwise and the holes clockwise, hence the domain lies to the left of every
piece and

.. math:: |\Omega| = \sum_{loops} \sum_{pieces} \frac12 \int \gamma \times \gamma' \, dt .

A ``Shape`` is checked when it is built: loops closed and simple, holes inside the outer loop and
apart from each other. Curves are checked through their polygons (:mod:`geonew.shape.curves`), so
two curves nearer than 0.05 % of their radius may pass here and be refused by the mesher.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from geonew.errors import ShapeError
from geonew.shape.curves import (
    KINDS,
    Arc,
    Number,
    Piece,
    Point,
    PointLike,
    Segment,
    Spline,
    as_point,
    as_tuples,
)

# Pieces join where their ends agree to this fraction of the loop's diameter: far above the
# round-off of sines and cosines, far below any feature a mesh could resolve.
JOIN_TOLERANCE = 1e-9

# A boundary vertex whose interior angle exceeds pi by more than this (radians, 5 degrees) is a
# reentrant corner: the gradient of a harmonic function is singular there.
REENTRANT_ANGLE = np.radians(5.0)


@dataclass(frozen=True)
class Loop:
    """A closed chain of pieces, each starting where the one before ends."""

    pieces: Sequence[Piece]

    def __post_init__(self) -> None:
        pieces = tuple(self.pieces)
        object.__setattr__(self, "pieces", pieces)
        if not pieces:
            raise ShapeError("a loop has no pieces", "give at least one closed curve")
        for k, piece in enumerate(pieces):
            if not isinstance(piece, Segment | Arc | Spline):
                raise ShapeError(
                    f"piece {k} of a loop is a {type(piece).__name__}",
                    "a loop is made of Segment, Arc and Spline",
                )
        size = float(np.ptp(self.polygon, axis=0).max())
        for k, piece in enumerate(pieces):
            after = pieces[(k + 1) % len(pieces)]
            gap = float(np.hypot(*np.subtract(piece.end, after.start)))
            if gap > JOIN_TOLERANCE * size:
                raise ShapeError(
                    f"loop {list(self.names)} is open: piece {k} ends at {piece.end}, piece "
                    f"{(k + 1) % len(pieces)} starts at {after.start}, {gap:.3g} apart",
                    "let every piece start where the one before it ends",
                )

    @property
    def names(self) -> tuple[str, ...]:
        """Group names in order of appearance, each once."""
        return tuple(dict.fromkeys(piece.name for piece in self.pieces))

    @cached_property
    def polygon(self) -> Float[ndarray, "n 2"]:
        """The loop as a polygon, without repeating the first point."""
        return np.concatenate([piece.polygon()[:-1] for piece in self.pieces])

    @cached_property
    def area(self) -> float:
        """Signed area inside: positive if the loop runs counterclockwise. Exact."""
        return sum(piece.area() for piece in self.pieces)

    def reversed(self) -> Loop:
        """The same loop, run backwards."""
        return Loop(tuple(piece.reversed() for piece in reversed(self.pieces)))

    def named(self, name: str) -> Loop:
        """The same loop with every piece in one group."""
        return Loop(tuple(replace(piece, name=name) for piece in self.pieces))

    def _dicts(self) -> list[dict[str, Any]]:
        return [piece.to_dict() for piece in self.pieces]


@dataclass(frozen=True)
class Shape:
    """A plane domain: inside ``outer``, outside ``holes``; see the module docstring.

    Args:
        outer: the outer loop, in either orientation.
        holes: loops inside it, in either orientation.

    """

    outer: Loop
    holes: Sequence[Loop] = ()

    def __post_init__(self) -> None:
        holes = tuple(self.holes)
        for label, loop in _labelled(self.outer, holes):
            if not isinstance(loop, Loop):
                raise ShapeError(
                    f"{label} is a {type(loop).__name__}",
                    "build loops with rectangle, polygon, disc, star, spline_loop or Loop",
                )
            _check_simple(label, loop)
        object.__setattr__(
            self, "outer", self.outer if self.outer.area > 0 else self.outer.reversed()
        )
        object.__setattr__(self, "holes", tuple(h if h.area < 0 else h.reversed() for h in holes))
        _check_nested(self.outer, self.holes)

    @property
    def loops(self) -> tuple[Loop, ...]:
        """Outer loop first, then the holes."""
        return (self.outer, *self.holes)

    @property
    def names(self) -> tuple[str, ...]:
        """Group names in order of appearance, each once."""
        return tuple(dict.fromkeys(name for loop in self.loops for name in loop.names))

    @property
    def area(self) -> float:
        """Area of the domain, exact for all kinds of pieces."""
        return sum(loop.area for loop in self.loops)

    @property
    def bounds(self) -> Float[ndarray, "2 2"]:
        """Lower and upper corner of the box around the domain (around its polygon, for curves)."""
        return np.stack([self.outer.polygon.min(axis=0), self.outer.polygon.max(axis=0)])

    @cached_property
    def reentrant_corners(self) -> tuple[Point, ...]:
        """Boundary vertices with an interior angle above pi."""
        corners = []
        for loop in self.loops:
            for k, piece in enumerate(loop.pieces):
                before, after = loop.pieces[k - 1].tangents()[1], piece.tangents()[0]
                turn = np.arctan2(before[0] * after[1] - before[1] * after[0], before @ after)
                # The domain is on the left: a turn to the right opens an angle above pi. A cusp
                # turns by pi, whose sign is round-off; refining there too does no harm.
                if turn < -REENTRANT_ANGLE or turn > np.pi - 1e-6:
                    corners.append(piece.start)
        return tuple(corners)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; :meth:`from_dict` gives an equal shape back."""
        return {
            "kind": "shape",
            "outer": self.outer._dicts(),
            "holes": [hole._dicts() for hole in self.holes],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Shape:
        """A shape from :meth:`to_dict`, checked again; unknown keys are refused."""
        if set(data) != {"kind", "outer", "holes"} or data["kind"] != "shape":
            raise ShapeError(
                f"this is no stored shape: its keys are {sorted(map(str, data))}",
                "a shape has the keys kind = 'shape', outer and holes",
            )
        return cls(_loop(data["outer"]), tuple(_loop(hole) for hole in data["holes"]))


def _loop(pieces: Sequence[Mapping[str, Any]]) -> Loop:
    made = []
    for number, piece in enumerate(pieces):
        fields: dict[str, Any] = {key: as_tuples(value) for key, value in piece.items()}
        kind = KINDS.get(fields.pop("kind", ""))
        expected = set(kind.__dataclass_fields__) if kind else set()
        if kind is None or set(fields) != expected:
            raise ShapeError(
                f"stored piece {number} has kind {piece.get('kind')!r} and keys {sorted(fields)}",
                f"kinds are {sorted(KINDS)}, each with exactly its own keys {sorted(expected)}",
            )
        made.append(kind(**fields))
    return Loop(tuple(made))


# -- loops people want -------------------------------------------------------------------------


def polygon(points: Sequence[PointLike] | ndarray, name: str | Sequence[str]) -> Loop:
    """Straight sides through ``points``; side k runs from point k to the next and has name k."""
    corners = [as_point(p, f"polygon point {k}") for k, p in enumerate(points)]
    if len(corners) > 1 and corners[0] == corners[-1]:  # many people repeat the first point
        corners.pop()
    if len(corners) < 3:
        raise ShapeError(f"a polygon has {len(corners)} distinct points", "give at least three")
    names = [name] * len(corners) if isinstance(name, str) else list(name)
    if len(names) != len(corners):
        raise ShapeError(
            f"a polygon with {len(corners)} sides got {len(names)} names",
            "give one name for all sides or one for each",
        )
    ends = [*corners[1:], corners[0]]
    return Loop(tuple(Segment(a, b, n) for a, b, n in zip(corners, ends, names, strict=True)))


def rectangle(
    lower: PointLike,
    upper: PointLike,
    name: str | Sequence[str] = "wall",
) -> Loop:
    """Axis-parallel rectangle between two corners; four names go to bottom, right, top, left."""
    (x0, y0), (x1, y1) = as_point(lower, "lower corner"), as_point(upper, "upper corner")
    if not (x0 < x1 and y0 < y1):
        raise ShapeError(
            f"a rectangle goes from {(x0, y0)} to {(x1, y1)}",
            "give the lower left corner first and the upper right corner second",
        )
    return polygon([(x0, y0), (x1, y0), (x1, y1), (x0, y1)], name)


def disc(center: PointLike, radius: Number, name: str = "wall") -> Loop:
    """A circle."""
    return Loop((Arc(as_point(center, "center"), float(radius), 0.0, 2 * np.pi, name),))


def regular_polygon(
    center: PointLike,
    radius: Number,
    sides: int,
    name: str | Sequence[str] = "wall",
    angle: Number = 0.0,
) -> Loop:
    """Regular polygon on a circle of the given radius, first corner at ``angle`` (radians)."""
    return _around(center, (radius,), sides, name, angle)


def star(
    center: PointLike,
    outer_radius: Number,
    inner_radius: Number,
    points: int,
    name: str | Sequence[str] = "wall",
    angle: Number = 0.0,
) -> Loop:
    """Star with tips at ``outer_radius``, notches at ``inner_radius``, first tip at ``angle``."""
    return _around(center, (outer_radius, inner_radius), points, name, angle)


def _around(
    center: PointLike,
    radii: tuple[Number, ...],
    times: int,
    name: str | Sequence[str],
    angle: Number,
) -> Loop:
    """Polygon whose corners go round the center, taking the radii in turn."""
    if times < 3 or not all(0 < r < np.inf for r in radii):
        raise ShapeError(
            f"a star or regular polygon has {times} tips and radii {radii}",
            "give at least three tips and positive radii",
        )
    n = times * len(radii)
    phi = angle + 2 * np.pi * np.arange(n) / n
    rays = (
        np.stack([np.cos(phi), np.sin(phi)], axis=1)
        * np.tile(np.array(radii, dtype=np.float64), times)[:, None]
    )
    return polygon(np.array(as_point(center, "center")) + rays, name)


def spline_loop(points: Sequence[PointLike] | ndarray, name: str = "wall") -> Loop:
    """Closed smooth curve through ``points`` (the first need not be repeated)."""
    through = [as_point(p, f"spline point {k}") for k, p in enumerate(points)]
    if through and through[0] != through[-1]:
        through.append(through[0])
    return Loop((Spline(tuple(through), name),))


# -- checks ------------------------------------------------------------------------------------


def _labelled(outer: Loop, holes: Sequence[Loop]) -> list[tuple[str, Loop]]:
    return [("the outer loop", outer), *((f"hole {k}", hole) for k, hole in enumerate(holes))]


def _check_simple(label: str, loop: Loop) -> None:
    hit = _crossing(loop.polygon, loop.polygon, same=True)
    if hit is not None:
        raise ShapeError(
            f"{label} (groups {list(loop.names)}) crosses or touches itself near "
            f"({hit[0]:.6g}, {hit[1]:.6g})",
            "order the points along the boundary, or split the domain",
        )
    if loop.area == 0:
        raise ShapeError(
            f"{label} (groups {list(loop.names)}) encloses no area", "give a loop with an inside"
        )


def _check_nested(outer: Loop, holes: Sequence[Loop]) -> None:
    for k, hole in enumerate(holes):
        hit = _crossing(hole.polygon, outer.polygon)
        if hit is None and not _inside(hole.polygon[:1], outer.polygon)[0]:
            hit = hole.polygon[0]
        if hit is not None:
            raise ShapeError(
                f"hole {k} (groups {list(hole.names)}) is not inside the outer loop: see near "
                f"({hit[0]:.6g}, {hit[1]:.6g})",
                "move or shrink the hole, or make it part of the outer loop",
            )
        for j in range(k):
            hit = _crossing(hole.polygon, holes[j].polygon)
            for a, b in ((hole, holes[j]), (holes[j], hole)):
                if hit is None and _inside(a.polygon[:1], b.polygon)[0]:
                    hit = a.polygon[0]
            if hit is not None:
                raise ShapeError(
                    f"holes {j} and {k} overlap or touch near ({hit[0]:.6g}, {hit[1]:.6g})",
                    "move them apart, or join them to one loop",
                )


def _crossing(a: ndarray, b: ndarray, same: bool = False) -> ndarray | None:
    """A point where two closed polygons meet, or None; neighbours of one polygon are let pass."""
    p, r = a, np.roll(a, -1, axis=0) - a
    q, s = b, np.roll(b, -1, axis=0) - b
    size = max(np.ptp(a, axis=0).max(), np.ptp(b, axis=0).max())
    for i in range(len(a)):
        between = q - p[i]
        denominator = r[i, 0] * s[:, 1] - r[i, 1] * s[:, 0]
        length = np.hypot(*r[i])
        parallel = np.abs(denominator) <= 1e-12 * length * np.hypot(s[:, 0], s[:, 1])
        with np.errstate(divide="ignore", invalid="ignore"):
            t = (between[:, 0] * s[:, 1] - between[:, 1] * s[:, 0]) / denominator
            u = (between[:, 0] * r[i, 1] - between[:, 1] * r[i, 0]) / denominator
        edge = JOIN_TOLERANCE  # a touch counts as a crossing
        meets = ~parallel & (t >= -edge) & (t <= 1 + edge) & (u >= -edge) & (u <= 1 + edge)
        # Parallel segments meet if they lie on one line and their ranges along it overlap.
        offset = np.abs(between[:, 0] * r[i, 1] - between[:, 1] * r[i, 0]) / length
        t0, t1 = between @ r[i] / length**2, (between + s) @ r[i] / length**2
        low, high = np.minimum(t0, t1), np.maximum(t0, t1)
        overlap = parallel & (offset <= edge * size) & (low < 1 - edge) & (high > edge)
        if same:
            n = len(a)
            neighbours = [(i - 1) % n, i, (i + 1) % n]
            meets[neighbours] = False  # they share a vertex; folding back is parallel overlap
            overlap[i] = False
        found = np.flatnonzero(meets | overlap)
        if found.size:
            k = found[0]
            return p[i] + (np.clip(t[k], 0, 1) if meets[k] else np.clip(low[k], 0, 1)) * r[i]
    return None


def _inside(points: ndarray, corners: ndarray) -> ndarray:
    """Whether each point lies inside a closed polygon (even number of crossings: outside)."""
    a, b = corners, np.roll(corners, -1, axis=0)
    x, y = points[:, :1], points[:, 1:]
    spans = (a[:, 1] > y) != (b[:, 1] > y)
    with np.errstate(divide="ignore", invalid="ignore"):
        at = a[:, 0] + (y - a[:, 1]) * (b[:, 0] - a[:, 0]) / (b[:, 1] - a[:, 1])
    return (spans & (x < at)).sum(axis=1) % 2 == 1
