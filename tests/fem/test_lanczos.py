"""Inverse Lanczos against dense spectra, multiple eigenvalues, semi-orthogonality, failure."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from scipy.sparse import csr_array, diags_array

from geonew.errors import SolverError
from geonew.fem import DirichletSolver, assemble
from geonew.fem.lanczos import SEMI_ORTHOGONAL, _Krylov, lowest_eigenpairs
from structured import box, disc, trapezium


def pencil(mesh):
    ops = assemble(mesh)
    solver = DirichletSolver(ops.stiffness, mesh.boundary_nodes)
    inner = csr_array(csr_array(ops.mass[solver.free])[:, solver.free])
    return solver, csr_array(solver.matrix), inner


@pytest.mark.parametrize(
    "mesh",
    [trapezium(20), box(20, 2), disc(12), box(9, 3)],
    ids=["plain", "square", "disc", "cube"],
)
def test_all_pairs_are_found_with_their_multiplicity(mesh):
    """The cube has eigenvalues of multiplicity six, split by its mesh or not."""
    solver, K, M = pencil(mesh)
    exact = scipy.linalg.eigh(K.toarray(), M.toarray(), eigvals_only=True)

    def complete(values):
        return np.abs(values[:24] / exact[:24] - 1).max() < 1e-9

    values, vectors = lowest_eigenpairs(solver.backsolve, K, M, 30, complete)
    assert np.abs(values[:24] / exact[:24] - 1).max() < 1e-12
    assert np.abs(vectors.T @ (M @ vectors) - np.eye(30)).max() < 1e-12
    residual = K @ vectors - (M @ vectors) * values
    assert np.abs(residual).max() < 1e-8 * np.abs(K @ vectors).max()


def test_vectors_stay_semi_orthogonal_and_not_all_are_orthogonalised():
    solver, _, M = pencil(trapezium(30))
    krylov = _Krylov(solver.backsolve, M, 200)
    touched = 0
    for count in range(1, 201):
        krylov.extend(count)
        touched += bool((krylov.overlap[: count - 1] == krylov.noise).all())
    V = krylov.basis[:200]
    assert np.abs(V @ (M @ V.T) - np.eye(200)).max() < SEMI_ORTHOGONAL
    assert 20 < touched < 160


def test_a_diagonal_pencil_has_its_entries_as_eigenvalues():
    entries = np.arange(1.0, 401.0) ** 1.5
    K, M = csr_array(diags_array(entries)), csr_array(diags_array(np.ones(400)))
    values, _ = lowest_eigenpairs(lambda b: b / entries, K, M, 10, lambda found: True)
    assert np.abs(values / entries[:10] - 1).max() < 1e-13


def test_never_accepted_pairs_end_in_an_error():
    solver, K, M = pencil(box(16, 2))
    with pytest.raises(SolverError, match="of 5 Dirichlet eigenpairs"):
        lowest_eigenpairs(solver.backsolve, K, M, 5, lambda found: False)
