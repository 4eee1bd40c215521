"""Predictions beside the truth, samples beside each other, partitions beside shocks."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.collections import TriMesh

from geonew.errors import InputError
from geonew.plot.comparison import Samples, comparison_figure, overview_figure
from geonew.plot.shocks import ShockView, shocks_figure
from geonew.plot.view import cropped, plane_view
from training_runs import square_with_hole
from zoo import SOLID

MESH = square_with_hole(1.2, 8, 3)
X = MESH.points[:, 0]


def errors_drawn(figure) -> list[np.ndarray]:
    """Values of all panels whose map is that of errors."""
    return [
        c.get_array()
        for axes in figure.axes
        for c in axes.collections
        if isinstance(c, TriMesh) and c.get_cmap().name == "magma_r"
    ]


def test_errors_are_sizes_of_differences():
    truth = {"u": np.stack([X, X], axis=1), "p": X}
    wrong = {"u": np.stack([X - 3.0, X + 4.0], axis=1), "p": X - 2.0}
    figure = comparison_figure(MESH, truth, {"right": truth, "wrong": wrong}, note="target")
    zero, none, five, two = errors_drawn(figure)
    assert np.all(zero == 0.0)
    np.testing.assert_allclose(five, 5.0)
    assert np.all(none == 0.0)
    np.testing.assert_allclose(two, 2.0)  # where the prediction is too small as well
    titles = [a.get_title(loc="left") for a in figure.axes]
    assert [t for t in titles if t] == ["|u|: target", "p: target", "right", "wrong"]


def test_fields_share_the_scale_of_the_truth():
    figure = comparison_figure(MESH, {"p": X}, {"large": {"p": 100 * X}})
    norms = {
        (c.norm.vmin, c.norm.vmax)
        for a in figure.axes
        for c in a.collections
        if c.get_cmap().name in ("viridis", "RdBu_r") and c.get_array() is not None
    }
    assert len(norms) == 1
    with pytest.raises(InputError, match="nothing to compare"):
        comparison_figure(MESH, {"p": X}, {})


def test_the_overview_has_a_line_per_family():
    solid = next(iter(SOLID.values()))()
    lines = [
        Samples("flat", [MESH, MESH], [X, 2 * X], ["a", "b"]),
        Samples("solid", [solid], [solid.points], ["c"]),
    ]
    figure = overview_figure(lines)
    assert [a.get_ylabel() for a in figure.axes if a.get_ylabel()] == ["flat", "solid"]
    assert sum(a.get_title() in "abc" and a.get_title() != "" for a in figure.axes) == 3
    with pytest.raises(InputError, match="no sample"):
        overview_figure([])


def test_a_window_shows_what_lies_in_it():
    view = plane_view(MESH)
    low, high = MESH.points.min(axis=0), MESH.points.max(axis=0)
    middle = (low + high) / 2
    window = (tuple(low.tolist()), tuple(middle.tolist()))
    part = cropped(view, *window)
    assert 0 < len(part.triangles) < len(view.triangles)
    corners = part.points[part.triangles]
    assert np.all(corners.min(axis=1) <= middle)
    np.testing.assert_array_equal(part.values(X), part.points[:, 0])
    with pytest.raises(InputError, match="no cell"):
        cropped(view, (90.0, 90.0), (91.0, 91.0))


def test_the_sonic_line_is_drawn_where_there_is_one():
    low, high = MESH.points.min(axis=0), MESH.points.max(axis=0)
    window = (tuple(low.tolist()), tuple(high.tolist()))
    fast = 0.5 + (X - low[0]) / (high[0] - low[0])
    rows = np.stack([np.median(X) > X, np.median(X) <= X], axis=1).astype(float)
    both = [ShockView(MESH, fast, rows, "fast"), ShockView(MESH, 0.1 * fast, rows, "slow")]
    figure = shocks_figure(both, *window)
    lines = {
        axes.get_title() + str(k % 2): sum(
            type(c).__name__ == "TriContourSet" for c in axes.collections
        )
        for k, axes in enumerate(figure.axes[:4])
    }
    assert lines == {"fast0": 1, "slow1": 0, "dominant partition0": 1, "dominant partition1": 0}
    numbers = {t.get_text() for t in figure.axes[2].texts}
    assert numbers == {"0", "1"}
    with pytest.raises(InputError, match="no sample"):
        shocks_figure([], *window)
