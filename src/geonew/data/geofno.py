r"""The published sets of Geo-FNO: elasticity, airfoils, pipes, as ``.npy`` files.

======================  ==========================================================================
kind                    files (samples first unless said) and what is made of them
======================  ==========================================================================
``geofno-elasticity``   ``Random_UnitCell_XY_10`` (972, 2, n), ``sigma`` (972, n), ``rr`` (42, n):
                        a cloud of points per sample, triangulated (:mod:`geonew.data.cloud`);
                        one cavity, or the sample is refused
``geofno-naca``         ``NACA_Cylinder_X``, ``Y`` (n, 221, 51), ``Q`` (n, 5, 221, 51): a C-grid
                        around the airfoil, whose two sides meet in the wake; Mach is Q's last
``geofno-pipe``         ``Pipe_X``, ``Y`` (n, 129, 129), ``Q`` (n, F, 129, 129): F = 1, 2 or 3 for
                        u, (u, v) or (u, v, p)
======================  ==========================================================================

Groups come from rules: sides of the unit cell by coordinates, edges of a structured grid by their
index; the pipe's long direction and its inlet (least mean x) by geometry. Equations are not
declared, since the sets do not state theirs.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from geonew.data.cloud import ALPHA, triangulate_cloud
from geonew.data.recipe import Recipe, Source, boundary_of, load_array
from geonew.data.record import Case, Record
from geonew.errors import DataError
from geonew.mesh import Box, Mesh, Rest, boundary_components, label
from geonew.problem import Dirichlet, Field, FrameRule, Problem

# Points of a C-grid at the same place, relative to its extent: the sets are stored in float32.
SAME = 1e-6
# Samples whose fields give the reference values.
TYPICAL = 64


# -- elasticity ------------------------------------------------------------------------------------


def elasticity(recipe: Recipe) -> Source:
    """Unit cells with a cavity and their stress."""
    recipe.check("folder", "alpha")
    folder, alpha = recipe.place("folder"), recipe.number("alpha", ALPHA)
    points = load_array(folder / "Random_UnitCell_XY_10.npy")
    stress = load_array(folder / "Random_UnitCell_sigma_10.npy")
    radii_file = folder / "Random_UnitCell_rr_10.npy"
    radii = load_array(radii_file) if radii_file.exists() else np.zeros((0, points.shape[-1]))
    if points.ndim != 3 or points.shape[1] != 2 or stress.shape != points.shape[::2]:
        raise recipe.error(f"points have shape {points.shape}, stresses {stress.shape}", _SHAPES)
    if radii.ndim != 2 or radii.shape[1] != stress.shape[1]:
        raise recipe.error(f"radii have shape {radii.shape}", _SHAPES)
    chosen = recipe.span(stress.shape[1])
    problem = Problem(
        name=recipe.name,
        dim=2,
        fields=(Field("sigma", reference=_reference(stress[:, :TYPICAL]), level="reaction"),),
        groups=("bottom", "top", "side", "cavity"),
        dirichlet=(),
        harmonic=(("top", "bottom"),),
    )

    def record(sample: int) -> Record:
        number = chosen[sample]
        mesh = unit_cell(np.array(points[:, :, number], dtype=float), alpha)
        drawn = {f"r_{k}": float(r) for k, r in enumerate(radii[:, number])}
        case = Case(recipe.name, recipe.split, {"sample": number}, drawn, {})
        return Record(mesh, {"sigma": np.array(stress[:, number], dtype=float)}, {}, case)

    return Source(problem, len(chosen), record, lambda k: f"number {chosen[k]}")


def unit_cell(points: Float[ndarray, "N 2"], alpha: float = ALPHA) -> Mesh:
    """The mesh of a unit cell with one cavity from its points, groups by coordinates."""
    mesh = triangulate_cloud(points, alpha)
    parts = len(boundary_components(mesh))
    if parts != 2:
        raise DataError(
            f"the triangulated cell has {parts - 1} holes, not one cavity",
            f"give another alpha than {alpha:g} in the recipe",
        )
    (x0, y0), (x1, y1) = points.min(axis=0), points.max(axis=0)
    # Sides are found at the extremes of the cloud, which float32 moves a little.
    slack = SAME * float(np.ptp(points, axis=0).max())
    infinite = float("inf")
    sides = label(
        mesh,
        {
            "bottom": Box((-infinite, -infinite), (infinite, float(y0) + slack)),
            "top": Box((-infinite, float(y1) - slack), (infinite, infinite)),
            "left": Box((-infinite, -infinite), (float(x0) + slack, infinite)),
            "right": Box((float(x1) - slack, -infinite), (infinite, infinite)),
            "cavity": Rest(),
        },
    )
    return sides.renamed({"left": "side", "right": "side"})


# -- structured grids ------------------------------------------------------------------------------


def naca(recipe: Recipe) -> Source:
    """Airfoils: Mach number on C-grids."""
    recipe.check("folder")
    folder = recipe.place("folder")
    x, y, q = (load_array(folder / f"NACA_Cylinder_{name}.npy") for name in "XYQ")
    _check_grids(recipe, x, y, q)
    mach = q[:, -1] if q.ndim == 4 else q
    problem = Problem(
        name=recipe.name,
        dim=2,
        fields=(Field("mach", reference=_reference(mach[:TYPICAL])),),
        groups=("farfield", "outflow", "airfoil"),
        dirichlet=(Dirichlet("mach", "farfield"),),
        harmonic=(("farfield", "airfoil"),),
    )
    chosen = recipe.span(len(x))

    def record(sample: int) -> Record:
        number = chosen[sample]
        grid = np.stack([x[number], y[number]], axis=-1).astype(float)
        mesh, node = c_grid(grid)
        fields = {"mach": _gathered(np.array(mach[number], dtype=float), node)}
        case = Case(recipe.name, recipe.split, {"sample": number}, {}, {})
        return Record(mesh, fields, boundary_of(problem, mesh, fields, {}), case)

    return Source(problem, len(chosen), record, lambda k: f"number {chosen[k]}")


def pipe(recipe: Recipe) -> Source:
    """Pipes: velocity, and pressure where the set has it."""
    recipe.check("folder")
    folder = recipe.place("folder")
    x, y, q = (load_array(folder / f"Pipe_{name}.npy") for name in "XYQ")
    _check_grids(recipe, x, y, q)
    flow = q if q.ndim == 4 else q[:, None]
    count = flow.shape[1]
    if not 1 <= count <= 3:
        raise recipe.error(f"the fields have shape {q.shape}", "1 to 3 fields: u, v, p")
    speed = _reference(flow[:TYPICAL, : min(count, 2)])
    velocity = Field("u", reference=speed)
    if count > 1:
        velocity = Field("velocity", "vector", reference=speed, labels=("u", "v"))
    fields = [velocity]
    if count > 2:
        reference = _reference(flow[:TYPICAL, 2])
        fields.append(Field("pressure", reference=reference, level="reaction"))
    problem = Problem(
        name=recipe.name,
        dim=2,
        fields=tuple(fields),
        groups=("inlet", "wall", "outlet"),
        dirichlet=(Dirichlet(velocity.name, "inlet"), Dirichlet(velocity.name, "wall")),
        frame=(FrameRule("normal", "inlet"),) if count > 1 else (),
        harmonic=(("inlet", "outlet"),),
    )
    chosen = recipe.span(len(x))

    def record(sample: int) -> Record:
        number = chosen[sample]
        grid = np.stack([x[number], y[number]], axis=-1).astype(float)
        values = np.moveaxis(np.array(flow[number], dtype=float), 0, -1)
        grid, values = _along(grid, values)
        mesh, node = structured(
            grid, {"inlet": (0, 0), "outlet": (0, -1), "wall": (1, 0), "wall_": (1, -1)}
        )
        mesh = mesh.renamed({"wall_": "wall"})
        nodal = _gathered(values, node)
        found = {velocity.name: nodal[:, : min(count, 2)] if count > 1 else nodal[:, 0]}
        if count > 2:
            found["pressure"] = nodal[:, 2]
        found = {name: np.ascontiguousarray(v) for name, v in found.items()}
        case = Case(recipe.name, recipe.split, {"sample": number}, {}, {})
        return Record(mesh, found, boundary_of(problem, mesh, found, {}), case)

    return Source(problem, len(chosen), record, lambda k: f"number {chosen[k]}")


def c_grid(grid: Float[ndarray, "I J 2"]) -> tuple[Mesh, ndarray]:
    """A C-grid whose line j = 0 runs along the wake, around the airfoil and back.

    Returns the mesh, and for each point of the grid its node.
    """
    rows = grid.shape[0]
    numbers = np.arange(rows * grid.shape[1]).reshape(grid.shape[:2])
    size = float(np.ptp(grid.reshape(-1, 2), axis=0).max())
    gap = np.linalg.norm(grid[:, 0] - grid[::-1, 0], axis=1)
    joined = np.flatnonzero(gap[: rows // 2] <= SAME * size)
    if joined.size == 0:
        raise DataError(
            f"the two sides of the C-grid meet nowhere (nearest {gap[: rows // 2].min():.3g})",
            "give the grid as it was published, wake included",
        )
    same = numbers.ravel().copy()
    same[numbers[rows - 1 - joined, 0]] = numbers[joined, 0]
    edges = {"airfoil": (1, 0), "farfield": (1, -1), "outflow": (0, 0), "outflow_": (0, -1)}
    mesh, node = structured(grid, edges, same)
    return mesh.renamed({"outflow_": "outflow"}), node


def structured(
    grid: Float[ndarray, "I J 2"],
    edges: dict[str, tuple[int, int]],
    same: ndarray | None = None,
) -> tuple[Mesh, ndarray]:
    """Triangles of a structured grid, each quadrilateral cut along its shorter diagonal.

    Args:
        grid: coordinates.
        edges: group -> (axis, index) of the edge of the grid that it is; parts that joining points
            have moved inside are left out.
        same: for each point the point that it is one with.

    Returns:
        The mesh, and for each point of the grid its node.

    """
    points = grid.reshape(-1, 2)
    numbers = np.arange(len(points)).reshape(grid.shape[:2])
    same = np.arange(len(points)) if same is None else same
    a, b, c, d = (
        same[n.ravel()]
        for n in (numbers[:-1, :-1], numbers[1:, :-1], numbers[1:, 1:], numbers[:-1, 1:])
    )
    first = np.linalg.norm(points[a] - points[c], axis=1)
    second = np.linalg.norm(points[b] - points[d], axis=1)
    shorter = (first <= second)[:, None, None]
    cut = np.where(
        shorter,
        np.stack([np.stack([a, b, c], 1), np.stack([a, c, d], 1)], 1),
        np.stack([np.stack([a, b, d], 1), np.stack([b, c, d], 1)], 1),
    )
    cells = cut.reshape(-1, 3)
    used, flat = np.unique(cells, return_inverse=True)
    node = np.full(len(points), -1)
    node[used] = np.arange(len(used))
    node = node[same]
    cells = flat.reshape(-1, 3)
    corners = points[used][cells]
    turned = np.linalg.det(corners[:, 1:] - corners[:, :1]) < 0
    cells[turned, :2] = cells[turned, 1::-1]
    bare = Mesh(points[used], cells)
    boundary = {tuple(facet) for facet in bare.boundary_facets.tolist()}
    groups = {}
    for name, (axis, index) in edges.items():
        line = node[np.take(numbers, index, axis=axis)]
        pairs = np.sort(np.stack([line[:-1], line[1:]], axis=1), axis=1)
        groups[name] = np.array([pair for pair in pairs.tolist() if tuple(pair) in boundary])
    return bare.with_groups(groups), node


def _gathered(values: ndarray, node: ndarray) -> ndarray:
    """Grid values on the nodes; the mean where several points are one."""
    flat = values.reshape(len(node), -1)
    count = np.bincount(node)
    columns = [np.bincount(node, column) / count for column in flat.T]
    return columns[0] if values.ndim == 2 else np.stack(columns, axis=1)


def _along(grid: ndarray, values: ndarray) -> tuple[ndarray, ndarray]:
    """The grid with its first index along the pipe, from the inlet on."""
    lengths = [
        float(np.linalg.norm(np.diff(grid, axis=axis), axis=-1).sum(axis=axis).mean())
        for axis in (0, 1)
    ]
    if lengths[1] > lengths[0]:
        grid, values = grid.swapaxes(0, 1), values.swapaxes(0, 1)
    if grid[0, :, 0].mean() > grid[-1, :, 0].mean():
        grid, values = grid[::-1], values[::-1]
    return np.ascontiguousarray(grid), np.ascontiguousarray(values)


def _check_grids(recipe: Recipe, x: ndarray, y: ndarray, q: ndarray) -> None:
    fits = x.ndim == 3 and x.shape == y.shape and q.shape[0] == len(x)
    if not fits or q.ndim not in (3, 4) or q.shape[-2:] != x.shape[1:]:
        what = f"X, Y and Q have shapes {x.shape}, {y.shape}, {q.shape}"
        raise recipe.error(what, _SHAPES)


def _reference(values: ndarray) -> float:
    """Root mean square to one digit: a typical size that does not pretend to be exact."""
    size = float(np.sqrt(np.mean(np.square(np.asarray(values, dtype=float)))))
    return float(f"{size:.0e}") if np.isfinite(size) and size > 0 else 1.0


_SHAPES = "give the files as they were published; docs/data/format.md lists their shapes"
