from __future__ import annotations

import numpy as np
import pytest

from geonew.errors import ProblemError
from geonew.fem.reference import Material, solve_elasticity, von_mises
from reference_boxes import bent, sided_box
from structured import order

STEEL = Material.from_young(2.0, 0.3)


def displacement(x):
    """(sin(x + 2y), cos(2x - y), x z^2), the last in 3D."""
    u = [np.sin(x[:, 0] + 2 * x[:, 1]), np.cos(2 * x[:, 0] - x[:, 1])]
    return np.stack([*u, x[:, 0] * x[:, 2] ** 2] if x.shape[1] == 3 else u, axis=1)


def stress(x):
    """3 x 3 stress of the displacement, plane strain in 2D."""
    g = np.zeros((len(x), 3, 3))
    g[:, 0, 0] = np.cos(x[:, 0] + 2 * x[:, 1])
    g[:, 0, 1] = 2 * g[:, 0, 0]
    g[:, 1, 1] = np.sin(2 * x[:, 0] - x[:, 1])
    g[:, 1, 0] = -2 * g[:, 1, 1]
    if x.shape[1] == 3:
        g[:, 2, 0], g[:, 2, 2] = x[:, 2] ** 2, 2 * x[:, 0] * x[:, 2]
    strain = (g + g.transpose(0, 2, 1)) / 2
    trace = np.trace(strain, axis1=1, axis2=2)[:, None, None]
    return 2 * STEEL.lame_mu * strain + STEEL.lame_lambda * trace * np.eye(3)


def body_force(x):
    """-div sigma = -(lambda + mu) grad div u - mu Laplace u."""
    lam, mu = STEEL.lame_lambda, STEEL.lame_mu
    s, c = np.sin(x[:, 0] + 2 * x[:, 1]), np.cos(2 * x[:, 0] - x[:, 1])
    grad_div = [-s + 2 * c, -2 * s - c]
    laplace = [-5 * s, -5 * c]
    if x.shape[1] == 3:
        grad_div = [grad_div[0] + 2 * x[:, 2], grad_div[1], 2 * x[:, 0]]
        laplace = [*laplace, 2 * x[:, 0]]
    return -(lam + mu) * np.stack(grad_div, axis=1) - mu * np.stack(laplace, axis=1)


def solve(mesh, degree):
    dim = mesh.dim
    return solve_elasticity(
        mesh,
        STEEL,
        dirichlet={name: displacement for name in mesh.groups if name != "right"},
        traction={"right": lambda x: stress(x)[:, :dim, 0]},
        body_force=body_force,
        degree=degree,
    )


@pytest.mark.parametrize(
    ("dim", "degree", "sizes", "rate", "bound"),
    [
        (2, 1, (8, 16, 32), 1.8, 4e-4),
        (2, 2, (4, 8, 16), 2.7, 5e-5),
        (3, 1, (3, 6, 12), 1.6, 3e-3),
        (3, 2, (2, 4, 8), 2.4, 4e-4),
    ],
)
def test_converges_at_its_order(dim, degree, sizes, rate, bound):
    errors = []
    for n in sizes:
        solution = solve(sided_box(n, dim), degree)
        error = solution.coefficients - displacement(solution.space.points)
        errors.append(float(np.sqrt(np.mean(error**2))))
    assert order(errors) > rate, errors
    assert errors[-1] < bound


@pytest.mark.parametrize(("dim", "sizes", "bound"), [(2, (8, 16, 32), 4e-3), (3, (2, 4, 8), 5e-2)])
def test_von_mises_is_second_order_up_to_the_boundary(dim, sizes, bound):
    errors = []
    for n in sizes:
        mesh = sided_box(n, dim)
        exact = von_mises(stress(mesh.points))
        errors.append(float(np.abs(solve(mesh, 2).von_mises - exact).max()))
    assert order(errors) > 1.8, errors
    assert errors[-1] < bound


@pytest.mark.parametrize("plane", ["strain", "stress"])
def test_uniaxial_tension_is_exact(plane):
    """A bar pulled along x with free sides: the stress is (t, 0) and the strains are Hooke's."""
    young, nu, pull = 5.0, 0.25, 0.7
    mesh = sided_box(4, 2)
    solution = solve_elasticity(
        mesh,
        Material.from_young(young, nu),
        dirichlet={"left": (0.0, None), "bottom": (None, 0.0)},
        traction={"right": (pull, 0.0)},
        plane=plane,
    )
    along = pull / young * (1.0 if plane == "stress" else 1 - nu**2)
    across = -pull / young * (nu if plane == "stress" else nu * (1 + nu))
    exact = mesh.points * np.array([along, across])
    np.testing.assert_allclose(solution.displacement, exact, atol=1e-12)
    out_of_plane = 0.0 if plane == "stress" else nu * pull
    tensor = np.broadcast_to(np.diag([pull, 0.0, out_of_plane]), (mesh.n_nodes, 3, 3))
    np.testing.assert_allclose(solution.stress, tensor, atol=1e-12)
    np.testing.assert_allclose(solution.von_mises, von_mises(tensor), atol=1e-12)


@pytest.mark.parametrize("degree", [1, 2])
def test_cg_solves_the_same_system_as_lu(monkeypatch, degree):
    mesh = bent(sided_box(5, 3))
    direct = solve(mesh, degree)
    monkeypatch.setattr("geonew.fem.reference.elasticity.ITERATIVE_FROM", 1)
    iterative = solve(mesh, degree)
    assert "LU" in direct.method
    assert "CG" in iterative.method
    assert iterative.iterations < 60
    np.testing.assert_allclose(iterative.coefficients, direct.coefficients, atol=1e-10)


def test_mistakes_are_named():
    mesh = sided_box(3, 2)
    with pytest.raises(ProblemError, match="1 of 3 rigid motions"):
        solve_elasticity(mesh, STEEL, dirichlet={"left": (0.0, None)})
    with pytest.raises(ProblemError, match="3 of 3 rigid motions"):
        solve_elasticity(mesh, STEEL, dirichlet={})
    with pytest.raises(ProblemError, match=r"nu = 0\.5"):
        Material.from_young(1.0, 0.5)
    with pytest.raises(ProblemError, match="bulk"):
        Material(-1.0, 1.0)
