r"""Pictures of what a model has learned about one geometry.

- Partitions: the basis functions :math:`\psi_i` of every component, and which of them dominates
  where.
- Boundary rows: the cut-off c, which is 1 on the Dirichlet part, and the group rows
  :math:`\psi_g = c\,h_g`.

All take plain arrays: rows as (N, F, R), R = P + G, interior rows first. Of solid
meshes the middle section is drawn. The reduced graph has its own module, :mod:`geonew.plot.fluxes`.
"""

from __future__ import annotations

import colorsys
import math
import os
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int
from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize, to_rgb
from matplotlib.figure import Figure, SubFigure
from matplotlib.patches import Patch
from matplotlib.tri import Triangulation
from numpy import ndarray

from geonew.errors import InputError
from geonew.mesh import Mesh
from geonew.plot.mesh import COLOURS
from geonew.plot.view import (
    SEQUENTIAL,
    View,
    draw_outline,
    draw_values,
    new_figure,
    plane_view,
    rasterise,
    save_figure,
)

# Basis functions shown per component, largest first; more cannot be told apart on a page.
MOST_BASIS = 32
_RASTER = 320  # pixels along the longer side of the map of dominant partitions
_BLOCK = 14.0  # inches across
_HALF = "#D55E00"  # the line where a row is one half
HALO = [patheffects.withStroke(linewidth=2.0, foreground="white")]


# -- partitions ------------------------------------------------------------------------------------


def partitions_figure(
    mesh: Mesh,
    rows: Float[ndarray, "N F R"],
    components: Sequence[str],
    groups: Sequence[str],
    title: str = "",
) -> Figure:
    """Dominant partitions and basis functions, one block for each component.

    Args:
        mesh: the mesh.
        rows: the partition of unity.
        components: names of the F components.
        groups: names of the G boundary groups.
        title: above all.

    """
    P = interior_rows(mesh, rows, components, groups)
    view = plane_view(mesh)
    values = view.values(rows)
    mass = row_masses(mesh, rows)
    shown = min(P, MOST_BASIS)
    across = max(1, math.ceil(math.sqrt(shown * 1.9 * view.aspect)))
    down = math.ceil(shown / across)
    panel = 0.5 * _BLOCK / across  # inches; its title takes a fifth of an inch
    height = max(3.2, (1.06 * panel * view.aspect + 0.2) * down + 0.6)
    figure = new_figure(_BLOCK, height * len(components) + 0.4)
    blocks = figure.subfigures(len(components), 1, squeeze=False)[:, 0]
    for f, (block, name) in enumerate(zip(blocks, components, strict=True)):
        left, right = block.subfigures(1, 2, width_ratios=(1.0, 1.7))
        _draw_dominant(left, view, values[:, f], P, name, groups)
        order = np.argsort(-mass[f, :P], kind="stable")[:shown]
        _draw_basis(
            right, view, values[:, f], mass[f, :P], order, across, 0.2 / (panel * view.aspect)
        )
    figure.suptitle(title, fontsize=11)
    return figure


def plot_partitions(
    mesh: Mesh,
    rows: Float[ndarray, "N F R"],
    components: Sequence[str],
    groups: Sequence[str],
    path: str | os.PathLike[str],
    title: str = "",
    dpi: int = 110,
) -> None:
    """Write a picture of the learned partitions; see :func:`partitions_figure`."""
    save_figure(partitions_figure(mesh, rows, components, groups, title), path, dpi)


def _draw_dominant(
    block: SubFigure, view: View, values: ndarray, P: int, name: str, groups: Sequence[str]
) -> None:
    """Each triangle in the colour of the row that is largest on it, interior ones numbered."""
    axes = block.add_subplot()
    lower, upper = view.points.min(axis=0), view.points.max(axis=0)
    raster = rasterise(view, _RASTER)
    points = raster.points
    winner = raster.values(values).argmax(axis=1)
    palette = np.array([*pastels(P), *(to_rgb(group_colour(g)) for g in range(len(groups)))])
    picture = np.zeros((*raster.inside.shape, 4))  # transparent outside
    picture[raster.inside] = np.column_stack([palette[winner], np.ones(len(winner))])
    extent = (float(lower[0]), float(upper[0]), float(lower[1]), float(upper[1]))
    axes.imshow(picture, origin="lower", extent=extent, interpolation="nearest")
    draw_outline(axes, view)
    for i in np.unique(winner[winner < P]):
        mine = points[winner == i]
        if len(mine) < 0.004 * len(points):
            continue  # no room for a number
        nearest = np.linalg.norm(mine - mine.mean(axis=0), axis=1).argmin()  # inside its region
        axes.text(
            mine[nearest, 0],
            mine[nearest, 1],
            str(i),
            fontsize=7,
            ha="center",
            va="center",
            path_effects=HALO,
        )
    present = [g for g in range(len(groups)) if np.any(winner == P + g)]
    if present:
        handles = [Patch(color=group_colour(g), label=groups[g]) for g in present]
        axes.legend(
            handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.01), frameon=False,
            ncols=min(len(handles), 4), fontsize=8,
        )  # fmt: skip
    count = len(np.unique(winner[winner < P]))
    where = f", {view.where}" if view.where else ""
    axes.set_title(f"{name}: dominant row ({count} of {P} partitions){where}", fontsize=10)


def _draw_basis(
    block: SubFigure,
    view: View,
    values: ndarray,
    mass: ndarray,
    order: Int[ndarray, "k"],
    across: int,
    title: float,
) -> None:
    """All basis functions side by side in one pair of axes, which is far quicker than one each.

    ``title`` is the height of a panel's title over the panel's height.
    """
    axes = block.add_subplot()
    count, size = len(order), np.ptp(view.points, axis=0)
    step = size * np.array([1.1, 1.06 + title])
    place = np.arange(count)
    offsets = np.stack([place % across, -(place // across)], axis=1) * step
    points = (view.points + offsets[:, None]).reshape(-1, 2)
    shift = (place * len(view.points))[:, None, None]
    tiles = Triangulation(points[:, 0], points[:, 1], (view.triangles + shift).reshape(-1, 3))
    # Each in its own scale: what a reduced space can express does not depend on how large they are.
    shown = values[:, order]
    shown = shown / np.maximum(shown.max(axis=0), np.finfo(float).tiny)
    image = axes.tripcolor(
        tiles, shown.T.ravel(), shading="gouraud", cmap=SEQUENTIAL, norm=Normalize(0.0, 1.0),
        rasterized=True,
    )  # fmt: skip
    segments = list(points[(view.outline + shift).reshape(-1, 2)])
    axes.add_collection(LineCollection(segments, colors="0.15", lw=0.4))
    top = view.points.max(axis=0)[1] + 0.05 * title * size[1]
    middle = view.points[:, 0].min() + size[0] / 2
    for (dx, dy), i in zip(offsets, order, strict=True):
        share = f"{i}: {100 * mass[i] / mass.sum():.2g} %"
        axes.text(middle + dx, top + dy, share, fontsize=7, ha="center", va="bottom")
    width = np.ptp(points, axis=0)
    axes.set_aspect(view.aspect * size[0] / size[1])  # equal, but where a thin domain is stretched
    lower, upper = points.min(axis=0), points.max(axis=0)
    axes.set_xlim(lower[0] - 0.01 * width[0], upper[0] + 0.01 * width[0])
    axes.set_ylim(lower[1] - 0.01 * width[1], upper[1] + title * size[1])
    axes.set_axis_off()
    bar = block.colorbar(image, ax=axes, shrink=0.8, pad=0.01, aspect=35)
    bar.ax.tick_params(labelsize=7)
    bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
    more = "" if count == len(mass) else f", the {count} largest of {len(mass)}"
    heading = rf"basis functions $\psi_i$ over their maxima; share of the interior mass{more}"
    axes.set_title(heading, fontsize=10)


# -- boundary rows ---------------------------------------------------------------------------------


def boundary_rows_figure(
    mesh: Mesh,
    rows: Float[ndarray, "N F R"],
    components: Sequence[str],
    groups: Sequence[str],
    title: str = "",
) -> Figure:
    """The cut-off and the group rows: a line of panels for each component.

    Args:
        mesh: the mesh.
        rows: the partition of unity.
        components: names of the F components.
        groups: names of the G boundary groups.
        title: above all.

    """
    P = interior_rows(mesh, rows, components, groups)
    view = plane_view(mesh)
    across = 1 + len(groups)
    width = float(np.clip(12.0 / across, 2.2, 4.0))
    height = width * view.aspect * 0.9 + 0.35
    figure = new_figure(width * across + 0.8, height * len(components) + 0.5)
    panels = figure.subplots(len(components), across, squeeze=False)
    norm = Normalize(0.0, 1.0)
    image = None
    for f, name in enumerate(components):
        of_groups = view.values(rows[:, f, P:])
        names = [rf"{name}: cut-off $c$", *(rf"{name}: $\psi$ of {group}" for group in groups)]
        columns = np.column_stack([of_groups.sum(axis=1), of_groups])
        for axes, label, values in zip(panels[f], names, columns.T, strict=True):
            if np.any(values):
                image = draw_values(axes, view, values, "Blues", norm, line=0.6)
                _draw_half(axes, view, values)
            else:
                draw_outline(axes, view, 0.6)
                axes.text(
                    0.5, 0.5, "no data here", transform=axes.transAxes, ha="center", va="center",
                    fontsize=8, color="0.4", path_effects=HALO,
                )  # fmt: skip
            axes.set_title(label, fontsize=9)
    if image is not None:
        bar = figure.colorbar(image, ax=panels.ravel().tolist(), shrink=0.6, pad=0.01, aspect=30)
        bar.ax.axhline(0.5, color=_HALF, lw=1.2)
        bar.ax.tick_params(labelsize=8)
        bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
    figure.suptitle(title, fontsize=11)
    return figure


def plot_boundary_rows(
    mesh: Mesh,
    rows: Float[ndarray, "N F R"],
    components: Sequence[str],
    groups: Sequence[str],
    path: str | os.PathLike[str],
    title: str = "",
    dpi: int = 150,
) -> None:
    """Write a picture of the boundary rows; see :func:`boundary_rows_figure`."""
    save_figure(boundary_rows_figure(mesh, rows, components, groups, title), path, dpi)


def _draw_half(axes: Axes, view: View, values: ndarray) -> None:
    """The line where a row is one half: how far the boundary reaches into the domain."""
    if values.min() < 0.5 < values.max():
        axes.tricontour(view.triangulation, values, levels=[0.5], colors=_HALF, linewidths=0.8)


# -- common ----------------------------------------------------------------------------------------


def interior_rows(
    mesh: Mesh, rows: ndarray, components: Sequence[str], groups: Sequence[str]
) -> int:
    """Number of interior partitions, if the arrays belong together."""
    P = rows.shape[-1] - len(groups)
    if rows.shape[:2] != (mesh.n_nodes, len(components)) or P < 1:
        raise InputError(
            f"rows have shape {rows.shape}; {mesh.n_nodes} nodes, {len(components)} components "
            f"and {len(groups)} groups need ({mesh.n_nodes}, {len(components)}, "
            f"{len(groups) + 1} or more)",
            "give the rows, names and mesh of one prediction",
        )
    if not np.isfinite(rows).all():
        raise InputError("rows are not finite", "draw a prediction whose partitions are")
    return P


def lumped_mass(mesh: Mesh) -> Float[ndarray, "N"]:
    """Integral of each node's hat function."""
    share = np.repeat(mesh.volumes / (mesh.dim + 1), mesh.dim + 1)
    return np.bincount(mesh.cells.ravel(), share, mesh.n_nodes)


def row_masses(mesh: Mesh, rows: ndarray) -> Float[ndarray, "F R"]:
    """Integral of each row."""
    return np.einsum("n,nfp->fp", lumped_mass(mesh), rows)


def group_colour(group: int) -> str:
    """Colour of the group of this number."""
    return COLOURS[group % len(COLOURS)]


def pastels(count: int) -> list[tuple[float, float, float]]:
    """Light colours, neighbours in number far apart in hue (golden angle)."""
    golden = (math.sqrt(5) - 1) / 2
    return [
        colorsys.hls_to_rgb((0.1 + golden * k) % 1.0, (0.72, 0.82, 0.62)[k % 3], 0.5)
        for k in range(count)
    ]
