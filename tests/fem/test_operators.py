"""Identities of the fine operators, on the zoo and on random meshes."""

from __future__ import annotations

import numpy as np
import pytest
import skfem
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial import Delaunay
from skfem.helpers import dot

from geonew.errors import MeshError
from geonew.fem import assemble
from geonew.fem.bridge import p1_element, skfem_mesh
from geonew.fem.operators import stiffness_parts
from geonew.mesh import Mesh

ROUND_OFF = 1e-12


def gradients(mesh: Mesh) -> np.ndarray:
    """(C, d+1, d): constant gradients of the hat functions, straight from the inverse Jacobian."""
    corners = mesh.points[mesh.cells]
    inverse = np.linalg.inv(corners[:, 1:] - corners[:, :1])  # (C, d, d), columns are gradients
    inner = np.swapaxes(inverse, 1, 2)
    return np.concatenate([-inner.sum(axis=1, keepdims=True), inner], axis=1)


def barycentric_mass(dim: int) -> np.ndarray:
    """int phi_i phi_j over a cell of volume 1: (1 + delta_ij) / ((d + 1)(d + 2))."""
    return (1 + np.eye(dim + 1)) / ((dim + 1) * (dim + 2))


def relative(a, b) -> float:
    return float(abs(a - b).max() / abs(b).max())


def check_identities(mesh: Mesh) -> None:
    ops = assemble(mesh)
    K, M1, d0, d1 = ops.stiffness, ops.whitney1_mass, ops.d0, ops.d1
    assert (K != K.T).nnz == 0
    assert np.abs(K @ np.ones(mesh.n_nodes)).max() <= ROUND_OFF * abs(K).max()
    assert abs(d1 @ d0).sum() == 0
    assert relative(d0.T @ M1 @ d0, K) < ROUND_OFF
    spectrum = np.linalg.eigvalsh(K.toarray())
    assert spectrum[0] > -ROUND_OFF * spectrum[-1]
    assert np.linalg.eigvalsh(M1.toarray())[0] > 0
    assert np.linalg.eigvalsh(ops.mass.toarray())[0] > 0
    assert ops.lumped.sum() == pytest.approx(mesh.volume, rel=ROUND_OFF)
    for matrix in (K, ops.mass, M1, d0, d1, *ops.gradient):
        assert matrix.format == "csr"
        assert matrix.dtype == np.float64


def test_identities_on_the_zoo(zoo_mesh):
    check_identities(zoo_mesh)


@given(seed=st.integers(0, 2**31), count=st.integers(5, 30), dim=st.sampled_from([2, 3]))
def test_identities_on_random_delaunay_meshes(seed, count, dim):
    points = np.random.default_rng(seed).uniform(size=(count, dim))
    cells = Delaunay(points).simplices.astype(np.int64)
    volumes = np.linalg.det(points[cells[:, 1:]] - points[cells[:, :1]])
    cells[volumes < 0, :2] = cells[volumes < 0, 1::-1]
    cells = cells[np.abs(volumes) > 1e-6]
    used, local = np.unique(cells, return_inverse=True)
    try:
        mesh = Mesh(points[used], local.reshape(cells.shape))
    except MeshError:  # dropping flat cells may disconnect the rest
        return
    check_identities(mesh)


def test_p1_matrices_are_those_of_scikit_fem(zoo_mesh):
    ops = assemble(zoo_mesh)
    basis = skfem.Basis(skfem_mesh(zoo_mesh), p1_element(zoo_mesh), intorder=2)

    def assembled(integrand):
        return skfem.BilinearForm(integrand).assemble(basis).toarray()

    stiffness = assembled(lambda u, v, w: dot(u.grad, v.grad))
    assert relative(ops.stiffness.toarray(), stiffness) < ROUND_OFF
    assert relative(ops.mass.toarray(), assembled(lambda u, v, w: u * v)) < ROUND_OFF
    for k, gradient in enumerate(ops.gradient):
        expected = assembled(lambda u, v, w, k=k: u.grad[k] * v)
        assert relative(gradient.toarray(), expected) < ROUND_OFF


def test_whitney1_mass_has_its_closed_form_and_orientation(zoo_mesh):
    mesh, local = zoo_mesh, barycentric_mass(zoo_mesh.dim)
    number = {tuple(edge): k for k, edge in enumerate(mesh.edges.tolist())}
    expected = np.zeros((len(mesh.edges), len(mesh.edges)))
    for cell, g, volume in zip(
        np.sort(mesh.cells, axis=1), _sorted(mesh), mesh.volumes, strict=True
    ):
        gram = g @ g.T
        sides = [(a, b) for a in range(len(cell)) for b in range(a + 1, len(cell))]
        for a, b in sides:
            for c, d in sides:
                value = (
                    local[a, c] * gram[b, d]
                    - local[a, d] * gram[b, c]
                    - local[b, c] * gram[a, d]
                    + local[b, d] * gram[a, c]
                )
                expected[number[cell[a], cell[b]], number[cell[c], cell[d]]] += volume * value
    assert relative(assemble(mesh).whitney1_mass.toarray(), expected) < ROUND_OFF


def test_whitney2_mass_has_its_closed_form_and_orientation(solid_mesh):
    mesh, local = solid_mesh, barycentric_mass(3)
    number = {tuple(face): k for k, face in enumerate(mesh.faces.tolist())}
    expected = np.zeros((len(mesh.faces), len(mesh.faces)))
    triples = [(0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3)]
    for cell, g, volume in zip(
        np.sort(mesh.cells, axis=1), _sorted(mesh), mesh.volumes, strict=True
    ):
        # the coefficient of phi_a in w_ijk is 2 grad phi_b x grad phi_c, (a, b, c) cyclic in ijk
        forms = np.zeros((4, 4, 3))
        for f, (i, j, k) in enumerate(triples):
            for a, b, c in [(i, j, k), (j, k, i), (k, i, j)]:
                forms[f, a] = 2 * np.cross(g[b], g[c])
        block = volume * np.einsum("fax,hbx,ab->fh", forms, forms, local)
        rows = [number[tuple(cell[list(t)])] for t in triples]
        expected[np.ix_(rows, rows)] += block
    assert relative(assemble(mesh).whitney2_mass.toarray(), expected) < ROUND_OFF


def _sorted(mesh: Mesh) -> np.ndarray:
    """Gradients in the order of each cell's ascending vertex numbers."""
    order = np.argsort(mesh.cells, axis=1)
    return np.take_along_axis(gradients(mesh), order[:, :, None], axis=1)


def test_curl_of_a_linear_field_is_seen_by_d1(solid_mesh):
    """Circulations of u = omega x r give the constant curl 2 omega: energy 4 |omega|^2 |Omega|."""
    ops, omega = assemble(solid_mesh), np.array([0.3, -1.0, 0.5])
    i, j = solid_mesh.edges.T
    middle = (solid_mesh.points[i] + solid_mesh.points[j]) / 2
    along = solid_mesh.points[j] - solid_mesh.points[i]
    flux = ops.d1 @ np.einsum("ed,ed->e", np.cross(omega, middle), along)
    energy = flux @ ops.whitney2_mass @ flux
    assert energy == pytest.approx(4 * omega @ omega * solid_mesh.volume, rel=1e-11)


def test_face_mass_is_refused_in_2d(planar_mesh):
    with pytest.raises(MeshError, match="3D"):
        _ = assemble(planar_mesh).whitney2_mass


def test_gradient_operators_integrate_by_parts(zoo_mesh):
    """G_k + G_k^T = int over the boundary of phi_i phi_j n_k; its row sums are tested."""
    ops = assemble(zoo_mesh)
    ones = np.ones(zoo_mesh.n_nodes)
    for k in range(zoo_mesh.dim):
        expected = np.zeros(zoo_mesh.n_nodes)
        share = zoo_mesh.boundary_normals[:, k] / zoo_mesh.dim
        np.add.at(expected, zoo_mesh.boundary_facets, share[:, None])
        got = (ops.gradient[k] + ops.gradient[k].T) @ ones
        assert np.abs(got - expected).max() < 1e-12 * np.abs(zoo_mesh.boundary_normals).max()


def test_parts_of_the_stiffness_add_up_in_any_axes(zoo_mesh):
    ops, d = assemble(zoo_mesh), zoo_mesh.dim
    axes = np.linalg.qr(np.random.default_rng(0).standard_normal((d, d)))[0]
    parts, plain = stiffness_parts(zoo_mesh, axes), stiffness_parts(zoo_mesh, np.eye(d))
    assert len(parts) == d * (d + 1) / 2
    size = abs(ops.stiffness).max()
    assert abs(sum(parts[k, k] for k in range(d)) - ops.stiffness).max() < ROUND_OFF * size
    whole = {**plain, **{(b, a): part.T for (a, b), part in plain.items() if a != b}}
    for j, k in parts:  # turned by hand
        turned = sum(axes[j, a] * axes[k, b] * part for (a, b), part in whole.items())
        assert abs(parts[j, k] - turned).max() < ROUND_OFF * size
    for k in range(d):
        assert (parts[k, k] != parts[k, k].T).nnz == 0


def test_nodal_gradient_is_exact_for_linear_functions(zoo_mesh):
    slope = np.arange(1.0, zoo_mesh.dim + 1)
    got = assemble(zoo_mesh).nodal_gradient(zoo_mesh.points @ slope)
    scale = np.abs(zoo_mesh.points).max() / np.ptp(zoo_mesh.points, axis=0).min()
    assert np.abs(got - slope).max() < 1e-11 * scale


def test_boundary_masses_add_up_to_the_surface(zoo_mesh):
    ops, ones = assemble(zoo_mesh), np.ones(zoo_mesh.n_nodes)
    for group in zoo_mesh.groups:
        mass = ops.boundary_mass(group)
        here = zoo_mesh.group_index == list(zoo_mesh.groups).index(group)
        surface = np.linalg.norm(zoo_mesh.boundary_normals[here], axis=1).sum()
        assert ones @ mass @ ones == pytest.approx(surface, rel=1e-12)
        assert set(np.flatnonzero(mass.diagonal())) == set(zoo_mesh.nodes_of(group).tolist())
