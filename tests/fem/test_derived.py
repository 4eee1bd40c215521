"""Derived fields: exact for linear fields, convergent for smooth ones, invariant under rotation."""

from __future__ import annotations

import numpy as np
import pytest
from numpy import ndarray
from scipy.spatial.transform import Rotation

from geonew.errors import ProblemError
from geonew.fem import derived
from geonew.fem.derived import Jet, known_formula, lame, nodal_gradient, register_formula
from geonew.mesh import Mesh
from zoo import ZOO, grid

STEEL = {"young": 210.0, "poisson": 0.3}


def evaluate(name: str, mesh: Mesh, u: ndarray, constants: dict | None = None) -> ndarray:
    return known_formula(name).evaluate(mesh, [u], constants or {})


def test_recovery_is_exact_for_linear_fields(zoo_mesh: Mesh) -> None:
    g = np.random.default_rng(0).normal(size=(2, zoo_mesh.dim))
    centred = zoo_mesh.points - zoo_mesh.points.mean(axis=0)
    found = nodal_gradient(zoo_mesh, centred @ g.T)
    size = np.abs(centred).max() / np.sqrt(zoo_mesh.volumes.min())  # needles amplify round-off
    np.testing.assert_allclose(found, np.tile(g, (zoo_mesh.n_nodes, 1, 1)), atol=1e-12 * size)


def stress(gradient: ndarray, young: float, poisson: float, plane_stress: bool) -> float:
    """von Mises stress from the 3 x 3 stress tensor by Hooke's law, written another way."""
    strain = np.zeros((3, 3))
    d = len(gradient)
    strain[:d, :d] = (gradient + gradient.T) / 2
    if plane_stress:  # the strain that leaves sigma_zz = 0
        strain[2, 2] = -poisson / (1 - poisson) * (strain[0, 0] + strain[1, 1])
    sigma = (
        young
        / (1 + poisson)
        * (strain + poisson / (1 - 2 * poisson) * np.trace(strain) * np.eye(3))
    )
    deviator = sigma - np.trace(sigma) / 3 * np.eye(3)
    return float(np.sqrt(1.5 * np.sum(deviator**2)))


@pytest.mark.parametrize("poisson", [-0.7, 0.0, 0.3, 0.49])
@pytest.mark.parametrize(
    ("name", "plane_stress"),
    [
        ("square", False),
        ("random_delaunay", True),
        ("slit", True),
        ("cube", False),
        ("ball", False),
    ],
)
def test_von_mises_of_linear_fields(name: str, poisson: float, plane_stress: bool) -> None:
    mesh = ZOO[name]()
    g = np.random.default_rng(1).normal(size=(mesh.dim, mesh.dim))
    constants = {"young": 210.0, "poisson": poisson, "plane_stress": float(plane_stress)}
    found = evaluate("von_mises", mesh, mesh.points @ g.T, constants)
    assert found.shape == (mesh.n_nodes,)
    np.testing.assert_allclose(found, stress(g, 210.0, poisson, plane_stress), rtol=1e-12)


def test_uniaxial_tension_has_von_mises_equal_to_the_stress() -> None:
    mesh = ZOO["cube"]()
    u = mesh.points * [0.01, -0.3 * 0.01, -0.3 * 0.01]
    np.testing.assert_allclose(evaluate("von_mises", mesh, u, STEEL), 210.0 * 0.01, rtol=1e-12)


def test_rigid_motion_has_no_stress(zoo_mesh: Mesh) -> None:
    d = zoo_mesh.dim
    spin = np.triu(np.ones((d, d)), 1)
    u = (zoo_mesh.points - zoo_mesh.points.mean(axis=0)) @ (spin - spin.T) + 1.0
    size = 210.0 * np.abs(u).max() / np.sqrt(zoo_mesh.volumes.min())
    assert np.abs(evaluate("von_mises", zoo_mesh, u, STEEL)).max() < 1e-11 * size


def test_first_order_formulas_of_linear_fields() -> None:
    for name in ("obtuse", "cube"):
        mesh = ZOO[name]()
        g = np.random.default_rng(2).normal(size=(mesh.dim, mesh.dim))
        u = mesh.points @ g.T + 0.5
        curl = (
            np.array([g[2, 1] - g[1, 2], g[0, 2] - g[2, 0], g[1, 0] - g[0, 1]])
            if (mesh.dim == 3)
            else g[1, 0] - g[0, 1]
        )
        vorticity = np.linalg.norm(curl) if mesh.dim == 3 else curl
        np.testing.assert_allclose(evaluate("vorticity", mesh, u), vorticity, rtol=1e-12)
        np.testing.assert_allclose(evaluate("divergence", mesh, u), np.trace(g), rtol=1e-11)
        np.testing.assert_allclose(
            evaluate("gradient_magnitude", mesh, u), np.linalg.norm(g), rtol=1e-12
        )
        np.testing.assert_allclose(evaluate("speed", mesh, u), np.linalg.norm(u, axis=1))
        np.testing.assert_allclose(
            evaluate("gradient_magnitude", mesh, u[:, :1]), np.linalg.norm(g[0]), rtol=1e-12
        )


@pytest.mark.parametrize("dim", [2, 3])
def test_invariance_under_rotation(dim: int) -> None:
    mesh = ZOO["random_delaunay"]() if dim == 2 else ZOO["ball"]()
    turn = Rotation.from_rotvec([0.3, -0.5, 0.9]).as_matrix()
    if dim == 2:
        turn = Rotation.from_rotvec([0, 0, 0.9]).as_matrix()[:2, :2]
    u = np.sin(mesh.points @ np.random.default_rng(4).normal(size=(dim, dim)))
    moved = mesh.moved(turn, np.ones(dim))
    for name in ("von_mises", "speed", "vorticity", "divergence", "gradient_magnitude"):
        constants = STEEL if name == "von_mises" else {}
        before = evaluate(name, mesh, u, constants)
        after = evaluate(name, moved, u @ turn.T, constants)
        np.testing.assert_allclose(after, before, atol=1e-11 * np.abs(before).max())


@pytest.mark.parametrize(("dim", "sizes"), [(2, (8, 16, 32)), (3, (4, 8, 16))])
def test_convergence_on_a_smooth_field(dim: int, sizes: tuple[int, ...]) -> None:
    """L2 error of von Mises stress: order 1 at least (1.5 with the boundary layer of the mean)."""
    errors = []
    for n in sizes:
        points, cells = grid([np.linspace(0, 1, n + 1)] * dim)
        inverted = np.linalg.det(points[cells[:, 1:]] - points[cells[:, :1]]) < 0
        cells[inverted, :2] = cells[inverted, 1::-1]
        mesh = Mesh(points, cells)
        x, y = mesh.points[:, 0], mesh.points[:, 1]
        u, g = np.zeros((len(x), dim)), np.zeros((len(x), dim, dim))
        u[:, 0], u[:, 1] = np.sin(2 * x) * y, np.exp(x * y)
        g[:, 0, 0], g[:, 0, 1] = 2 * np.cos(2 * x) * y, np.sin(2 * x)
        g[:, 1, 0], g[:, 1, 1] = y * np.exp(x * y), x * np.exp(x * y)
        exact = np.array([stress(row, 210.0, 0.3, False) for row in g])
        errors.append(np.sqrt(np.mean((evaluate("von_mises", mesh, u, STEEL) - exact) ** 2)))
    slope = -np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert slope > 1.2
    assert errors[-1] < 0.03 * np.abs(exact).max()


def test_formulas_work_on_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    mesh = ZOO["square"]()
    u = np.sin(3 * mesh.points)
    jet = Jet(u, nodal_gradient(mesh, u))
    value = torch.tensor(u, requires_grad=True)
    gradient = torch.tensor(jet.gradient, requires_grad=True)
    for name in ("von_mises", "speed", "vorticity", "divergence", "gradient_magnitude"):
        constants = STEEL if name == "von_mises" else {}
        function = known_formula(name).function
        found = function(Jet(value, gradient), **constants)
        np.testing.assert_allclose(found.detach().numpy(), function(jet, **constants), rtol=1e-13)
        assert found.requires_grad


# -- refusals ------------------------------------------------------------------------------------


def test_plane_stress_lame_agrees_with_the_reduction() -> None:
    lam, mu = lame(210.0, 0.3)
    reduced, same = lame(210.0, 0.3, plane_stress=True)
    assert same == mu
    assert reduced == pytest.approx(2 * lam * mu / (lam + 2 * mu), rel=1e-14)


@pytest.mark.parametrize(
    ("young", "poisson", "message"),
    [
        (0.0, 0.3, r"Young's modulus is 0\.0"),
        (np.nan, 0.3, "Young's modulus is nan"),
        (1.0, 0.5, r"Poisson's ratio 0\.5 is outside"),
        (1.0, -1.0, r"Poisson's ratio -1\.0 is outside"),
        (1.0, np.nan, "Poisson's ratio nan is outside"),
    ],
)
def test_impossible_materials(young: float, poisson: float, message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        lame(young, poisson)


def test_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    mesh = ZOO["cube"]()
    von_mises = known_formula("von_mises")
    assert von_mises.constants == {"young": True, "poisson": True, "plane_stress": False}
    with pytest.raises(ProblemError, match=r"missing \['poisson'\], unknown \['nu'\]"):
        von_mises.evaluate(mesh, [mesh.points], {"young": 1.0, "nu": 0.3})
    with pytest.raises(ProblemError, match=r"reads fields of ranks \('vector',\), not \('scalar'"):
        von_mises.evaluate(mesh, [mesh.points[:, :1]], STEEL)
    with pytest.raises(ProblemError, match="plane stress is a formula of 2D"):
        von_mises.evaluate(mesh, [mesh.points], {**STEEL, "plane_stress": 1.0})
    with pytest.raises(ProblemError, match="got 3 nodal values for 125 nodes"):
        von_mises.evaluate(mesh, [mesh.points[:3]], STEEL)
    with pytest.raises(ProblemError, match="no formula is registered under 'mach'"):
        known_formula("mach")
    monkeypatch.setattr(derived, "_REGISTRY", dict(derived._REGISTRY))
    register_formula("energy", ("vector",))(lambda u: (u.value**2).sum(-1) / 2)
    np.testing.assert_allclose(
        evaluate("energy", mesh, mesh.points), evaluate("speed", mesh, mesh.points) ** 2 / 2
    )
    with pytest.raises(ProblemError, match="'energy' is registered already"):
        register_formula("energy", ("vector",))(lambda u: u.value)
