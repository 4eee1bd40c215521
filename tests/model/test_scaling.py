"""Tokens in units of training: within its range as they are, beyond it held."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from geonew.model.sample import Sample
from geonew.model.scaling import BEYOND, TokenScaling
from model.cases import scalar

SAMPLES = [scalar(mesh).sample() for mesh in ("square", "random_delaunay", "needles")]


def tokens(samples: list[Sample]) -> torch.Tensor:
    return torch.from_numpy(np.concatenate([s.tokens for s in samples]))


@pytest.fixture
def fitted() -> TokenScaling:
    scaling = TokenScaling(SAMPLES[0].tokens.shape[1]).double()
    scaling.fit(SAMPLES)
    return scaling


def test_training_samples_have_mean_0_and_spread_1(fitted: TokenScaling) -> None:
    scaled = fitted(tokens(SAMPLES))
    assert scaled.mean(0).abs().max() <= 1e-10
    spread = scaled.std(0, correction=0)
    assert (((spread - 1).abs() <= 1e-8) | (spread <= 1e-6)).all()  # constant columns stay put


def test_unfitted_is_the_identity() -> None:
    rows = 1e3 * torch.randn(5, 7, dtype=torch.float64)
    assert torch.equal(TokenScaling(7).double()(rows), rows)


def test_nothing_within_the_range_of_training_is_moved(fitted: TokenScaling) -> None:
    rows = tokens(SAMPLES)
    plain = (rows - fitted.mean) / fitted.scale
    assert (fitted(rows) - plain).abs().max() <= 1e-14 * plain.abs().max()


@pytest.mark.parametrize("far", [1.0, 10.0, 1e6])
def test_nothing_goes_further_than_a_little_beyond_it(fitted: TokenScaling, far: float) -> None:
    ends = torch.stack([fitted.low - far, fitted.high + far])
    scaled = fitted(fitted.mean + fitted.scale * ends)
    assert (scaled[0] - fitted.low + BEYOND).abs().max() <= 1e-8
    assert (scaled[1] - fitted.high - BEYOND).abs().max() <= 1e-8


def test_values_and_slopes_go_on_at_the_ends(fitted: TokenScaling) -> None:
    def near(step: float) -> tuple[torch.Tensor, torch.Tensor]:
        at = (fitted.mean + fitted.scale * (fitted.high + step)).requires_grad_()
        value = fitted(at)
        (slope,) = torch.autograd.grad(value.sum(), at)
        return value.detach(), slope * fitted.scale

    (inside, left), (outside, right) = near(-1e-6), near(1e-6)
    assert (outside - inside - 2e-6).abs().max() <= 1e-9
    assert (left - 1).abs().max() <= 1e-8
    assert (right - 1).abs().max() <= 1e-8
