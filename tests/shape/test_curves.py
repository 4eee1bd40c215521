import numpy as np
import pytest

from geonew.errors import ShapeError
from geonew.shape import Arc, Segment, Spline

OPEN = Spline(((0, 0), (1, 0.5), (2, -0.3), (2.5, 1)), "s")
CLOSED = Spline(((1, 0), (0, 1), (-1.2, 0.1), (0.2, -0.9), (1, 0)), "s")
PIECES = [
    Segment((0.3, 1), (2, -1), "a"),
    Arc((1, 2), 0.7, 0.4, 1.9, "a"),
    Arc((1, 2), 0.7, 0.4, -4.5, "a"),
    Arc((-1, 2), 0.3, 1, 2 * np.pi, "a"),
    OPEN,
    CLOSED,
]


@pytest.mark.parametrize("piece", PIECES)
def test_green_integral_is_that_of_a_fine_polygon(piece, monkeypatch):
    errors = []
    for n in (200, 400):
        monkeypatch.setattr("geonew.shape.curves.CHORDS_PER_TURN", n)
        monkeypatch.setattr("geonew.shape.curves.CHORDS_PER_INTERVAL", n)
        x, y = piece.polygon().T
        errors.append(abs((x[:-1] * y[1:] - y[:-1] * x[1:]).sum() / 2 - piece.area()))
    assert errors[1] < 2e-4
    # A polygon is second-order accurate; a straight piece is its own polygon.
    assert errors[1] < 0.27 * errors[0] or errors[0] < 1e-14


@pytest.mark.parametrize("piece", PIECES)
def test_reversal(piece):
    back = piece.reversed()
    assert back.area() == pytest.approx(-piece.area(), abs=1e-14)
    np.testing.assert_allclose(back.polygon()[::-1], piece.polygon(), atol=1e-13)
    np.testing.assert_allclose(back.tangents()[::-1], -piece.tangents(), atol=1e-12)


def test_whole_circle_closes_exactly():
    circle = Arc((0.1, 0.7), 0.3, 0.123, 2 * np.pi, "c")
    assert circle.is_circle
    assert circle.start == circle.end
    assert circle.area() == pytest.approx(np.pi * 0.09, rel=1e-14)


@pytest.mark.parametrize("spline", [OPEN, CLOSED])
def test_spline_passes_its_points_and_its_parts_are_the_curve(spline):
    knots = np.unique(spline.curve.t)
    np.testing.assert_allclose(spline.curve(knots), spline.points, atol=1e-14)
    for part in spline.parts():
        t = np.linspace(part.t[0], part.t[-1], 50)
        np.testing.assert_allclose(part(t), spline.curve(t), atol=1e-14)


def test_closed_spline_is_twice_smooth_at_its_seam():
    for order in (1, 2):
        first, last = CLOSED.curve(np.array([0.0, 1.0]), order)
        np.testing.assert_allclose(first, last, atol=1e-10)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Segment((0, 0), (0, 0), "a"), "length 0"),
        (lambda: Segment((0, 0), (0, np.nan), "a"), "segment end is"),
        (lambda: Segment((0, 0), (0, 1), " "), "group name ' '"),
        (lambda: Arc((0, 0), -1, 0, 1, "a"), "radius -1"),
        (lambda: Arc((0, 0), 1, 0, 7, "a"), "sweeps 7"),
        (lambda: Arc((0, 0), 1, 0, 0, "a"), "sweeps 0"),
        (lambda: Spline(((0, 0), (1, 1)), "a"), "2 points"),
        (lambda: Spline(((0, 0), (1, 1), (1, 1), (2, 0)), "a"), "repeats point 2"),
    ],
)
def test_bad_pieces_are_refused(make, text):
    with pytest.raises(ShapeError, match=text):
        make()
