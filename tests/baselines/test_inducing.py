"""Inducing points: the encoder of Geo-NeW, its anchors, and evaluation on other meshes."""

from __future__ import annotations

import torch

from baselines.cases import difference, gathered, samples, tiny
from geonew.baselines import Inducing
from geonew.model.encoder import AnchorTransformer


def model() -> Inducing:
    made = tiny("inducing")
    assert isinstance(made, Inducing)
    return made


def test_it_is_the_encoder_with_a_linear_head():
    own = model()
    assert isinstance(own.encoder, AnchorTransformer)
    batch = own.collate(samples())
    nodes, _ = own.encoder(own.inputs(batch), batch.anchors, batch.anchor_exists)
    wanted = (nodes @ own.head.weight.mT + own.head.bias) * own.field_scale
    assert difference(own(batch).fields[batch.mask], wanted[batch.mask]) < 1e-13


def test_anchors_are_drawn_in_training_and_farthest_points_otherwise():
    own = model()
    fixed = own.collate(samples())
    assert fixed.anchors.shape == (3, own.config.depth, own.config.anchors)
    drawn = own.collate(samples(), draw=(0, 1, [0, 1, 2]))
    again = own.collate(samples(), draw=(0, 1, [0, 1, 2]))
    assert torch.equal(drawn.anchors, again.anchors)
    assert not torch.equal(drawn.anchors, fixed.anchors)
    assert not torch.equal(drawn.anchors[:, 0], drawn.anchors[:, 1])
    for k, s in enumerate(samples()):
        assert drawn.anchors[k].max() < s.n_nodes


def test_models_without_anchors_draw_none():
    batch = tiny("linear").collate(samples(), draw=(0, 1, [0, 1, 2]))
    assert batch.anchors.shape == (3, 1, 1)
    assert batch.operators == {}
    assert batch.samples == samples()


def test_encoding_here_and_evaluating_here_is_the_prediction():
    own = model()
    batch = own.collate(samples())
    found = own.transfer(batch, batch)
    assert found.converged.all()
    assert difference(found.fields, own(batch).fields) < 1e-13


def test_evaluation_elsewhere_reads_the_encoded_mesh_only_through_its_anchors():
    own = model()
    batch = own.collate(samples()[:1])
    some = torch.arange(0, batch.mask.shape[1], 3)
    few = gathered(batch, some)
    assert difference(own.transfer(batch, few).fields, own(batch).fields[:, some]) < 1e-12
