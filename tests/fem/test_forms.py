"""Known forms: exact values, symmetry to the last bit, and refusal of what is not as declared."""

from __future__ import annotations

import re

import numpy as np
import pytest
from numpy import ndarray
from skfem.helpers import ddot, div, dot, grad

from geonew.errors import ProblemError
from geonew.fem import forms
from geonew.fem.forms import Form, assemble_form, check_kind, known_form, register_form
from geonew.mesh import Mesh

SYMMETRIC = {
    "diffusion": "scalar",
    "mass": "scalar",
    "strain": "vector",
    "deviatoric": "vector",
    "div_div": "vector",
    "stabilisation": "scalar",
}


def dense(name: str, ranks: tuple, mesh: Mesh, weight: ndarray | None = None) -> ndarray:
    """All blocks as one matrix, component-major; absent blocks are zero."""
    blocks = assemble_form(known_form(name), ranks, mesh, weight)
    rows, columns = (max(key[k] for key in blocks) + 1 for k in (0, 1))
    zero = np.zeros((mesh.n_nodes, mesh.n_nodes))
    return np.block(
        [
            [blocks[a, b].toarray() if (a, b) in blocks else zero for b in range(columns)]
            for a in range(rows)
        ]
    )


def linear(mesh: Mesh, gradient: ndarray) -> ndarray:
    """The linear vector field with that gradient, component-major."""
    return (mesh.points @ gradient.T).T.ravel()


@pytest.mark.parametrize("name", SYMMETRIC)
def test_symmetric_to_the_last_bit_and_semidefinite(name: str, zoo_mesh: Mesh) -> None:
    weight = np.linspace(0.5, 2.0, zoo_mesh.n_nodes)
    matrix = dense(name, (SYMMETRIC[name],), zoo_mesh, weight)
    assert np.array_equal(matrix, matrix.T)
    eigenvalues = np.linalg.eigvalsh(matrix)
    assert eigenvalues[0] > -1e-12 * eigenvalues[-1]


def test_values_on_linear_fields(zoo_mesh: Mesh) -> None:
    d, volume = zoo_mesh.dim, zoo_mesh.volume
    g, h = np.random.default_rng(1).normal(size=(2, d, d))
    u, v = linear(zoo_mesh, g), linear(zoo_mesh, h)
    e, f = (g + g.T) / 2, (h + h.T) / 2
    exact = {
        "diffusion": np.sum(g * h),
        "strain": 2 * np.sum(e * f),
        "deviatoric": 2 * np.sum(e * f) - 2 / 3 * np.trace(g) * np.trace(h),
        "div_div": np.trace(g) * np.trace(h),
    }
    for name, value in exact.items():
        matrix = dense(name, ("vector",), zoo_mesh)
        size = np.abs(v) @ np.abs(matrix) @ np.abs(u)
        assert v @ matrix @ u == pytest.approx(value * volume, abs=1e-13 * size), name
    one = np.ones(zoo_mesh.n_nodes)
    weight = zoo_mesh.points[:, 0] - zoo_mesh.points[:, 0].min()
    mass = dense("mass", ("scalar",), zoo_mesh, weight)
    moment = zoo_mesh.volumes @ weight[zoo_mesh.cells].mean(axis=1)
    assert one @ mass @ one == pytest.approx(moment, rel=1e-12)


def test_divergence_pair_is_the_divergence(zoo_mesh: Mesh) -> None:
    gradient = np.random.default_rng(2).normal(size=(zoo_mesh.dim, zoo_mesh.dim))
    pair = dense("divergence", ("scalar", "vector"), zoo_mesh)
    assert pair.shape == (zoo_mesh.n_nodes, zoo_mesh.dim * zoo_mesh.n_nodes)
    u = linear(zoo_mesh, gradient)
    lumped = dense("mass", ("scalar",), zoo_mesh).sum(axis=1)
    bound = 1e-13 * (np.abs(pair) @ np.abs(u)).max()
    np.testing.assert_allclose(pair @ u, np.trace(gradient) * lumped, atol=bound)


def test_weight_of_a_symmetric_form_must_not_be_negative(planar_mesh: Mesh) -> None:
    weight = np.ones(planar_mesh.n_nodes)
    weight[1] = -0.25
    with pytest.raises(ProblemError, match=r"'diffusion' is -0\.25 at node 1"):
        assemble_form(known_form("diffusion"), ("scalar",), planar_mesh, weight)


def test_congruence_keeps_symmetry_and_skewness_exactly(solid_mesh: Mesh) -> None:
    s, t, e = 3.7e-3, 1.9e5, 0.37  # scales with no exact products
    strain = s * s / e * dense("strain", ("vector",), solid_mesh)
    assert np.array_equal(strain, strain.T)
    pair = s * t / e * dense("divergence", ("scalar", "vector"), solid_mesh)
    n, m = pair.shape
    saddle = np.block([[np.zeros((m, m)), -pair.T], [pair, np.zeros((n, n))]])
    assert np.array_equal(saddle, -saddle.T)


# -- refusals ------------------------------------------------------------------------------------


def _advection(u, v, w):
    return grad(u)[0] * v


def _laplacian(u, v, w):
    return dot(grad(u), grad(v))


def _skewed(u, v, w):
    return grad(u)[0] * v - u * grad(v)[0]


def _rotated(u, v, w):
    return u[0] * v[1] - u[1] * v[0]


@pytest.mark.parametrize(
    ("kind", "ranks", "integrand", "defect"),
    [
        ("symmetric", ("scalar",), _advection, None),
        ("symmetric", ("scalar",), _skewed, 2.0),
        ("symmetric", ("vector",), _rotated, 2.0),
        ("stabilisation", ("scalar",), _advection, None),
        ("skew", ("scalar",), _laplacian, 2.0),
        ("skew", ("any",), _advection, None),
    ],
)
def test_a_form_that_is_not_what_it_claims(kind, ranks, integrand, defect) -> None:
    with pytest.raises(ProblemError, match=f"'wrong' is declared {kind} but is not") as caught:
        register_form("wrong", kind, ranks, 1)(integrand)
    found = re.search(r"relative defect (\S+) on a 2D probe mesh", str(caught.value))
    assert found is not None
    if defect is None:
        assert 0.5 < float(found[1]) <= 2.0
    else:
        assert float(found[1]) == pytest.approx(defect)
    with pytest.raises(ProblemError, match="no form is registered under 'wrong'"):
        known_form("wrong")


def test_small_defects_are_measured() -> None:
    slightly = Form("s", "symmetric", ("any",), 2, lambda u, v, w: u * v + 1e-9 * grad(u)[0] * v)
    with pytest.raises(ProblemError, match=r"relative defect \d\.\d\de-(08|09)"):
        check_kind(slightly)


@pytest.mark.parametrize(
    ("ranks", "integrand"),
    [
        (("scalar",), lambda u, v, w: -u * v),
        (("vector",), lambda u, v, w: 2 * ddot(grad(u), grad(v)) - 4 * div(u) * div(v)),
    ],
)
def test_indefinite_forms_are_refused(ranks, integrand) -> None:
    with pytest.raises(ProblemError, match=r"has a negative eigenvalue, -\d.* on a 2D probe mesh"):
        check_kind(Form("w", "symmetric", ranks, 0, integrand))


@pytest.mark.parametrize(
    ("integrand", "message"),
    [
        (lambda u, v, w: u * v * np.nan, "entries of size nan"),
        (lambda u, v, w: 0 * u * v, r"entries of size 0\.0"),
        (lambda u, v, w: u.curl * v, "failed on a 2D probe mesh"),
        (lambda u, v: u * v, "failed on a 2D probe mesh"),
    ],
)
def test_broken_integrands_are_refused(integrand, message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        check_kind(Form("b", "symmetric", ("any",), 0, integrand))


def test_pairs_are_skew_of_known_ranks() -> None:
    integrand = lambda u, v, w: v * div(u)  # noqa: E731
    with pytest.raises(ProblemError, match="couples two fields as symmetric"):
        Form("p", "symmetric", ("scalar", "vector"), 1, integrand)
    with pytest.raises(ProblemError, match="couples two fields as skew with ranks"):
        Form("p", "skew", ("scalar", "any"), 1, integrand)
    with pytest.raises(ProblemError, match="couples 3 fields"):
        Form("p", "skew", ("scalar", "scalar", "scalar"), 1, integrand)


def test_user_forms_register_once(monkeypatch: pytest.MonkeyPatch, planar_mesh: Mesh) -> None:
    monkeypatch.setattr(forms, "_REGISTRY", dict(forms._REGISTRY))
    coriolis = register_form("coriolis", "skew", ("vector",), 0, dims=(2,))(_rotated)
    assert known_form("coriolis") is coriolis
    matrix = dense("coriolis", ("vector",), planar_mesh)
    assert np.array_equal(matrix, -matrix.T)
    assert np.abs(matrix).max() > 0
    with pytest.raises(ProblemError, match="'coriolis' is registered already"):
        register_form("coriolis", "skew", ("vector",), 0)(_rotated)


def test_assembly_refuses_other_ranks_and_quadratic_forms(planar_mesh: Mesh) -> None:
    with pytest.raises(ProblemError, match=r"'strain' takes fields of ranks \('vector',\)"):
        assemble_form(known_form("strain"), ("scalar",), planar_mesh)
    with pytest.raises(ProblemError, match="quadratic form 'convection' has no matrix"):
        assemble_form(known_form("convection"), ("vector",), planar_mesh)
    with pytest.raises(ProblemError, match=r"no form is registered under 'x'; known are \['conv"):
        known_form("x")
