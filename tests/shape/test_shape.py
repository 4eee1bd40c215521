import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from geonew.errors import ShapeError
from geonew.shape import (
    Arc,
    Loop,
    Segment,
    Shape,
    disc,
    polygon,
    rectangle,
    regular_polygon,
    spline_loop,
    star,
)

SQUARE = rectangle((0, 0), (4, 4), ("bottom", "right", "top", "left"))


def channel() -> Shape:
    return Shape(
        rectangle((0, 0), (3, 1), ("wall", "outlet", "wall", "inlet")),
        (
            disc((0.7, 0.5), 0.15, "circle"),
            rectangle((1.5, 0.3), (1.8, 0.6), "square"),
            spline_loop([(2.2, 0.3), (2.6, 0.4), (2.5, 0.7), (2.3, 0.6)], "blob"),
        ),
    )


def test_area_and_names():
    shape = Shape(SQUARE, (disc((2, 2), 1, "hole"),))
    assert shape.area == pytest.approx(16 - np.pi, rel=1e-15)
    assert shape.names == ("bottom", "right", "top", "left", "hole")
    np.testing.assert_array_equal(shape.bounds, [[0, 0], [4, 4]])


def test_orientation_is_normalised():
    shape = Shape(SQUARE.reversed(), (disc((2, 2), 1, "hole"),))
    assert shape == Shape(SQUARE.reversed(), (disc((2, 2), 1, "hole").reversed().reversed(),))
    assert shape.outer.area == 16
    assert shape.holes[0].area == pytest.approx(-np.pi)
    assert [p.name for p in shape.outer.pieces] == ["bottom", "right", "top", "left"]


@given(
    n=st.integers(3, 12),
    outer=st.floats(0.5, 3),
    ratio=st.floats(0.3, 1.0),
    angle=st.floats(-7, 7),
)
def test_star_area_and_rotation(n, outer, ratio, angle):
    inner = ratio * outer
    shape = Shape(star((1, -2), outer, inner, n, "s", angle))
    assert shape.area == pytest.approx(n * outer * inner * np.sin(np.pi / n), rel=1e-12)
    polygon_area = n / 2 * outer**2 * np.sin(2 * np.pi / n)
    assert Shape(regular_polygon((0, 0), outer, n, "p", angle)).area == pytest.approx(polygon_area)


def test_reentrant_corners():
    corners = [(0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2)]
    assert Shape(polygon(corners, "wall")).reentrant_corners == ((1.0, 1.0),)
    assert Shape(polygon(corners[::-1], "wall")).reentrant_corners == ((1.0, 1.0),)
    holed = Shape(SQUARE, (rectangle((1, 1), (2, 2), "hole"), disc((3, 3), 0.5, "round")))
    assert set(holed.reentrant_corners) == {(1, 1), (1, 2), (2, 1), (2, 2)}
    assert len(Shape(star((0, 0), 1, 0.5, 5, "s")).reentrant_corners) == 5


def test_half_disc_from_arc_and_segment():
    half = Loop((Arc((0, 0), 1, 0, np.pi, "arc"), Segment((-1, 0), (1, 0), "flat")))
    assert Shape(half).area == pytest.approx(np.pi / 2)


def test_polygon_may_repeat_its_first_point():
    assert polygon([(0, 0), (1, 0), (0, 1), (0, 0)], "w") == polygon([(0, 0), (1, 0), (0, 1)], "w")


def test_json_round_trip():
    shape = channel()
    again = Shape.from_dict(json.loads(json.dumps(shape.to_dict())))
    assert again == shape
    assert again.area == shape.area


def test_renaming_a_loop():
    assert SQUARE.named("wall") == rectangle((0, 0), (4, 4), "wall")


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Loop(()), "no pieces"),
        (
            lambda: Loop((Segment((0, 0), (1, 0), "a"), Segment((1, 1), (0, 0), "b"))),
            "piece 0 ends",
        ),
        (lambda: polygon([(0, 0), (1, 1)], "a"), "2 distinct points"),
        (lambda: polygon([(0, 0), (1, 1), (0, 1)], ("a", "b")), "3 sides got 2 names"),
        (lambda: rectangle((1, 0), (0, 1), "a"), r"from \(1.0, 0.0\)"),
        (lambda: star((0, 0), 1, 0.5, 2, "a"), "2 tips"),
        (lambda: Shape(polygon([(0, 0), (1, 1), (1, 0), (0, 1)], "a")), r"near \(0.5, 0.5\)"),
        (lambda: Shape(polygon([(0, 0), (2, 0), (1, 0), (1, 1)], "a")), "crosses or touches"),
        (
            lambda: Shape(polygon([(0, 0), (2, 0), (2, 2), (1, 0), (0, 2)], "a")),
            r"touches itself near \(1, 0\)",
        ),
        (lambda: Shape(SQUARE, (disc((4, 2), 1, "h"),)), "hole 0 .*'h'.* not inside"),
        (lambda: Shape(SQUARE, (disc((9, 2), 1, "h"),)), "hole 0 .* not inside"),
        (lambda: Shape(disc((2, 2), 1, "o"), (SQUARE,)), "hole 0 .* not inside"),
        (lambda: Shape(SQUARE, (rectangle((0, 1), (1, 2), "h"),)), "hole 0 .* not inside"),
        (
            lambda: Shape(SQUARE, (disc((2, 2), 1, "h"), disc((2, 3), 0.5, "k"))),
            "holes 0 and 1 overlap",
        ),
        (
            lambda: Shape(SQUARE, (disc((2, 2), 1, "h"), disc((2, 2), 0.5, "k"))),
            "holes 0 and 1 overlap",
        ),
        (lambda: Shape.from_dict({"kind": "shape", "outer": []}), "no stored shape"),
        (
            lambda: Shape.from_dict(
                {"kind": "shape", "outer": [{"kind": "bezier", "name": "a"}], "holes": []}
            ),
            "kind 'bezier'",
        ),
        (
            lambda: Shape.from_dict(
                channel().to_dict() | {"outer": [{"kind": "segment", "name": "a", "speed": 1}]}
            ),
            "'speed'",
        ),
    ],
)
def test_bad_shapes_are_refused(make, text):
    with pytest.raises(ShapeError, match=text):
        make()
