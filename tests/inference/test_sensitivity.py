"""Derivatives: against differences of the model to 1e-6, of the reference solver to 2 %."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from geonew import weights
from geonew.data.families import family
from geonew.errors import InputError
from geonew.features import FeatureSpec
from geonew.inference.inputs import complete
from geonew.inference.quantities import drop_between, flux_through, mean_over, value_at
from geonew.inference.reference import solve_reference
from geonew.inference.sensitivity import sensitivity
from geonew.model.config import ModelConfig
from geonew.model.geonew import GeoNeW
from geonew.model.newton import NewtonConfig
from geonew.model.sample import prepare

STEP = 1e-4
SHARP = NewtonConfig(rtol=1e-13, max_steps=40)


def sharp(model):
    """The model in float64 with a solve to round-off, so that differences mean something."""
    exact = copy.deepcopy(model).double()
    exact.config = replace(exact.config, newton=SHARP)
    return exact


def slope(function, step=STEP):
    """Central differences with one step of extrapolation: an error of order step^4."""
    one = (function(step) - function(-step)) / (2 * step)
    two = (function(2 * step) - function(-2 * step)) / (4 * step)
    return (4 * one - two) / 3


@pytest.fixture(scope="module")
def poisson(trained):
    model = sharp(weights.load(trained / "poly-poisson.safetensors"))
    source = family("poly-poisson")
    return model, source.mesh(source.draw("test", np.random.default_rng(4)), "coarse")


@pytest.fixture(scope="module")
def flow(trained):
    model = sharp(weights.load(trained / "ns2d-c++.safetensors"))
    source = family("ns2d-c++")
    return model, source.mesh(source.draw("test", np.random.default_rng(4)), "coarse")


def test_boundary_and_source_of_a_scalar(poisson):
    model, mesh = poisson
    inputs = complete(model.problem, mesh)
    change = {g: {"u": np.cos(3 * mesh.points[mesh.nodes_of(g), 0])} for g in mesh.groups}
    push = {"u": mesh.points[:, 0] ** 2}
    for quantity in (value_at(mesh, [0.75, 0.1], "u"), mean_over(mesh, "cutout", "u")):

        def value(t, boundary=True, load=True, quantity=quantity):
            data = {
                g: {"u": float(inputs.boundary[g]["u"]) + t * change[g]["u"] * boundary}
                for g in mesh.groups
            }
            source = {"u": 1.0 + t * push["u"] * load}
            return quantity(model.predict(mesh, data, None, source).fields)

        found = sensitivity(model, mesh, quantity, inputs.boundary, source={"u": 1.0})
        np.testing.assert_allclose(found.value, value(0.0), rtol=1e-10)
        for kind, along in (
            ((True, False), found.along(boundary=change)),
            ((False, True), found.along(source=push)),
        ):
            np.testing.assert_allclose(
                along, slope(lambda t, kind=kind: value(t, *kind)), rtol=1e-6, atol=1e-9
            )


def test_boundary_of_a_flow(flow):
    model, mesh = flow
    inputs = complete(model.problem, mesh)
    base = inputs.boundary["inlet"]["velocity"]
    for quantity in (
        drop_between(mesh, "inlet", "outlet", "pressure"),
        flux_through(mesh, "outlet", "velocity"),
        value_at(mesh, [0.9, 0.5], "velocity", axis=0),
    ):

        def value(t, quantity=quantity):
            data = {**inputs.boundary, "inlet": {"velocity": base * (1 + t)}}
            return quantity(model.predict(mesh, data).fields)

        found = sensitivity(model, mesh, quantity, inputs.boundary)
        along = found.along(boundary={"inlet": {"velocity": base}})
        np.testing.assert_allclose(along, slope(value, 1e-3), rtol=1e-6)


def test_parameters_and_vectors_by_an_untrained_model():
    """Reynolds number in terms and tokens; a stream that enters the tokens alone."""
    source = family("ns2d-re")
    mesh = source.mesh(source.draw("test", np.random.default_rng(7)), "coarse")
    data = dict(complete(source.problem, mesh, {"inlet": {"velocity": [1.0, 0.0]}},
                         {"reynolds": 8.0}).boundary)  # fmt: skip
    spec = FeatureSpec(hks_times=0, hks_gradients=False, torsion=False)
    sample = prepare(mesh, source.problem, data, spec=spec, parameters={"reynolds": 8.0})
    torch.manual_seed(0)
    config = ModelConfig(width=16, depth=1, partitions=8, contexts=2, law="none", newton=SHARP)
    model = GeoNeW(source.problem, spec, sample.columns, config).double()
    model.normalise_tokens([sample])
    quantity = drop_between(mesh, "inlet", "outlet", "pressure")
    found = sensitivity(model, mesh, quantity, data, parameters={"reynolds": 8.0})

    def value(t):
        return quantity(model.predict(mesh, data, {"reynolds": 8.0 + t}).fields)

    along = found.along(parameters={"reynolds": 1.0})
    np.testing.assert_allclose(along, slope(value, 1e-2), rtol=1e-6)
    with pytest.raises(InputError, match="no derivative with respect to 'mach'"):
        found.along(parameters={"mach": 1.0})


def test_traction_of_a_plate():
    source = family("elasticity")
    mesh = source.mesh(source.draw("test", np.random.default_rng(7)), "coarse")
    inputs = complete(source.problem, mesh)
    spec = FeatureSpec(hks_times=0, hks_gradients=False, torsion=False)
    sample = prepare(mesh, source.problem, inputs.boundary, spec=spec, neumann=inputs.neumann)
    torch.manual_seed(0)
    config = ModelConfig(width=16, depth=1, partitions=8, contexts=2, law="none", newton=SHARP)
    model = GeoNeW(source.problem, spec, sample.columns, config).double()
    quantity = value_at(mesh, [0.5, 0.95], "displacement", axis=1)
    found = sensitivity(model, mesh, quantity, inputs.boundary)
    # The problem is linear in its load: the derivative along the load is the value.
    np.testing.assert_allclose(found.along(neumann=inputs.neumann), found.value, rtol=1e-8)
    shift = {"bottom": {"displacement": np.array([0.3, 0.2])}}

    def value(t):
        moved = {"bottom": {"displacement": t * shift["bottom"]["displacement"]}}
        return quantity(model.predict(mesh, moved, neumann=inputs.neumann).fields)

    np.testing.assert_allclose(found.along(boundary=shift), slope(value, 1e-3), rtol=1e-6)


def test_models_that_ship_agree_with_the_reference(poisson, flow):
    """What a boundary value changes, by the adjoint and by differences of the reference solver."""
    mesh, model = poisson[1], weights.load("poly-poisson")
    inputs = complete(model.problem, mesh)
    value = value_at(mesh, [0.75, 0.1], "u")

    def solved_value(t):
        data = {"cutout": {"u": 1.0 + t}, "circle": {"u": 0.0}}
        return value(solve_reference(model.problem, mesh, data, source=inputs.source).fields)

    found = sensitivity(model, mesh, value).along(boundary={"cutout": {"u": 1.0}})
    assert found == pytest.approx(slope(solved_value, 1e-2), rel=0.01)

    mesh, model = flow[1], weights.load("ns2d-c++")
    inputs = complete(model.problem, mesh)
    profile = inputs.boundary["inlet"]["velocity"]
    drop = drop_between(mesh, "inlet", "outlet", "pressure")

    def solved_drop(t):
        data = {**inputs.boundary, "inlet": {"velocity": profile * (1 + t)}}
        return drop(solve_reference(model.problem, mesh, data).fields)

    found = sensitivity(model, mesh, drop).along(boundary={"inlet": {"velocity": profile}})
    assert found == pytest.approx(slope(solved_drop, 2e-2), rel=0.02)


def test_quantities_are_refused_where_they_mean_nothing(poisson):
    model, mesh = poisson
    with pytest.raises(InputError, match="outside the mesh"):
        value_at(mesh, [5.0, 5.0], "u")
    with pytest.raises(InputError, match="read off the field 'p'"):
        sensitivity(model, mesh, mean_over(mesh, "circle", "p"))
    with pytest.raises(InputError, match="of a vector take a flux"):
        sensitivity(model, mesh, flux_through(mesh, "circle", "u"))
    with pytest.raises(InputError, match="not one number"):
        sensitivity(model, mesh, lambda fields: fields["u"])
