"""Loads against scikit-fem's quadrature, and the divergence theorem to round-off."""

from __future__ import annotations

import numpy as np
import pytest
import skfem
from numpy import ndarray

from geonew.errors import GroupError
from geonew.fem.bridge import p1_element, skfem_mesh
from geonew.fem.forms import assemble_form, known_form
from geonew.fem.loads import (
    group_normals,
    neumann_load,
    node_normals,
    normal_load,
    source_load,
)
from geonew.mesh import Mesh
from geonew.mesh.mesh import find_rows

ROUND_OFF = 1e-13


def field(mesh: Mesh, width: int) -> ndarray:
    return np.random.default_rng(3).normal(size=(mesh.n_nodes, width))


def quadrature(mesh: Mesh, group: str) -> tuple:
    """scikit-fem's basis on a group's facets, and the value of a nodal field there."""
    skmesh = skfem_mesh(mesh)
    position = find_rows(np.sort(skmesh.facets.T, axis=1), mesh.facets_of(group), mesh.n_nodes)
    facets = np.flatnonzero(position >= 0)
    assert len(facets) == len(mesh.facets_of(group))
    return skfem.FacetBasis(skmesh, p1_element(mesh), facets=facets, intorder=3)


def test_source_load_is_the_mass_matrix(zoo_mesh: Mesh) -> None:
    f = field(zoo_mesh, 2)
    mass = assemble_form(known_form("mass"), ("scalar",), zoo_mesh)[0, 0]
    exact = mass @ f
    np.testing.assert_allclose(source_load(zoo_mesh, f), exact, atol=ROUND_OFF * abs(exact).max())
    np.testing.assert_array_equal(source_load(zoo_mesh, f[:, 0]), source_load(zoo_mesh, f)[:, 0])
    one = source_load(zoo_mesh, np.ones(zoo_mesh.n_nodes))
    assert one.sum() == pytest.approx(zoo_mesh.volume, rel=1e-13)
    assert (one > 0).all()


def test_neumann_load_agrees_with_quadrature(zoo_mesh: Mesh) -> None:
    g = field(zoo_mesh, 3)
    for group in zoo_mesh.groups:
        basis = quadrature(zoo_mesh, group)
        load = neumann_load(zoo_mesh, group, g)
        for column in range(3):
            form = skfem.LinearForm(lambda v, w: w["g"] * v)
            exact = form.assemble(basis, g=basis.interpolate(g[:, column]))
            bound = ROUND_OFF * np.abs(exact).max()
            np.testing.assert_allclose(load[:, column], exact, atol=10 * bound)
        outside = np.setdiff1d(np.arange(zoo_mesh.n_nodes), zoo_mesh.nodes_of(group))
        assert not load[outside].any()


def test_normal_load_agrees_with_quadrature(zoo_mesh: Mesh) -> None:
    g = field(zoo_mesh, 1)[:, 0]
    for group in zoo_mesh.groups:
        basis = quadrature(zoo_mesh, group)
        load = normal_load(zoo_mesh, group, g)
        for axis in range(zoo_mesh.dim):
            form = skfem.LinearForm(lambda v, w, axis=axis: w["g"] * w.n[axis] * v)
            exact = form.assemble(basis, g=basis.interpolate(g))
            np.testing.assert_allclose(load[:, axis], exact, atol=1e-12 * np.abs(load).max())


def test_closed_boundary_and_measures(zoo_mesh: Mesh) -> None:
    one = np.ones(zoo_mesh.n_nodes)
    normals = sum(normal_load(zoo_mesh, group, one) for group in zoo_mesh.groups)
    areas = [neumann_load(zoo_mesh, group, one).sum() for group in zoo_mesh.groups]
    assert np.abs(normals.sum(axis=0)).max() < ROUND_OFF * sum(areas)
    measured = np.linalg.norm(zoo_mesh.boundary_normals, axis=1).sum()
    assert sum(areas) == pytest.approx(measured, rel=1e-13)


def test_divergence_theorem(zoo_mesh: Mesh) -> None:
    """int x_k n over the boundary is |Omega| e_k: the load of a linear pressure."""
    for axis in range(zoo_mesh.dim):
        x = zoo_mesh.points[:, axis] - zoo_mesh.points[:, axis].mean()
        total = sum(normal_load(zoo_mesh, group, x).sum(axis=0) for group in zoo_mesh.groups)
        exact = zoo_mesh.volume * np.eye(zoo_mesh.dim)[axis]
        scale = np.abs(x).max() * np.linalg.norm(zoo_mesh.boundary_normals, axis=1).sum()
        np.testing.assert_allclose(total, exact, atol=ROUND_OFF * scale)


def test_integration_by_parts(zoo_mesh: Mesh) -> None:
    """int q div u + int grad q . u = int q u.n for P1 q and u, node by node of u = e_k phi_j."""
    q = field(zoo_mesh, 1)[:, 0]
    blocks = assemble_form(known_form("divergence"), ("scalar", "vector"), zoo_mesh)
    boundary = sum(normal_load(zoo_mesh, group, q) for group in zoo_mesh.groups)
    for axis in range(zoo_mesh.dim):
        matrix = blocks[0, axis]  # int phi_i d_axis phi_j
        left = matrix.T @ q + matrix @ q
        scale = (abs(matrix) @ abs(q)).max()
        np.testing.assert_allclose(left, boundary[:, axis], atol=1e-12 * scale)


def test_node_normals_of_flat_and_round_groups() -> None:
    from zoo import ZOO

    square, disc = ZOO["square"](), ZOO["disc"]()
    right = square.nodes_of("right")
    assert np.array_equal(node_normals(square, "right")[right], np.tile([1.0, 0.0], (9, 1)))
    assert not np.delete(node_normals(square, "right"), right, axis=0).any()
    rim = disc.nodes_of("rim")
    np.testing.assert_allclose(node_normals(disc, "rim")[rim], disc.points[rim], atol=1e-12)


def test_node_normals_of_both_faces_of_a_crack_have_no_direction_at_its_tips() -> None:
    from zoo import ZOO

    slit = ZOO["slit"]()
    tips = np.flatnonzero((slit.points == [0.25, 0.5]).all(axis=1))
    assert len(tips) == 1
    assert not node_normals(slit, "crack")[tips].any()


def test_unknown_group() -> None:
    from zoo import ZOO

    with pytest.raises(GroupError, match="no boundary group 'lid'"):
        group_normals(ZOO["square"](), "lid")
