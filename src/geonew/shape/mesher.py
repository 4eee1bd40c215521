r"""From shapes and CAD files to meshes: the one module that speaks to gmsh.

``triangulate`` meshes a :class:`Shape` or :class:`Solid` with the cell size

.. math:: h(x) = 2^{-l} \min( h_0, \; h_0 / c + \gamma d(x), \; 2 \pi \rho(x) / n, \; g(x) / m )

- l the level (0, 1, 2) and :math:`h_0` the size asked for,
- d the distance to the nearest reentrant corner, c ``corner_refinement``, :math:`\gamma` growth,
- :math:`\rho` the radius of curvature of a boundary curve, n ``curve_points``,
- g the width of a gap between two loops, m ``gap_cells`` (:mod:`geonew.shape.gaps`).

Only the size depends on l, not the geometry: nodes on an arc lie on its circle at every level.

Kept: one shape, one size and one seed give one mesh, in every process (one thread, fixed seed); the
boundary facets carry the shape's names and no facet is without one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
from numpy import ndarray

from geonew.errors import ShapeError
from geonew.mesh import Mesh
from geonew.shape.curves import Number
from geonew.shape.gaps import narrow_gaps
from geonew.shape.kernel import Unit, build_shape, build_solid, name_faces
from geonew.shape.shape import Shape
from geonew.shape.solids import Solid

Level = Literal["coarse", "medium", "fine"]
LEVELS: tuple[Level, ...] = ("coarse", "medium", "fine")

# Growth of the cell size with the distance to a reentrant corner: neighbours differ by about 30 %.
GROWTH = 0.3
# Cells in a gap are at most this many times smaller than elsewhere: a gap that is all but closed
# would take more cells than the rest of the domain.
GAP_LIMIT = 20
# Nodes per full turn of a curve, by dimension: the area of a disc is then off by 1.1 %, and the
# volume of a ball costs no more than what fits a laptop.
CURVE_POINTS = {2: 24, 3: 12}
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
    gap_cells: int = 2,
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
        gap_cells: cells across a narrow gap between two loops of a ``Shape``, at least (0: none).
        seed: of the mesher's tiny random perturbations.

    """
    if not isinstance(shape, Shape | Solid):
        raise ShapeError(
            f"cannot mesh a {type(shape).__name__}",
            "give a Shape or a Solid; a loop becomes a shape by Shape(loop)",
        )
    if curve_points is None:
        curve_points = CURVE_POINTS[2 if isinstance(shape, Shape) else 3]
    _check_settings(size, level, corner_refinement, curve_points, gap_cells, seed)
    factor = 2.0 ** -LEVELS.index(level)
    unit = Unit.around(shape.bounds)
    cure = "look for boundaries that touch or nearly touch, or choose a smaller cell size"
    with session(f"the {type(shape).__name__.lower()}", cure) as gmsh:
        gmsh.option.setNumber("Mesh.RandomSeed", seed + 1)
        gmsh.option.setNumber("Mesh.MeshSizeFromPoints", 0)
        gmsh.option.setNumber("Mesh.MeshSizeMax", factor * size / unit.length)
        gmsh.option.setNumber("Mesh.MeshSizeFromCurvature", curve_points / factor)
        if isinstance(shape, Shape):
            names = build_shape(gmsh, shape, unit)
            _grade_corners(gmsh, shape, unit, size, corner_refinement, factor)
            _grade_gaps(gmsh, shape, unit, size, gap_cells, factor)
            gmsh.model.mesh.generate(2)
        else:
            build_solid(gmsh, shape, unit)
            gmsh.model.mesh.generate(3)
            names = name_faces(gmsh, shape, unit)
        dim = 2 if isinstance(shape, Shape) else 3
        domain = [tag for _, tag in gmsh.model.getEntities(dim)]
        points, cells, groups = simplices(gmsh, dim, domain, names)
    points = points[:, :dim] * unit.length + unit.origin
    order = [name for name in shape.names if name in groups]
    return Mesh(points, cells, {name: groups[name] for name in order})


def _check_settings(
    size: Number,
    level: str,
    corner_refinement: Number,
    curve_points: int,
    gap_cells: int,
    seed: int,
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
    if gap_cells < 0:
        raise ShapeError(f"gap_cells is {gap_cells}", "give 0 (gaps do not matter) or more")
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


# -- size -------------------------------------------------------------------------------------


def _grade_corners(
    gmsh: Any, shape: Shape, unit: Unit, size: Number, refinement: Number, factor: float
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


def _grade_gaps(
    gmsh: Any, shape: Shape, unit: Unit, size: Number, cells: int, factor: float
) -> None:
    """Size g / m at narrow gaps between loops, growing away from them."""
    if cells == 0:
        return
    points, widths = narrow_gaps(shape, float(size) * cells)
    if not len(points):
        return
    x, y = ((points - unit.origin) / unit.length).T
    least = factor * np.maximum(widths / cells, float(size) / GAP_LIMIT) / unit.length

    def smaller(dim: int, tag: int, px: float, py: float, pz: float, h: float) -> float:
        return min(h, float((least + factor * GROWTH * np.hypot(x - px, y - py)).min()))

    gmsh.model.mesh.setSizeCallback(smaller)


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
        raise ShapeError(
            "gmsh made no cells", "look for boundaries that cross, or choose a smaller cell size"
        )
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
