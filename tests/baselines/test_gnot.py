"""GNOT: normalised attention with the queries as a skip, and experts gated by geometry."""

from __future__ import annotations

import torch
from torch.nn.functional import gelu

from baselines.cases import SPEC, TINY, difference, samples, tiny
from geonew.baselines import GNOT
from geonew.baselines.gnot import Experts, NormalisedAttention


def test_gates_are_positive_and_sum_to_one():
    model = tiny("gnot")
    x = model.inputs(model.collate(samples()))
    gates = model.gates(x)
    assert gates.shape[-1] == model.config.experts
    assert (gates > 0).all()
    assert difference(gates.sum(-1), torch.ones_like(gates[..., 0])) < 1e-14
    assert gates.std(dim=(0, 1)).min() > 1e-3


def test_gates_read_coordinates_alone_where_there_are_any():
    model = tiny("gnot")
    x = model.inputs(model.collate(samples())).requires_grad_()
    model.gates(x)[..., 0].sum().backward()
    read = {model.columns[k] for k in torch.nonzero(x.grad.abs().sum((0, 1)))[:, 0]}
    assert read == {"x1", "x2"}


def test_gates_read_all_tokens_where_there_are_no_coordinates():
    s = samples()[0]
    columns = tuple(c for c in s.columns if c not in ("x1", "x2"))
    model = GNOT(s.problem, SPEC, columns, TINY["gnot"])
    assert model.geometry.tolist() == list(range(len(columns)))


def test_experts_are_the_gated_sum_of_feed_forward_networks():
    torch.manual_seed(0)
    experts = Experts(6, 3, 5).double()
    torch.nn.init.normal_(experts.bias)
    x, gates = torch.randn(2, 7, 6).double(), torch.rand(2, 7, 3).double()
    inner, bias = experts.inner.weight.split(5), experts.inner.bias.split(5)
    outer = experts.outer.weight.split(5, dim=1)
    wanted = sum(
        gates[..., i, None] * (gelu(x @ inner[i].mT + bias[i]) @ outer[i].mT + experts.bias[i])
        for i in range(3)
    )
    assert difference(experts(x, gates), wanted) < 1e-13


def test_attention_weights_sum_to_one():
    """With constant values only the queries' skip and the constant are left."""
    torch.manual_seed(0)
    attention = NormalisedAttention(8, 2).double()
    x, w = torch.randn(2, 7, 8).double(), torch.rand(2, 7).double()
    with torch.no_grad():
        attention.query_key_value.weight[16:] = 0
        attention.query_key_value.bias[16:] = 3.0
    q = torch.softmax(attention.split(x)[0], dim=-1)
    assert difference(attention(x, w), attention.join(q + 3.0)) < 1e-14
