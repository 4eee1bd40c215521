"""Quality of cells: known values, invariance, and its bounds on the zoo."""

from __future__ import annotations

import numpy as np
import pytest

from geonew.mesh import Mesh, mesh_quality
from zoo import needles, square


def test_equilateral_simplices_have_quality_one():
    triangle = Mesh(np.array([[0, 0], [1, 0], [0.5, 3**0.5 / 2]]), np.array([[0, 1, 2]]))
    corners = np.array([[1.0, 1, 1], [-1, 1, -1], [1, -1, -1], [-1, -1, 1]])
    tetrahedron = Mesh(corners, np.array([[0, 1, 2, 3]]))
    two, three = mesh_quality(triangle), mesh_quality(tetrahedron)
    assert two.quality[0] == pytest.approx(1, abs=1e-14)
    assert two.smallest_angle[0] == pytest.approx(60)
    assert three.quality[0] == pytest.approx(1, abs=1e-14)
    assert three.smallest_angle[0] == pytest.approx(np.rad2deg(np.arccos(1 / 3)))
    assert three.shortest_edge == pytest.approx(8**0.5)


def test_right_triangle():
    """Legs 3 and 4: r = 1, R = 5/2, q = 4/5."""
    mesh = Mesh(np.array([[0.0, 0], [4, 0], [0, 3]]), np.array([[0, 1, 2]]))
    quality = mesh_quality(mesh)
    assert quality.quality[0] == pytest.approx(0.8)
    assert quality.smallest_angle[0] == pytest.approx(np.rad2deg(np.arctan2(3, 4)))
    assert (quality.shortest_edge, quality.longest_edge, quality.mean_edge) == (3, 5, 4)


def test_corner_tetrahedron():
    """Unit corner: r = 1/(3 + sqrt 3), R = sqrt(3)/2, q = 3 r / R."""
    points = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    quality = mesh_quality(Mesh(points, np.array([[0, 1, 2, 3]])))
    assert quality.quality[0] == pytest.approx(6 / (3 + 3**0.5) / 3**0.5)
    assert quality.smallest_angle[0] == pytest.approx(np.rad2deg(np.arccos(1 / 3**0.5)))


def test_quality_is_in_bounds_and_scale_free(zoo_mesh):
    quality = mesh_quality(zoo_mesh)
    assert (quality.quality > 0).all()
    assert (quality.quality <= 1).all()
    assert sum(count for _, _, count in quality.histogram()) == zoo_mesh.n_cells
    angle = 0.7
    turn = np.eye(zoo_mesh.dim)
    turn[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    moved = mesh_quality(zoo_mesh.moved(turn, np.zeros(zoo_mesh.dim), 1e-3))
    np.testing.assert_allclose(moved.quality, quality.quality, rtol=1e-8)


def test_small_angles_are_not_lost():
    assert mesh_quality(needles()).smallest_angle.min() == pytest.approx(
        np.rad2deg(np.arctan(1e-4)), rel=1e-9
    )
    assert mesh_quality(square()).smallest_angle.min() == pytest.approx(45)
