"""The reference found by a problem's terms is the solver's own solution."""

from __future__ import annotations

import numpy as np
import pytest

from geonew.data.families import family
from geonew.errors import SolverError
from geonew.fem.reference import solve_poisson
from geonew.inference.inputs import complete
from geonew.inference.reference import solve_reference, trace
from zoo import ZOO


@pytest.mark.parametrize("name", ["poly-poisson", "elasticity", "ns2d-c++"])
def test_families(name):
    source = family(name)
    record = source.solve(source.draw("test", np.random.default_rng(1)), "coarse", times=0)
    inputs = complete(source.problem, record.mesh)
    found = solve_reference(
        source.problem, record.mesh, inputs.boundary, inputs.parameters, inputs.source,
        inputs.neumann,
    )  # fmt: skip
    for f in source.problem.fields:
        want = record.fields[f.name]
        # The family's mesh has layers at corners, and its inflow is a parabola between vertices.
        assert np.linalg.norm(found.fields[f.name] - want) < 2e-2 * np.linalg.norm(want), f.name
    assert found.seconds > 0


def test_it_is_the_solvers_own_solution():
    source = family("poly-poisson")
    mesh = source.mesh(source.draw("test", np.random.default_rng(1)), "coarse")
    nodal = np.cos(mesh.points[mesh.nodes_of("cutout"), 0])
    boundary = {"cutout": {"u": nodal}, "circle": {"u": lambda x: x[:, 1]}}
    load = {"u": mesh.points[:, 0]}
    found = solve_reference(source.problem, mesh, boundary, source=load)
    full = np.zeros((mesh.n_nodes, 1))
    full[mesh.nodes_of("cutout"), 0] = nodal
    direct = solve_poisson(
        mesh,
        dirichlet={
            "cutout": lambda x: trace(mesh, "cutout", full, x)[:, 0],
            "circle": lambda x: x[:, 1],
        },
        source=lambda x: x[:, 0],
        degree=2,
    )
    np.testing.assert_allclose(found.fields["u"], direct.values, atol=1e-10)
    np.testing.assert_allclose(found.fields["u"][mesh.nodes_of("cutout")], nodal, atol=1e-12)


def test_reynolds_numbers_enter():
    source = family("ns2d-re")
    case = source.draw("test", np.random.default_rng(2), axis=("reynolds", 20.0))
    record = source.solve(case, "coarse", times=0)
    found = solve_reference(source.problem, record.mesh, record.boundary, record.parameters)
    gap = np.linalg.norm(found.fields["velocity"] - record.fields["velocity"])
    assert gap < 2e-2 * np.linalg.norm(record.fields["velocity"])


def test_what_has_no_reference():
    source = family("naca")
    mesh = ZOO["square"]()
    with pytest.raises(SolverError, match="no reference solver"):
        solve_reference(source.problem, mesh, {})


@pytest.mark.parametrize("name", ["square", "cube"])
def test_traces_are_linear(name):
    mesh = ZOO[name]()
    group = next(iter(mesh.groups))
    slope = np.arange(1, mesh.dim + 1)
    values = (mesh.points @ slope)[:, None]
    points = mesh.points[mesh.facets_of(group)].mean(axis=1)
    found = trace(mesh, group, values, points)
    np.testing.assert_allclose(found[:, 0], points @ slope, atol=1e-12)
