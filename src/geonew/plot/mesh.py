"""Pictures of meshes: cells in grey, boundary groups in colour, with a legend.

Plane meshes are drawn as they are; of solid ones the boundary surface, each group in its colour and
shaded by the angle to the light, from two opposite sides, so that no outer face stays hidden.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from mpl_toolkits.mplot3d.art3d import Poly3DCollection
from numpy import ndarray

from geonew.errors import MeshFileError
from geonew.mesh import Mesh

# Okabe and Ito's colours, distinguishable for colour-blind readers; black is kept for "no group".
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#7F3C8D")
UNLABELLED = "#000000"
_VIEWS = ((25, -60), (-25, 120))  # elevation and azimuth in degrees: opposite directions
_LIGHT = np.array([0.4, -0.7, 0.6])
# Beyond this many cells the lines of the mesh would cover the picture.
MOST_LINES = 20_000


def group_colours(mesh: Mesh) -> dict[str, str]:
    """A colour for each group, the same in every picture of the mesh."""
    return {name: COLOURS[k % len(COLOURS)] for k, name in enumerate(mesh.groups)}


def mesh_figure(mesh: Mesh, title: str = "") -> Figure:
    """A figure of the mesh with its boundary groups coloured."""
    figure = Figure(figsize=(7.5, 6.0) if mesh.dim == 2 else (11.0, 5.0), layout="constrained")
    FigureCanvasAgg(figure)
    colours = group_colours(mesh)
    if mesh.dim == 2:
        _draw_plane(figure.add_subplot(), mesh, colours)
    else:
        for number, (elevation, azimuth) in enumerate(_VIEWS, 1):
            axes = figure.add_subplot(1, len(_VIEWS), number, projection="3d")
            axes.view_init(elevation, azimuth)  # pyright: ignore[reportAttributeAccessIssue]
            _draw_surface(axes, mesh, colours)
    handles = [
        Line2D([], [], color=colours[name], lw=3, label=f"{name} ({len(facets)})")
        for name, facets in mesh.groups.items()
    ]
    free = int((mesh.group_index < 0).sum())
    if free:
        handles.append(Line2D([], [], color=UNLABELLED, lw=3, label=f"no group ({free})"))
    figure.legend(handles=handles, loc="outside right upper", title="group (facets)", frameon=False)
    figure.suptitle(title or f"{mesh.n_nodes} nodes, {mesh.n_cells} cells")
    return figure


def plot_mesh(mesh: Mesh, path: str | os.PathLike[str], title: str = "", dpi: int = 150) -> None:
    """Write a picture of the mesh."""
    path = Path(path)
    figure = mesh_figure(mesh, title)
    try:
        figure.savefig(path, dpi=dpi)
    except (OSError, ValueError) as error:
        raise MeshFileError(
            f"{path}: the picture cannot be written: {error}",
            "check the folder, and use an extension such as .png, .pdf or .svg",
        ) from error


def _draw_plane(axes: Axes, mesh: Mesh, colours: dict[str, str]) -> None:
    if mesh.n_cells <= MOST_LINES:
        axes.add_collection(LineCollection(_segments(mesh, mesh.edges), colors="0.8", lw=0.5))
    else:
        x, y = mesh.points.T
        axes.tripcolor(
            x, y, np.ones(mesh.n_nodes), triangles=mesh.cells, cmap="Greys", vmin=0, vmax=6
        )
    free = mesh.boundary_facets[mesh.group_index < 0]
    axes.add_collection(LineCollection(_segments(mesh, free), colors=UNLABELLED, lw=2))
    for name, facets in mesh.groups.items():
        lines = LineCollection(_segments(mesh, facets), colors=colours[name], lw=2.5, zorder=3)
        axes.add_collection(lines)
    lower, upper = mesh.points.min(axis=0), mesh.points.max(axis=0)
    width = upper - lower
    margin = 0.03 * float(width.max())
    axes.set(xlim=(lower[0] - margin, upper[0] + margin), xlabel="x", ylabel="y")
    # Very thin domains would be a line on equal axes: stretch them and let the ticks tell.
    thin = float(width.min()) < 0.02 * float(width.max())
    pad = 0.1 * width[1] if thin else margin
    axes.set_ylim(lower[1] - pad, upper[1] + pad)
    axes.set_aspect("auto" if thin else "equal")
    axes.ticklabel_format(useOffset=False)


def _segments(mesh: Mesh, edges: ndarray) -> list[ndarray]:
    return list(mesh.points[edges])


def _draw_surface(axes: Axes, mesh: Mesh, colours: dict[str, str]) -> None:
    names = [*colours.values(), UNLABELLED]  # -1 picks the last: no group
    normals = mesh.boundary_normals / np.linalg.norm(mesh.boundary_normals, axis=1, keepdims=True)
    shade = 0.72 + 0.28 * np.abs(normals @ (_LIGHT / np.linalg.norm(_LIGHT)))  # both views lit
    base = np.array([to_rgb(colour) for colour in names])[mesh.group_index]
    surface = Poly3DCollection(
        list(mesh.points[mesh.boundary_facets]),
        facecolors=np.clip(base * shade[:, None], 0, 1),
        edgecolors=(0, 0, 0, 0.25),
        linewidths=0.3 if len(normals) <= MOST_LINES else 0.0,
    )
    axes.add_collection(surface)
    lower, upper = mesh.points.min(axis=0), mesh.points.max(axis=0)
    limits = dict(zip(("xlim", "ylim", "zlim"), zip(lower, upper, strict=True), strict=True))
    axes.set(**limits, xlabel="x", ylabel="y", zlabel="z")
    axes.set_box_aspect(upper - lower)  # pyright: ignore[reportArgumentType]
