"""Charts: what is drawn is what was given; scales, heat maps, bytes."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.collections import FillBetweenPolyCollection

from geonew.errors import InputError
from geonew.plot.charts import Chart, Curve, charts_figure, heat_maps_figure
from geonew.plot.encode import as_png, as_svg


def two_curves() -> Chart:
    return Chart(
        [
            Curve("ours", [1.0, 2.0, 4.0], [1.0, 2.0, 30.0], [0.5, 1.0, 20.0], [2.0, 3.0, 40.0],
                  strong=True),
            Curve("theirs", [1.0, 2.0], [5.0, float("nan")], colour=1, dashed=True),
        ],
        "x", "y", ticks=[1.0, 2.0, 4.0],
    )  # fmt: skip


def test_curves_are_drawn_as_given():
    figure = charts_figure([two_curves(), Chart([Curve("ours", [0.0, 1.0], [3.0, 4.0])], "x", "y")])
    left, right = figure.axes
    np.testing.assert_array_equal(left.lines[0].get_ydata(), [1.0, 2.0, 30.0])
    assert left.lines[0].get_linewidth() > left.lines[1].get_linewidth()
    assert left.lines[1].get_linestyle() == "--"
    assert any(isinstance(c, FillBetweenPolyCollection) for c in left.collections)
    assert left.get_yscale() == "log", "more than a factor of ten"
    assert left.get_xscale() == "linear"
    assert right.get_yscale() == "linear"
    assert right.get_ylim()[0] == 0.0
    (legend,) = figure.legends
    assert [t.get_text() for t in legend.get_texts()] == ["ours", "theirs"], "each name once"
    assert [t.get_text() for t in left.get_xticklabels()] == ["1", "2", "4"]


def test_nothing_is_refused():
    with pytest.raises(InputError, match="nothing to draw"):
        charts_figure([Chart([], "x", "y")])
    with pytest.raises(InputError, match="shape"):
        heat_maps_figure({"a": np.zeros((2, 3))}, ["1"], ["1"], "r", "c", "label")


def test_heat_maps_have_one_scale_and_their_numbers():
    values = {"a": np.array([[10.0, -20.0], [np.nan, 40.0]]), "b": np.full((2, 2), 400.0)}
    figure = heat_maps_figure(values, ["1", "2"], ["3", "4"], "rows", "columns", "saved")
    first, second = figure.axes[:2]
    assert [t.get_text() for t in first.texts] == ["10", "-20", "40"]
    norms = {(a.images[0].norm.vmin, a.images[0].norm.vmax) for a in (first, second)}
    assert norms == {(-100.0, 100.0)}, "a disaster does not set the scale"


def test_bytes_are_the_same_every_time_and_refer_to_nothing():
    made = [as_svg(charts_figure([two_curves()])) for _ in range(2)]
    assert made[0] == made[1]
    text = made[0].decode()
    assert "matplotlib.org" not in text
    assert "DOCTYPE" not in text
    assert "<metadata" not in text
    assert [as_png(charts_figure([two_curves()]), 40) for _ in range(2)][1][:4] == b"\x89PNG"
