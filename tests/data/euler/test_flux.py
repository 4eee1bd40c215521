"""Roe's flux, its matrix, the reconstruction, and the balance over a grid."""

from __future__ import annotations

from math import cos, sin

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from geonew.data.euler.airfoil import Airfoil
from geonew.data.euler.flux import GAMMA, conserved, roe_flux, towards_face
from geonew.data.euler.gmres import gmres
from geonew.data.euler.grid import c_grid
from geonew.data.euler.jacobian import add_flux_jacobian, invert, roe_matrix, solve_factors
from geonew.data.euler.jacobian import factorise as incomplete_factors
from geonew.data.euler.solver import FreeStream, System

STATES = st.tuples(st.floats(0.2, 3), st.floats(-2, 2), st.floats(-2, 2), st.floats(0.2, 3)).map(
    np.array
)
ANGLES = st.floats(0, 6.283)


def exact_flux(w: np.ndarray, n: tuple[float, float]) -> np.ndarray:
    r, u, v, p = w
    un = u * n[0] + v * n[1]
    energy = p / (GAMMA - 1) + r * (u * u + v * v) / 2
    return np.array([r * un, r * un * u + p * n[0], r * un * v + p * n[1], (energy + p) * un])


@given(STATES, ANGLES)
def test_flux_is_consistent(w, angle):
    n = cos(angle), sin(angle)
    assert np.abs(np.array(roe_flux(*w, *w, *n)) - exact_flux(w, n)).max() < 1e-12


@given(STATES, STATES, ANGLES)
def test_flux_turns_with_the_face(left, right, angle):
    nx, ny = cos(angle), sin(angle)
    there = np.array(roe_flux(*left, *right, nx, ny))
    back = np.array(roe_flux(*right, *left, -nx, -ny))
    assert np.abs(there + back).max() < 1e-12 * (1 + np.abs(there).max())


@given(STATES, STATES, ANGLES)
def test_supersonic_flux_is_upwind(left, right, angle):
    n = np.array([cos(angle), sin(angle)])
    left[1:3], right[1:3] = 6 * n, 5.5 * n  # faster than any sound in these states
    flux = np.array(roe_flux(*left, *right, *n))
    assert np.abs(flux - exact_flux(left, (n[0], n[1]))).max() < 1e-10 * np.abs(flux).max()


@given(STATES, STATES, ANGLES)
def test_flux_is_the_mean_less_the_matrix_times_the_jump(left, right, angle):
    n = cos(angle), sin(angle)
    matrix = np.empty((4, 4))
    roe_matrix(left, right, *n, matrix)
    mean = (exact_flux(left, n) + exact_flux(right, n)) / 2
    want = mean - matrix @ (conserved(right) - conserved(left)) / 2
    assert np.abs(np.array(roe_flux(*left, *right, *n)) - want).max() < 1e-11 * (
        1 + np.abs(want).max()
    )


@given(STATES, ANGLES)
def test_flux_jacobian_is_the_derivative(w, angle):
    n, jacobian = (cos(angle), sin(angle)), np.zeros((4, 4))
    add_flux_jacobian(w[1], w[2], w[3] / w[0], *n, 1.0, jacobian)
    U, step = conserved(w), 1e-6
    for k in range(4):
        ends = []
        for sign in (1, -1):
            V = U + sign * step * np.eye(4)[k]
            u, v = V[1:3] / V[0]
            p = (GAMMA - 1) * (V[3] - V[0] * (u * u + v * v) / 2)
            ends.append(exact_flux(np.array([V[0], u, v, p]), n))
        assert np.abs((ends[0] - ends[1]) / (2 * step) - jacobian[:, k]).max() < 1e-6 * (
            1 + np.abs(jacobian).max()
        )


@given(st.floats(-1, 1))
def test_reconstruction_is_exact_for_linear_data(a):
    assert towards_face(a, a) == pytest.approx(a / 2, abs=1e-15)


@given(st.floats(0.1, 1), st.floats(0.1, 1))
def test_reconstruction_stays_between_neighbours(a, b):
    assert 0 <= towards_face(a, b) <= b
    assert -b <= towards_face(a, -b) <= 0.1 * b  # at an extremum it hardly overshoots


# -- the balance over a grid -------------------------------------------------------------------


@pytest.fixture(scope="module")
def system() -> System:
    d = np.random.default_rng(5).uniform(-0.02, 0.02, (4, 2))
    return System(c_grid(Airfoil(d)), FreeStream(0.8, 1.25))


def perturbed(system: System, size: float) -> np.ndarray:
    generator = np.random.default_rng(0)
    W = np.tile(system.stream.primitive, (len(system.faces.volumes), 1))
    return conserved(W * (1 + size * generator.uniform(-1, 1, W.shape)))


def test_free_stream_is_preserved_away_from_the_airfoil(system):
    residual = system(system.uniform)
    inside = np.ones(len(residual), dtype=bool)
    inside[system.faces.wall_cells[:, 0]] = False
    assert np.abs(residual[inside]).max() < 1e-12  # of faces up to 10 chords long
    # and at the airfoil only the stream through its faces is missing
    f = system.faces
    through = np.array([exact_flux(system.stream.primitive, (n[0], n[1])) for n in f.wall_normals])
    through[:, 1:3] -= f.wall_normals / GAMMA
    missing = residual[f.wall_cells[:, 0]] + through
    assert np.abs(missing).max() < 1e-13


def test_residuals_sum_to_the_boundary_fluxes(system):
    U = perturbed(system, 0.1)
    residual, f, W = system(U), system.faces, system.W
    pressure = W[f.wall_cells[:, 0], 3] ** 1.5 / W[f.wall_cells[:, 1], 3] ** 0.5
    outside = np.zeros(4)
    outside[1:3] = pressure @ f.wall_normals
    for cell, n, o in zip(f.far_cells, f.far_normals, system.far, strict=True):
        size = np.hypot(*n)
        outside += size * np.array(roe_flux(*W[cell], *o, *(n / size)))
    assert np.abs(residual.sum(axis=0) - outside).max() < 1e-11 * np.abs(residual).sum()


def test_far_field_vortex_keeps_entropy_and_enthalpy(system):
    state = system.stream.with_vortex(system.faces.far_middles, 0.4)
    r, u, v, p = state.T
    assert np.abs(GAMMA * p / r**GAMMA - 1).max() < 1e-13
    enthalpy = GAMMA / (GAMMA - 1) * p / r + (u * u + v * v) / 2
    assert np.abs(enthalpy - 1 / (GAMMA - 1) - 0.8**2 / 2).max() < 1e-13
    none = system.stream.with_vortex(system.faces.far_middles, 0.0)
    assert np.abs(none - system.stream.primitive).max() < 1e-15


# -- linear algebra ----------------------------------------------------------------------------


def test_small_inverse():
    A = np.random.default_rng(1).normal(size=(4, 4)) + 6 * np.eye(4)
    B = A.copy()
    invert(B)
    assert np.abs(A @ B - np.eye(4)).max() < 1e-14


def test_gmres_solves():
    generator = np.random.default_rng(2)
    A = generator.normal(size=(30, 30)) + 12 * np.eye(30)
    b = generator.normal(size=30)
    P = np.diag(1 / np.diag(A))
    x, count = gmres(lambda v: A @ v, lambda v: P @ v, b, 1e-12, 30)
    assert np.linalg.norm(b - A @ x) < 1e-11 * np.linalg.norm(b)
    assert count <= 30
    x, count = gmres(lambda v: A @ v, lambda v: P @ v, b, 0.1, 30)
    assert np.linalg.norm(b - A @ x) <= 0.1001 * np.linalg.norm(b)
    assert count < 15


def test_first_order_jacobian_is_the_derivative_of_the_first_order_scheme(system):
    """The matrix |A| is frozen, so the two agree where the state is uniform."""
    first = System(system.grid, system.stream, second=False)
    U = first.uniform
    first.precondition(U)
    f = first.faces
    change = np.random.default_rng(4).normal(size=U.shape)
    change[f.wall_cells] = 0  # the wall's pressure comes from two cells, its block knows one
    product = np.einsum("cab,cb->ca", first.D.astype(float), change)
    left, right = f.stencil[:, 1], f.stencil[:, 2]
    np.add.at(product, left, np.einsum("fab,fb->fa", first.B[:, 0].astype(float), change[right]))
    np.add.at(product, right, np.einsum("fab,fb->fa", first.B[:, 1].astype(float), change[left]))
    step = 1e-6
    difference = (first(U + step * change) - first(U - step * change)) / (2 * step)
    assert np.abs(product - difference).max() < 1e-5 * np.abs(product).max()


def test_incomplete_factors_precondition(system):
    """Exact with a dominant diagonal, and a contraction without."""
    U = perturbed(system, 0.02)
    system.precondition(U)
    f = system.faces
    x = np.random.default_rng(6).normal(size=U.shape)
    for cfl, bound in ((0.1, 1e-2), (10.0, 0.6)):
        shift = system.speed / cfl
        product = np.einsum("cab,cb->ca", system.D, x) + shift[:, None] * x
        left, right = f.stencil[:, 1], f.stencil[:, 2]
        np.add.at(product, left, np.einsum("fab,fb->fa", system.B[:, 0], x[right]))
        np.add.at(product, right, np.einsum("fab,fb->fa", system.B[:, 1], x[left]))
        incomplete_factors(system.D, system.B, shift, f.stencil, f.neighbours, system.inverse)
        y = np.empty_like(x)
        solve_factors(system.inverse, system.B, f.stencil, f.neighbours, product, y)
        assert np.linalg.norm(y - x) < bound * np.linalg.norm(x)
