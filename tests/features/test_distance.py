"""Distances against brute force, contact sets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from geonew.errors import FeatureError
from geonew.features.distance import (
    boundary_distance,
    contact_distance,
    contact_set,
    distance_to,
    group_distance,
)
from geonew.mesh import Mesh
from zoo import PLANAR, SOLID, ZOO


def to_segment(p, a, b):
    along = b - a
    t = np.clip((p - a) @ along / (along @ along), 0, 1)
    return np.linalg.norm(p - a - np.multiply.outer(t, along), axis=1)


def to_triangle(p, corners):
    a, b, c = corners
    inverse = np.linalg.pinv(np.stack([b - a, c - a], axis=1))
    st_ = (p - a) @ inverse.T
    inside = (st_ >= 0).all(axis=1) & (st_.sum(axis=1) <= 1)
    normal = np.cross(b - a, c - a)
    height = np.abs((p - a) @ normal) / np.linalg.norm(normal)
    rim = np.min([to_segment(p, a, b), to_segment(p, b, c), to_segment(p, c, a)], axis=0)
    return np.where(inside, height, rim)


def brute_force(mesh: Mesh, simplices) -> np.ndarray:
    one = to_triangle if simplices.shape[1] == 3 else lambda p, corners: to_segment(p, *corners)
    return np.min([one(mesh.points, mesh.points[s]) for s in simplices], axis=0)


def test_boundary_distance_is_exact(zoo_mesh):
    got, expected = boundary_distance(zoo_mesh), brute_force(zoo_mesh, zoo_mesh.boundary_facets)
    scale = np.abs(zoo_mesh.points).max()
    assert np.abs(got - expected).max() < 1e-12 * scale
    assert (got[zoo_mesh.boundary_nodes] == 0).all()


def test_group_distance_is_exact(zoo_mesh):
    for group in zoo_mesh.groups:
        got = group_distance(zoo_mesh, (group,))
        expected = brute_force(zoo_mesh, zoo_mesh.facets_of(group))
        assert np.abs(got - expected).max() < 1e-12 * np.abs(zoo_mesh.points).max()
        assert (got[zoo_mesh.nodes_of(group)] == 0).all()
    assert group_distance(zoo_mesh, ("absent",)) is None


@given(seed=st.integers(0, 2**31), dim=st.sampled_from([2, 3]))
def test_distance_of_scattered_nodes_is_exact(seed, dim):
    """Nodes moved at random, so that projections fall anywhere on the facets."""
    mesh = (PLANAR if dim == 2 else SOLID)["square" if dim == 2 else "cube"]()
    rng = np.random.default_rng(seed)
    stretched = Mesh(mesh.points @ (np.eye(dim) + 0.3 * rng.uniform(size=(dim, dim))), mesh.cells)
    facets = stretched.boundary_facets[rng.permutation(len(stretched.boundary_facets))[:5]]
    got = distance_to(stretched, facets)
    assert np.abs(got - brute_force(stretched, facets)).max() < 1e-12


def test_an_empty_set_is_refused():
    with pytest.raises(FeatureError, match="empty"):
        distance_to(ZOO["square"](), np.empty((0, 2), dtype=np.int64))


def test_contact_sets():
    square = ZOO["square"]()
    assert contact_set(square, ("left", "right")) == []
    assert contact_distance(square, ("left", "right")) is None
    (corner,) = contact_set(square, ("left", "bottom"))
    assert square.points[corner[:, 0]].tolist() == [[0.0, 0.0]]
    to_corner = np.linalg.norm(square.points, axis=1)
    assert np.abs(contact_distance(square, ("left", "bottom")) - to_corner).max() < 1e-15


def test_contact_in_3d_is_an_edge():
    cube = ZOO["cube"]()
    got = contact_distance(cube, ("left", "bottom", "right"))
    x, _, z = cube.points.T
    assert np.abs(got - np.minimum(np.hypot(x, z), np.hypot(1 - x, z))).max() < 1e-15
