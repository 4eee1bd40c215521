"""Pictures of mesh features: one panel per column, in the canonical frame.

Plane meshes are coloured node by node. Of solid ones the plane section through the centroid is
drawn, spanned by the first and third axis, since most features vanish on the boundary. Columns of
both signs have a diverging map with zero in the middle, others a sequential one from their least to
their greatest.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from numpy import ndarray

from geonew.errors import FeatureError
from geonew.features import MeshFeatures
from geonew.mesh import Mesh

# More panels than this on one page cannot be read.
MOST_PANELS = 60
# A column whose smaller side is below this part of its larger one counts as one-sided.
ONE_SIDED = 1e-3
_SEQUENTIAL, _DIVERGING = "viridis", "RdBu_r"
_PANEL_WIDTH = 3.4


def select_columns(columns: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """Columns that match any of the shell patterns, such as ``hks:*``, in their own order."""
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in columns):
            raise FeatureError(
                f"no feature matches {pattern!r}",
                f"there are: {', '.join(columns)}",
            )
    return [name for name in columns if any(fnmatchcase(name, p) for p in patterns)]


def features_figure(features: MeshFeatures, columns: Sequence[str], title: str = "") -> Figure:
    """A figure with one panel per column."""
    if not columns:
        raise FeatureError("there is no feature to draw", "name at least one column")
    if len(columns) > MOST_PANELS:
        raise FeatureError(
            f"{len(columns)} panels are more than a page holds ({MOST_PANELS})",
            "choose fewer columns",
        )
    mesh = features.operators.mesh
    section = _whole(mesh) if mesh.dim == 2 else _cut(mesh)
    height, across = _layout(section, len(columns))
    down = math.ceil(len(columns) / across)
    figure = Figure(figsize=(_PANEL_WIDTH * across, height * down + 0.5), layout="constrained")
    FigureCanvasAgg(figure)
    for number, name in enumerate(columns, 1):
        axes = figure.add_subplot(down, across, number)
        values = features.column(name)
        colours = _colours(values)
        _draw(axes, section, values, colours)
        axes.set_title(name, fontsize=9)
        bar = figure.colorbar(colours, ax=axes, shrink=0.85, pad=0.02)
        bar.ax.tick_params(labelsize=7)
    kind = "canonical frame" if features.frame.canonical else "no canonical frame: invariants only"
    where = ", section through the centroid" if mesh.dim == 3 else ""
    figure.suptitle(f"{title}  ({mesh.n_nodes} nodes, {kind}{where})".strip(), fontsize=10)
    return figure


def plot_features(
    features: MeshFeatures,
    columns: Sequence[str],
    path: str | os.PathLike[str],
    title: str = "",
    dpi: int = 130,
) -> None:
    """Write a picture of some columns."""
    figure = features_figure(features, columns, title)
    try:
        figure.savefig(Path(path), dpi=dpi)
    except (OSError, ValueError) as error:
        raise FeatureError(
            f"{path}: the picture cannot be written: {error}",
            "check the folder, and use an extension such as .png, .pdf or .svg",
        ) from error


@dataclass(frozen=True)
class _Section:
    """A plane triangulation whose vertices lie on edges of the mesh.

    ``points`` (P, 2); vertex p has the value ``(1 - t) u[i] + t u[j]``, ``(i, j) = ends[p]``.
    """

    points: ndarray
    cells: ndarray
    outline: ndarray
    ends: ndarray
    t: ndarray

    def values(self, nodal: ndarray) -> ndarray:
        return (1 - self.t) * nodal[self.ends[:, 0]] + self.t * nodal[self.ends[:, 1]]


def _whole(mesh: Mesh) -> _Section:
    nodes = np.arange(mesh.n_nodes)
    outline = mesh.points[mesh.boundary_facets]
    ends = np.stack([nodes, nodes], axis=1)
    return _Section(mesh.points, mesh.cells, outline, ends, np.zeros(mesh.n_nodes))


def _cut(mesh: Mesh) -> _Section:
    """Section of a solid where the second coordinate is 0: one triangle or two of each cell."""
    height = mesh.points[:, 1]
    above = height >= 0

    def crossings(simplices: ndarray, lone: int, pairs: list[tuple[int, int]]) -> ndarray:
        """(n, len(pairs), 2): crossed edges of the simplices with ``lone`` vertices on one side."""
        found = []
        for side in (above, ~above) if 2 * lone != simplices.shape[1] else (above,):
            chosen = simplices[side[simplices].sum(axis=1) == lone]
            order = np.argsort(~side[chosen], axis=1, kind="stable")  # that side first
            ordered = np.take_along_axis(chosen, order, axis=1)
            found.append(np.stack([ordered[:, pair] for pair in pairs], axis=1))
        return np.concatenate(found)

    corner = crossings(mesh.cells, 1, [(0, 1), (0, 2), (0, 3)])
    quad = crossings(mesh.cells, 2, [(0, 2), (0, 3), (1, 3), (1, 2)])
    triangles = np.concatenate([corner, quad[:, [0, 1, 2]], quad[:, [0, 2, 3]]])
    ends = triangles.reshape(-1, 2)

    def place(edges: ndarray) -> tuple[ndarray, ndarray]:
        low, high = height[edges[:, 0]], height[edges[:, 1]]
        t = low / (low - high)
        spots = (1 - t)[:, None] * mesh.points[edges[:, 0]] + t[:, None] * mesh.points[edges[:, 1]]
        return spots[:, [0, 2]], t

    points, t = place(ends)
    rim = crossings(mesh.boundary_facets, 1, [(0, 1), (0, 2)])
    outline = place(rim.reshape(-1, 2))[0].reshape(-1, 2, 2)
    return _Section(points, np.arange(len(ends)).reshape(-1, 3), outline, ends, t)


def _layout(section: _Section, panels: int) -> tuple[float, int]:
    """Height of a panel and number of panels across, for a page that is not too long."""
    width, tall = np.ptp(section.points, axis=0)
    height = _PANEL_WIDTH * float(np.clip(tall / width, 0.25, 1.6)) * 0.85 + 0.35
    across = math.ceil(math.sqrt(panels * height / _PANEL_WIDTH))
    return height, int(np.clip(across, 1, min(panels, 6)))


def _colours(values: ndarray) -> ScalarMappable:
    low, high = float(values.min()), float(values.max())
    if min(-low, high) > ONE_SIDED * max(-low, high):
        reach = max(-low, high)
        return ScalarMappable(Normalize(-reach, reach), colormaps[_DIVERGING])
    if high - low <= 1e-12 * max(abs(low), abs(high)):  # a constant: a bar of some height
        low, high = low - 0.5, high + 0.5
    return ScalarMappable(Normalize(low, high), colormaps[_SEQUENTIAL])


def _draw(axes: Axes, section: _Section, nodal: ndarray, colours: ScalarMappable) -> None:
    x, y = section.points.T
    low, high = colours.get_clim()
    axes.tripcolor(
        x,
        y,
        section.values(nodal),
        triangles=section.cells,
        shading="gouraud",
        cmap=colours.cmap,
        vmin=low,
        vmax=high,
    )
    axes.add_collection(LineCollection(list(section.outline), colors="black", lw=0.7))
    width = np.ptp(section.points, axis=0)
    # Very thin domains would be a line on equal axes.
    axes.set_aspect("auto" if width.min() < 0.02 * width.max() else "equal")
    axes.set_axis_off()
