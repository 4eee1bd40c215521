"""Linear attention is attention: an average with the weights of a full kernel matrix."""

from __future__ import annotations

import torch
from torch.nn.functional import elu

from baselines.cases import difference, samples, tiny
from geonew.baselines.harness import counting_measure
from geonew.baselines.linear import LinearAttention, normalised_attention
from geonew.model.integrals import mass_measure


def features(n: int, seed: int = 0) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(seed)
    q, k = torch.rand(2, 2, 3, n, 4, dtype=torch.float64) + 0.01
    return q, k, torch.randn(2, 3, n, 5, dtype=torch.float64), torch.rand(2, n).double()


def test_it_is_the_average_with_the_full_kernel_matrix():
    q, k, v, w = features(7)
    kernel = torch.einsum("bhnc,bhmc->bhnm", q, k) * w[:, None, None]
    weights = kernel / kernel.sum(-1, keepdim=True)
    assert difference(normalised_attention(q, k, v, w), weights @ v) < 1e-13


def test_constants_are_reproduced_and_the_total_weight_does_not_matter():
    q, k, v, w = features(7)
    ones = torch.ones_like(v)
    assert difference(normalised_attention(q, k, ones, w), ones) < 1e-14
    assert (
        difference(normalised_attention(q, k, v, 17.0 * w), normalised_attention(q, k, v, w))
        < 1e-13
    )


def test_the_feature_map_is_elu_plus_one():
    attention = LinearAttention(8, 2).double()
    x, w = torch.randn(1, 5, 8).double(), torch.rand(1, 5).double()
    q, k, v = attention.split(x)
    wanted = attention.join(normalised_attention(elu(q) + 1, elu(k) + 1, v, w))
    assert torch.equal(attention(x, w), wanted)
    assert (elu(q) + 1 > 0).all()


def test_measures_sum_to_one_and_leave_padding_out():
    batch = tiny("linear").collate(samples())
    for measure in (counting_measure(batch), mass_measure(batch)):
        assert difference(measure.sum(1), torch.ones(3).double()) < 1e-14
        assert (measure[~batch.mask] == 0).all()
