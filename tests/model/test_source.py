"""The learned source: gauged components have a state, too, and its trust is what was asked for."""

from __future__ import annotations

import math

import pytest
import torch

from geonew.errors import ConfigError
from geonew.model.config import ModelConfig
from model.cases import CASES, redraw, tiny


@pytest.mark.parametrize("known", [True, False], ids=["known", "learned"])
def test_a_gauged_state_has_no_mean_and_leaves_the_gauge_alone(known: bool):
    sample = CASES["cavity"]().sample()
    model = redraw(tiny(sample, learned_source=True, known=known), 3, 0.5)
    batch = model.collate([sample])
    with torch.no_grad():
        output = model(batch)
    state, rate = output.space.relaxation.state, output.space.relaxation.rate
    assert output.converged.all()
    (pressure,) = model.backbone.gauged
    mass = batch.mass[..., None]
    volume = float(batch.volume[0])
    size = float(output.fields[..., pressure].abs().max())
    assert float(state[..., pressure].abs().max()) > 0.1  # there is one
    assert abs(float((mass * state)[..., pressure].sum())) <= 1e-12 * size * volume
    assert abs(float((mass * output.fields)[..., pressure].sum())) <= 1e-9 * size * volume
    density = (rate / mass)[0, :, pressure]
    assert float(density.max() - density.min()) <= 1e-12 * float(density.max())
    free = (rate / mass)[0, :, 0]
    assert float(free.max() - free.min()) > 1e-3 * float(free.max())


@pytest.mark.parametrize("trust", [0.1, 1.0, 60.0])
def test_the_rate_starts_at_the_trust(trust: float):
    sample = CASES["cavity"]().sample()
    model = tiny(sample, learned_source=True, trust=trust)
    batch = model.collate([sample])
    with torch.no_grad():
        drawn = model.reduce(model.encode(batch), batch).relaxation
    rate = drawn.rate / batch.mass[..., None]
    assert float((rate / trust - 1).abs().max()) <= 1e-6
    assert torch.equal(drawn.state, batch.extension)  # all that there is at the start


@pytest.mark.parametrize("trust", [0.0, -1.0, math.exp(6), math.nan])
def test_a_trust_beyond_the_bounds_of_the_rate_is_refused(trust: float):
    with pytest.raises(ConfigError, match="trust is"):
        ModelConfig(trust=trust)
