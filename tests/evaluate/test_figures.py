"""Figures over samples, and groups along an axis."""

from __future__ import annotations

import json

import numpy as np
import pytest

from geonew.evaluate.figures import figures, groups_along


def test_figures_by_their_definition():
    values = np.array([3.0, 1.0, np.nan, 2.0, 10.0])
    found = figures(values)
    assert (found.mean, found.median, found.worst, found.count) == (4.0, 2.5, 10.0, 4)
    assert found.deviation == pytest.approx(np.std([1, 2, 3, 10], ddof=1))


def test_a_failed_sample_is_seen_in_the_mean_and_not_in_the_median():
    found = figures(np.array([1.0, 2.0, np.inf]))
    assert found.mean == np.inf
    assert found.median == 2.0
    plain = found.to_plain()
    assert plain["mean"] is None
    json.dumps(plain, allow_nan=False)


def test_no_sample_no_figure():
    assert figures(np.array([np.nan])).count == 0
    assert figures(np.empty(0)).to_plain()["mean"] is None


def test_few_values_are_groups_and_many_are_quarters():
    labels = dict(groups_along((1, 3, 3, 2, None)))
    assert list(labels) == ["1", "2", "3"]
    assert labels["3"].tolist() == [False, True, True, False, False]
    assert [label for label, _ in groups_along(("b", "a", "b"))] == ["a", "b"]
    many = tuple(np.linspace(1.0, 5.0, 40).tolist())
    parts = groups_along(many)
    assert len(parts) == 4
    assert np.stack([which for _, which in parts]).sum(axis=0).tolist() == [1] * 40
