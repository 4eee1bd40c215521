from __future__ import annotations

import numpy as np
import pytest

from geonew.errors import BoundaryDataError, GroupError, MeshError, ProblemError
from geonew.fem.reference import solve_on_refined, solve_poisson
from reference_boxes import bent, sided_box
from structured import order


def exact(x):
    return np.prod(np.sin(1 + x), axis=1)


def gradient(x):
    return exact(x)[:, None] / np.tan(1 + x)


def conductivity(x):
    return 1 + x[:, 0]


def source(x):
    return x.shape[1] * conductivity(x) * exact(x) - gradient(x)[:, 0]


def solve(mesh, degree):
    """Dirichlet everywhere but on the right, where the flux k du/dx is given."""
    return solve_poisson(
        mesh,
        dirichlet={name: exact for name in mesh.groups if name != "right"},
        neumann={"right": lambda x: conductivity(x) * gradient(x)[:, 0]},
        source=source,
        conductivity=conductivity,
        degree=degree,
    )


@pytest.mark.parametrize(
    ("dim", "degree", "sizes", "rate", "bound"),
    [
        (2, 1, (8, 16, 32), 1.9, 1.5e-5),
        (2, 2, (4, 8, 16), 2.7, 4e-6),
        (3, 1, (5, 10, 20), 1.75, 4e-5),
        (3, 2, (2, 4, 8), 2.4, 6e-5),
    ],
)
def test_converges_at_its_order(dim, degree, sizes, rate, bound):
    errors = []
    for n in sizes:
        solution = solve(sided_box(n, dim), degree)
        error = solution.coefficients - exact(solution.space.points)
        errors.append(float(np.sqrt(np.mean(error**2))))
    assert order(errors) > rate, errors
    assert errors[-1] < bound


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("degree", [1, 2])
def test_reproduces_polynomials_of_its_degree(dim, degree):
    mesh = bent(sided_box(3, dim))

    def polynomial(x):
        return 1 + x[:, 0] - 2 * x[:, 1] + (degree == 2) * (x[:, 0] * x[:, 1] + x[:, -1] ** 2)

    laplacian = 2.0 if degree == 2 else 0.0
    data = dict.fromkeys(mesh.groups, polynomial)
    solution = solve_poisson(mesh, dirichlet=data, source=-laplacian, degree=degree)
    np.testing.assert_allclose(solution.coefficients, polynomial(solution.space.points), atol=1e-12)
    inside = mesh.points[mesh.cells].mean(axis=1)[::3]
    np.testing.assert_allclose(solution.evaluate(inside), polynomial(inside), atol=1e-12)


def test_multigrid_solves_the_same_system_as_lu(monkeypatch):
    mesh = sided_box(6, 3)
    direct = solve(mesh, 2)
    monkeypatch.setattr("geonew.fem.reference.poisson.ITERATIVE_FROM", 1)
    iterative = solve(mesh, 2)
    assert "LU" in direct.method
    assert "CG" in iterative.method
    assert iterative.iterations < 20
    np.testing.assert_allclose(iterative.coefficients, direct.coefficients, atol=1e-11)


def test_pure_neumann_has_mean_zero():
    mesh = sided_box(8, 2)
    solution = solve_poisson(mesh, neumann={"left": -1.0, "right": 1.0}, degree=2)
    np.testing.assert_allclose(solution.values, mesh.points[:, 0] - 0.5, atol=1e-12)


def test_refined_truth_is_better_and_sits_on_the_same_vertices():
    mesh = sided_box(6, 2)
    plain = np.abs(solve(mesh, 1).values - exact(mesh.points)).max()
    finer = solve_on_refined(mesh, lambda m: solve(m, 1))
    assert finer.values.shape == (mesh.n_nodes,)
    assert np.abs(finer.values - exact(mesh.points)).max() < 0.35 * plain


def test_first_group_owns_the_shared_node():
    mesh = sided_box(2, 2)
    data = {"left": 1.0, "bottom": 2.0, "right": 0.0, "top": 0.0}
    corner = int(np.flatnonzero(np.abs(mesh.points).sum(axis=1) == 0)[0])
    assert solve_poisson(mesh, dirichlet=data).values[corner] == 1.0
    swapped = {name: data[name] for name in ("bottom", "left", "right", "top")}
    assert solve_poisson(mesh, dirichlet=swapped).values[corner] == 2.0


def test_mistakes_are_named():
    mesh = sided_box(3, 2)
    with pytest.raises(GroupError, match="lid"):
        solve_poisson(mesh, dirichlet={"lid": 0.0})
    with pytest.raises(BoundaryDataError, match="left"):
        solve_poisson(mesh, dirichlet={"left": 0.0}, neumann={"left": 0.0})
    with pytest.raises(BoundaryDataError, match="not finite"):
        solve_poisson(mesh, dirichlet={"left": lambda x: np.full(len(x), np.nan)})
    with pytest.raises(BoundaryDataError, match="shape"):
        solve_poisson(mesh, dirichlet={"left": lambda x: x})
    with pytest.raises(ProblemError, match="balance"):
        solve_poisson(mesh, source=1.0)
    with pytest.raises(ProblemError, match="conductivity"):
        solve_poisson(mesh, dirichlet={"left": 0.0}, conductivity=lambda x: x[:, 0] - 0.5)
    with pytest.raises(MeshError, match="degree 3"):
        solve_poisson(mesh, dirichlet={"left": 0.0}, degree=3)
    with pytest.raises(MeshError, match="outside"):
        solve_poisson(mesh, dirichlet={"left": 0.0}).evaluate(np.array([[2.0, 2.0]]))
