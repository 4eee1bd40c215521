"""Dirichlet spectra against closed forms; the signature's normalisation; the cut at a gap."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import jn_zeros

from geonew.errors import FeatureError
from geonew.features.spectral import (
    GAP,
    _count_below,
    _cut,
    dirichlet_eigenpairs,
    heat_kernel_signature,
    sun_times,
)
from geonew.fem import DirichletSolver, assemble
from structured import box, disc, order
from zoo import ZOO


def spectrum(mesh, count):
    ops = assemble(mesh)
    solver = DirichletSolver(ops.stiffness, mesh.boundary_nodes)
    return dirichlet_eigenpairs(solver, ops.mass, count), ops, solver


def square_values(count):
    k = np.arange(1, 20) ** 2
    return np.sort((np.pi**2 * (k[:, None] + k)).ravel())[:count]


def cube_values(count):
    k = np.arange(1, 10) ** 2
    return np.sort((np.pi**2 * (k[:, None, None] + k[:, None] + k)).ravel())[:count]


def disc_values(count):
    zeros = [jn_zeros(m, 6) ** 2 for m in range(8)]
    return np.sort(np.concatenate([zeros[0], *zeros[1:], *zeros[1:]]))[:count]


@pytest.mark.parametrize(
    ("meshes", "exact", "bound"),
    [
        ([box(n, 2) for n in (12, 24, 48)], square_values(6), 0.009),
        ([disc(n) for n in (8, 16, 32)], disc_values(6), 0.012),
        ([box(n, 3) for n in (4, 8, 16)], cube_values(4), 0.06),
    ],
    ids=["square", "disc", "cube"],
)
def test_eigenvalues_converge_at_order_two(meshes, exact, bound):
    errors = []
    for mesh in meshes:
        pairs, *_ = spectrum(mesh, len(exact))
        errors.append(np.abs(pairs.values[: len(exact)] / exact - 1).max())
    assert 1.85 < order(errors) < 2.3
    assert errors[-1] < bound


@pytest.mark.parametrize("mesh", [box(24, 2), disc(14), ZOO["ball"]()], ids=["box", "disc", "ball"])
def test_krylov_and_dense_agree_even_for_multiple_eigenvalues(mesh, monkeypatch):
    sparse, *_ = spectrum(mesh, 20)
    monkeypatch.setattr("geonew.features.spectral.DENSE_BELOW", 10**6)
    dense, *_ = spectrum(mesh, 20)
    assert len(sparse.values) == len(dense.values)
    assert np.abs(sparse.values / dense.values - 1).max() < 1e-10
    times = sun_times(dense, 8)
    a, b = (heat_kernel_signature(p, times, mesh.volume) for p in (sparse, dense))
    assert np.abs(a - b).max() < 1e-8 * np.abs(b).max()


def test_inertia_counts_eigenvalues():
    pairs, ops, solver = spectrum(box(16, 2), 12)
    inner = ops.mass[solver.free][:, solver.free]
    for k in (1, 5, 9):
        if pairs.values[k] / pairs.values[k - 1] > 1 + GAP:
            shift = (pairs.values[k] + pairs.values[k - 1]) / 2
            assert _count_below(solver.matrix, inner, shift) == k


def test_signature_has_mean_one(zoo_mesh):
    if len(zoo_mesh.boundary_nodes) == zoo_mesh.n_nodes:
        with pytest.raises(FeatureError, match="no Dirichlet modes"):
            spectrum(zoo_mesh, 8)
        return
    pairs, ops, _ = spectrum(zoo_mesh, 8)
    squares = np.einsum("nk,nk->k", pairs.vectors, ops.mass @ pairs.vectors)
    assert np.abs(squares - 1).max() < 1e-10
    decay = np.exp(-np.outer(pairs.values, sun_times(pairs, 5)))
    # int HKS uses the consistent mass of each eigenfunction: |Omega| sum_k e^(-l t) |phi_k|^2 / sum
    mean = (squares @ decay) / decay.sum(axis=0)
    assert np.abs(mean - 1).max() < 1e-10


def test_long_times_see_the_first_mode_only():
    pairs, *_ = spectrum(box(12, 2), 16)
    late = heat_kernel_signature(pairs, np.array([1e3]), 1.0)[:, 0]
    assert np.abs(late - pairs.vectors[:, 0] ** 2).max() < 1e-12
    assert not np.isnan(late).any()


@pytest.mark.parametrize(
    ("values", "count", "expected"),
    [
        ([1.0, 2.0, 3.0, 4.0], 2, 2),
        ([1.0, 2.0, 2.0001, 4.0], 2, 3),
        ([1.0, 2.0, 2.0001, 2.0002], 2, 1),
        ([1.0, 1.0001, 1.0002, 1.0003], 2, 3),
    ],
)
def test_the_cut_never_splits_a_multiple_eigenvalue(values, count, expected):
    assert _cut(np.array(values), count, complete=False) == expected


def test_the_cut_keeps_everything_when_there_is_no_more():
    assert _cut(np.array([1.0, 1.0001]), 2, complete=True) == 2
    assert _cut(np.array([1.0, 2.0, 2.0001]), 2, complete=True) == 3
