"""Mixed precision: the encoder may be rough; space, projection and solve are as exact as ever."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from geonew.model.batch import Batch
from geonew.model.geonew import GeoNeW, Output
from geonew.model.newton import Status
from geonew.model.sample import Sample
from model.cases import prepared, tiny
from model.test_convolution import SHAPE, bent

# bfloat16 has 8 bits of mantissa; values stray by some units of its last one, gradients further.
NEAR, NEAR_GRADIENT = 0.01, 0.1

KINDS: dict[str, tuple[Sample, dict[str, Any]]] = {
    "known and learned": (prepared("flow"), {}),
    "learned": (prepared("poisson"), {"known": False}),
    "paper's law": (prepared("flow"), {"law": "paper"}),
    "a state, tuned": (
        prepared("cavity"),
        {"law": "none", "learned_source": True, "tuned": True},
    ),
    "in space": (prepared("poisson3d"), {}),
    "on a grid": (bent(), {"grid": SHAPE, "places": True, "width": 32, "hidden": 8}),
}


def predicted(model: GeoNeW, batch: Batch, *, mixed: bool) -> tuple[Output, torch.Tensor]:
    """A step's output, and its gradient in all weights as one vector."""
    model.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, mixed):
        output = model(batch)
    assert output.converged.any()
    output.fields[output.converged].square().sum().backward()
    return output, torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def distance(found: torch.Tensor, wanted: torch.Tensor) -> float:
    return float(((found - wanted).norm() / wanted.norm()).detach())


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_encoder_is_rough(kind: str) -> None:
    sample, changes = KINDS[kind]
    model = tiny(sample, dtype=torch.float32, **changes)
    batch = model.collate([sample])
    model.train()(batch)  # the paper's law takes its bound from a step of training
    model.eval()
    exact, slope = predicted(model, batch, mixed=False)
    output, rough_slope = predicted(model, batch, mixed=True)
    assert output.converged.all()
    assert rough_slope.isfinite().all()
    assert 0 < distance(output.fields, exact.fields) < NEAR
    assert distance(rough_slope, slope) < NEAR_GRADIENT
    assert torch.equal(output.fields[batch.fixed], batch.extension[batch.fixed])

    # From the embeddings on nothing is rounded: without autocast the same numbers, bit for bit.
    encoding = output.encoding
    for state in (encoding.nodes, encoding.context, encoding.flux_context, *encoding.memory):
        assert state.dtype == torch.float32
    space = model.reduce(encoding, batch)
    balance = model.balance(encoding, space, batch)
    assert torch.equal(space.trial, output.space.trial)
    assert torch.equal(balance.linear.matrix, output.balance.linear.matrix)
    r = balance.residual(output.u)
    assert (space.trial.dtype, r.dtype, output.u.dtype) == (torch.float64,) * 3
    assert float(r.norm().detach()) <= 1e-8 * float(balance.scale().max().detach())


def test_a_lost_sample_leaves_the_others_their_rough_encoding() -> None:
    """Their balance is made anew, and must be the one that was solved."""
    good, bad = prepared("poisson"), prepared("poisson")
    model = tiny(good, dtype=torch.float32).train()
    batch = model.collate([good, bad])
    lost = torch.tensor([False, True])
    poisoned = torch.where(lost[:, None, None], torch.nan, batch.load)
    alone, slope = predicted(model, model.collate([good]), mixed=True)
    output, mate_slope = predicted(model, replace(batch, load=poisoned), mixed=True)
    assert output.solution.status.tolist() == [Status.CONVERGED, Status.NON_FINITE]
    assert distance(output.fields[:1], alone.fields) < 1e-6
    assert distance(mate_slope, slope) < 1e-3


def test_a_prediction_is_carried_over_in_full_precision() -> None:
    sample = prepared("flow")
    model = tiny(sample, dtype=torch.float32)
    batch = model.collate([sample])
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        output = model(batch)
        carried = model.transfer(output, batch)
    assert torch.equal(carried[batch.fixed], batch.extension[batch.fixed])
    assert distance(carried, output.fields) < NEAR
