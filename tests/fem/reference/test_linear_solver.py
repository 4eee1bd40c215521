from __future__ import annotations

from itertools import product
from math import factorial, prod

import numpy as np
import pytest
from scipy.sparse import csc_matrix, diags_array
from scipy.sparse.linalg import splu

from geonew.errors import SolverError
from geonew.fem.reference.linear_solver import factorize, gmres, nested_dissection
from geonew.fem.reference.space import LagrangeSpace, reference_table
from reference_boxes import bent, sided_box


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("degree", [1, 2])
def test_nested_dissection_is_a_permutation_with_less_fill(dim, degree):
    space = LagrangeSpace(bent(sided_box(24 if dim == 2 else 6, dim)), degree)
    order = nested_dissection(space.points, space.cell_nodes)
    assert np.array_equal(np.sort(order), np.arange(space.n))
    matrix = space.matrix(space.stiffness() + space.mass())
    options = {"SymmetricMode": True}
    permuted = matrix[order][:, order].tocsc()
    ours = splu(permuted, permc_spec="NATURAL", diag_pivot_thresh=0.0, options=options)
    colamd = splu(matrix.tocsc(), permc_spec="COLAMD")
    assert ours.nnz < colamd.nnz


def test_every_mesh_of_the_zoo_is_ordered(zoo_mesh):
    space = LagrangeSpace(zoo_mesh, 2)
    order = nested_dissection(space.points, space.cell_nodes)
    assert np.array_equal(np.sort(order), np.arange(space.n))


def test_pivots_that_vanish_are_noticed():
    """A first entry of 1e-20 ruins LU without pivoting; COLAMD with pivoting takes over."""
    swap = csc_matrix(np.array([[1e-20, 1.0], [1.0, 0.0]]))
    factor = factorize(swap, definite=True)
    assert factor.backend == "SuperLU, COLAMD"
    np.testing.assert_allclose(factor.solve(np.array([2.0, 3.0])), [3.0, 2.0])


def test_singular_matrix_is_an_error():
    with pytest.raises(SolverError, match="singular"):
        factorize(csc_matrix(np.ones((3, 3))), definite=False)


def test_gmres_reports_the_true_residual():
    rng = np.random.default_rng(1)
    A = np.eye(40) * 3 + rng.standard_normal((40, 40)) / 4
    b = rng.standard_normal(40)
    scale = diags_array(1 / np.diag(A))
    for steps in (3, 40):
        result = gmres(lambda x: A @ x, b, lambda x: scale @ x, 1e-12, steps)
        measured = np.linalg.norm(b - A @ result.x) / np.linalg.norm(b)
        assert measured == pytest.approx(result.residuals[-1], rel=1e-6, abs=1e-13)
        assert result.converged == (steps == 40)
    impatient = gmres(lambda x: A @ x, b, lambda x: x, 1e-12, 5, impatient=True)
    assert len(impatient.residuals) == 4


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("order", range(9))
def test_quadrature_is_as_exact_as_it_says(dim, order):
    """Against int x^a y^b z^c = a! b! c! / (a + b + c + d)! on the reference simplex."""
    table = reference_table(dim, 1, order)
    for powers in product(range(order + 1), repeat=dim):
        if sum(powers) <= order:
            exact = prod(map(factorial, powers)) / factorial(sum(powers) + dim)
            monomial = np.prod(table.points ** np.array(powers)[:, None], axis=0)
            assert table.weights @ monomial == pytest.approx(exact, rel=1e-11, abs=1e-15)


@pytest.mark.parametrize("degree", [1, 2])
def test_integrals_on_the_zoo(zoo_mesh, degree):
    """Partition of unity: constants have no gradient, masses and loads sum to the volume."""
    space = LagrangeSpace(zoo_mesh, degree)
    stiffness = space.matrix(space.stiffness())
    scale = np.abs(stiffness).max()
    assert np.abs(stiffness @ np.ones(space.n)).max() < 1e-12 * scale
    assert np.abs(stiffness - stiffness.T).max() < 1e-12 * scale
    assert space.integral.sum() == pytest.approx(zoo_mesh.volume, rel=1e-12)
    assert space.mass().sum() == pytest.approx(zoo_mesh.volume, rel=1e-12)
    facets = sum(
        float(space.facet_load(name, lambda x: np.ones(len(x))).sum()) for name in zoo_mesh.groups
    )
    boundary = np.linalg.norm(zoo_mesh.boundary_normals, axis=1).sum()
    assert facets == pytest.approx(boundary, rel=1e-12)
