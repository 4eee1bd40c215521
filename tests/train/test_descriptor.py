"""Distance from the training data: small inside, large outside, whatever the mesh's placement."""

from __future__ import annotations

import json

import numpy as np
import pytest

import flow_runs
import training_runs as runs
from geonew.errors import CheckpointError
from geonew.features import FeatureSpec
from geonew.mesh.refine import refine
from geonew.model.sample import prepare
from geonew.train.descriptor import Reference, describe
from geonew.train.samples import prepare_record

SPEC = FeatureSpec(hks_times=2, eigenpairs=6, hks_gradients=False)


def flow(number: int, split="train"):
    return prepare_record(flow_runs.record(number, split), flow_runs.PROBLEM, SPEC)


@pytest.fixture(scope="module")
def reference() -> Reference:
    return Reference.fit([flow(k) for k in range(24)])


def test_it_tells_inside_from_outside(reference):
    inside = [reference.distance(flow(k)) for k in range(100, 112)]
    outside = [reference.distance(flow(k, "ood")) for k in range(12)]
    assert np.median(inside) < 2
    assert min(outside) > max(inside)


def test_training_samples_are_near(reference):
    distances = [reference.distance(flow(k)) for k in range(24)]
    assert np.mean(np.array(distances) <= 1 + 1e-9) >= 0.85


def test_descriptors_do_not_depend_on_placement_or_mesh():
    record = flow_runs.record(3)
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    moved = record.mesh.moved(turn, np.array([3.0, -1.0]))
    boundary = {g: dict(fields) for g, fields in record.boundary.items()}
    for group in ("inlet", "wall"):
        boundary[group]["velocity"] = boundary[group]["velocity"] @ turn.T
    one = describe(flow(3))
    other = describe(prepare(moved, flow_runs.PROBLEM, boundary, spec=SPEC))
    np.testing.assert_allclose(one, other, atol=1e-8)
    spec = FeatureSpec(hks_times=0, hks_gradients=False, gradients=False, data=False, torsion=False)
    record = runs.record(0)
    data = {"hole": {"u": 1.0}, "outside": {"u": 0.0}}
    coarse, fine = (
        describe(prepare(m, runs.PROBLEM, data, spec=spec, source={"u": 1.0}))
        for m in (record.mesh, refine(record.mesh))
    )
    np.testing.assert_allclose(coarse, fine, atol=0.03)
    np.testing.assert_allclose(coarse[-3:], fine[-3:], atol=1e-12)


def test_plain_data_and_back(reference):
    again = Reference.from_plain(json.loads(json.dumps(reference.to_plain())))
    sample = flow(77)
    assert again.distance(sample) == reference.distance(sample)


@pytest.mark.parametrize(
    "change",
    [
        None,
        {"mean": None},
        {"scale": [1.0]},
        {"rest": -1.0},
        {"directions": [[1.0]]},
        {"near": float("nan")},
        {"variances": "abc"},
    ],
)
def test_damaged_references_are_refused(reference, change):
    raw = None if change is None else reference.to_plain() | change
    with pytest.raises(CheckpointError, match="reference"):
        Reference.from_plain(raw)


def test_few_samples_suffice_to_begin_with():
    one = Reference.fit([flow(0)])
    assert one.distance(flow(0)) < 1
    assert one.distance(flow(0, "ood")) > one.distance(flow(0))


def test_samples_with_other_features_are_refused(reference):
    other = prepare_record(flow_runs.record(0), flow_runs.PROBLEM, FeatureSpec(hks_times=0))
    with pytest.raises(CheckpointError, match="own features"):
        reference.distance(other)
