"""Physics attention: slices are a partition of the nodes, slice tokens their averages."""

from __future__ import annotations

import torch
from torch.nn.functional import scaled_dot_product_attention

from baselines.cases import difference
from geonew.baselines import Transolver, TransolverConfig
from geonew.baselines.transolver import PhysicsAttention


def attention(slices: int = 5) -> PhysicsAttention:
    torch.manual_seed(0)
    return PhysicsAttention(8, 2, slices).double()


def test_slice_weights_are_positive_and_sum_to_one():
    w = attention().slice_weights(torch.randn(2, 7, 8).double())
    assert w.shape == (2, 2, 7, 5)
    assert (w > 0).all()
    assert difference(w.sum(-1), torch.ones(2, 2, 7).double()) < 1e-14


def test_it_is_slice_attend_deslice():
    layer = attention()
    x, count = torch.randn(1, 7, 8).double(), torch.full((1, 7), 1 / 7).double()
    w = layer.slice_weights(x)
    b = layer.to_values(x).unflatten(-1, (2, 4)).transpose(1, 2)
    tokens = torch.einsum("bhns,bhnc->bhsc", w / w.sum(2, keepdim=True), b)
    q, k, v = layer.query_key_value(tokens).chunk(3, dim=-1)
    out = torch.einsum("bhns,bhsc->bhnc", w, scaled_dot_product_attention(q, k, v))
    assert difference(layer(x, count), layer.out(out.transpose(1, 2).flatten(-2))) < 1e-12


def test_one_slice_gives_every_node_the_mean():
    layer = attention(slices=1)
    x, count = torch.randn(1, 7, 8).double(), torch.full((1, 7), 1 / 7).double()
    found = layer(x, count)
    mean = layer.to_values(x).mean(1).unflatten(-1, (2, 4))  # (1, h, c)
    value = layer.query_key_value(mean).chunk(3, dim=-1)[2].flatten(-2)
    assert difference(found, layer.out(value)[:, None].expand_as(found)) < 1e-13


def test_an_empty_slice_has_a_token_and_a_gradient():
    layer = attention(slices=2)
    with torch.no_grad():
        layer.slice.weight.zero_()
        layer.slice.bias.copy_(torch.tensor([800.0, -800.0]))
    x = torch.randn(1, 7, 8).double().requires_grad_()
    found = layer(x, torch.full((1, 7), 1 / 7).double())
    found.sum().backward()
    assert found.isfinite().all()
    assert x.grad.isfinite().all()


def test_the_published_comparison_has_64_slices():
    assert TransolverConfig().slices == 64
    assert Transolver.config_type is TransolverConfig
