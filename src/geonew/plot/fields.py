r"""Pictures of nodal fields: one panel each, with the domain's boundary and a colour bar.

Scalars are drawn as they are, vectors by their length :math:`|u|`, in 2D with streamlines or
arrows. Of solid meshes each field has two panels, the boundary surface and the middle section
(:mod:`geonew.plot.view`). Fields of both signs have a diverging map with zero in the middle. Cells
with a value that is not finite stay grey, and the title counts them.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from mpl_toolkits.mplot3d.art3d import Poly3DCollection
from numpy import ndarray

from geonew.errors import InputError
from geonew.mesh import Mesh
from geonew.plot.view import (
    MISSING,
    View,
    colours_of,
    draw_values,
    new_figure,
    plane_view,
    rasterise,
    save_figure,
)

Overlay = Literal["streamlines", "arrows", "none"]
OVERLAYS: tuple[Overlay, ...] = ("streamlines", "arrows", "none")
# More panels than this on one page cannot be read.
MOST_PANELS = 36
# Arrows and streamline cells along the longer side: enough to follow the flow, not to hide it.
_ARROWS, _STREAM_CELLS = 22, 120
_PANEL = 3.6  # inches across
_SOLID_VIEW = (22, -60)  # elevation and azimuth in degrees


def fields_figure(
    mesh: Mesh,
    fields: Mapping[str, ndarray],
    title: str = "",
    overlay: Overlay = "streamlines",
    alike: Sequence[Sequence[str]] = (),
    across: int | None = None,
) -> Figure:
    """A figure with one panel for each field, two for each on a solid mesh.

    Args:
        mesh: the mesh.
        fields: name -> (N,) or (N, d) nodal values.
        title: above all panels.
        overlay: what shows the direction of 2D vectors.
        alike: fields that have one colour scale.
        across: panels side by side; by default so many that the page is a little wider than tall.

    """
    arrays = {name: _checked(mesh, name, values) for name, values in fields.items()}
    per_field = mesh.dim - 1  # the view, and of solids the surface as well
    panels = per_field * len(arrays)
    if panels == 0:
        raise InputError("there is no field to draw", "name at least one")
    if panels > MOST_PANELS:
        raise InputError(
            f"{panels} panels are more than a page holds ({MOST_PANELS})", "choose fewer fields"
        )
    if overlay not in OVERLAYS:
        raise InputError(f"overlay is {overlay!r}", f"choose one of {OVERLAYS}")
    view = plane_view(mesh)
    height = _PANEL * (view.aspect if mesh.dim == 2 else max(view.aspect, 0.75)) * 0.85 + 0.45
    across = _across(panels, height, per_field) if across is None else across
    sizes = {name: v if v.ndim == 1 else np.linalg.norm(v, axis=1) for name, v in arrays.items()}
    down = math.ceil(panels / across)
    figure = new_figure(_PANEL * across, height * down + 0.35)
    for number, (name, values) in enumerate(arrays.items()):
        scalar = sizes[name]
        peers = next((group for group in alike if name in group), (name,))
        cmap, norm = colours_of(np.concatenate([sizes[peer] for peer in peers]))
        if values.ndim == 2:
            norm.vmin = 0.0  # lengths are read against zero
        label = name if values.ndim == 1 else f"|{name}|"
        bad = int((~np.isfinite(scalar)).sum())
        label += f" ({bad} nodes not finite)" if bad else ""
        place = number * per_field + 1
        if mesh.dim == 3:
            surface = figure.add_subplot(down, across, place, projection="3d")
            mappable = ScalarMappable(norm, colormaps[cmap])
            _draw_surface(surface, mesh, scalar, mappable)
            surface.set_title(f"{label}, surface", fontsize=10)
            place += 1
        axes = figure.add_subplot(down, across, place)
        image = draw_values(axes, view, view.values(scalar), cmap, norm)
        axes.set_title(f"{label}, {view.where}" if view.where else label, fontsize=10)
        if mesh.dim == 2 and values.ndim == 2:
            _draw_direction(axes, view, values, overlay)
        bar = figure.colorbar(image, ax=axes, shrink=0.82, pad=0.02, aspect=25)
        bar.ax.tick_params(labelsize=8)
        bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
    figure.suptitle(title, fontsize=11)
    return figure


def plot_fields(
    mesh: Mesh,
    fields: Mapping[str, ndarray],
    path: str | os.PathLike[str],
    title: str = "",
    overlay: Overlay = "streamlines",
    alike: Sequence[Sequence[str]] = (),
    across: int | None = None,
    dpi: int = 150,
) -> None:
    """Write a picture of nodal fields; see :func:`fields_figure`."""
    save_figure(fields_figure(mesh, fields, title, overlay, alike, across), path, dpi)


def _checked(mesh: Mesh, name: str, values: ndarray) -> ndarray:
    values = np.asarray(values)
    shapes = ((mesh.n_nodes,), (mesh.n_nodes, mesh.dim))
    if values.shape not in shapes:
        raise InputError(
            f"field {name!r} has shape {values.shape}; the mesh has {mesh.n_nodes} nodes "
            f"in {mesh.dim}D",
            f"give one value or one vector per node: {shapes[0]} or {shapes[1]}",
        )
    if values.dtype.kind not in "biuf":
        raise InputError(
            f"field {name!r} is of type {values.dtype}", "give real numbers; split complex ones"
        )
    return values.astype(np.float64)


def _across(panels: int, height: float, multiple: int) -> int:
    """Panels side by side, so that the page is a little wider than tall."""
    wanted = round(math.sqrt(1.4 * panels * height / _PANEL) / multiple) * multiple
    return int(np.clip(wanted, multiple, min(panels, 6)))


def _draw_direction(axes: Axes, view: View, vectors: ndarray, overlay: Overlay) -> None:
    """Streamlines or arrows where the field is finite; none where it vanishes everywhere."""
    vectors = np.where(np.isfinite(vectors), vectors, 0.0)
    if overlay == "none" or not np.any(vectors):
        return
    raster = rasterise(view, _STREAM_CELLS if overlay == "streamlines" else _ARROWS)
    u, v = (np.full(raster.inside.shape, np.nan) for _ in range(2))
    u[raster.inside], v[raster.inside] = raster.values(view.values(vectors)).T
    if overlay == "arrows":
        # Most arrows fit their cell; the few longest may leave it, or all others would be dots.
        typical = float(np.nanquantile(np.hypot(u, v), 0.9)) or 1.0
        axes.quiver(
            *np.meshgrid(raster.x, raster.y), u, v, color="white", edgecolor="black",
            linewidth=0.4, pivot="mid", angles="xy", scale_units="xy",
            scale=typical / (raster.x[1] - raster.x[0]), width=0.006, zorder=4,
        )  # fmt: skip
    else:
        counts = np.array([len(raster.x), len(raster.y)])
        density = tuple(0.9 * counts / counts.max())
        axes.streamplot(
            raster.x, raster.y, u, v, color=(1, 1, 1, 0.75), linewidth=0.7, arrowsize=0.7,
            density=density, broken_streamlines=True, zorder=2,
        )  # fmt: skip


def _draw_surface(axes: Axes, mesh: Mesh, values: ndarray, colours: ScalarMappable) -> None:
    facets = mesh.boundary_facets
    on_facets = values[facets].mean(axis=1)
    faces = np.array(colours.to_rgba(on_facets))
    faces[~np.isfinite(on_facets)] = to_rgba(MISSING)
    surface = Poly3DCollection(
        list(mesh.points[facets]), facecolors=faces, edgecolors=(0, 0, 0, 0.15), linewidths=0.2
    )
    axes.add_collection(surface)
    lower, upper = mesh.points.min(axis=0), mesh.points.max(axis=0)
    limits = dict(zip(("xlim", "ylim", "zlim"), zip(lower, upper, strict=True), strict=True))
    axes.set(**limits)
    axes.set_box_aspect(upper - lower)  # pyright: ignore[reportArgumentType]
    axes.view_init(*_SOLID_VIEW)  # pyright: ignore[reportAttributeAccessIssue]
    axes.set_axis_off()
