"""Interpolation: exact for linear fields, NaN outside, boundaries belong to the mesh."""

from __future__ import annotations

import numpy as np
import pytest

from geonew.fem.interpolate import interpolate, locate
from geonew.mesh import Mesh
from zoo import ZOO


def random_points(mesh: Mesh, count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Points inside random cells, and these cells."""
    rng = np.random.default_rng(seed)
    cells = rng.integers(mesh.n_cells, size=count)
    weights = rng.dirichlet(np.ones(mesh.dim + 1), size=count)
    return np.einsum("mk,mkd->md", weights, mesh.points[mesh.cells[cells]]), cells


def test_linear_fields_are_exact(zoo_mesh: Mesh) -> None:
    points, _ = random_points(zoo_mesh, 200)
    rng = np.random.default_rng(1)
    slope, level = rng.normal(size=(zoo_mesh.dim, 3)), rng.normal(size=3)
    values = zoo_mesh.points @ slope + level
    found = interpolate(zoo_mesh, values, points)
    size = np.abs(values).max()
    assert np.abs(found - (points @ slope + level)).max() < 1e-12 * size
    one = interpolate(zoo_mesh, values[:, 0], points)
    assert one.shape == (200,)
    assert np.abs(one - found[:, 0]).max() < 1e-14 * size


def test_nodes_and_facets_belong_to_the_mesh(zoo_mesh: Mesh) -> None:
    values = np.arange(zoo_mesh.n_nodes, dtype=float)
    middle = zoo_mesh.points[zoo_mesh.boundary_facets].mean(axis=1)
    assert np.isfinite(interpolate(zoo_mesh, values, middle)).all()
    cell, weights = locate(zoo_mesh, np.array(zoo_mesh.points))
    assert (cell >= 0).all()
    back = np.einsum("mk,mkd->md", weights, zoo_mesh.points[zoo_mesh.cells[cell]])
    assert np.abs(back - zoo_mesh.points).max() < 1e-9 * np.abs(zoo_mesh.points).max()


def test_every_point_is_found_in_its_cell_or_a_neighbour(zoo_mesh: Mesh) -> None:
    """Also in graded and needle meshes, where the nearest centre is often another cell's."""
    points, cells = random_points(zoo_mesh, 300, seed=2)
    found, weights = locate(zoo_mesh, points)
    assert (found >= 0).all()
    assert weights.min() >= -1e-9
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-12)
    assert (found == cells).mean() > 0.95


@pytest.mark.parametrize("name", ["square_with_hole", "annulus", "l_shape", "hollow_cube"])
def test_outside_is_not_a_number(name: str) -> None:
    mesh = ZOO[name]()
    hole = {"square_with_hole": [0.5, 0.5], "annulus": [0.0, 0.1], "l_shape": [0.8, 0.9]}
    inside_hole = np.array([hole.get(name, [0.5, 0.5, 0.5])])
    far = np.full((1, mesh.dim), 1e6)
    undefined = np.full((1, mesh.dim), np.nan)
    known, _ = random_points(mesh, 1)
    values = np.ones(mesh.n_nodes)
    found = interpolate(mesh, values, np.concatenate([inside_hole, far, undefined, known]))
    assert np.isnan(found[:3]).all()
    assert found[3] == pytest.approx(1.0)


def test_no_points_are_no_values(planar_mesh: Mesh) -> None:
    values = np.ones((planar_mesh.n_nodes, 2))
    assert interpolate(planar_mesh, values, np.zeros((0, 2))).shape == (0, 2)


def test_both_sides_of_a_crack_keep_their_own_values() -> None:
    mesh = ZOO["slit"]()
    x, above = mesh.points, np.zeros(mesh.n_nodes)
    upper = np.unique(mesh.cells[x[mesh.cells].mean(axis=1)[:, 1] > 0.5])
    above[upper] = 1.0
    points = np.array([[0.5, 0.5 + 1e-6], [0.5, 0.5 - 1e-6]])
    np.testing.assert_allclose(interpolate(mesh, above, points), [1.0, 0.0], atol=1e-4)
