r"""Shapes and solids in gmsh's CAD kernel, their named parts kept.

Everything is built in units of a power of two near the diameter, for the kernel has an absolute
tolerance of 1e-7; a power of two rounds nothing. An arc goes over as arcs, a spline as the B-spline
with the same knots and coefficients. The pieces of a shape are curves whose numbers are known; the
faces of a solid are known after the cuts only, by the bodies their nodes lie on.

``gmsh`` is handed in by :func:`geonew.shape.mesher.session`, never imported here.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from geonew.errors import ShapeError
from geonew.shape.curves import Arc, Point, PointLike, Segment, Spline
from geonew.shape.shape import Loop, Shape
from geonew.shape.solids import Ball, Body, Box, Cylinder, Solid

# No sub-arc handed to gmsh is longer: it finds the sense of an arc below pi from its end points.
LONGEST_ARC = 2 * np.pi / 3
# A boundary node lies on a named face of a body if it misses it by less than this fraction of the
# solid's diameter; gmsh puts nodes on surfaces to about 1e-12.
FACE_TOLERANCE = 1e-7


class Unit:
    """Change of units: y = (x - origin) / length with a power of two, so nothing is rounded."""

    def __init__(self, origin: Float[ndarray, "d"], length: float) -> None:
        self.origin = origin
        self.length = length

    @classmethod
    def around(cls, bounds: Float[ndarray, "2 d"]) -> Unit:
        """The unit for a domain in a box."""
        diameter = float(np.ptp(bounds, axis=0).max())
        length = 2.0 ** np.round(np.log2(diameter))
        center = length * np.round(bounds.mean(axis=0) / length)
        # Near the origin no shift is needed, and without one coordinates come back unchanged.
        far = np.abs(center).max() > 8 * length
        return cls(center if far else np.zeros(bounds.shape[1]), length)

    def __call__(self, point: PointLike) -> list[float]:
        """A point in this unit."""
        return [float(x) for x in (np.asarray(point) - self.origin) / self.length]


# -- plane shapes ------------------------------------------------------------------------------


def build_shape(gmsh: Any, shape: Shape, unit: Unit) -> dict[str, list[int]]:
    """The shape in the CAD kernel; returns the curves of each group."""
    names: dict[str, list[int]] = {}
    loops = [
        gmsh.model.occ.addCurveLoop(_build_loop(gmsh, loop, unit, names)) for loop in shape.loops
    ]
    gmsh.model.occ.addPlaneSurface(loops)
    gmsh.model.occ.synchronize()
    return names


def _build_loop(gmsh: Any, loop: Loop, unit: Unit, names: dict[str, list[int]]) -> list[int]:
    occ = gmsh.model.occ

    def vertex(point: Point | ndarray) -> int:
        return occ.addPoint(*unit(point), 0.0)

    starts = [vertex(piece.start) for piece in loop.pieces]
    curves, helpers = [], []
    for piece, first, last in zip(loop.pieces, starts, [*starts[1:], starts[0]], strict=True):
        if isinstance(piece, Segment):
            made = [occ.addLine(first, last)]
        elif isinstance(piece, Arc):
            n = int(np.ceil(abs(piece.sweep) / LONGEST_ARC - 1e-9))
            chain = [first, *(vertex(p) for p in piece.points(n)[1:-1]), last]
            helpers.append(center := vertex(piece.center))
            made = [occ.addCircleArc(a, center, b) for a, b in pairwise(chain)]
        else:
            made = _build_spline(occ, piece, first, last, vertex, helpers)
        names.setdefault(piece.name, []).extend(made)
        curves += made
    occ.remove([(0, tag) for tag in helpers])  # a lone point would become a node
    return curves


def _build_spline(
    occ: Any, spline: Spline, first: int, last: int, vertex: Any, helpers: list[int]
) -> list[int]:
    parts = spline.parts()
    joints = [first, *(vertex(part.c[0]) for part in parts[1:]), last]
    made = []
    for part, a, b in zip(parts, joints, joints[1:], strict=False):
        inner = [vertex(c) for c in part.c[1:-1]]
        helpers += inner
        knots, multiplicities = np.unique(part.t, return_counts=True)
        made.append(
            occ.addBSpline(
                [a, *inner, b],
                degree=3,
                knots=knots.tolist(),
                multiplicities=multiplicities.tolist(),
            )
        )
    return made


# -- solids ------------------------------------------------------------------------------------


def build_solid(gmsh: Any, solid: Solid, unit: Unit) -> None:
    """The solid in the CAD kernel, its cavities cut out."""
    body = _build_body(gmsh.model.occ, solid.body, unit)
    cavities = [(3, _build_body(gmsh.model.occ, cavity, unit)) for cavity in solid.cavities]
    if cavities:
        gmsh.model.occ.cut([(3, body)], cavities)
    gmsh.model.occ.synchronize()
    parts = len(gmsh.model.getEntities(3))
    if parts != 1:
        raise ShapeError(
            f"the solid falls into {parts} parts once its {len(cavities)} cavities are cut out",
            "make the cavities leave one connected body",
        )


def _build_body(occ: Any, body: Body, unit: Unit) -> int:
    length = unit.length
    if isinstance(body, Box):
        return occ.addBox(*unit(body.lower), *(np.subtract(body.upper, body.lower) / length))
    if isinstance(body, Ball):
        return occ.addSphere(*unit(body.center), body.radius / length)
    if isinstance(body, Cylinder):
        return occ.addCylinder(
            *unit(body.base), *(np.array(body.axis) / length), body.radius / length
        )
    corners = [occ.addPoint(*unit(v)) for v in body.vertices]
    lines: dict[tuple[int, int], int] = {}
    faces = []
    for ring in body.polygons:
        around = []
        for a, b in zip(ring, (*ring[1:], ring[0]), strict=True):
            if (b, a) not in lines and (a, b) not in lines:
                lines[a, b] = occ.addLine(corners[a], corners[b])
            around.append(lines[a, b] if (a, b) in lines else -lines[b, a])
        faces.append(occ.addPlaneSurface([occ.addCurveLoop(around)]))
    return occ.addVolume([occ.addSurfaceLoop(faces)])


def name_faces(gmsh: Any, solid: Solid, unit: Unit) -> dict[str, list[int]]:
    """The surfaces of each group, found by which face of which body their nodes lie on."""
    names: dict[str, list[int]] = {}
    tolerance = FACE_TOLERANCE * unit.length
    for _, tag in gmsh.model.getEntities(2):
        nodes = gmsh.model.mesh.getNodes(2, tag, includeBoundary=True)[1].reshape(-1, 3)
        at = nodes * unit.length + unit.origin
        missed = [
            (float(distance), name)
            for body in (solid.body, *solid.cavities)
            for distance, name in zip(body.faces(at).max(axis=0), body.names, strict=True)
        ]
        distance, name = min(missed, key=lambda pair: pair[0])
        if distance > tolerance:
            raise ShapeError(
                f"surface {tag} lies {distance:.3g} off the nearest face, {name!r}",
                "the bodies touch or nearly touch; move them apart",
            )
        first = next(name for d, name in missed if d <= tolerance)  # the body before its cavities
        names.setdefault(first, []).append(tag)
    lost = [k for k, cavity in enumerate(solid.cavities) if not set(cavity.names) & set(names)]
    if lost:
        raise ShapeError(
            f"cavity {lost[0]} (groups {list(solid.cavities[lost[0]].names)}) leaves no trace",
            "it lies outside the body or inside another cavity: leave it out",
        )
    return names
