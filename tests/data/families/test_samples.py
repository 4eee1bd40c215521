"""Solved samples: complete data, boundary values held, mass conserved, sizes of the levels."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from geonew.data.families import family
from geonew.data.families.channel import SPEED, inflow_through
from geonew.data.families.flow import Fluid
from geonew.errors import InputError
from geonew.fem.reference import solve_navier_stokes
from geonew.mesh import Mesh
from geonew.problem import (
    Problem,
    resolve,
    resolve_loads,
    resolve_parameters,
    resolve_sources,
)
from geonew.shape import Shape

QUICK = ["poly-poisson", "poly-poisson-var", "ns2d-c", "ns2d-c++", "ns2d-re", "elasticity"]
SLOW = ["pipe", "ball-poisson", "duct-stokes"]
NODES = {"pipe": (2145, 2145), "ball-poisson": (800, 1000), "duct-stokes": (800, 1000)}
FLOWS = ["ns2d-c", "ns2d-c++", "ns2d-re", "pipe", "duct-stokes"]


def drawn(name, split="train", seed=0, axis=None, swap=False):
    return family(name).draw(split, np.random.default_rng(seed), axis, swap)


def check(name, record):
    """What every record keeps."""
    problem = family(name).problem
    mesh = record.mesh
    low, high = NODES.get(name, (700, 1200))
    assert low <= mesh.n_nodes <= high
    values = resolve(problem, mesh, record.boundary)
    assert not values.conflicts
    resolve_sources(problem, mesh, record.sources)
    resolve_parameters(problem, mesh, record.parameters)
    resolve_loads(problem, mesh, record.sources, record.neumann)
    for f in problem.fields:
        field = record.fields[f.name].reshape(mesh.n_nodes, -1)
        assert np.isfinite(field).all()
        columns = problem.columns(f.name)
        fixed, wanted = values.fixed[:, columns], values.value[:, columns]
        assert fixed.any()
        size = np.abs(field).max()
        assert np.abs(field - wanted)[fixed].max() <= 1e-14 * size
        # References are of the size of the fields, so that the model sees numbers of order 1.
        assert 0.03 < np.sqrt((field**2).mean()) / f.reference < 10
    assert record.info["residual"] < 1e-10
    assert record.info["truth_nodes"] > 3 * mesh.n_nodes
    if name in FLOWS:
        assert record.info["mass_balance"] < 1e-10
        flux = {group: stored_flux(record, group) for group in ("inlet", "outlet")}
        assert flux["inlet"] < 0 < flux["outlet"]
        # The stored vertices alone, joined by straight lines: the trapezoidal rule's error remains.
        assert abs(flux["inlet"] + flux["outlet"]) < 0.03 * flux["outlet"]


def stored_flux(record, group):
    mesh = record.mesh
    chosen = mesh.group_index == list(mesh.groups).index(group)
    mean = record.fields["velocity"][mesh.boundary_facets[chosen]].mean(axis=1)
    return float((mean * mesh.boundary_normals[chosen]).sum())


@pytest.mark.parametrize("name", QUICK)
@pytest.mark.parametrize("split", ["train", "ood"])
def test_sample(name, split):
    check(name, family(name).solve(drawn(name, split), "coarse"))


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
@pytest.mark.parametrize("split", ["train", "ood"])
def test_slow_sample(name, split):
    check(name, family(name).solve(drawn(name, split), "coarse"))


@pytest.mark.slow
@pytest.mark.parametrize("name", [*QUICK, *SLOW])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_more_samples(name, seed):
    check(name, family(name).solve(drawn(name, "ood", seed), "coarse"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("name", [n for n in QUICK if n != "poly-poisson-var"])
def test_meshes_have_their_size(name, seed):
    for split in ("train", "ood"):
        mesh = family(name).mesh(drawn(name, split, seed), "coarse")
        assert 700 <= mesh.n_nodes <= 1200


@pytest.mark.parametrize("name", ["poly-poisson", "ns2d-c++", "pipe", "elasticity"])
def test_levels_share_a_geometry(name):
    case, made = drawn(name), family(name)
    coarse, medium = made.mesh(case, "coarse"), made.mesh(case, "medium")
    assert 3 < medium.n_nodes / coarse.n_nodes < 5
    assert set(medium.groups) == set(coarse.groups)
    assert medium.volume == pytest.approx(coarse.volume, rel=0.02)


@pytest.mark.parametrize("name", ["poly-poisson", "elasticity"])
def test_solving_again_gives_the_same_bits(name):
    case, made = drawn(name, "ood", 4), family(name)
    first, again = made.solve(case, "coarse"), made.solve(case, "coarse")
    assert first.mesh.digest == again.mesh.digest
    for field, values in first.fields.items():
        np.testing.assert_array_equal(values, again.fields[field])


def test_a_case_of_another_family_is_refused():
    with pytest.raises(InputError, match="a case of family 'poly-poisson'"):
        family("ns2d-c").solve(drawn("poly-poisson"), "coarse")


@pytest.mark.parametrize("name", [*QUICK, *SLOW])
def test_problem_survives_json(name):
    problem = family(name).problem
    assert Problem.from_json(problem.to_json()) == problem
    assert problem.terms


@pytest.mark.parametrize("name", ["ns2d-c", "ns2d-c++", "ns2d-re", "pipe"])
def test_flows_declare_their_inertia(name):
    assert [t.form for t in family(name).problem.terms][-1] == "convection"
    assert all(t.form != "convection" for t in family("duct-stokes").problem.terms)


def test_references_make_the_equation_dimensionless():
    """Convection over diffusion is the Reynolds number, U H / nu = 1e-4 / 1.5e-5."""
    problem = family("ns2d-c++").problem
    scale = {t.form: problem.term_scale(t) * t.coefficient for t in problem.terms}
    assert scale["diffusion"] == pytest.approx(1.0)
    assert scale["convection"] == pytest.approx(1e-4 / 1.5e-5)


def test_swapped_flow_is_the_truth_of_reversed_conditions():
    """Mirrored, the reversed flow enters on the left; solved there anew, it is the same flow."""
    case = drawn("ns2d-c++", "test", 2, None, True)
    record = family("ns2d-c++").solve(case, "coarse")
    mesh = record.mesh
    shape = Shape.from_dict(case.shape)
    assert mesh.points[mesh.nodes_of("inlet"), 0].min() == 1.0
    assert (record.fields["velocity"][mesh.nodes_of("inlet"), 0] <= 0).all()

    mirror = np.diag([-1.0, 1.0])
    mirrored: Mesh = mesh.moved(mirror, np.array([1.0, 0.0]))
    assert mirrored.points[mirrored.nodes_of("inlet"), 0].max() == 0.0
    fluid = Fluid(1.5e-5, 1.2)

    def inflow(x):
        return np.stack([4 * SPEED * x[:, 1] * (1 - x[:, 1]), np.zeros(len(x))], axis=1)

    again = solve_navier_stokes(
        mirrored,
        viscosity=fluid.viscosity,
        density=fluid.density,
        velocity={"inlet": inflow, "wall": (0.0, 0.0), "obstacle": (0.0, 0.0)},
        normal_pressure={"outlet": 0.0},
    )
    back = again.velocity @ mirror
    # The second solve is on the stored mesh, not on the refined one.
    size = np.linalg.norm(record.fields["velocity"])
    assert np.linalg.norm(back - record.fields["velocity"]) < 0.02 * size
    forward = family("ns2d-c++").solve(drawn("ns2d-c++", "test", 2), "coarse")
    np.testing.assert_allclose(forward.mesh.points, mesh.points)
    assert np.linalg.norm(forward.fields["velocity"] - back) > size  # the other direction
    assert inflow_through(shape, SPEED)(np.array([[1.0, 0.5]]))[0, 0] == pytest.approx(-SPEED)


@pytest.mark.parametrize(("skew", "flatness"), [(0.0, 0.0), (0.5, -0.5), (-0.9, 0.1)])
def test_inlet_profiles_carry_the_same_flow(skew, flatness):
    shape = Shape.from_dict(drawn("ns2d-re").shape)
    nodes, weights = np.polynomial.legendre.leggauss(6)
    points = np.stack([np.zeros(6), (nodes + 1) / 2], axis=1)
    profile = inflow_through(shape, 1.0, skew, flatness)(points)[:, 0]
    assert (profile >= 0).all()
    assert profile @ weights / 2 == pytest.approx(2 / 3, rel=1e-12)


def test_von_mises_is_finite_in_the_clamped_corners():
    """The stored mean converges; the value itself grows with every refinement."""
    case, made = drawn("elasticity"), family("elasticity")
    once, twice = (made.solve(case, "coarse", times=times) for times in (1, 2))
    at = np.flatnonzero(
        (once.mesh.points[:, 1] == 0) & (np.abs(once.mesh.points[:, 0] - 0.5) == 0.5)
    )
    assert len(at) == 2
    a, b = once.fields["von_mises"][at], twice.fields["von_mises"][at]
    np.testing.assert_allclose(a, b, rtol=0.02)


@pytest.mark.slow
def test_truth_is_accurate():
    """Against one more refinement: 0.5 % in each field (1 % von Mises) at the stored nodes."""
    for name in QUICK:
        for split in ("train", "ood"):
            case, made = drawn(name, split, 7), family(name)
            truth, finer = (made.solve(case, "coarse", times=times) for times in (1, 2))
            for field, values in truth.fields.items():
                bound = 0.01 if field == "von_mises" else 0.005
                pairs = zip(
                    np.atleast_2d(values.T), np.atleast_2d(finer.fields[field].T), strict=True
                )
                for component, exact in pairs:
                    assert np.linalg.norm(component - exact) < bound * np.linalg.norm(exact)


def test_cases_cannot_be_changed_silently():
    case = drawn("poly-poisson")
    with pytest.raises(dataclasses.FrozenInstanceError):
        case.family = "other"
