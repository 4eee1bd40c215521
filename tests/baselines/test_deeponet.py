"""DeepONet: coefficients from integrals over the domain, a basis from each node."""

from __future__ import annotations

from dataclasses import replace

import torch

from baselines.cases import difference, sample, samples, tiny
from geonew.mesh.refine import refine
from zoo import ZOO


def test_the_summary_has_means_extents_and_data():
    model, s = tiny("deeponet"), samples()[1]
    batch = model.collate(samples())
    x = model.inputs(batch)
    summary = model.summary(x, batch)[1].detach()
    width = model.input_width
    own = x[1, : s.n_nodes]
    m = torch.from_numpy(s.mass / s.mass.sum())
    mean = m @ own
    deviation = (m @ (own - mean) ** 2).sqrt()
    assert difference(summary[:width], mean) < 1e-12
    assert torch.allclose(summary[width : 2 * width], deviation, atol=2e-6)
    low, high = summary[2 * width : 2 * width + 4].split(2)
    assert torch.equal(low, own[:, model.axes].amin(0))
    assert torch.equal(high, own[:, model.axes].amax(0))
    data = torch.from_numpy(s.group_value) / model.field_scale[:, None]
    rest = summary[2 * width + 5 :]
    assert torch.allclose(rest[: data.numel()], data.flatten())
    assert torch.equal(rest[data.numel() :], torch.from_numpy(s.live).double().flatten())


def test_a_node_reads_itself_and_the_summary_only():
    model = tiny("deeponet")
    batch = model.collate(samples()[:1])
    x = model.inputs(batch).requires_grad_()
    summary = model.summary(x.detach(), batch)
    model.summary = lambda *_: summary
    model.approximate(x, batch)[0, 7].sum().backward()
    reached = torch.nonzero(x.grad.abs().sum((0, 2)))[:, 0]
    assert reached.tolist() == [7]


def test_fields_are_bilinear_in_basis_and_coefficients():
    model = tiny("deeponet")
    batch = model.collate(samples())
    x = model.inputs(batch)
    before = model.approximate(x, batch) - model.bias
    with torch.no_grad():
        model.branch[-1].weight.mul_(3.0)
        model.branch[-1].bias.mul_(3.0)
        model.trunk[-1].weight.mul_(0.5)
        model.trunk[-1].bias.mul_(0.5)
    assert difference(model.approximate(x, batch) - model.bias, 1.5 * before) < 1e-12


def test_coordinates_have_one_mean_on_coarse_and_fine_meshes():
    """Lumped masses integrate linear functions exactly, on any mesh of the domain."""
    model, mesh = tiny("deeponet"), ZOO["random_delaunay"]()
    means = []
    for level in (mesh, refine(mesh)):
        batch = model.collate([sample(level)])
        means.append(model.summary(model.inputs(batch), batch)[0, model.axes])
    assert difference(*means) < 1e-10


def test_boundary_data_reach_the_prediction_through_the_groups():
    model = tiny("deeponet")
    batch = model.collate(samples()[:1])
    other = replace(batch, group_value=batch.group_value + 1.0)
    assert difference(model(other).fields, model(batch).fields) > 1e-3
