"""Parameters, sources and loads of a sample."""

from __future__ import annotations

import numpy as np
import pytest

from geonew.errors import InputError
from geonew.fem.loads import neumann_load, source_load
from geonew.problem import (
    Dirichlet,
    Field,
    Neumann,
    Parameter,
    Term,
    resolve_loads,
    resolve_parameters,
    resolve_sources,
)
from problems import flow, poisson
from zoo import ZOO

SQUARE = ZOO["square"]()
N = SQUARE.n_nodes
TURN = np.array([[0.6, 0.8], [-0.8, 0.6]])
GIVEN = {"reynolds": 50, "wind": (1.0, 2.0), "force": lambda x: x}


def test_parameters_by_support_and_rank() -> None:
    found = resolve_parameters(flow(), SQUARE, GIVEN)
    assert found["reynolds"] == 50.0
    assert isinstance(found["reynolds"], float)
    np.testing.assert_array_equal(found["wind"], [1.0, 2.0])
    np.testing.assert_array_equal(found["force"], SQUARE.points)
    turned = resolve_parameters(flow(), SQUARE, GIVEN, TURN)
    np.testing.assert_allclose(turned["wind"], TURN @ [1.0, 2.0], atol=1e-15)
    np.testing.assert_allclose(turned["force"], SQUARE.points @ TURN.T, atol=1e-15)
    assert turned["reynolds"] == 50.0


@pytest.mark.parametrize("value", [2.5, np.full(N, 2.5), np.full((N, 1), 2.5), lambda x: 2.5])
def test_nodal_parameters(value) -> None:
    found = resolve_parameters(poisson(), SQUARE, {"kappa": value})["kappa"]
    np.testing.assert_array_equal(found, np.full(N, 2.5))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"mach": 1.0},
            r"parameters do not match problem 'flow': missing \[\], unknown \['mach'\]",
        ),
        ({"reynolds": None}, r"missing \['reynolds'\], unknown \[\]"),
        ({"reynolds": np.nan}, "the global parameter 'reynolds' are not finite"),
        ({"reynolds": [1.0, 2.0]}, r"of shape \(2,\); a global one has 1 number\(s\)"),
        ({"reynolds": lambda x: 1.0}, "are a function; a global one has 1"),
        ({"wind": 1.0}, r"of shape \(\); a global one has 2 number\(s\)"),
        ({"wind": np.zeros((N, 2))}, rf"of shape \({N}, 2\); a global one has 2"),
        ({"force": 1.0}, "'force' are one number, 1, for 2 components"),
        (
            {"force": np.zeros((3, 2))},
            r"have shape \(3, 2\)\n.*an array \(81, 2\) on the 81 nodes,",
        ),
        ({"reynolds": 0.0}, r"'reynolds' is 0 at 1 of 1 places.* \(power -1\).*'diffusion' inf"),
        ({"reynolds": -5.0}, r"'reynolds' is -5 at 1 of 1 places.*'diffusion' -0\.2"),
    ],
)
def test_wrong_parameters(change: dict, message: str) -> None:
    values = {name: v for name, v in {**GIVEN, **change}.items() if v is not None}
    with pytest.raises(InputError, match=message):
        resolve_parameters(flow(), SQUARE, values)


def test_nodal_factors_are_checked_at_every_node() -> None:
    kappa = np.ones(N)
    kappa[[3, 5]] = -0.5
    with pytest.raises(InputError, match=r"'kappa' is -0\.5 at 2 of 81 places"):
        resolve_parameters(poisson(), SQUARE, {"kappa": kappa})
    kappa[[3, 5]] = 0.0  # a conductivity may vanish: still semidefinite
    resolve_parameters(poisson(), SQUARE, {"kappa": kappa})


def test_factors_of_skew_terms_may_be_negative() -> None:
    problem = flow(
        terms=(
            Term("diffusion", ("velocity",)),
            Term("divergence", ("pressure", "velocity"), 1.0, {"reynolds": 1.0}),
        ),
    )
    assert resolve_parameters(problem, SQUARE, {**GIVEN, "reynolds": -5.0})["reynolds"] == -5.0


# -- sources and loads ---------------------------------------------------------------------------


def test_sources() -> None:
    found = resolve_sources(flow(), SQUARE, {"velocity": (0.0, -9.81)}, TURN)
    assert found.shape == (N, 3)
    np.testing.assert_allclose(found[:, :2], np.tile(TURN @ [0, -9.81], (N, 1)), atol=1e-14)
    assert not found[:, 2].any()
    nodal = resolve_sources(poisson(), SQUARE, {"u": lambda x: x[:, 0]})
    np.testing.assert_array_equal(nodal[:, 0], SQUARE.points[:, 0])
    assert not resolve_sources(poisson(sources=()), SQUARE, {}).any()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, r"the sources do not match problem 'poisson': missing \['u'\]"),
        ({"u": 1.0, "w": 1.0}, r"missing \[\], unknown \['w'\]\n.*it declares \['u'\]"),
        ({"u": np.inf}, "source of field 'u' are not finite"),
        ({"u": [1.0, 2.0]}, r"source of field 'u' have shape \(2,\)"),
        ({"u": lambda x: x}, r"source of field 'u' have shape \(81, 2\)"),
    ],
)
def test_wrong_sources(values: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        resolve_sources(poisson(), SQUARE, values)


def test_loads_add_up() -> None:
    load = resolve_loads(poisson(), SQUARE, {"u": 2.0}, {"right": {"u": 3.0}})
    assert load.sum() == pytest.approx(2.0 + 3.0, rel=1e-14)
    alone = resolve_loads(poisson(), SQUARE, {"u": lambda x: x[:, 1]}, {})
    np.testing.assert_array_equal(alone[:, 0], source_load(SQUARE, SQUARE.points[:, 1]))


def test_user_and_dimensionless_loads_agree() -> None:
    """A load on the user's mesh times s/e is the source on x/l times s l^d/e."""
    problem = poisson(neumann=(Neumann("u", "right"),))
    placed = SQUARE.moved(np.eye(2), np.zeros(2), problem.reference_length)
    f = np.cos(SQUARE.points[:, 0])
    np.testing.assert_allclose(
        problem.source_scale("u") * source_load(placed, f),
        problem.load_scale("u") * source_load(SQUARE, f),
        rtol=1e-12,
    )
    np.testing.assert_allclose(
        problem.neumann_scale("u") * neumann_load(placed, "right", f),
        problem.load_scale("u") * neumann_load(SQUARE, "right", f),
        rtol=1e-12,
        atol=1e-18,
    )


def test_the_load_of_a_gauged_field_must_balance() -> None:
    free = poisson(
        fields=(Field("u", level="gauge"), Field("t")),
        dirichlet=(Dirichlet("t", "left"),),
        parameters=(Parameter("kappa", "nodal"),),
    )
    balanced = resolve_loads(free, SQUARE, {"u": 1.0}, {"right": {"u": -1.0}})
    assert abs(balanced[:, 0].sum()) < 1e-14
    with pytest.raises(
        InputError, match=r"load of 'u' sums to 1 \(sizes to 1\), but its level is a"
    ):
        resolve_loads(free, SQUARE, {"u": 1.0}, {})


def test_a_gauged_pressure_may_have_a_net_source() -> None:
    """Mass that enters inside leaves through the boundary data of the velocity."""
    fields = (Field("velocity", "vector"), Field("pressure", level="gauge"))
    problem = flow(fields=fields, sources=("pressure",), derived=())
    load = resolve_loads(problem, SQUARE, {"pressure": 1.0}, {})
    assert load.sum(axis=0) == pytest.approx([0.0, 0.0, 1.0], rel=1e-14)
