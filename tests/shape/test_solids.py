import json

import numpy as np
import pytest

from geonew.errors import ShapeError
from geonew.shape import Ball, Box, Cylinder, Polyhedron, Solid

CORNER = ((0.7, 0.7, 0.7), (0.9, 0.7, 0.7), (0.7, 0.9, 0.7), (0.7, 0.7, 0.9))
CUBE = tuple((x, y, z) for x in (0.0, 1.0) for y in (0.0, 1.0) for z in (0.0, 1.0))


def holed_box() -> Solid:
    cavities = (
        Ball((0.5, 0.5, 0.5), 0.2, "ball"),
        Cylinder((0.2, 0.2, -0.1), (0, 0, 2), 0.1, "hole"),
        Polyhedron(CORNER, "tetrahedron"),
    )
    return Solid(Box((0, 0, 0), (1, 1, 1)), cavities)


def test_json_round_trip():
    solid = holed_box()
    assert Solid.from_dict(json.loads(json.dumps(solid.to_dict()))) == solid


def test_names_and_bounds():
    solid = holed_box()
    assert solid.names == (
        *("x_min", "x_max", "y_min", "y_max", "z_min", "z_max"),
        *("ball", "hole", "tetrahedron"),
    )
    np.testing.assert_array_equal(solid.bounds, [[0, 0, 0], [1, 1, 1]])


def test_coplanar_triangles_of_the_hull_are_one_face():
    faces = Polyhedron(CUBE, "cube").polygons
    assert sorted(len(face) for face in faces) == [4] * 6
    for face in faces:  # neighbours around a square are at distance 1, not across the diagonal
        ring = np.array(CUBE)[list(face)]
        np.testing.assert_allclose(np.linalg.norm(ring - np.roll(ring, 1, axis=0), axis=1), 1)


def test_points_on_faces():
    box = Box((0, 0, 0), (1, 2, 3))
    missed = box.faces(np.array([[0, 1, 1], [0, 2.5, 1], [0.5, 1, 3]]))
    assert missed[0].argmin() == 0
    assert missed[0, 0] == 0
    assert missed[1, 0] == 0.5  # in the plane of x_min, but beside the face
    assert missed[2, 5] == 0
    tube = Cylinder((0, 0, 0), (0, 0, 2), 0.5)
    np.testing.assert_allclose(
        tube.faces(np.array([[0.5, 0, 1], [0.1, 0, 0], [0, 0.2, 2], [0.5, 0, 3.0]])).min(axis=1),
        [0, 0, 0, 1],
        atol=1e-15,
    )


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Box((0, 0, 0), (1, 0, 1)), "a box goes from"),
        (lambda: Box((0, 0, 0), (1, 1, 1), ("a", "b")), "each of its 6 faces"),
        (lambda: Ball((0, 0, 0), 0, "b"), "radius of a ball is 0"),
        (lambda: Ball((0, 0, 0), 1, ""), "group names ''"),
        (lambda: Ball((0, np.inf, 0), 1, "b"), "center of a ball"),
        (lambda: Cylinder((0, 0, 0), (0, 0, 0), 1), "height of a cylinder is 0"),
        (lambda: Polyhedron(CUBE[:4], "flat"), "no convex hull"),
        (lambda: Polyhedron((*CUBE, (0.5, 0.5, 0.5)), "dented"), "vertex 8"),
        (
            lambda: Solid(Box((0, 0, 0), (1, 1, 1)), (Ball((5, 0, 0), 1, "far"),)),
            "cavity 0 .*'far'.* outside",
        ),
        (lambda: Solid.from_dict({"kind": "solid"}), "no stored solid"),
        (
            lambda: Solid.from_dict({"kind": "solid", "body": {"kind": "cone"}, "cavities": []}),
            "kind 'cone'",
        ),
    ],
)
def test_bad_solids_are_refused(make, text):
    with pytest.raises(ShapeError, match=text):
        make()
