"""Calibration of really trained models: stored, read back, and valid on new samples."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

import flow_runs
from geonew.calibrate.calibration import KEY, Calibration
from geonew.calibrate.coverage import measure_coverage
from geonew.calibrate.fitting import calibrate
from geonew.calibrate.scale import BoundaryScale, Scale, read_scale
from geonew.cli import main
from geonew.data.columns import pack
from geonew.data.header import Header
from geonew.data.writer import Writer
from geonew.errors import CheckpointError, DataError
from geonew.evaluate.predictions import predict_all
from geonew.evaluate.testset import read_test
from geonew.train.checkpoint import about_model, load_model, read_model
from geonew.train.config import read_config
from geonew.train.container import read_container
from geonew.train.loop import train
from geonew.train.state import LAST


@pytest.fixture(scope="module")
def flows(tmp_path_factory):
    """Data, our model and a baseline, both calibrated; the test set is large enough to count."""
    folder = flow_runs.data_files(tmp_path_factory.mktemp("calibrated"), train=24)
    flow_runs.write(folder / "many.h5", 40, "test", first=100)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GEONEW_HOME", str(folder / "home"))
        direct = {"kind": "inducing", "width": 16, "depth": 1, "heads": 2}
        for run, changes in {"ours": {}, "direct": {"model": direct}}.items():
            raw = flow_runs.configuration(folder, run, **changes)
            train(read_config({**raw, "budget": {"steps": 40}}))
            calibrate(folder / run / "best.safetensors", folder / "calibration.h5")
        yield folder


@pytest.mark.parametrize("run", ["ours", "direct"])
def test_bands_cover_new_samples_as_promised(flows, run):
    """With 40 new samples the means scatter by 5 %: below 0.8 would be no accident."""
    found = measure_coverage(flows / run / "best.safetensors", flows / "many.h5")
    assert found.samples == 40
    for name in ("velocity", "pressure"):
        assert 0.8 < found.share[name] <= 1
        assert 0.75 < found.whole[name] <= 1
        assert 0 < found.width[name] < 10
    assert found.outside < 0.25
    far = measure_coverage(flows / run / "best.safetensors", flows / "ood.h5")
    assert far.distance > 2 * found.distance
    assert far.outside == 1.0, "longer boxes are unfamiliar"
    assert far.width["pressure"] > found.width["pressure"], "and bands there are wider"


def test_it_is_stored_with_the_model_and_read_back(flows):
    path = flows / "ours" / "best.safetensors"
    model = load_model(path)
    stored = Calibration.of(model)
    assert stored.level == 0.9
    assert len(stored.distances) == 24
    assert about_model(model).extra["validation"]["combined"] > 0, "what was there is kept"
    before, _ = read_container(path)
    again = calibrate(path, flows / "calibration.h5")
    assert again.to_plain() == stored.to_plain()
    after, _ = read_container(path)
    assert before.keys() == after.keys()
    assert all((before[name] == after[name]).all() for name in before)
    assert not list(path.parent.glob(".*safetensors*")), "no temporary file is left"


def test_a_band_is_factor_times_scale_and_nothing_where_values_are_met(flows):
    for run, exact in (("ours", True), ("direct", False)):
        _, about = read_model(flows / run / "best.safetensors")
        calibration = Calibration.from_file(about)
        assert calibration.exact is exact
        tested = read_test(flows / "test.h5", about)
        sample = tested.samples[0]
        bands, wide = calibration.bands(sample), calibration.bands(sample, whole=True)
        met = sample.fixed[:, :2].all(axis=1)
        assert met.any()
        assert (bands["velocity"][met] == 0).all() == exact
        assert (bands["velocity"][~met] > 0).all()
        assert (wide["pressure"] >= bands["pressure"]).all()
        ratio = wide["pressure"][~sample.fixed[:, 2]] / bands["pressure"][~sample.fixed[:, 2]]
        np.testing.assert_allclose(
            ratio, calibration.whole["pressure"] / calibration.share["pressure"], rtol=1e-9
        )


def test_ratios_are_errors_over_scales(flows):
    model, about = read_model(flows / "direct" / "best.safetensors")
    calibration = Calibration.from_file(about)
    tested = read_test(flows / "test.h5", about)
    (made,) = predict_all(model, tested.samples[:1])
    sample, record = tested.samples[0], tested.records[0]
    radius = calibration.bands(sample)["velocity"]
    error = np.linalg.norm(made.fields[:, :2] - record.fields["velocity"], axis=1)
    ratios = calibration.ratios(sample, made)["velocity"]
    np.testing.assert_allclose(
        ratios * radius / calibration.share["velocity"], error, rtol=1e-6, atol=1e-12
    )


def test_familiarity_counts_calibration_samples(flows):
    _, about = read_model(flows / "ours" / "best.safetensors")
    calibration = Calibration.from_file(about)
    tested = read_test(flows / "calibration.h5", about)
    values = sorted(calibration.familiarity(s).p_value for s in tested.samples)
    np.testing.assert_allclose(values, np.arange(2, 26) / 25)


def test_other_splits_are_refused(flows):
    path = flows / "ours" / "best.safetensors"
    for split in ("train", "val", "test", "ood"):
        with pytest.raises(DataError, match=f"holds the split '{split}', not 'calibration'"):
            calibrate(path, flows / f"{split}.h5")


def test_a_checkpoint_that_can_be_resumed_still_can(flows, tmp_path):
    raw = flow_runs.configuration(flows, "again", output=str(tmp_path / "run"))
    train(read_config(raw))
    calibrate(tmp_path / "run" / LAST, flows / "calibration.h5")
    assert train(read_config({**raw, "budget": {"steps": 17}}), resume=True).steps == 17


def test_models_without_calibration_say_so(flows, tmp_path):
    raw = flow_runs.configuration(flows, "plain", output=str(tmp_path / "run"))
    outcome = train(read_config({**raw, "budget": {"steps": 3}}))
    with pytest.raises(CheckpointError, match="geonew calibrate"):
        Calibration.of(load_model(outcome.model))
    from geonew.baselines import Inducing
    from geonew.features import FeatureSpec

    with pytest.raises(CheckpointError, match="not read from a file"):
        about_model(Inducing(flow_runs.PROBLEM, FeatureSpec(), ("x1",)))


@pytest.mark.parametrize(
    "change",
    [
        {"share": {"velocity": 1.0}, "whole": {}},
        {"share": {"velocity": float("nan"), "pressure": 1.0}},
        {"distances": []},
        {"scale": {"name": "unknown"}},
        {"scale": {"name": "boundary", "floor": -1.0}},
        {"level": None},
    ],
)
def test_damaged_calibrations_are_refused(flows, change):
    _, about = read_model(flows / "ours" / "best.safetensors")
    damaged = {**about.extra[KEY], **change}
    with pytest.raises(CheckpointError):
        Calibration.from_file(replace(about, extra={KEY: damaged}))


def test_scales_can_be_exchanged(flows):
    """Any positive function of sample and distance fits; here one that does not know distances."""

    class Flat:
        name = "flat"

        def __call__(self, sample, deviations, distance):
            return np.tile(deviations, (sample.n_nodes, 1))

        def to_plain(self):
            return {"name": self.name}

    from geonew.calibrate.fitting import fit

    assert isinstance(Flat(), Scale)
    assert read_scale(BoundaryScale(0.2, 0.1).to_plain()) == BoundaryScale(0.2, 0.1)
    model, about = read_model(flows / "direct" / "best.safetensors")
    tested = read_test(flows / "calibration.h5", about)
    made = fit(about, tested, predict_all(model, tested.samples), 0.9, Flat())
    near, far = (read_test(flows / f"{n}.h5", about).samples[0] for n in ("test", "ood"))
    assert made.bands(near)["pressure"].max() == made.bands(far)["pressure"].max()


def with_spoiled(path, count, split):
    """A file whose sample 2 has lost a number."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with Writer(path, Header("boxes", split, flow_runs.PROBLEM)) as writer:
        for number in range(count):
            one = flow_runs.record(number, split)
            bad = {**one.fields, "pressure": np.where(np.arange(one.mesh.n_nodes) == 3, np.nan, 0)}
            writer.append(pack(replace(one, fields=bad) if number == 2 else one))
        writer.commit()
    return str(path)


def test_samples_that_are_left_out_are_named_and_kept(flows, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    path, out = tmp_path / "best.safetensors", tmp_path / "out.json"
    shutil.copyfile(flows / "direct" / "best.safetensors", path)
    data = with_spoiled(tmp_path / "calibration.h5", 12, "calibration")
    checks = [with_spoiled(tmp_path / "a" / "test.h5", 3, "test"), str(flows / "test.h5")]
    command = ["calibrate", str(path), "--data", data, "--json", str(out), "--check", *checks]
    assert main(command) == 0
    shown = capsys.readouterr().out
    reason = "sample 2: not finite in ['field:pressure']"
    assert "90 % bands from 11 samples" in shown
    assert f"{data}: 1 sample left out: calibration.h5, {reason}\n" in shown
    assert f"a/test.h5: 1 sample left out: test.h5, {reason}\n" in shown
    assert shown.count("left out") == 2
    found = json.loads(out.read_text())
    assert found["calibration"]["skipped"] == [f"calibration.h5, {reason}"]
    assert [c["skipped"] for c in found["coverage"]] == [[f"test.h5, {reason}"], []]
    assert [c["file"] for c in found["coverage"]] == ["a/test.h5", f"{flows.name}/test.h5"]
    _, about = read_model(path)
    assert Calibration.from_file(about).skipped == (f"calibration.h5, {reason}",)
    earlier = {name: value for name, value in about.extra[KEY].items() if name != "skipped"}
    assert Calibration.from_file(replace(about, extra={KEY: earlier})).skipped == ()


def test_the_command(flows, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    path, out = flows / "direct" / "best.safetensors", tmp_path / "out.json"
    command = ["calibrate", str(path), "--data", str(flows / "calibration.h5")]
    checks = ["--check", str(flows / "test.h5"), str(flows / "ood.h5"), "--json", str(out)]
    assert main([*command, *checks]) == 0
    shown = capsys.readouterr().out
    assert "90 % bands from 24 samples" in shown
    assert "ood.h5 (ood)" in shown
    assert [c["split"] for c in json.loads(out.read_text())["coverage"]] == ["test", "ood"]
    assert main(["calibrate", str(path), "--data", str(flows / "test.h5")]) == 1
    assert "not 'calibration'" in capsys.readouterr().err
    assert main([*command, "--level", "0.99"]) == 1
    assert "at least 99" in capsys.readouterr().err
