r"""From shapes and CAD files to meshes: the one module that speaks to gmsh.

``triangulate`` meshes a :class:`Shape` or :class:`Solid` with the cell size

.. math:: h(x) = 2^{-l} \min( h_0, \; h_0 / c + g \, d(x), \; 2 \pi \rho(x) / n )

l the level (0, 1, 2), :math:`h_0` the size asked for, d the distance to the nearest reentrant
corner, c ``corner_refinement``, :math:`\rho` the radius of curvature of a boundary curve and n
``curve_points``. Only the size depends on l, not the geometry: nodes on an arc lie on its circle at
every level.

Kept: one shape, one size and one seed give one mesh, in every process (one thread, fixed seed); the
boundary facets carry the shape's names and no facet is without one. Shapes go through gmsh in units
of a power of two near their diameter, for the CAD kernel has an absolute tolerance of 1e-7.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from geonew.errors import ShapeError
from geonew.mesh import Mesh
from geonew.shape.curves import Arc, Number, Point, PointLike, Segment, Spline
from geonew.shape.shape import Loop, Shape
from geonew.shape.solids import Ball, Body, Box, Cylinder, Solid

Level = Literal["coarse", "medium", "fine"]
LEVELS: tuple[Level, ...] = ("coarse", "medium", "fine")

# Growth of the cell size with the distance to a reentrant corner: neighbours differ by about 30 %.
GROWTH = 0.3
# Nodes per full turn of a curve, by dimension: the area of a disc is then off by 1.1 %, and the
# volume of a ball costs no more than what fits a laptop.
CURVE_POINTS = {2: 24, 3: 12}
# No sub-arc handed to gmsh is longer: it finds the sense of an arc below pi from its end points.
LONGEST_ARC = 2 * np.pi / 3
# A boundary node lies on a named face of a body if it misses it by less than this fraction of the
# solid's diameter; gmsh puts nodes on surfaces to about 1e-12.
FACE_TOLERANCE = 1e-7

# One thread, no random state but the seed, no configuration file, no output.
_OPTIONS = {
    "General.Terminal": 0,
    "General.NumThreads": 1,
    "Mesh.MaxNumThreads1D": 1,
    "Mesh.MaxNumThreads2D": 1,
    "Mesh.MaxNumThreads3D": 1,
    "Mesh.Algorithm": 6,  # frontal Delaunay: the best shaped triangles
    "Mesh.Algorithm3D": 1,  # Delaunay
    "Mesh.ElementOrder": 1,
    "Mesh.MeshSizeFromPoints": 1,
    "Mesh.MeshSizeExtendFromBoundary": 1,
    "Mesh.MeshSizeFromCurvature": 0,
    "Mesh.MeshSizeMin": 0,
    "Mesh.MeshSizeMax": 1e22,
    "Mesh.MeshSizeFactor": 1,
    "Mesh.RandomSeed": 1,
    "Mesh.RecombineAll": 0,
    "Mesh.Optimize": 1,
}

_LOCK = threading.Lock()  # gmsh is one global state in a process


def triangulate(
    shape: Shape | Solid,
    size: Number,
    *,
    level: Level = "coarse",
    corner_refinement: Number = 4.0,
    curve_points: int | None = None,
    seed: int = 0,
) -> Mesh:
    """Mesh of a shape or solid; see the module docstring for the cell size.

    Args:
        shape: the domain.
        size: largest edge length, about, of the coarse level.
        level: "coarse", "medium" or "fine": the size field times 1, 1/2 or 1/4.
        corner_refinement: cells at a reentrant corner of a ``Shape`` are this many times smaller.
        curve_points: nodes on a full turn of a curve, at least (0: curves do not matter); 24 for a
            shape and 12 for a solid if not given.
        seed: of the mesher's tiny random perturbations.

    """
    if not isinstance(shape, Shape | Solid):
        raise ShapeError(
            f"cannot mesh a {type(shape).__name__}",
            "give a Shape or a Solid; a loop becomes a shape by Shape(loop)",
        )
    if curve_points is None:
        curve_points = CURVE_POINTS[2 if isinstance(shape, Shape) else 3]
    _check_settings(size, level, corner_refinement, curve_points, seed)
    factor = 2.0 ** -LEVELS.index(level)
    unit = _Unit.around(shape.bounds)
    cure = "look for boundaries that touch or nearly touch, or choose a smaller cell size"
    with session(f"the {type(shape).__name__.lower()}", cure) as gmsh:
        gmsh.option.setNumber("Mesh.RandomSeed", seed + 1)
        gmsh.option.setNumber("Mesh.MeshSizeFromPoints", 0)
        gmsh.option.setNumber("Mesh.MeshSizeMax", factor * size / unit.length)
        gmsh.option.setNumber("Mesh.MeshSizeFromCurvature", curve_points / factor)
        if isinstance(shape, Shape):
            names = _build_shape(gmsh, shape, unit)
            _grade_corners(gmsh, shape, unit, size, corner_refinement, factor)
            gmsh.model.mesh.generate(2)
        else:
            _build_solid(gmsh, shape, unit)
            gmsh.model.mesh.generate(3)
            names = _name_faces(gmsh, shape, unit)
        dim = 2 if isinstance(shape, Shape) else 3
        domain = [tag for _, tag in gmsh.model.getEntities(dim)]
        points, cells, groups = simplices(gmsh, dim, domain, names)
    points = points[:, :dim] * unit.length + unit.origin
    order = [name for name in shape.names if name in groups]
    return Mesh(points, cells, {name: groups[name] for name in order})


def _check_settings(
    size: Number, level: str, corner_refinement: Number, curve_points: int, seed: int
) -> None:
    if not (np.isfinite(size) and size > 0):
        raise ShapeError(f"the cell size is {size}", "give a positive length in the shape's unit")
    if level not in LEVELS:
        raise ShapeError(f"the level is {level!r}", f"give one of {list(LEVELS)}")
    if not (np.isfinite(corner_refinement) and corner_refinement >= 1):
        raise ShapeError(
            f"corner_refinement is {corner_refinement}", "give 1 (no refinement) or more"
        )
    if curve_points < 0:
        raise ShapeError(f"curve_points is {curve_points}", "give 0 or more nodes per full turn")
    if seed < 0:
        raise ShapeError(f"the seed is {seed}", "give 0 or more")


# -- the session -------------------------------------------------------------------------------


@contextmanager
def session(what: str, cure: str) -> Iterator[Any]:
    """A silent, reproducible gmsh with an empty model, cleared up whatever happens.

    Threads wait for each other. A gmsh that the program has open already is borrowed: it gets its
    own model and its options back. gmsh's errors become a :class:`ShapeError` in gmsh's words.
    """
    try:
        import gmsh
    except (
        ImportError,
        OSError,
    ) as error:  # OSError: a system library is missing
        raise ShapeError(
            f"meshing needs gmsh, which cannot be imported: {error}",
            "install it by: pip install 'geonew[data]'",
        ) from error
    with _LOCK:
        borrowed = bool(gmsh.isInitialized())
        if not borrowed:
            # interruptible=False: gmsh's own handler would replace Python's Ctrl-C for good
            gmsh.initialize(readConfigFiles=False, interruptible=False)
        before = gmsh.model.getCurrent() if borrowed else ""
        models = gmsh.model.list()
        kept = {key: gmsh.option.getNumber(key) for key in _OPTIONS}
        try:
            for key, value in _OPTIONS.items():
                gmsh.option.setNumber(key, value)
            gmsh.model.add("geonew")
            yield gmsh
        except Exception as error:
            if type(error) is not Exception:  # gmsh raises plain Exception, nobody else does
                raise
            raise ShapeError(
                f"gmsh cannot mesh {what}: {error}",
                cure,
            ) from error
        finally:
            if borrowed:
                for name in set(gmsh.model.list()) - set(models):
                    gmsh.model.setCurrent(name)
                    gmsh.model.remove()
                gmsh.model.setCurrent(before)
                for key, value in kept.items():
                    gmsh.option.setNumber(key, value)
            else:
                gmsh.finalize()


class _Unit:
    """Change of units: y = (x - origin) / length with a power of two, so nothing is rounded."""

    def __init__(self, origin: Float[ndarray, "d"], length: float) -> None:
        self.origin = origin
        self.length = length

    @classmethod
    def around(cls, bounds: Float[ndarray, "2 d"]) -> _Unit:
        diameter = float(np.ptp(bounds, axis=0).max())
        length = 2.0 ** np.round(np.log2(diameter))
        center = length * np.round(bounds.mean(axis=0) / length)
        # Near the origin no shift is needed, and without one coordinates come back unchanged.
        far = np.abs(center).max() > 8 * length
        return cls(center if far else np.zeros(bounds.shape[1]), length)

    def __call__(self, point: PointLike) -> list[float]:
        return [float(x) for x in (np.asarray(point) - self.origin) / self.length]


# -- plane shapes ------------------------------------------------------------------------------


def _build_shape(gmsh: Any, shape: Shape, unit: _Unit) -> dict[str, list[int]]:
    """The shape in the CAD kernel; returns the curves of each group."""
    names: dict[str, list[int]] = {}
    loops = [
        gmsh.model.occ.addCurveLoop(_build_loop(gmsh, loop, unit, names)) for loop in shape.loops
    ]
    gmsh.model.occ.addPlaneSurface(loops)
    gmsh.model.occ.synchronize()
    return names


def _build_loop(gmsh: Any, loop: Loop, unit: _Unit, names: dict[str, list[int]]) -> list[int]:
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


def _grade_corners(
    gmsh: Any, shape: Shape, unit: _Unit, size: Number, refinement: Number, factor: float
) -> None:
    """Size field h_0 / c + g d around the reentrant corners, up to h_0."""
    if refinement == 1 or not shape.reentrant_corners:
        return
    wanted = np.array([unit(corner) for corner in shape.reentrant_corners])
    tags = [tag for _, tag in gmsh.model.getEntities(0)]
    at = np.array([gmsh.model.getValue(0, tag, [])[:2] for tag in tags])
    apart = np.linalg.norm(wanted[:, None] - at[None], axis=2)
    field, h = gmsh.model.mesh.field, size / unit.length
    distance = field.add("Distance")
    field.setNumbers(distance, "PointsList", [tags[k] for k in apart.argmin(axis=1)])
    threshold = field.add("Threshold")
    settings = {
        "InField": distance,
        "SizeMin": factor * h / refinement,
        "SizeMax": factor * h,
        "DistMin": 0,
        "DistMax": h * (1 - 1 / refinement) / GROWTH,
    }
    for key, value in settings.items():
        field.setNumber(threshold, key, value)
    field.setAsBackgroundMesh(threshold)


# -- solids ------------------------------------------------------------------------------------


def _build_solid(gmsh: Any, solid: Solid, unit: _Unit) -> None:
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


def _build_body(occ: Any, body: Body, unit: _Unit) -> int:
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


def _name_faces(gmsh: Any, solid: Solid, unit: _Unit) -> dict[str, list[int]]:
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


# -- from gmsh to arrays -----------------------------------------------------------------------


def simplices(
    gmsh: Any, dim: int, domain: Sequence[int], names: Mapping[str, Sequence[int]]
) -> tuple[ndarray, ndarray, dict[str, ndarray]]:
    """Points, cells of the domain's entities, and facets of each group; node numbers from 0."""
    tags, coordinates, _ = gmsh.model.mesh.getNodes()
    kind = {1: 1, 2: 2, 3: 4}  # gmsh's numbers of segment, triangle, tetrahedron

    def elements(d: int, entities: Sequence[int]) -> ndarray:
        found = [gmsh.model.mesh.getElementsByType(kind[d], tag)[1] for tag in entities]
        return np.concatenate([np.empty(0, np.int64), *found]).astype(np.int64).reshape(-1, d + 1)

    cells = elements(dim, domain)
    if not len(cells):
        raise ShapeError("gmsh made no cells", "choose a smaller cell size")
    facets = {name: elements(dim - 1, entities) for name, entities in names.items()}
    used = np.unique(cells)
    at = np.zeros(int(tags.max()) + 1, dtype=np.int64)
    at[tags.astype(np.int64)] = np.arange(len(tags))
    points = coordinates.reshape(-1, 3)[at[used]]
    return (
        points,
        np.searchsorted(used, cells),
        {name: np.searchsorted(used, f) for name, f in facets.items()},
    )
