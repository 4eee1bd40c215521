r"""A gallery: one field on many meshes, side by side, with one scale of colours for all.

Vectors are drawn by their length :math:`|u|`; of solid meshes the middle section is drawn
(:mod:`geonew.plot.view`).
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy import ndarray

from geonew.errors import InputError
from geonew.mesh import Mesh
from geonew.plot.view import colours_of, draw_values, new_figure, plane_view, save_figure

GALLERY = 12
_PANEL = 2.6  # inches across


def gallery_figure(
    meshes: Sequence[Mesh],
    values: Sequence[ndarray],
    captions: Sequence[str],
    title: str = "",
    label: str = "",
) -> Figure:
    """A figure with one panel per mesh.

    Args:
        meshes: where.
        values: (N,) or (N, d) nodal values on each.
        captions: below each panel's upper edge.
        title: above all.
        label: of the colour bar.

    """
    if not len(meshes) == len(values) == len(captions):
        raise InputError(
            f"{len(meshes)} meshes, {len(values)} fields and {len(captions)} captions",
            "give as many of each",
        )
    if not meshes:
        raise InputError("there is no sample to draw", "give at least one")
    scalars = [v if v.ndim == 1 else np.linalg.norm(v, axis=1) for v in map(np.asarray, values)]
    views = [plane_view(mesh) for mesh in meshes]
    across = min(len(meshes), 4 if max(view.aspect for view in views) > 0.35 else 2)
    down = math.ceil(len(meshes) / across)
    height = _PANEL * max(view.aspect for view in views) * 4 / across * 0.95 + 0.3
    figure = new_figure(_PANEL * 4 + 0.8 if across > 1 else _PANEL * 2, height * down + 0.4)
    cmap, norm = colours_of(np.concatenate(scalars))
    drawn, image = [], None
    for number, (view, scalar, caption) in enumerate(zip(views, scalars, captions, strict=True)):
        axes = figure.add_subplot(down, across, number + 1)
        image = draw_values(axes, view, view.values(scalar), cmap, norm, line=0.6)
        axes.set_title(f"{caption}, {view.where}" if view.where else caption, fontsize=8)
        drawn.append(axes)
    assert image is not None
    bar = figure.colorbar(image, ax=drawn, shrink=0.7, pad=0.01, aspect=35)
    bar.ax.tick_params(labelsize=8)
    bar.set_label(label, fontsize=9)
    bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
    figure.suptitle(title, fontsize=11)
    return figure


def plot_gallery(
    meshes: Sequence[Mesh],
    values: Sequence[ndarray],
    captions: Sequence[str],
    path: str | os.PathLike[str],
    title: str = "",
    label: str = "",
    dpi: int = 130,
) -> None:
    """Write a gallery; see :func:`gallery_figure`."""
    save_figure(gallery_figure(meshes, values, captions, title, label), path, dpi)
