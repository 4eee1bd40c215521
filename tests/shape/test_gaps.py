import numpy as np
import pytest

from geonew.shape import Shape, disc, rectangle
from geonew.shape.gaps import narrow_gaps


def test_width_between_two_circles():
    shape = Shape(rectangle((-5, -5), (5, 5)), (disc((-1.05, 0), 1, "a"), disc((1.05, 0), 1, "b")))
    points, widths = narrow_gaps(shape, 0.3)
    assert widths.min() == pytest.approx(0.1, rel=0.02)
    assert (widths < 0.3).all()
    left = points[points[:, 0] < 0]
    exact = np.hypot(*(left - (1.05, 0)).T) - 1
    np.testing.assert_allclose(widths[points[:, 0] < 0], exact, atol=1e-3)
    assert len(left) == len(points) - len(left)


def test_points_along_a_long_side():
    shape = Shape(rectangle((0, 0), (4, 2)), (rectangle((0.5, 0.1), (3.5, 1), "bar"),))
    points, widths = narrow_gaps(shape, 0.2)
    assert widths.min() == pytest.approx(0.1)
    below = points[points[:, 1] == 0]
    assert np.diff(np.sort(below[:, 0])).max() <= 0.1 + 1e-12
    assert below[:, 0].min() < 0.5
    assert below[:, 0].max() > 3.5


def test_no_gaps():
    points, widths = narrow_gaps(Shape(disc((0, 0), 1)), 0.5)
    assert points.shape == (0, 2)
    assert widths.shape == (0,)
