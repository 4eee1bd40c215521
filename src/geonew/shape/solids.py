r"""The solid: a body in space with cavities cut out, its faces named.

.. math:: \Omega = B \setminus (C_1 \cup ... \cup C_n)

with simple bodies B, C_k: box, ball, cylinder, convex polyhedron. Each body names its faces, and a
piece of :math:`\partial\Omega` has the name of the face it lies on, whether a cut left it whole
or not. That is decided by geometry (``faces``): a point lies on a face if it satisfies the face's
equation and belongs to the closed body. A cavity may be closed inside, open to the
outside, or go through.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.spatial import ConvexHull, QhullError

from geonew.errors import ShapeError
from geonew.shape.curves import Number, PointLike, as_tuples

Point3 = tuple[float | int, float | int, float | int]
BOX_FACES = ("x_min", "x_max", "y_min", "y_max", "z_min", "z_max")


@dataclass(frozen=True)
class Box:
    """Axis-parallel box; ``name`` is one name, or six for x_min, x_max, y_min, ..., z_max."""

    lower: Point3
    upper: Point3
    name: str | tuple[str, ...] = BOX_FACES

    def __post_init__(self) -> None:
        object.__setattr__(self, "lower", _as_point(self.lower, "lower corner of a box"))
        object.__setattr__(self, "upper", _as_point(self.upper, "upper corner of a box"))
        object.__setattr__(self, "name", _as_names(self.name, 6, "box"))
        if not all(a < b for a, b in zip(self.lower, self.upper, strict=True)):
            raise ShapeError(
                f"a box goes from {self.lower} to {self.upper}",
                "give the corner with the smaller coordinates first",
            )

    @property
    def names(self) -> tuple[str, ...]:
        """Name of each face."""
        return (self.name,) * 6 if isinstance(self.name, str) else self.name

    def faces(self, points: Float[ndarray, "n 3"]) -> Float[ndarray, "n 6"]:
        """Distance by which each point misses each face: its equation, or the closed body."""
        gaps = np.stack([np.array(self.lower) - points, points - np.array(self.upper)], axis=2)
        out = np.maximum(gaps.max(axis=(1, 2)), 0)
        return np.maximum(np.abs(gaps).reshape(len(points), 6), out[:, None])

    def extent(self) -> Float[ndarray, "2 3"]:
        """Lower and upper corner of the box around the body."""
        return np.array([self.lower, self.upper])


@dataclass(frozen=True)
class Ball:
    """Ball with one name for its sphere."""

    center: Point3
    radius: float | int
    name: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "center", _as_point(self.center, "center of a ball"))
        object.__setattr__(self, "radius", _as_length(self.radius, "radius of a ball"))
        object.__setattr__(self, "name", _as_names(self.name, 1, "ball"))

    @property
    def names(self) -> tuple[str, ...]:
        """Name of each face."""
        return (self.name,)

    def faces(self, points: Float[ndarray, "n 3"]) -> Float[ndarray, "n 1"]:
        """Distance by which each point misses the sphere."""
        return np.abs(np.linalg.norm(points - self.center, axis=1) - self.radius)[:, None]

    def extent(self) -> Float[ndarray, "2 3"]:
        """Lower and upper corner of the box around the body."""
        return np.array(self.center) + self.radius * np.array([[-1.0] * 3, [1.0] * 3])


@dataclass(frozen=True)
class Cylinder:
    """Cylinder from ``base`` along ``axis`` (its length is the height); names: side, base, top."""

    base: Point3
    axis: Point3
    radius: float | int
    name: str | tuple[str, ...] = ("side", "base", "top")

    def __post_init__(self) -> None:
        object.__setattr__(self, "base", _as_point(self.base, "base of a cylinder"))
        object.__setattr__(self, "axis", _as_point(self.axis, "axis of a cylinder"))
        object.__setattr__(self, "radius", _as_length(self.radius, "radius of a cylinder"))
        object.__setattr__(self, "name", _as_names(self.name, 3, "cylinder"))
        _as_length(float(np.linalg.norm(self.axis)), "height of a cylinder")

    @property
    def names(self) -> tuple[str, ...]:
        """Name of each face."""
        return (self.name,) * 3 if isinstance(self.name, str) else self.name

    def faces(self, points: Float[ndarray, "n 3"]) -> Float[ndarray, "n 3"]:
        """Distance by which each point misses each face: its equation, or the closed body."""
        height = np.linalg.norm(self.axis)
        along = (points - self.base) @ (np.array(self.axis) / height)
        radial = np.sqrt(np.maximum(((points - self.base) ** 2).sum(axis=1) - along**2, 0))
        gaps = np.stack([radial - self.radius, -along, along - height], axis=1)
        return np.maximum(np.abs(gaps), np.maximum(gaps.max(axis=1), 0)[:, None])

    def extent(self) -> Float[ndarray, "2 3"]:
        """Lower and upper corner of a box around the body."""
        ends = np.array([self.base, np.add(self.base, self.axis)])
        return np.array([ends.min(axis=0) - self.radius, ends.max(axis=0) + self.radius])


@dataclass(frozen=True)
class Polyhedron:
    """Convex polyhedron, the hull of ``vertices``, with one name for all its faces."""

    vertices: Sequence[Point3]
    name: str

    def __post_init__(self) -> None:
        vertices = tuple(_as_point(v, "vertex of a polyhedron") for v in self.vertices)
        object.__setattr__(self, "vertices", vertices)
        object.__setattr__(self, "name", _as_names(self.name, 1, "polyhedron"))
        try:
            corners = set(self._hull.vertices.tolist())
        except (QhullError, ValueError) as error:
            raise ShapeError(
                f"the {len(vertices)} vertices of polyhedron {self.name!r} have no convex hull "
                f"with volume",
                "give at least four vertices that do not lie in one plane",
            ) from error
        inside = [k for k in range(len(vertices)) if k not in corners]
        if inside:
            raise ShapeError(
                f"vertex {inside[0]} at {vertices[inside[0]]} of polyhedron {self.name!r} is no "
                f"corner of the convex hull",
                "only convex polyhedra are known: drop the vertex, or cut out several bodies",
            )

    @cached_property
    def _hull(self) -> ConvexHull:
        return ConvexHull(np.array(self.vertices))

    @cached_property
    def polygons(self) -> tuple[tuple[int, ...], ...]:
        """Faces as vertex numbers in order around each face; coplanar hull triangles are joined."""
        points = np.array(self.vertices)
        size = float(np.ptp(points, axis=0).max())
        found: dict[frozenset[int], ndarray] = {}
        for plane in self._hull.equations:
            distance = np.abs(points @ plane[:3] + plane[3])
            found.setdefault(frozenset(np.flatnonzero(distance <= 1e-9 * size).tolist()), plane[:3])
        rings = []
        for members, normal in found.items():
            ring = sorted(members)
            arms = points[ring] - points[ring].mean(axis=0)
            first = arms[0] / np.linalg.norm(arms[0])
            phi = np.arctan2(arms @ np.cross(normal, first), arms @ first)
            rings.append(tuple(ring[k] for k in np.argsort(phi)))
        return tuple(sorted(rings))

    @property
    def names(self) -> tuple[str, ...]:
        """Name of each face."""
        return (self.name,)

    def faces(self, points: Float[ndarray, "n 3"]) -> Float[ndarray, "n 1"]:
        """Distance by which each point misses the surface."""
        return np.abs((points @ self._hull.equations[:, :3].T + self._hull.equations[:, 3]).max(1))[
            :, None
        ]

    def extent(self) -> Float[ndarray, "2 3"]:
        """Lower and upper corner of the box around the body."""
        return np.array([np.min(self.vertices, axis=0), np.max(self.vertices, axis=0)])


Body = Box | Ball | Cylinder | Polyhedron
BODIES: dict[str, type[Box] | type[Ball] | type[Cylinder] | type[Polyhedron]] = {
    "box": Box,
    "ball": Ball,
    "cylinder": Cylinder,
    "polyhedron": Polyhedron,
}


@dataclass(frozen=True)
class Solid:
    """``body`` without ``cavities``; see the module docstring."""

    body: Body
    cavities: Sequence[Body] = ()

    def __post_init__(self) -> None:
        cavities = tuple(self.cavities)
        object.__setattr__(self, "cavities", cavities)
        for part in (self.body, *cavities):
            if not isinstance(part, Box | Ball | Cylinder | Polyhedron):
                raise ShapeError(
                    f"part of a solid is a {type(part).__name__}",
                    "a solid is made of Box, Ball, Cylinder and Polyhedron",
                )
        low, high = self.body.extent()
        for k, cavity in enumerate(cavities):
            lower, upper = cavity.extent()
            if (lower >= high).any() or (upper <= low).any():
                raise ShapeError(
                    f"cavity {k} (groups {sorted(set(cavity.names))}) from {lower.tolist()} to "
                    f"{upper.tolist()} lies outside the body",
                    "move it into the body, or leave it out",
                )

    @property
    def names(self) -> tuple[str, ...]:
        """Group names in order of appearance, each once."""
        return tuple(dict.fromkeys(n for part in (self.body, *self.cavities) for n in part.names))

    @property
    def bounds(self) -> Float[ndarray, "2 3"]:
        """Lower and upper corner of a box around the solid."""
        return self.body.extent()

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; :meth:`from_dict` gives an equal solid back."""
        return {
            "kind": "solid",
            "body": _body_dict(self.body),
            "cavities": [_body_dict(cavity) for cavity in self.cavities],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Solid:
        """A solid from :meth:`to_dict`, checked again; unknown keys are refused."""
        if set(data) != {"kind", "body", "cavities"} or data["kind"] != "solid":
            raise ShapeError(
                f"this is no stored solid: its keys are {sorted(map(str, data))}",
                "a solid has the keys kind = 'solid', body and cavities",
            )
        return cls(_body(data["body"]), tuple(_body(cavity) for cavity in data["cavities"]))


def _body_dict(body: Body) -> dict[str, Any]:
    kind = next(name for name, made in BODIES.items() if type(body) is made)
    return {"kind": kind} | {key: getattr(body, key) for key in body.__dataclass_fields__}


def _body(data: Mapping[str, Any]) -> Body:
    fields: dict[str, Any] = {k: as_tuples(v) for k, v in data.items() if k != "kind"}
    kind = BODIES.get(data.get("kind", ""))
    expected = set(kind.__dataclass_fields__) if kind else set()
    if kind is None or set(fields) != expected:
        raise ShapeError(
            f"a stored body has kind {data.get('kind')!r} and keys {sorted(fields)}",
            f"kinds are {sorted(BODIES)}, each with exactly its own keys {sorted(expected)}",
        )
    return kind(**fields)


def _as_point(point: PointLike, what: str) -> Point3:
    try:
        array = np.asarray(point, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.empty(0)
    if array.shape != (3,) or not np.isfinite(array).all():
        raise ShapeError(f"{what} is {point!r}", "give three finite numbers (x, y, z)")
    return (float(array[0]), float(array[1]), float(array[2]))


def _as_length(length: Number, what: str) -> float:
    if not (np.isfinite(length) and length > 0):
        raise ShapeError(f"{what} is {length}", "give a positive number")
    return float(length)


def _as_names(name: str | Sequence[str], faces: int, what: str) -> str | tuple[str, ...]:
    names = (name,) if isinstance(name, str) else tuple(name)
    texts = all(isinstance(n, str) and n.strip() for n in names)
    if not texts or (not isinstance(name, str) and (len(names) != faces or faces == 1)):
        raise ShapeError(
            f"a {what} has the group names {name!r}",
            "give one non-empty name" + (f", or one for each of its {faces} faces" * (faces > 1)),
        )
    return name if isinstance(name, str) else names
