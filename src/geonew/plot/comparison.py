r"""Predictions beside the truth, and what samples of several families look like.

One line of panels per model: each field and its error :math:`|u' - u|`; the truth above them.
Fields share the scale of the truth, errors one scale for all models, cut at a quantile so that one
bad node does not hide the others. Vectors are drawn by their length, their error by that of the
difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import Collection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, ScalarFormatter
from numpy import ndarray

from geonew.errors import InputError
from geonew.mesh import Mesh
from geonew.plot.view import View, colours_of, cropped, draw_values, new_figure, plane_view

# Errors beyond this quantile of all errors in a column have the darkest colour.
QUANTILE = 0.995
_ERROR_MAP = "magma_r"


def comparison_figure(
    mesh: Mesh,
    truth: Mapping[str, ndarray],
    predictions: Mapping[str, Mapping[str, ndarray]],
    title: str = "",
    note: str = "truth",
) -> Figure:
    """A figure with the truth above, and a line of fields and errors for each model.

    Args:
        mesh: where all of them are.
        truth: field -> (N,) or (N, d) nodal values.
        predictions: model -> the same fields.
        title: above all.
        note: what the first line is called.

    """
    if not truth or not predictions:
        raise InputError("there is nothing to compare", "give a truth and at least one prediction")
    view = plane_view(mesh)
    across, down = 2 * len(truth), 1 + len(predictions)
    width = float(np.clip(11.0 / across, 2.4, 3.6))
    figure = new_figure(width * across + 0.6, (width * view.aspect * 0.9 + 0.25) * down + 0.4)
    panels = figure.subplots(down, across, squeeze=False)
    for axes, label in zip(panels[1:, 0], predictions, strict=True):
        axes.set_title(label, fontsize=8, loc="left")
    for column, (name, values) in enumerate(truth.items()):
        defects = {
            model: np.abs(_size(np.asarray(fields[name]) - np.asarray(values)))
            for model, fields in predictions.items()
        }
        scalar = _size(np.asarray(values))
        cmap, norm = colours_of(scalar)
        every = np.concatenate([d[np.isfinite(d)] for d in defects.values()])
        worst = float(np.quantile(every, QUANTILE)) if every.size else 1.0
        error_norm = Normalize(0.0, worst or 1.0)
        of_field, of_error = panels[:, 2 * column], panels[:, 2 * column + 1]
        image = draw_values(of_field[0], view, view.values(scalar), cmap, norm, line=0.6)
        label = f"|{name}|" if np.ndim(values) == 2 else name
        of_field[0].set_title(f"{label}: {note}", fontsize=9, loc="left")
        of_error[0].set_axis_off()
        of_error[0].text(0.5, 0.05, f"error of {name}", ha="center", fontsize=9)
        error_image = image
        for left, right, (model, fields) in zip(
            of_field[1:], of_error[1:], predictions.items(), strict=True
        ):
            given = view.values(_size(np.asarray(fields[name])))
            draw_values(left, view, given, cmap, norm, line=0.6)
            error_image = draw_values(
                right, view, view.values(defects[model]), _ERROR_MAP, error_norm, line=0.6
            )
        _bar(figure, image, of_field.tolist())
        _bar(figure, error_image, of_error[1:].tolist())
    if title:
        figure.suptitle(title, fontsize=11)
    return figure


@dataclass(frozen=True, eq=False)
class Samples:
    """A line of the overview.

    Args:
        label: family and field.
        meshes: where.
        values: nodal values on each.
        captions: of each.
        window: two corners of what is drawn, where a domain is much larger than its obstacle.

    """

    label: str
    meshes: Sequence[Mesh]
    values: Sequence[ndarray]
    captions: Sequence[str]
    window: tuple[tuple[float, float], tuple[float, float]] | None = None

    @property
    def views(self) -> list[View]:
        """What is drawn of each sample."""
        whole = [plane_view(mesh) for mesh in self.meshes]
        return whole if self.window is None else [cropped(view, *self.window) for view in whole]


def overview_figure(lines: Sequence[Samples], title: str = "") -> Figure:
    """Samples of several families, a line each with a scale of its own."""
    if not lines:
        raise InputError("there is no sample to draw", "give at least one family")
    across = max(len(line.meshes) for line in lines)
    views = [line.views for line in lines]
    width = 2.9
    heights = [width * float(np.clip(max(v.aspect for v in of), 0.3, 1.0)) + 0.35 for of in views]
    figure = new_figure(width * across + 0.9, sum(heights) + 0.4)
    blocks = figure.subfigures(len(lines), 1, height_ratios=heights, squeeze=False)[:, 0]
    for block, line, mine in zip(blocks, lines, views, strict=True):
        panels = block.subplots(1, across, squeeze=False)[0]
        scalars = [_size(np.asarray(v)) for v in line.values]
        cmap, norm = colours_of(np.concatenate(scalars))
        image = None
        for axes in panels[len(mine) :]:
            axes.set_axis_off()
        for axes, view, scalar, caption in zip(panels, mine, scalars, line.captions, strict=False):
            image = draw_values(axes, view, view.values(scalar), cmap, norm, line=0.5)
            axes.set_title(caption, fontsize=8)
            if line.window is not None:
                axes.set_xlim(*(corner[0] for corner in line.window))
                axes.set_ylim(*(corner[1] for corner in line.window))
        panels[0].set_ylabel(line.label, fontsize=9)
        bar = block.colorbar(image, ax=panels.tolist(), shrink=0.85, pad=0.01, aspect=18)
        bar.ax.tick_params(labelsize=7)
        bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
    if title:
        figure.suptitle(title, fontsize=11)
    return figure


def _size(values: ndarray) -> ndarray:
    """Scalars as they are, vectors by their length."""
    return values if values.ndim == 1 else np.linalg.norm(values, axis=1)


def _bar(figure: Figure, image: Collection, axes: list[Axes]) -> None:
    """A bar below a column of panels, with a few numbers that have room."""
    few = ScalarFormatter()
    few.set_powerlimits((-2, 3))
    bar = figure.colorbar(
        image, ax=axes, location="bottom", shrink=0.85, pad=0.02, aspect=25,
        ticks=MaxNLocator(4), format=few,
    )  # fmt: skip
    bar.ax.tick_params(labelsize=7)
    bar.ax.xaxis.get_offset_text().set_fontsize(7)
    bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
