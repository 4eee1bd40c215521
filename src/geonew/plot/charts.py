"""Charts of numbers: curves with their spread side by side, and heat maps.

Each model has one colour and marker in all charts, ours thick; a chart says on its axes what it
shows. Positive quantities that span more than a factor of ten have logarithmic axes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator, ScalarFormatter
from numpy import ndarray

from geonew.errors import InputError
from geonew.plot.view import new_figure

# Colours that people with any sight tell apart (Okabe and Ito), in the order of first use.
PALETTE = (
    "#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F", "#8C564B",
    "#BCBD22", "#17BECF", "#000000",
)  # fmt: skip
MARKERS = "osD^vP*XdhS"
SPAN = 10.0
FEW_POINTS = 8  # a curve of so few is marked in any case: one of a single point has no line
_PANEL = (4.4, 3.2)  # inches
_LETTER, _HANDLE, _LINE = 0.068, 0.6, 0.18  # inches in a legend: a letter, a sample, a line


@dataclass(frozen=True)
class Curve:
    """One line of a chart.

    Args:
        label: in the legend.
        x: where.
        y: what.
        low, high: band around it, where there is one.
        colour: number of its colour and marker.
        strong: drawn thick.
        dashed: drawn with gaps.

    """

    label: str
    x: Sequence[float | int]
    y: Sequence[float | int]
    low: Sequence[float | int] = ()
    high: Sequence[float | int] = ()
    colour: int = 0
    strong: bool = False
    dashed: bool = False


@dataclass(frozen=True)
class Chart:
    """One pair of axes.

    Args:
        curves: what is drawn.
        x: name of the horizontal axis.
        y: name of the vertical axis.
        title: above.
        marks: whether points are marked; long curves are better without.
        ticks: values named on the horizontal axis, where these alone have a meaning.

    """

    curves: Sequence[Curve]
    x: str
    y: str
    title: str = ""
    marks: bool = True
    ticks: Sequence[float | int] = field(default=())


def charts_figure(charts: Sequence[Chart], title: str = "") -> Figure:
    """Charts side by side, with one legend below them."""
    if not charts or not any(chart.curves for chart in charts):
        raise InputError("there is nothing to draw", "give at least one curve")
    labels = dict.fromkeys(curve.label for chart in charts for curve in chart.curves)
    width = _PANEL[0] * len(charts) + (0.6 if len(charts) == 1 else 0)
    longest = _LETTER * max(map(len, labels)) + _HANDLE
    across = int(np.clip(width / longest, 1, len(labels)))
    figure = new_figure(width, _PANEL[1] + 0.45 + _LINE * ceil(len(labels) / across))
    panels = figure.subplots(1, len(charts), squeeze=False)[0]
    handles: dict[str, Line2D] = {}
    for axes, chart in zip(panels, charts, strict=True):
        for curve in chart.curves:
            line = _draw(axes, curve, chart.marks)
            handles.setdefault(curve.label, line)
        _scale(axes, chart)
        axes.set_xlabel(chart.x, fontsize=9)
        axes.set_ylabel(chart.y, fontsize=9)
        axes.set_title(chart.title, fontsize=10)
        axes.tick_params(labelsize=8)
        axes.grid(True, color="0.9", lw=0.6)
        axes.set_axisbelow(True)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    figure.legend(
        list(handles.values()), list(handles), loc="outside lower center", ncols=across,
        fontsize=8, frameon=False,
    )  # fmt: skip
    if title:
        figure.suptitle(title, fontsize=11)
    return figure


def _draw(axes: Axes, curve: Curve, marks: bool) -> Line2D:
    x, y = (np.array(values, dtype=float) for values in (curve.x, curve.y))
    colour = PALETTE[curve.colour % len(PALETTE)]
    marks = marks or len(x) <= FEW_POINTS
    (line,) = axes.plot(
        x, y, color=colour, lw=2.2 if curve.strong else 1.3, ls="--" if curve.dashed else "-",
        marker=MARKERS[curve.colour % len(MARKERS)] if marks else "", ms=5,
        zorder=3 if curve.strong else 2, label=curve.label,
    )  # fmt: skip
    if len(curve.low) and len(curve.high):
        low, high = (np.array(values, dtype=float) for values in (curve.low, curve.high))
        axes.fill_between(x, low, high, color=colour, alpha=0.13, lw=0)
    return line


def _scale(axes: Axes, chart: Chart) -> None:
    for kind, values in (
        ("x", [v for c in chart.curves for v in c.x]),
        ("y", [v for c in chart.curves for v in c.y]),
    ):
        numbers = np.array(values, dtype=float)
        numbers = numbers[np.isfinite(numbers)]
        if numbers.size and numbers.min() > 0 and numbers.max() > SPAN * numbers.min():
            (axes.set_xscale if kind == "x" else axes.set_yscale)("log")
        elif numbers.size and kind == "y" and numbers.min() >= 0:
            drawn = [v for c in chart.curves for v in (*c.y, *c.high) if np.isfinite(v)]
            axes.set_ylim(0.0, 1.08 * max(drawn) or 1.0)
    if len(chart.ticks):
        axes.set_xticks(list(chart.ticks))
        axes.xaxis.set_major_formatter(ScalarFormatter())
        axes.xaxis.set_minor_locator(NullLocator())


def heat_maps_figure(
    maps: Mapping[str, Float[ndarray, "r c"]],
    rows: Sequence[str],
    columns: Sequence[str],
    row_name: str,
    column_name: str,
    label: str,
    title: str = "",
) -> Figure:
    """Heat maps side by side with one scale, zero in the middle, each place with its number.

    Args:
        maps: title -> values in percent; NaN where nothing is known.
        rows: names of the places upwards.
        columns: names of the places to the right.
        row_name: of the vertical axis.
        column_name: of the horizontal axis.
        label: of the colour bar.
        title: above all.

    """
    shape = (len(rows), len(columns))
    if not maps or any(values.shape != shape for values in maps.values()):
        raise InputError(f"heat maps need values of shape {shape}", "give one for every place")
    figure = new_figure(max(4.2, 0.62 * len(columns) * len(maps) + 1.6), 0.42 * len(rows) + 1.5)
    panels = figure.subplots(1, len(maps), squeeze=False)[0]
    finite = [np.abs(v[np.isfinite(v)]).max(initial=1.0) for v in maps.values()]
    reach = float(min(max(finite), 100.0))  # a single disaster must not whiten the rest
    norm, image = Normalize(-reach, reach), None
    for axes, (name, values) in zip(panels, maps.items(), strict=True):
        image = axes.imshow(values, cmap="RdBu", norm=norm, origin="lower", aspect="auto")
        for (r, c), value in np.ndenumerate(values):
            if np.isfinite(value):
                dark = abs(value) > 0.6 * reach
                axes.text(
                    c, r, f"{value:.0f}", ha="center", va="center", fontsize=8,
                    color="white" if dark else "black",
                )  # fmt: skip
        axes.set_xticks(range(len(columns)), columns, fontsize=8)
        axes.set_yticks(range(len(rows)), rows, fontsize=8)
        axes.set_xlabel(column_name, fontsize=9)
        axes.set_title(name, fontsize=10)
    panels[0].set_ylabel(row_name, fontsize=9)
    assert image is not None
    bar = figure.colorbar(image, ax=list(panels), pad=0.01, aspect=25)
    bar.set_label(label, fontsize=9)
    bar.ax.tick_params(labelsize=8)
    bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
    if title:
        figure.suptitle(title, fontsize=11)
    return figure
