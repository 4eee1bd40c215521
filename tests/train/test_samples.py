"""Scales from training data, batches of similar size, clocks that stand still."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import training_runs as runs
from geonew.data.record import Case, Record
from geonew.errors import DataError
from geonew.features import FeatureSpec
from geonew.problem import Dirichlet, Field, FrameRule, Problem, stokes_terms
from geonew.train.batches import epoch_batches
from geonew.train.budget import Budget, Clock
from geonew.train.optimiser import OptimiserConfig, learning_rate
from geonew.train.samples import (
    components,
    locate,
    prepare_record,
    read_split,
    training_deviations,
    training_ranges,
    training_references,
)
from zoo import ZOO

SPEC = FeatureSpec(hks_times=0, hks_gradients=False)


def cavity(seed: int) -> tuple[Problem, Record]:
    """A flow that solves nothing, with a pressure whose level has no meaning."""
    mesh, generator = ZOO["square"](), np.random.default_rng(seed)
    sides = tuple(mesh.groups)
    problem = Problem(
        name="cavity",
        dim=2,
        fields=(Field("velocity", "vector"), Field("pressure", level="gauge")),
        groups=sides,
        dirichlet=tuple(Dirichlet("velocity", g) for g in sides),
        terms=stokes_terms("velocity", "pressure", 1.0),
        frame=(FrameRule("normal", sides[0]),),
    )
    fields = {
        "velocity": 3.0 * generator.normal(size=(mesh.n_nodes, 2)),
        "pressure": 100.0 + generator.normal(size=mesh.n_nodes),
    }
    data = {g: {"velocity": np.zeros((len(mesh.nodes_of(g)), 2))} for g in sides}
    return problem, Record(mesh, fields, data, Case("cavity", "train", {}, {}, {}))


def test_references_and_deviations_by_their_definition():
    problem, record = cavity(0)
    references = training_references(problem, [record])
    size = np.sqrt(np.mean(record.fields["velocity"] ** 2))
    assert references["velocity"] == float(f"{size:.1e}")
    assert references["pressure"] == float(f"{record.fields['pressure'].std():.1e}")
    scaled = problem.with_references(references)
    samples = [prepare_record(record, scaled, SPEC)]
    target = samples[0].target
    assert target is not None
    np.testing.assert_allclose(samples[0].mass @ target[:, 2], 0.0, atol=1e-12)
    deviations = training_deviations(scaled, samples)
    assert deviations[0] == deviations[1], "a vector has one scale"
    spread = record.fields["velocity"] - record.fields["velocity"].mean(axis=0)
    wanted = np.sqrt(np.mean(spread**2)) / references["velocity"]
    assert deviations[0] == pytest.approx(wanted, rel=1e-12)


def test_a_field_that_vanishes_keeps_its_declared_reference():
    problem, record = cavity(0)
    still = {**record.fields, "velocity": np.zeros_like(record.fields["velocity"])}
    quiet = Record(record.mesh, still, record.boundary, record.case)
    assert training_references(problem, [quiet])["velocity"] == 1.0


def test_a_missing_field_is_named():
    problem, record = cavity(0)
    half = Record(record.mesh, {"velocity": record.fields["velocity"]}, {}, record.case)
    with pytest.raises(DataError, match="pressure"):
        components(problem, half)


def test_ranges_cover_the_training_data():
    samples = [prepare_record(runs.record(k), runs.PROBLEM, SPEC) for k in range(4)]
    ranges = training_ranges(samples)
    low, high = ranges["measure"]
    assert all(low <= s.mass.sum() <= high for s in samples)
    for column, name in enumerate(samples[0].columns):
        assert ranges["tokens"][name][0] == min(s.tokens[:, column].min() for s in samples)
        assert ranges["tokens"][name][-1] == max(s.tokens[:, column].max() for s in samples)


def test_data_are_found_beside_and_at_home(tmp_path, monkeypatch):
    monkeypatch.setenv("GEONEW_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data" / "cpu").mkdir(parents=True)
    stored = runs.write(tmp_path / "data" / "cpu" / "train.h5", [runs.record(0)])
    assert locate("cpu/train.h5") == stored
    assert len(read_split("cpu/train.h5", "train").records) == 1
    beside = runs.write(tmp_path / "train.h5", [runs.record(0), runs.record(1)])
    assert locate("train.h5") == Path(beside.name)
    assert len(read_split("train.h5", "train", limit=1).records) == 1
    with pytest.raises(DataError, match="no data file"):
        locate("elsewhere.h5")


@given(
    sizes=st.lists(st.integers(3, 2000), min_size=1, max_size=80),
    batch=st.integers(1, 9),
    epoch=st.integers(0, 50),
)
def test_every_sample_once_per_epoch_in_a_fixed_order(sizes, batch, epoch):
    array = np.array(sizes)
    batches = epoch_batches(array, batch, 1, epoch)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(sizes)))
    assert all(1 <= len(b) <= batch for b in batches)
    again = epoch_batches(array, batch, 1, epoch)
    assert all(np.array_equal(a, b) for a, b in zip(batches, again, strict=True))


def padding_share(sizes, batches) -> float:
    """Part of all rows that is padding."""
    return 1.0 - sizes.sum() / sum(len(b) * sizes[b].max() for b in batches)


def test_batches_change_from_epoch_to_epoch_and_pad_little():
    sizes = np.random.default_rng(0).integers(500, 2000, 400)
    first, second = (epoch_batches(sizes, 8, 0, epoch) for epoch in (0, 1))
    assert not np.array_equal(np.concatenate(first), np.concatenate(second))
    plain = np.split(np.random.default_rng(1).permutation(400), 50)
    assert padding_share(sizes, first) < 0.3 * padding_share(sizes, plain)


def test_the_clock_stands_still_and_goes_on(monkeypatch):
    now = {"wall": 7.0, "cpu": 2.0}
    monkeypatch.setattr(time, "perf_counter", lambda: now["wall"])
    monkeypatch.setattr(time, "process_time", lambda: now["cpu"])
    clock = Clock(seconds=100.0, cpu_seconds=50.0)
    now.update(wall=17.0, cpu=6.0)
    with clock.paused():
        now.update(wall=1000.0, cpu=800.0)
        assert (clock.seconds, clock.cpu_seconds) == (110.0, 54.0), "what a checkpoint stores"
        with clock.paused():
            now.update(wall=2000.0, cpu=900.0)
    assert (clock.seconds, clock.cpu_seconds) == (110.0, 54.0)
    assert Budget(minutes=11.0).spent(0.0, 0, clock) == pytest.approx(1 / 6)
    assert Budget(cpu_minutes=1.0).spent(0.0, 0, clock) == pytest.approx(0.9)
    assert Budget(epochs=4).spent(1.5, 0, clock) == 0.375
    assert Budget(steps=4).spent(1.5, 3, clock) == 0.75


def test_the_learning_rate_rises_and_falls():
    config = OptimiserConfig(learning_rate=2.0, warm_up=10, final=0.1)
    assert learning_rate(config, 0, 0.0) == pytest.approx(0.2)
    assert learning_rate(config, 9, 0.0) == pytest.approx(2.0)
    assert learning_rate(config, 500, 0.5) == pytest.approx(1.1)
    assert learning_rate(config, 1000, 1.0) == pytest.approx(0.2)
