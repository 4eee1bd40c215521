"""Airfoils: thickness, closed trailing edge, and the design element."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from geonew.data.euler.airfoil import Airfoil, bernstein, half_thickness
from geonew.errors import ShapeError

DISPLACEMENTS = arrays(np.float64, (4, 2), elements=st.floats(-0.02, 0.02))
X = np.linspace(0, 1, 101)


def test_naca0012_has_its_thickness_and_a_closed_trailing_edge():
    assert abs(half_thickness(X).max() - 0.06 * 0.9912) < 1e-4  # scaled back to chord 1
    assert abs(half_thickness(np.ones(1))[0]) < 1e-9
    assert (half_thickness(X[1:-1]) > 0).all()
    near = np.array([1e-8])
    assert half_thickness(near)[0] ** 2 / (2 * near[0]) == pytest.approx(
        Airfoil.naca0012().nose_radius, rel=1e-3
    )


def test_bernstein_polynomials_are_a_partition_of_unity():
    assert np.abs(bernstein(X).sum(axis=0) - 1).max() < 1e-15
    assert np.abs(np.tensordot(np.arange(4) / 3, bernstein(X), axes=1) - X).max() < 1e-15


@given(DISPLACEMENTS)
def test_surface_is_the_image_under_the_design_element(d):
    airfoil = Airfoil(d)
    for side in (-1.0, 1.0):
        y = side * half_thickness(X)
        lower, upper = (1 - y / 0.06) / 2, (1 + y / 0.06) / 2
        image = y + (bernstein(X) * (d[:, :1] * lower + d[:, 1:] * upper)).sum(axis=0)
        assert np.abs(airfoil.surface(X, np.full_like(X, side)) - image).max() < 1e-15


@given(DISPLACEMENTS)
def test_trailing_edge_stays_sharp(d):
    airfoil = Airfoil(d)
    end = np.ones(2)
    lower, upper = airfoil.surface(end, np.array([-1.0, 1.0]))
    assert abs(upper - lower) < 1e-8
    height, slope = airfoil.trailing_edge
    assert abs(height - upper) < 1e-8
    step = np.array([1 - 1e-6, 1.0])
    assert slope == pytest.approx(np.diff(airfoil.camber(step))[0] / 1e-6, abs=1e-6)


def test_moving_all_control_points_moves_the_airfoil():
    moved = Airfoil(np.full((4, 2), 0.01))
    side = np.ones_like(X)
    gap = moved.surface(X, side) - Airfoil.naca0012().surface(X, side)
    assert np.abs(gap - 0.01).max() < 1e-15


def test_an_airfoil_without_thickness_is_refused():
    d = np.zeros((4, 2))
    d[1] = 0.2, -0.2
    with pytest.raises(ShapeError, match="thickness"):
        Airfoil(d)
    with pytest.raises(ShapeError, match="finite"):
        Airfoil(np.full((4, 2), np.nan))
