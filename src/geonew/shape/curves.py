r"""Curve pieces: straight segments, circular arcs and cubic splines, each with a group name.

A piece is a map :math:`\gamma: [0, 1] \to R^2`, kept as the curve it is and never as a polygon, so
that a finer mesh lies on the same geometry. The area of a closed chain of pieces is a sum over its
pieces (Green),

.. math:: |\Omega| = \sum_p \frac12 \int_0^1 (\gamma_1 \gamma_2' - \gamma_2 \gamma_1') \, dt,

which each piece gives exactly, up to round-off.

A spline is the C^2 cubic interpolant in chord-length parametrisation: natural at its ends, or
periodic if its last point is its first. It is handed to the mesher as a B-spline with the same
knots and coefficients, hence the curve meshed and the curve checked are one curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.interpolate import BSpline, CubicSpline, make_interp_spline

from geonew.errors import ShapeError

Point = tuple[float | int, float | int]
Number = float | int | np.floating | np.integer
PointLike = Sequence[Number] | ndarray

# Chords per full turn (arc) and per interval (spline) in the polygon that stands for a curve in
# checks: an arc then differs from its polygon by at most 0.05 % of its radius.
CHORDS_PER_TURN = 96
CHORDS_PER_INTERVAL = 12

# Gauss-Legendre points per spline interval: x y' has degree 5 there, three points are exact.
_GAUSS = np.polynomial.legendre.leggauss(3)


@dataclass(frozen=True)
class Segment:
    """Straight line from ``start`` to ``end``."""

    start: Point
    end: Point
    name: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", as_point(self.start, "segment start"))
        object.__setattr__(self, "end", as_point(self.end, "segment end"))
        _check_name(self.name, "segment")
        if self.start == self.end:
            raise ShapeError(
                f"segment {self.name!r} has length 0 at {self.start}",
                "drop the repeated point",
            )

    def reversed(self) -> Segment:
        """The same curve, run backwards."""
        return Segment(self.end, self.start, self.name)

    def polygon(self) -> Float[ndarray, "n 2"]:
        """Points along the curve, both ends included."""
        return np.array([self.start, self.end])

    def tangents(self) -> Float[ndarray, "2 2"]:
        """Unit tangents at the start and at the end."""
        along = np.subtract(self.end, self.start)
        return np.tile(along / np.linalg.norm(along), (2, 1))

    def area(self) -> float:
        """Green's integral of this piece."""
        return (self.start[0] * self.end[1] - self.start[1] * self.end[0]) / 2

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"kind": "segment", "start": self.start, "end": self.end, "name": self.name}


@dataclass(frozen=True)
class Arc:
    """Circular arc from ``angle`` through the signed angle ``sweep`` (radians, at most 2 pi)."""

    center: Point
    radius: float | int
    angle: float | int
    sweep: float | int
    name: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "center", as_point(self.center, "arc center"))
        _check_name(self.name, "arc")
        numbers = [float(self.radius), float(self.angle), float(self.sweep)]
        for key, value in zip(("radius", "angle", "sweep"), numbers, strict=True):
            object.__setattr__(self, key, value)
        if not np.isfinite(numbers).all() or self.radius <= 0:
            raise ShapeError(
                f"arc {self.name!r} has radius {self.radius}, angle {self.angle} and sweep "
                f"{self.sweep}",
                "give a positive radius and finite angles in radians",
            )
        # One part in 1e12 more than a turn is round-off of a sum of angles, not an overlap.
        if not 0 < abs(self.sweep) <= 2 * np.pi * (1 + 1e-12):
            raise ShapeError(
                f"arc {self.name!r} sweeps {self.sweep:.6g} rad; allowed is more than 0, at most "
                f"{2 * np.pi:.6g}",
                "angles are in radians; for a whole circle use disc(center, radius, name)",
            )

    @property
    def is_circle(self) -> bool:
        """Whether the arc is a whole turn."""
        return bool(abs(abs(self.sweep) - 2 * np.pi) <= 1e-12 * 2 * np.pi)

    @cached_property
    def start(self) -> Point:
        """First point."""
        return self._at(0.0)

    @cached_property
    def end(self) -> Point:
        """Last point; a whole circle ends exactly where it starts."""
        return self.start if self.is_circle else self._at(1.0)

    def _at(self, t: float) -> Point:
        phi = self.angle + t * self.sweep
        return (
            self.center[0] + self.radius * float(np.cos(phi)),
            self.center[1] + self.radius * float(np.sin(phi)),
        )

    def points(self, n: int) -> Float[ndarray, "_ 2"]:
        """Ends of n equal sub-arcs."""
        inner = [self._at(k / n) for k in range(1, n)]
        return np.array([self.start, *inner, self.end])

    def reversed(self) -> Arc:
        """The same curve, run backwards."""
        return Arc(self.center, self.radius, self.angle + self.sweep, -self.sweep, self.name)

    def polygon(self) -> Float[ndarray, "n 2"]:
        """Points along the curve, both ends included."""
        return self.points(max(2, int(np.ceil(CHORDS_PER_TURN * abs(self.sweep) / (2 * np.pi)))))

    def tangents(self) -> Float[ndarray, "2 2"]:
        """Unit tangents at the start and at the end."""
        phi = np.array([self.angle, self.angle + self.sweep])
        return np.sign(self.sweep) * np.stack([-np.sin(phi), np.cos(phi)], axis=1)

    def area(self) -> float:
        """Green's integral of this piece."""
        (x, y), (x0, y0), (x1, y1) = self.center, self.start, self.end
        return (self.radius**2 * self.sweep + x * (y1 - y0) - y * (x1 - x0)) / 2

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "kind": "arc",
            "center": self.center,
            "radius": self.radius,
            "angle": self.angle,
            "sweep": self.sweep,
            "name": self.name,
        }


@dataclass(frozen=True)
class Spline:
    """C^2 cubic spline through ``points``; periodic if the last point repeats the first."""

    points: Sequence[Point]
    name: str

    def __post_init__(self) -> None:
        _check_name(self.name, "spline")
        points = tuple(as_point(p, f"point of spline {self.name!r}") for p in self.points)
        object.__setattr__(self, "points", points)
        least = 4 if self.is_closed else 3
        if len(points) < least:
            raise ShapeError(
                f"spline {self.name!r} has {len(points)} points; it needs at least {least}",
                "add points, or use a segment",
            )
        repeated = [k for k in range(1, len(points)) if points[k] == points[k - 1]]
        if repeated:
            raise ShapeError(
                f"spline {self.name!r} repeats point {repeated[0]} at {points[repeated[0]]}",
                "drop the repeated point",
            )

    @property
    def is_closed(self) -> bool:
        """Whether the spline is a loop by itself."""
        return len(self.points) > 1 and self.points[0] == self.points[-1]

    @property
    def start(self) -> Point:
        """First point."""
        return self.points[0]

    @property
    def end(self) -> Point:
        """Last point."""
        return self.points[-1]

    @cached_property
    def curve(self) -> BSpline:
        """The spline with clamped knots: its first and last coefficients are its end points."""
        points = np.array(self.points)
        chords = np.linalg.norm(np.diff(points, axis=0), axis=1)
        t = np.concatenate([[0.0], np.cumsum(chords)]) / chords.sum()
        smooth = CubicSpline(t, points, bc_type="periodic" if self.is_closed else "natural")
        # A cubic spline is fixed by its points and end slopes; this form of it has clamped knots.
        slopes: Any = ([(1, smooth(0.0, 1))], [(1, smooth(1.0, 1))])
        return make_interp_spline(t, points, k=3, bc_type=slopes)

    def parts(self) -> list[BSpline]:
        """The curve in parts with distinct ends: two if it is closed, or else one.

        A cubic spline between two of its knots is the one spline with these points and end slopes.
        """
        if not self.is_closed:
            return [self.curve]
        knots, half = np.unique(self.curve.t), (len(self.points) - 1) // 2
        points, slopes = np.array(self.points), self.curve(knots, 1)
        parts = []
        for a, b in ((0, half), (half, len(points) - 1)):
            ends: Any = ([(1, slopes[a])], [(1, slopes[b])])
            part = make_interp_spline(knots[a : b + 1], points[a : b + 1], k=3, bc_type=ends)
            parts.append(part)
        return parts

    def reversed(self) -> Spline:
        """The same curve, run backwards."""
        return Spline(tuple(self.points[::-1]), self.name)

    def polygon(self) -> Float[ndarray, "n 2"]:
        """Points along the curve, both ends included."""
        knots = np.unique(self.curve.t)
        fine = np.interp(
            np.linspace(0, len(knots) - 1, CHORDS_PER_INTERVAL * (len(knots) - 1) + 1),
            np.arange(len(knots)),
            knots,
        )
        points = self.curve(fine)
        points[[0, -1]] = self.start, self.end
        return points

    def tangents(self) -> Float[ndarray, "2 2"]:
        """Unit tangents at the start and at the end."""
        slopes = self.curve(np.array([0.0, 1.0]), 1)
        return slopes / np.linalg.norm(slopes, axis=1, keepdims=True)

    def area(self) -> float:
        """Green's integral of this piece."""
        knots = np.unique(self.curve.t)
        half, middle = np.diff(knots) / 2, (knots[1:] + knots[:-1]) / 2
        t = middle[:, None] + half[:, None] * _GAUSS[0]
        (x, y), (dx, dy) = np.moveaxis(self.curve(t), -1, 0), np.moveaxis(self.curve(t, 1), -1, 0)
        return float(((x * dy - y * dx) @ _GAUSS[1] * half).sum() / 2)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"kind": "spline", "points": self.points, "name": self.name}


Piece = Segment | Arc | Spline
KINDS: dict[str, type[Segment] | type[Arc] | type[Spline]] = {
    "segment": Segment,
    "arc": Arc,
    "spline": Spline,
}


def as_point(point: PointLike, what: str) -> Point:
    """Two finite floats, or a :class:`ShapeError` that says which point is wrong."""
    try:
        array = np.asarray(point, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.empty(0)
    if array.shape != (2,) or not np.isfinite(array).all():
        raise ShapeError(f"{what} is {point!r}", "give two finite numbers (x, y)")
    return (float(array[0]), float(array[1]))


def as_tuples(value: Any) -> Any:
    """Nested lists, as JSON gives them, as nested tuples."""
    return tuple(map(as_tuples, value)) if isinstance(value, list | tuple) else value


def _check_name(name: object, what: str) -> None:
    if not isinstance(name, str) or not name.strip():
        raise ShapeError(
            f"a {what} has the group name {name!r}",
            "name every piece of the boundary with a non-empty text, such as 'wall'",
        )
