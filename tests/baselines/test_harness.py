"""What every baseline must do, whatever its map: inputs, invariances, cost, learning."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from baselines.cases import (
    ALL,
    INTEGRALS,
    POINTS,
    SPEC,
    TINY,
    difference,
    fitting,
    gathered,
    rubbish_in_padding,
    samples,
    tiny,
)
from geonew.baselines import (
    BASELINES,
    BaselineConfig,
    InducingConfig,
    LinearConfig,
    LinearTransformer,
)
from geonew.errors import ConfigError, FeatureError
from geonew.features import FeatureSpec
from geonew.model.config import ModelConfig
from geonew.model.geonew import GeoNeW
from geonew.train.optimiser import OptimiserConfig, build_optimiser, learning_rate

ROUND_OFF = 1e-10


# -- inputs and outputs --------------------------------------------------------------------------


def test_inputs_are_tokens_values_indicators_and_loads():
    model, known = tiny("linear"), samples()
    batch = model.collate(known)
    x = model.inputs(batch)
    assert x.shape[-1] == model.input_width == len(model.columns) + 3 * 3
    rows = np.concatenate([s.tokens for s in known])
    columns = x[batch.mask][:, : len(model.columns)].numpy()
    spread = rows.std(axis=0)
    live = spread > 1e-6
    np.testing.assert_allclose(columns.mean(axis=0)[live], 0, atol=1e-10)
    np.testing.assert_allclose(columns.std(axis=0)[live], 1, atol=1e-10)
    for k, s in enumerate(known):
        own = x[k, : s.n_nodes, len(model.columns) :].numpy()
        value, fixed, load = np.split(own, 3, axis=1)
        scale = np.array(s.problem.references) * model.field_scale.numpy()
        np.testing.assert_array_equal(fixed, s.fixed)
        wanted = np.where(s.fixed, s.values.value / scale, 0.0)
        np.testing.assert_allclose(value, wanted, atol=1e-12)
        density = s.load / s.mass[:, None]
        np.testing.assert_allclose(load * model.load_scale.numpy(), density, atol=1e-12)
    assert (x[~batch.mask] == 0).all()


def test_a_problem_without_loads_has_no_load_columns():
    problem = replace(samples()[0].problem, sources=())
    model = LinearTransformer(problem, SPEC, samples()[0].columns, TINY["linear"])
    assert model.input_width == len(model.columns) + 2 * 3


def test_fields_are_scaled_and_never_shifted():
    model, known = tiny("linear"), samples()
    rows = np.concatenate([s.target for s in known if s.target is not None])
    np.testing.assert_allclose(model.field_scale.numpy(), np.sqrt((rows**2).mean(axis=0)))
    batch = model.collate(known)
    before = model(batch).fields
    with torch.no_grad():
        model.head.weight.mul_(2.0)
        model.head.bias.mul_(2.0)
    assert difference(model(batch).fields, 2 * before) < ROUND_OFF


@pytest.mark.parametrize("name", ALL)
def test_outputs_are_double_finite_and_zero_on_padding(name: str):
    model = tiny(name, dtype=torch.float32)
    batch = model.collate(fitting(name))
    output = model(batch)
    assert output.fields.dtype == torch.float64
    assert output.fields.shape == batch.extension.shape
    assert output.converged.all()
    assert (output.fields[~batch.mask] == 0).all()
    assert output.fields[batch.mask].std() > 0


# -- what a prediction must not depend on ----------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_a_sample_does_not_see_its_batch_mates(name: str):
    model, known = tiny(name), fitting(name)
    alone = [model(model.collate([s])).fields[0] for s in known]
    for order in ([0, 1], [1, 0], [0, 0, 1], list(range(len(known)))[::-1]):
        together = model(model.collate([known[k] for k in order])).fields
        for row, k in zip(together, order, strict=True):
            assert difference(row[: known[k].n_nodes], alone[k]) < ROUND_OFF


@pytest.mark.parametrize("name", POINTS)
def test_padding_holds_rubbish_and_nobody_notices(name: str):
    model = tiny(name)
    batch = model.collate(samples())
    clean, dirty = model(batch).fields, model(rubbish_in_padding(batch)).fields
    assert torch.equal(clean, dirty)


@pytest.mark.parametrize("name", POINTS)
def test_renumbering_the_nodes_renumbers_the_fields(name: str):
    model = tiny(name)
    batch = model.collate(samples()[1:2])
    order = torch.randperm(batch.mask.shape[1], generator=torch.Generator().manual_seed(0))
    found = model(gathered(batch, order)).fields
    assert difference(found, model(batch).fields[:, order]) < ROUND_OFF


@pytest.mark.parametrize("name", POINTS)
def test_coincident_nodes_that_share_their_mass_are_one(name: str):
    """Integrals do not see how the mass is cut up; means over nodes do."""
    model = tiny(name)
    batch = model.collate(samples()[:1])
    n = batch.mask.shape[1]
    crowded = gathered(batch, torch.cat([torch.arange(n), torch.arange(n // 3).repeat(4)]))
    moved = difference(model(crowded).fields[:, :n], model(batch).fields)
    if name in (*INTEGRALS, "inducing"):  # anchors are given: nothing is summed over nodes
        assert moved < ROUND_OFF
    else:
        assert moved > 1e-4


# -- cost and size -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", POINTS)
def test_cost_is_linear_in_the_number_of_nodes(name: str):
    model = tiny(name)
    batch = model.collate(samples()[:1])
    flops = []
    for times in (1, 2, 3):
        many = gathered(batch, torch.arange(batch.mask.shape[1]).repeat(times))
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            model(many)
        flops.append(counter.get_total_flops())
    assert flops[1] > flops[0] > 0
    assert flops[2] - flops[1] == flops[1] - flops[0]


@pytest.mark.parametrize("name", ALL)
def test_sizes_are_comparable_with_those_of_geo_new(name: str):
    s = samples()[0]
    own = GeoNeW(s.problem, SPEC, s.columns, ModelConfig())
    size = sum(p.numel() for p in own.parameters())
    model = BASELINES[name](s.problem, SPEC, s.columns)
    assert 0.25 < sum(p.numel() for p in model.parameters()) / size < 2.0


# -- learning ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_gradients_are_finite_and_reach_every_parameter(name: str):
    model = tiny(name).train()
    batch = model.collate(fitting(name))
    assert batch.target is not None
    (model(batch).fields - batch.target)[batch.mask].square().mean().backward()
    for label, p in model.named_parameters():
        assert p.grad is not None, label
        assert p.grad.isfinite().all(), label
        assert p.grad.abs().max() > 0, label


@pytest.mark.parametrize("name", ALL)
def test_one_batch_is_learned_by_heart(name: str):
    torch.manual_seed(0)
    known = fitting(name)[:2]
    config = replace(TINY[name], width=64 if name == "unet" else 32, depth=1)
    model = BASELINES[name](known[0].problem, SPEC, known[0].columns, config)
    model.normalise_tokens(known)
    batch = model.collate(known)
    assert batch.target is not None
    settings, steps = OptimiserConfig(learning_rate=1e-2, warm_up=10), 800
    optimiser = build_optimiser(settings, model.parameters())
    error = torch.tensor(1.0)
    for step in range(steps):
        gap = (model(batch).fields - batch.target) * batch.mask[..., None]
        error = (gap.flatten(1).norm(dim=1) / batch.target.flatten(1).norm(dim=1)).mean()
        if error < 1e-3:
            break
        optimiser.zero_grad()
        error.backward()
        optimiser.param_groups[0]["lr"] = learning_rate(settings, step, step / steps)
        optimiser.step()
    assert error < 1e-3


@pytest.mark.parametrize("where", ["tokens", "extension", "load", "group_value"])
@pytest.mark.parametrize("name", ALL)
def test_a_sample_with_bad_numbers_is_left_out_of_values_and_gradients(name: str, where: str):
    model = tiny(name).train()
    good, bad = fitting(name)[:2]
    spoilt = replace(bad, **{where: np.full_like(getattr(bad, where), np.nan)})
    batch = model.collate([good, spoilt])
    output = model(batch)
    assert output.converged.tolist() == [True, False]
    assert output.fields[1].isnan().any()
    alone = model(model.collate([good])).fields[0]
    assert difference(output.fields[0, : good.n_nodes], alone) < ROUND_OFF
    output.fields[output.converged].square().sum().backward()
    mixed = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    alone.square().sum().backward()
    for found, p in zip(mixed, model.parameters(), strict=True):
        assert p.grad is not None
        assert torch.allclose(found, p.grad, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", ALL)
def test_mixed_precision_is_near_the_full_one(name: str):
    model = tiny(name, dtype=torch.float32).train()
    batch = model.collate(fitting(name))
    wanted = model(batch).fields
    with torch.autocast("cpu", torch.bfloat16):
        output = model(batch)
    assert output.converged.all()
    assert output.fields.dtype == torch.float64
    assert difference(output.fields, wanted) < 0.05  # bfloat16 has 8 bits of mantissa
    output.fields.square().sum().backward()
    for p in model.parameters():
        assert p.grad is not None
        assert p.grad.isfinite().all()


@pytest.mark.parametrize("name", ALL)
def test_copies_and_saved_states_predict_the_same(name: str):
    model = tiny(name)
    batch = model.collate(fitting(name))
    wanted = model(batch).fields
    assert torch.equal(deepcopy(model)(batch).fields, wanted)
    fresh = BASELINES[name](model.problem, model.spec, model.columns, model.config).double().eval()
    fresh.load_state_dict(model.state_dict())
    assert torch.equal(fresh(batch).fields, wanted)


# -- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["deeponet", "geofno"])
def test_missing_coordinates_are_named(name: str):
    s = samples()[0]
    columns = tuple(c for c in s.columns if c != "x2")
    with pytest.raises(FeatureError, match=r"no columns \['x2'\]") as caught:
        BASELINES[name](s.problem, SPEC, columns)
    assert "coordinates=True" in caught.value.cure


def test_foreign_features_are_named():
    model, s = tiny("linear"), samples()[0]
    other = replace(s, columns=("other", *s.columns[1:]))
    with pytest.raises(FeatureError, match=r"missing .*label:left.*extra .*other"):
        model.collate([other])


def test_a_foreign_configuration_is_refused():
    s = samples()[0]
    with pytest.raises(ConfigError, match=r"LinearTransformer was given a InducingConfig"):
        LinearTransformer(s.problem, FeatureSpec(), s.columns, InducingConfig())


@pytest.mark.parametrize("name", ALL)
def test_sizes_below_one_are_refused(name: str):
    for setting in ("width", "depth"):
        with pytest.raises(ConfigError, match=setting):
            replace(BASELINES[name].config_type(), **{setting: 0})


def test_heads_must_divide_the_width():
    with pytest.raises(ConfigError, match=r"width 30 is not a multiple of 4 heads"):
        LinearConfig(width=30)
    assert BaselineConfig(width=30).width == 30
