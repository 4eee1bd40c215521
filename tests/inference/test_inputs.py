"""A family's own data on any mesh of it: the very numbers its solver used."""

from __future__ import annotations

import numpy as np
import pytest

from geonew.data.families import FAMILIES, family
from geonew.data.families.prescribed import prescribed
from geonew.errors import BoundaryDataError, GroupError, InputError
from geonew.inference.inputs import complete
from geonew.problem import resolve
from geonew.problem.boundary import neumann_loads
from geonew.problem.inputs import resolve_sources


def case_of(name, swap=False):
    source = family(name)
    return source, source.draw("test", np.random.default_rng(3), swap=swap)


@pytest.mark.parametrize("name", ["poly-poisson", "elasticity"])
def test_defaults_are_what_the_solver_used(name):
    source, case = case_of(name)
    record = source.solve(case, "coarse", times=0)
    inputs = complete(source.problem, record.mesh)
    mine = resolve(source.problem, record.mesh, inputs.boundary)
    theirs = resolve(source.problem, record.mesh, record.boundary)
    np.testing.assert_array_equal(mine.value, theirs.value)
    load = neumann_loads(source.problem, record.mesh, inputs.neumann)
    np.testing.assert_allclose(load, neumann_loads(source.problem, record.mesh, record.neumann))
    np.testing.assert_array_equal(
        resolve_sources(source.problem, record.mesh, inputs.source),
        resolve_sources(source.problem, record.mesh, record.sources),
    )
    assert len(inputs.assumed) >= 2


@pytest.mark.parametrize(
    ("name", "swap"), [("ns2d-c++", False), ("ns2d-c++", True), ("pipe", True)]
)
def test_the_profile_at_a_straight_inlet(name, swap):
    source, case = case_of(name, swap)
    mesh = source.mesh(case, "coarse")
    inputs = complete(source.problem, mesh)
    values = inputs.boundary["inlet"]["velocity"]
    y = mesh.points[mesh.nodes_of("inlet"), 1]
    s = (y - y.min()) / np.ptp(y)
    speed = {"ns2d-c++": 1e-4, "pipe": 1.0}[name] * (-1 if swap else 1)
    np.testing.assert_allclose(values[:, 0], 4 * speed * s * (1 - s), atol=1e-12 * abs(speed))
    np.testing.assert_allclose(values[:, 1], 0, atol=1e-12 * abs(speed))


def test_a_duct_in_space():
    source, case = case_of("duct-stokes")
    mesh = source.mesh(case, "coarse")
    nodes = mesh.nodes_of("inlet")
    y, z = mesh.points[nodes, 1:].T
    want = 16 * y * (1 - y) * z * (1 - z)
    values = complete(source.problem, mesh).boundary["inlet"]["velocity"]
    np.testing.assert_allclose(values[:, 0], want, atol=1e-9)


def test_given_values_win_and_drawn_ones_are_asked_for():
    source, case = case_of("poly-poisson")
    mesh = source.mesh(case, "coarse")
    inputs = complete(source.problem, mesh, {"cutout": {"u": 5.0}}, source={"u": 2.0})
    assert inputs.boundary["cutout"]["u"] == 5.0
    assert inputs.boundary["circle"]["u"] == 0.0
    assert inputs.assumed == ("circle.u = 0",)
    variant = family("poly-poisson-var").problem
    with pytest.raises(BoundaryDataError, match=r"missing for cutout\.u, circle\.u"):
        complete(variant, mesh)
    both = {"cutout": {"u": 1.0}, "circle": {"u": 0.0}}
    with pytest.raises(InputError, match=r"missing \['u'\]"):
        complete(variant, mesh, both)
    assert complete(variant, mesh, both, source={"u": 1.0}).assumed == ()
    with pytest.raises(InputError, match=r"unknown \['mu'\]"):
        complete(variant, mesh, both, source={"u": 1.0}, parameters={"mu": 1.0})


def test_a_bent_inlet_has_no_default():
    source, case = case_of("ns2d-c++")
    mesh = source.mesh(case, "coarse")
    swapped = mesh.renamed({"inlet": "obstacle", "obstacle": "inlet"})
    assert "inlet" not in prescribed(source.problem, swapped).boundary
    with pytest.raises(BoundaryDataError, match="straight inlets only"):
        complete(source.problem, swapped)
    with pytest.raises(GroupError, match="do not match"):
        complete(source.problem, mesh.renamed({"inlet": "in"}))


def test_an_inlet_that_the_family_draws_has_no_default():
    source, case = case_of("ns2d-re")
    mesh = source.mesh(case, "coarse")
    with pytest.raises(BoundaryDataError, match="varies from sample to sample"):
        complete(source.problem, mesh, parameters={"reynolds": 60.0})


def test_every_family_is_known_here():
    """A new family must decide what of it is fixed."""
    assert set(FAMILIES) == {
        "poly-poisson", "poly-poisson-var", "ns2d-c", "ns2d-c++", "ns2d-re", "pipe", "elasticity",
        "naca", "ball-poisson", "duct-stokes",
    }  # fmt: skip
