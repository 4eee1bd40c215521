r"""A plane view of a mesh: what all pictures of nodal values are drawn on.

A plane mesh is its own view. A solid one is cut by the plane :math:`x_a = t`: the P1 interpolant on
the section is again P1 on the triangles and quadrilaterals that the plane cuts out of the cells,

.. math::
    u(x_i + s (x_j - x_i)) = (1 - s)\, u_i + s\, u_j, \qquad s = (t - x_i^a) / (x_j^a - x_i^a),

so every point of a view is a weighted mean of two nodes and nothing is resampled.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float, Int
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import Collection, LineCollection
from matplotlib.colors import Colormap, ListedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.tri import Triangulation
from numpy import ndarray

from geonew.errors import InputError, MeshFileError
from geonew.mesh import Mesh

SEQUENTIAL, DIVERGING = "viridis", "RdBu_r"
# A field whose smaller side is below this part of its larger one counts as one-sided: a diverging
# map would spend half its colours on what is round-off or undershoot.
ONE_SIDED = 0.2
# Below this ratio of width to length a domain on equal axes would be a line: it is stretched.
THIN = 0.02
MISSING = "0.85"  # where values are not finite
_AXES = "xyz"


@dataclass(frozen=True, eq=False)
class View:
    """A triangulation of the plane whose points are weighted means of two nodes each.

    Args:
        axes: which two of the space's axes are drawn.
        points: where.
        triangles: point numbers.
        ends: the two nodes of each point.
        weight: of the second node; the first has the rest.
        where: what was cut, for titles; empty for a plane mesh.

    """

    axes: tuple[int, int]
    points: Float[ndarray, "n 2"]
    triangles: Int[ndarray, "t 3"]
    ends: Int[ndarray, "n 2"]
    weight: Float[ndarray, "n"]
    where: str = ""

    def values(self, nodal: Float[ndarray, "N *k"]) -> Float[ndarray, "n *k"]:
        """Nodal values on the points of the view."""
        weight = self.weight.reshape(-1, *[1] * (nodal.ndim - 1))
        return (1 - weight) * nodal[self.ends[:, 0]] + weight * nodal[self.ends[:, 1]]

    @cached_property
    def triangulation(self) -> Triangulation:
        """The view as matplotlib knows it."""
        return Triangulation(self.points[:, 0], self.points[:, 1], self.triangles)

    @cached_property
    def outline(self) -> Int[ndarray, "e 2"]:
        """Edges with one triangle: the boundary of what is drawn."""
        edges = np.concatenate([self.triangles[:, pair] for pair in ([0, 1], [1, 2], [2, 0])])
        unique, count = np.unique(np.sort(edges, axis=1), axis=0, return_counts=True)
        return unique[count == 1]

    @cached_property
    def aspect(self) -> float:
        """Height over width of the drawing, within what a panel can show."""
        width, height = np.ptp(self.points, axis=0)
        return float(np.clip(height / width, 0.2, 2.5))


@dataclass(frozen=True, eq=False)
class Raster:
    """A regular grid over a view; see :func:`rasterise`.

    Args:
        x: columns.
        y: lines.
        inside: which points lie in the domain.
        corners: for those, the points of the view around them.
        weights: and their barycentric coordinates.

    """

    x: Float[ndarray, "w"]
    y: Float[ndarray, "h"]
    inside: Bool[ndarray, "h w"]
    corners: Int[ndarray, "k 3"]
    weights: Float[ndarray, "k 3"]

    @property
    def points(self) -> Float[ndarray, "k 2"]:
        """Where the points inside are."""
        line, column = np.nonzero(self.inside)
        return np.stack([self.x[column], self.y[line]], axis=1)

    def values(self, on_view: Float[ndarray, "n *c"]) -> Float[ndarray, "k *c"]:
        """Values on the view's points -> on the grid points inside."""
        return np.einsum("ka,ka...->k...", self.weights, on_view[self.corners])


def rasterise(view: View, count: int) -> Raster:
    """A grid of square cells, ``count`` along the longer side, by the triangles it meets.

    Triangle by triangle, since a point finder wants a valid triangulation, and one with a slit,
    whose two lips have the same coordinates, is none.
    """
    lower, upper = view.points.min(axis=0), view.points.max(axis=0)
    width = upper - lower
    counts = np.maximum(np.ceil(count * width / width.max()), 2).astype(np.int64)
    step = width / counts
    # Cell midpoints: no grid point sits on the boundary, where "inside" is a matter of round-off.
    x, y = (lower[k] + (np.arange(counts[k]) + 0.5) * step[k] for k in (0, 1))
    a, b, c = (view.points[view.triangles[:, k]] for k in range(3))
    first = np.ceil((np.minimum(np.minimum(a, b), c) - lower) / step - 0.5).astype(np.int64)
    last = np.floor((np.maximum(np.maximum(a, b), c) - lower) / step - 0.5).astype(np.int64)
    first, last = np.maximum(first, 0), np.minimum(last, counts - 1)
    sizes = np.maximum(last - first + 1, 0)  # grid points in the box around each triangle
    many = sizes.prod(axis=1)
    owner = np.repeat(np.arange(len(many)), many)
    place = np.arange(len(owner)) - np.repeat(many.cumsum() - many, many)
    column = first[owner, 0] + place % sizes[owner, 0]
    line = first[owner, 1] + place // sizes[owner, 0]
    to = np.stack([x[column], y[line]], axis=1) - a[owner]
    ab, ac = (b - a)[owner], (c - a)[owner]
    area = ab[:, 0] * ac[:, 1] - ab[:, 1] * ac[:, 0]
    area = np.where(area == 0, np.inf, area)
    second = (to[:, 0] * ac[:, 1] - to[:, 1] * ac[:, 0]) / area
    third = (ab[:, 0] * to[:, 1] - ab[:, 1] * to[:, 0]) / area
    weights = np.stack([1 - second - third, second, third], axis=1)
    hit = np.flatnonzero((weights >= -1e-12).all(axis=1) & np.isfinite(area))
    flat, chosen = np.unique(line[hit] * counts[0] + column[hit], return_index=True)
    inside = np.zeros(counts[0] * counts[1], dtype=bool)
    inside[flat] = True
    hit = hit[chosen]
    return Raster(x, y, inside.reshape(counts[::-1]), view.triangles[owner[hit]], weights[hit])


def plane_view(mesh: Mesh) -> View:
    """A plane mesh itself; of a solid one the middle section across its shortest side."""
    if mesh.dim == 2:
        nodes = np.arange(mesh.n_nodes)
        ends = np.stack([nodes, nodes], axis=1)
        return View((0, 1), np.array(mesh.points), np.array(mesh.cells), ends, np.zeros(len(nodes)))
    lower, upper = mesh.points.min(axis=0), mesh.points.max(axis=0)
    extent = upper - lower
    # Of equal sides the second: a section through x and z stands upright, as people draw it.
    axis = 1 if extent[1] <= extent.min() * (1 + 1e-9) else int(extent.argmin())
    return section(mesh, axis, float((lower + upper)[axis] / 2))


def section(mesh: Mesh, axis: int, level: float) -> View:
    """The section of a solid mesh with the plane where coordinate ``axis`` equals ``level``."""
    height = mesh.points[:, axis] - level
    above = height >= 0
    cells = mesh.cells[above[mesh.cells].any(axis=1) & ~above[mesh.cells].all(axis=1)]
    if len(cells) == 0:
        low, high = mesh.points[:, axis].min(), mesh.points[:, axis].max()
        raise InputError(
            f"the plane {_AXES[axis]} = {level:.6g} does not cut the mesh",
            f"choose a level above {low:.6g} and up to {high:.6g}",
        )
    # Nodes below the plane first: then the cut edges of a cell follow from how many there are.
    cells = np.take_along_axis(cells, above[cells].argsort(axis=1, kind="stable"), axis=1)
    below = (~above[cells]).sum(axis=1)
    cut = {  # corners of the polygons, each the edge (below, above) it lies on, in cyclic order
        1: ((0, 1), (0, 2), (0, 3)),
        2: ((0, 2), (0, 3), (1, 3), (1, 2)),
        3: ((0, 3), (1, 3), (2, 3)),
    }
    corners = []
    for count, edges in cut.items():
        polygon = cells[below == count][:, edges]  # (cells, corners, 2)
        corners += [polygon[:, [0, k, k + 1]] for k in range(1, len(edges) - 1)]
    pairs = np.concatenate(corners).reshape(-1, 2)
    on_plane = height[pairs[:, 1]] == 0  # several edges meet the plane in one node: one point
    pairs[on_plane, 0] = pairs[on_plane, 1]
    ends, triangles = np.unique(pairs, axis=0, return_inverse=True)
    triangles = triangles.reshape(-1, 3)
    distinct = (triangles != np.roll(triangles, 1, axis=1)).all(axis=1)
    first, second = height[ends].T
    step = np.where(first == second, 1.0, first - second)
    weight = first / step
    axes = (0, 1) if axis == 2 else (0, 2) if axis == 1 else (1, 2)
    view = View(axes, np.zeros((len(ends), 2)), triangles[distinct], ends, weight)
    points = view.values(mesh.points)[:, axes]
    return View(axes, points, view.triangles, ends, weight, f"{_AXES[axis]} = {level:.4g}")


def cropped(view: View, lower: tuple[float, float], upper: tuple[float, float]) -> View:
    """The triangles of a view that reach into a window."""
    corners = view.points[view.triangles]
    inside = (corners.max(axis=1) >= lower).all(axis=1) & (corners.min(axis=1) <= upper).all(axis=1)
    if not inside.any():
        raise InputError(
            f"no cell lies between {lower} and {upper}", "choose a window that meets the domain"
        )
    used, triangles = np.unique(view.triangles[inside], return_inverse=True)
    return View(
        view.axes,
        view.points[used],
        triangles.reshape(-1, 3),
        view.ends[used],
        view.weight[used],
        view.where,
    )


# -- drawing ---------------------------------------------------------------------------------------


def colours_of(values: Float[ndarray, "*n"]) -> tuple[str, Normalize]:
    """A diverging map with zero in the middle for fields of both signs, else a sequential one."""
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    if min(-low, high) > ONE_SIDED * max(-low, high):
        reach = max(-low, high)
        return DIVERGING, Normalize(-reach, reach)
    if high - low <= 1e-12 * max(abs(low), abs(high)):  # a constant: a scale of some height
        half = 0.5 * abs(high) if high else 0.5
        low, high = low - half, high + half
    return SEQUENTIAL, Normalize(low, high)


def draw_values(
    axes: Axes,
    view: View,
    values: Float[ndarray, "n"],
    cmap: str | Colormap,
    norm: Normalize,
    line: float = 0.8,
) -> Collection:
    """Draw values on the points of a view; returns what a colour bar is made of."""
    finite = np.isfinite(values)
    good = finite[view.triangles].all(axis=1)
    x, y = view.points[:, 0], view.points[:, 1]
    if not good.all():
        holes = Triangulation(x, y, view.triangles[~good])
        axes.tripcolor(holes, np.ones(len(values)), cmap=ListedColormap([MISSING]))
    triangles = view.triangles[good] if good.any() else view.triangles[:1]
    image = axes.tripcolor(
        Triangulation(x, y, triangles),
        np.where(finite, values, 0.0),
        shading="gouraud",
        cmap=cmap,
        norm=norm,
        visible=bool(good.any()),
        rasterized=True,
    )
    draw_outline(axes, view, line)
    return image


def draw_outline(axes: Axes, view: View, line: float = 0.8) -> None:
    """The boundary of the domain, and axes that fit it without ticks."""
    segments = list(view.points[view.outline])
    axes.add_collection(LineCollection(segments, colors="0.15", lw=line, zorder=3))
    fit_axes(axes, view)


def fit_axes(axes: Axes, view: View, margin: float = 0.02) -> None:
    """Equal axes around the domain; thin domains are stretched."""
    lower, upper = view.points.min(axis=0), view.points.max(axis=0)
    width = upper - lower
    thin = float(width.min()) < THIN * float(width.max())
    pad = margin * (width if thin else np.full(2, width.max()))
    axes.set_xlim(lower[0] - pad[0], upper[0] + pad[0])
    axes.set_ylim(lower[1] - pad[1], upper[1] + pad[1])
    axes.set_aspect("auto" if thin else "equal")
    axes.set_xticks([])
    axes.set_yticks([])
    for side in axes.spines.values():
        side.set_visible(False)


def new_figure(width: float, height: float) -> Figure:
    """An empty figure that needs no screen."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save_figure(figure: Figure, path: str | os.PathLike[str], dpi: int) -> None:
    """Write a figure."""
    path = Path(path)
    try:
        figure.savefig(path, dpi=dpi)
    except (OSError, ValueError) as error:
        raise MeshFileError(
            f"{path}: the picture cannot be written: {error}",
            "check the folder, and use an extension such as .png, .pdf or .svg",
        ) from error
