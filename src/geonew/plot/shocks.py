r"""Learned partitions beside the shocks of a flow: do they follow?

Of each sample a window of the domain is drawn twice: the Mach number, and the partition that
dominates where; over both the sonic line, on which the Mach number is 1 and whose steep end is the
shock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy import ndarray

from geonew.errors import InputError
from geonew.mesh import Mesh
from geonew.plot.model import HALO, pastels
from geonew.plot.view import (
    View,
    colours_of,
    cropped,
    draw_outline,
    draw_values,
    new_figure,
    plane_view,
    rasterise,
)

_RASTER = 360  # pixels along the longer side of a window
_LINE = "#C00000"
SONIC = 1.0
# A partition with less of the window than this has no room for its number.
LEAST_SHARE = 0.01


@dataclass(frozen=True, eq=False)
class ShockView:
    """One sample.

    Args:
        mesh: its mesh.
        mach: Mach number on the nodes.
        rows: the partition of unity of that field, interior rows first.
        caption: above.

    """

    mesh: Mesh
    mach: Float[ndarray, "N"]
    rows: Float[ndarray, "N R"]
    caption: str


def shocks_figure(
    samples: Sequence[ShockView],
    lower: tuple[float, float],
    upper: tuple[float, float],
    title: str = "",
) -> Figure:
    """Mach number above, dominant partitions below, a column for each sample.

    Args:
        samples: what is drawn.
        lower: corner of the window.
        upper: the opposite corner.
        title: above all.

    """
    if not samples:
        raise InputError("there is no sample to draw", "give at least one")
    aspect = (upper[1] - lower[1]) / (upper[0] - lower[0])
    figure = new_figure(3.4 * len(samples) + 0.7, 2 * (3.3 * aspect + 0.35) + 0.4)
    panels = figure.subplots(2, len(samples), squeeze=False)
    cmap, norm = colours_of(np.concatenate([s.mach for s in samples]))
    image = None
    for above, below, sample in zip(*panels, samples, strict=True):
        view = cropped(plane_view(sample.mesh), lower, upper)
        image = draw_values(above, view, view.values(sample.mach), cmap, norm, 0.5)
        above.set_title(sample.caption, fontsize=9)
        _draw_partitions(below, view, sample.rows)
        below.set_title("dominant partition", fontsize=9)
        for axes in (above, below):
            _sonic_line(axes, view, sample.mach)
            axes.set_xlim(lower[0], upper[0])
            axes.set_ylim(lower[1], upper[1])
    assert image is not None
    bar = figure.colorbar(image, ax=panels[0].tolist(), shrink=0.9, pad=0.01, aspect=20)
    bar.ax.axhline(SONIC, color=_LINE, lw=1.2)
    bar.ax.tick_params(labelsize=8)
    bar.set_label("Mach number", fontsize=9)
    bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
    if title:
        figure.suptitle(title, fontsize=11)
    return figure


def _draw_partitions(axes: Axes, view: View, rows: ndarray) -> None:
    raster = rasterise(view, _RASTER)
    winner = raster.values(view.values(rows)).argmax(axis=1)
    picture = np.zeros((*raster.inside.shape, 4))  # transparent outside
    colours = np.array(pastels(rows.shape[1]))
    picture[raster.inside] = np.column_stack([colours[winner], np.ones(len(winner))])
    low, high = view.points.min(axis=0), view.points.max(axis=0)
    axes.imshow(
        picture, origin="lower", extent=(low[0], high[0], low[1], high[1]), interpolation="nearest"
    )
    draw_outline(axes, view, 0.5)
    for row in np.unique(winner):
        mine = raster.points[winner == row]
        if len(mine) < LEAST_SHARE * len(winner):
            continue
        nearest = np.linalg.norm(mine - mine.mean(axis=0), axis=1).argmin()
        x, y = mine[nearest]
        axes.text(
            x, y, str(row), fontsize=7, ha="center", va="center", path_effects=HALO, clip_on=True
        )


def _sonic_line(axes: Axes, view: View, mach: ndarray) -> None:
    values = view.values(mach)
    if values.min() < SONIC < values.max():
        axes.tricontour(
            view.triangulation, values, levels=[SONIC], colors=_LINE, linewidths=1.2, zorder=4
        )
