"""Coordinates squeezed to the lengths of the training data."""

from __future__ import annotations

import numpy as np
import pytest

from geonew.bench.rescaling import coordinate_widths, squeezed
from geonew.errors import FeatureError


def test_longer_domains_are_squeezed_and_others_are_left():
    quantiles = {
        "x1": [-0.5, 0.0, 0.0, 0.0, 0.5],
        "x2": [-0.5, 0.0, 0.0, 0.0, 0.5],
        "sdf": [0.0] * 5,
    }
    widths = coordinate_widths(("sdf", "x1", "x2"), quantiles, 2)
    assert widths == {1: 1.0, 2: 1.0}
    tokens = np.array([[1.0, -2.0, -0.25], [2.0, 0.0, 0.0], [3.0, 2.0, 0.25]])
    before = tokens.copy()
    found = squeezed(tokens, widths)
    np.testing.assert_allclose(found[:, 1], [-0.5, 0.0, 0.5])
    np.testing.assert_array_equal(found[:, [0, 2]], tokens[:, [0, 2]])
    np.testing.assert_array_equal(tokens, before)


def test_a_model_without_coordinates_is_refused():
    with pytest.raises(FeatureError, match="no coordinates"):
        coordinate_widths(("sdf",), {"sdf": [0.0] * 5}, 2)
