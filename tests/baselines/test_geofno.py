"""Geo-FNO: a deformation that starts at the training box, transforms by quadrature."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from baselines.cases import SPEC, TINY, difference, gathered, samples, tiny
from geonew.baselines import GeoFNO, GeoFNOConfig
from geonew.baselines.geofno import MARGIN, SPAN
from geonew.errors import ConfigError
from geonew.features import FeatureSpec
from geonew.model.sample import prepare
from model.cases import stokes3d


def fresh() -> GeoFNO:
    s = samples()[0]
    model = GeoFNO(s.problem, SPEC, s.columns, TINY["geofno"]).double()
    model.normalise_tokens(samples())
    return model


def test_the_training_box_starts_inside_the_torus():
    model = fresh()
    batch = model.collate(samples())
    xi = model.torus(model.inputs(batch))[batch.mask]
    assert torch.allclose(xi.amin(0), torch.full((2,), MARGIN).double(), atol=1e-6)
    assert torch.allclose(xi.amax(0), torch.full((2,), MARGIN + SPAN).double(), atol=1e-6)
    for s in samples():
        own = model.inputs(model.collate([s]))
        place = s.tokens[:, model.axes.numpy()]
        low, high = model.box.numpy()
        wanted = MARGIN + SPAN * (place - low) / (high - low)
        np.testing.assert_allclose(model.torus(own)[0].detach().numpy(), wanted, atol=1e-6)


def test_the_deformation_is_learned():
    model = fresh()
    batch = model.collate(samples())
    model(batch).fields.square().mean().backward()
    last = model.deformation[-1]
    assert last.weight.grad is not None
    assert last.weight.grad.abs().max() > 0


def test_mode_zero_of_the_first_transform_is_the_mean_over_the_domain():
    model = tiny("geofno")
    batch = model.collate(samples())
    waves = model.modes.waves(model.torus(model.inputs(batch)))
    v = torch.where(batch.mask, batch.tokens[..., model.axes[0]], 0.0)[..., None]
    weight = batch.mass / batch.volume[:, None]
    v_hat = model.modes.from_points(v, waves, weight)
    zero = int(torch.nonzero((model.modes.frequencies == 0).all(1))[0, 0])
    mean = (batch.mass * v[..., 0]).sum(1) / batch.volume
    assert torch.allclose(v_hat[:, zero, 0].real, mean, atol=1e-12)
    assert v_hat[:, zero, 0].imag.abs().max() < 1e-15


def test_it_works_in_space():
    case = stokes3d()
    spec = FeatureSpec(hks_times=0, gradients=False, coordinates=True)
    s = prepare(case.mesh, case.problem, case.boundary, spec=spec)
    config = GeoFNOConfig(16, 2, modes_in_space=2, grid_in_space=6)
    model = GeoFNO(s.problem, spec, s.columns, config)
    model.normalise_tokens([s])
    assert len(model.modes) == 4 * 4 * 2
    batch = model.double().collate([s])
    order = torch.randperm(s.n_nodes, generator=torch.Generator().manual_seed(0))
    found = model(gathered(batch, order))
    assert found.converged.all()
    assert difference(found.fields, model(batch).fields[:, order]) < 1e-10


def test_a_width_that_is_no_multiple_of_four_is_refused():
    with pytest.raises(ConfigError, match=r"width 30 is not a multiple of 4"):
        GeoFNOConfig(width=30)
