"""Geo-NeW on a structured mesh: the same guarantees with convolutions for an encoder."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from geonew.errors import ConfigError, InputError, MeshError
from geonew.mesh import Grid
from geonew.model.config import ModelConfig
from geonew.model.convolution import LEAST_SPREAD, Convolutions
from geonew.model.sample import Sample
from model.cases import Case, redraw, scalar_problem, tiny
from zoo import build, grid

SHAPE = Grid(17, 21)
CHANGES = {
    "known": {},
    "learned": {"known": False},
    "a state": {"known": False, "learned_source": True, "law": "none"},
}


@cache
def bent(height: float = 0.2, rows: int = SHAPE.rows) -> Sample:
    """Poisson's equation on a bent square of 17 x 21 places, or of other rows."""
    points, cells = grid([np.linspace(0, 1, rows), np.linspace(0, 1, SHAPE.cols)])
    flat = build(points, cells, {"low": lambda x: x[:, 1] < 1e-9, "rest": lambda x: x[:, 0] >= 0})
    x, y = points.T
    mesh = replace(flat, points=np.stack([x, y + height * np.sin(np.pi * x)], axis=1))
    data = {"low": {"u": 1.3}, "rest": {"u": -0.8}}
    return Case(scalar_problem(mesh), mesh, data, source={"u": 1.7}).sample()


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_boundary_values_are_exact_and_the_balance_holds(changes: dict):
    sample = bent()
    model = redraw(tiny(sample, grid=SHAPE, **changes), 4)
    batch = model.collate([sample])
    with torch.no_grad():
        output = model(batch)
    assert output.converged.all()
    defect = (output.fields - batch.extension)[batch.fixed]
    assert float(defect.abs().max()) <= 1e-14
    r = output.balance.residual(output.u)
    assert float(r.norm()) <= 1e-8 * float(output.balance.scale().max())
    assert float(output.fields.std()) > 0.1


def test_batch_mates_do_not_matter():
    one, other = bent(), bent(-0.3)
    model = redraw(tiny(one, grid=SHAPE), 4)
    with torch.no_grad():
        alone = model(model.collate([one])).fields[0]
        together = model(model.collate([one, other])).fields
    assert float((together[0] - alone).abs().max()) <= 1e-10
    assert float((together[1] - alone).abs().max()) > 1e-3


def test_the_gradient_is_that_of_finite_differences():
    sample = bent()
    model = redraw(tiny(sample, grid=SHAPE, known=False, learned_source=True, law="none"), 5, 0.5)
    batch = model.collate([sample])
    torch.manual_seed(1)
    weight = torch.randn_like(batch.extension)
    parameters = list(model.encoder.parameters())
    way = [torch.randn_like(p) for p in parameters]

    def value() -> torch.Tensor:
        return (weight * model(batch).fields).sum()

    value().backward()
    slope = sum(float((p.grad * d).sum()) for p, d in zip(parameters, way, strict=True))
    step, found = 1e-5, []
    with torch.no_grad():
        for sign in (1, -2):
            for p, d in zip(parameters, way, strict=True):
                p += sign * step * d
            found.append(float(value()))
    assert slope == pytest.approx((found[0] - found[1]) / (2 * step), rel=1e-5)


def test_other_meshes_are_refused():
    model = tiny(bent(), grid=SHAPE)
    with pytest.raises(MeshError, match="is no 17 x 21 grid"):
        model.collate([bent(), bent(rows=16)])
    output = model(model.collate([bent()]))
    with pytest.raises(InputError, match="cannot carry a prediction over"):
        model.transfer(output, model.collate([bent(-0.3)]))
    with pytest.raises(MeshError, match="12 nodes was given to convolutions on a 17 x 21 grid"):
        Convolutions(3, 4, 1, SHAPE)(torch.zeros(1, 12, 3))


def test_deviations_are_those_from_the_training_data_at_each_place():
    family = [bent(height) for height in (-0.2, -0.1, 0.05, 0.2)]
    model = redraw(tiny(family[0], grid=SHAPE, places=True), 4)
    model.normalise_tokens(family)
    read = model.encoder.convolutions
    tokens = torch.stack([model.scaling(torch.from_numpy(s.tokens).to(read.mean)) for s in family])
    mean, spread = tokens.mean(0), tokens.std(0, correction=0)
    assert float((read.mean - mean).abs().max()) <= 1e-12
    assert float((read.spread - (spread**2 + LEAST_SPREAD**2).sqrt()).abs().max()) <= 1e-9
    seen: list[torch.Tensor] = []
    read.down[0][0].register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    with torch.no_grad():
        model.encode(model.collate(family))
    assert float(seen[0].mean(0).abs().max()) <= 1e-9
    assert float(seen[0].abs().max()) <= 2.0  # four samples are no further from their mean
    assert float(seen[0].abs().max()) > 1.0


def test_places_do_not_forget_what_is_everywhere_alike():
    """Convolved once for all samples, the mean at each place still decides."""
    sample = bent()
    model = redraw(tiny(sample, grid=SHAPE, places=True), 4)
    model.normalise_tokens([sample])
    batch = model.collate([sample])
    with torch.no_grad():
        before = model.encode(batch).nodes
        model.encoder.convolutions.steady.weight.zero_()
        after = model.encode(batch).nodes
    assert float((after - before).abs().max()) > 1e-2


def test_places_and_mirrors_need_a_grid():
    for name in ("places", "mirror"):
        with pytest.raises(ConfigError, match="are for models on a grid"):
            ModelConfig(**{name: True})


def test_bad_sizes_are_refused():
    with pytest.raises(ConfigError, match="width 24 is not a multiple of 16"):
        ModelConfig(width=24, grid=SHAPE)
    with pytest.raises(ConfigError, match="9 x 9 grid cannot be halved 3 times"):
        ModelConfig(width=64, grid=Grid(9, 9))
