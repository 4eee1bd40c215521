"""Galerkin attention: a projection in the inner product of the domain, layer norms inside."""

from __future__ import annotations

import torch
from torch.nn.functional import layer_norm

from baselines.cases import difference
from geonew.model.integrals import START, GalerkinAttention


def test_it_is_the_double_sum_over_nodes():
    torch.manual_seed(0)
    attention = GalerkinAttention(6, 2).double()
    torch.nn.init.normal_(attention.query_key_value.weight)
    x = torch.randn(2, 5, 6).double()
    w = torch.softmax(torch.randn(2, 5).double(), dim=-1)
    q, k, v = attention.split(x)
    k, v = layer_norm(k, (3,)), layer_norm(v, (3,))
    pairs = torch.einsum("bhnc,bhmc,bm->bhnm", q, k, w)
    assert difference(attention(x, w), attention.join(pairs @ v)) < 1e-13


def test_quadrature_converges_to_the_integral():
    """Values of smooth functions on a graded line: trapezoidal weights, second order in 1/n."""
    torch.manual_seed(0)
    attention = GalerkinAttention(4, 1).double()
    torch.nn.init.normal_(attention.query_key_value.weight)

    def at_the_ends(n: int) -> torch.Tensor:
        t = torch.linspace(0, 1, n + 1, dtype=torch.float64) ** 2
        gaps = t.diff()
        w = torch.zeros(n + 1).double()
        w[:-1] += gaps / 2
        w[1:] += gaps / 2
        x = torch.stack([torch.sin(3 * t), t, torch.exp(t), torch.cos(t)], dim=-1)
        return attention(x[None], w[None])[0, [0, -1]]

    exact = at_the_ends(4096)
    errors = [difference(at_the_ends(n), exact) for n in (16, 32, 64)]
    assert errors[2] < 1e-3
    assert errors[0] / errors[1] > 3.5
    assert errors[1] / errors[2] > 3.5


def test_projections_start_near_a_small_multiple_of_the_identity():
    weight = GalerkinAttention(64, 4).query_key_value.weight.detach()
    for part in weight.split(64):
        rest = part - START * torch.eye(64)
        assert 0 < rest.abs().max() < START
        assert abs(float(rest.mean())) < 0.1 * START
