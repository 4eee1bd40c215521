"""The loop: reproducible, resumable bit for bit, robust against bad samples."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch

import training_runs as runs
from geonew.errors import ConfigError, DataError, TrainingError
from geonew.train.checkpoint import read_model
from geonew.train.config import read_config
from geonew.train.container import read_container
from geonew.train.log import read_log
from geonew.train.loop import train
from geonew.train.objective import Objective
from geonew.train.optimiser import SteadySOAP
from geonew.train.state import BEST, LAST


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return runs.data_files(tmp_path_factory.mktemp("data"))


@pytest.fixture(autouse=True)
def own_cache(files: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("GEONEW_HOME", str(files / "home"))
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # as the processes that are compared have
    yield
    torch.set_num_threads(before)


def losses(folder: Path) -> list[float]:
    return [event["loss"] for event in read_log(folder) if event["event"] == "step"]


def same_tensors(one: Path, two: Path) -> None:
    ours, theirs = read_container(one)[0], read_container(two)[0]
    assert ours.keys() == theirs.keys()
    different = [name for name in ours if not torch.equal(ours[name], theirs[name])]
    assert different == []


def test_training_lowers_the_loss_and_keeps_the_best(files, tmp_path):
    seen: list[str] = []
    raw = runs.configuration(files, output=str(tmp_path / "run"), budget={"steps": 25})
    outcome = train(read_config(raw), observers=[lambda event, values: seen.append(event)])
    curve = losses(outcome.folder)
    assert len(curve) == outcome.steps == 25
    assert np.mean(curve[-5:]) < 0.5 * curve[0]
    checked = [e["error"] for e in read_log(outcome.folder) if e["event"] == "validation"]
    assert outcome.best == min(checked)
    assert {"prepare", "start", "step", "validation", "end"} <= set(seen)
    about = read_container(outcome.model)[1]
    assert about["extra"]["validation"]["combined"] == outcome.best


def test_without_validation_the_log_is_still_json(files, tmp_path):
    data = {"train": str(files / "train.h5")}
    raw = runs.configuration(files, output=str(tmp_path / "run"), data=data, budget={"steps": 3})
    outcome = train(read_config(raw))
    assert outcome.best == float("inf")
    assert "Infinity" not in (outcome.folder / "log.jsonl").read_text()
    assert read_log(outcome.folder)[-1]["best"] is None


def test_constants_are_found_in_the_training_data_and_kept(files, tmp_path):
    model = {**runs.TINY["model"], "known": False, "identified": True}
    raw = runs.configuration(files, output=str(tmp_path / "run"), model=model, budget={"steps": 3})
    outcome = train(read_config(raw))
    notes = [e["text"] for e in read_log(outcome.folder) if e["event"] == "note"]
    assert sum(text.startswith("constants found in the training data: S = ") for text in notes) == 1
    given = "weights/backbone.constitutive.given"
    best, last = (read_container(outcome.folder / name)[0] for name in (BEST, LAST))
    assert torch.equal(best[given], last[given])
    assert (best[given] != 0).any()


def test_same_seed_same_losses(files, tmp_path):
    curves = []
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        raw = runs.configuration(files, output=str(tmp_path / name), seed=seed)
        raw |= {"budget": {"steps": 5}}
        curves.append(losses(train(read_config(raw)).folder))
    assert curves[0] == curves[1]
    assert curves[0] != curves[2]


def check_resuming(raw: dict, folder: Path, init: Path | None = None) -> None:
    """Break a run off at step 8 and go on: the undisturbed one, bit for bit."""
    whole = train(read_config({**raw, "output": str(folder / "whole")}), init=init)
    broken = read_config({**raw, "output": str(folder / "broken")})

    class Death(Exception):
        pass

    def die(event: str, values: object) -> None:
        if event == "step" and values["step"] == 8:  # type: ignore[index]
            raise Death

    with pytest.raises(Death):
        train(broken, init=init, observers=[die])
    resumed = train(broken, resume=True)
    same_tensors(whole.folder / LAST, resumed.folder / LAST)
    same_tensors(whole.folder / BEST, resumed.folder / BEST)
    assert losses(whole.folder) == losses(resumed.folder)
    problems = [read_model(one.model)[1].problem for one in (whole, resumed)]
    assert problems[0] == problems[1]


@pytest.mark.parametrize("optimiser", ["soap", "adamw"])
def test_a_resumed_run_is_the_undisturbed_one(files, tmp_path, optimiser):
    settings = {**runs.TINY["optimiser"], "name": optimiser, "average": 0.9}
    raw = runs.configuration(files, optimiser=settings, budget={"steps": 14}, checkpoint_every=3)
    check_resuming(raw, tmp_path)


def test_resumed_fine_tuning_keeps_the_scales_it_started_with(files, tmp_path):
    raw = runs.configuration(files, budget={"steps": 3})
    given = train(read_config({**raw, "output": str(tmp_path / "given")})).model
    large = [runs.record(k) for k in range(20, 26)]
    large = [replace(r, fields={"u": 7.0 * r.fields["u"]}) for r in large]
    data = {"train": str(runs.write(tmp_path / "large.h5", large))}
    raw |= {"data": data, "budget": {"steps": 14}, "checkpoint_every": 3}
    check_resuming(raw, tmp_path, init=given)
    fresh = train(read_config({**raw, "output": str(tmp_path / "fresh"), "budget": {"steps": 3}}))
    references = [read_model(p)[1].problem.references for p in (given, fresh.model)]
    assert references[0] != references[1], "its own data would have given other scales"


def test_killed_at_a_random_step_and_resumed(files, tmp_path):
    raw = runs.configuration(files, budget={"steps": 24}, checkpoint_every=5)
    train(read_config({**raw, "output": str(tmp_path / "whole")}))
    broken = {**raw, "output": str(tmp_path / "broken")}
    step = int(np.random.default_rng(time.time_ns()).integers(2, 22))
    child = subprocess.Popen(
        runs.command(tmp_path / "broken.yaml", broken), env=runs.environment(files)
    )
    log = tmp_path / "broken" / "log.jsonl"
    while not (log.exists() and f'"step": {step}' in log.read_text()):
        assert child.poll() is None, "the run ended before it could be killed"
        time.sleep(0.002)
    child.kill()
    assert child.wait(timeout=60) == -signal.SIGKILL
    train(read_config(broken), resume=True)
    same_tensors(tmp_path / "whole" / LAST, tmp_path / "broken" / LAST)
    same_tensors(tmp_path / "whole" / BEST, tmp_path / "broken" / BEST)


def test_a_signal_ends_a_run_cleanly(files, tmp_path):
    raw = runs.configuration(files, output=str(tmp_path / "run"), budget={"minutes": 10})
    child = subprocess.Popen(
        runs.command(tmp_path / "run.yaml", raw), env=runs.environment(files),
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    log = tmp_path / "run" / "log.jsonl"
    while not (log.exists() and '"step": 3' in log.read_text()):
        assert child.poll() is None
        time.sleep(0.01)
    child.send_signal(signal.SIGTERM)
    out, _ = child.communicate(timeout=60)
    assert child.returncode == 130
    assert "--resume" in out
    last = json.loads(log.read_text().splitlines()[-1])
    assert last["event"] == "end"
    assert last["interrupted"] is True
    stored = read_container(tmp_path / "run" / LAST)[1]["training"]["state"]["mapping"]
    assert dict(stored)["step"] == last["step"]


def test_a_sample_with_nan_is_named_skipped_and_counted(files, tmp_path):
    records = [runs.record(k) for k in range(6)]
    records[2] = runs.spoiled(records[2])
    path = runs.write(tmp_path / "some.h5", records)
    data = {"train": str(path), "validation": str(files / "val.h5")}
    outcome = train(read_config(runs.configuration(tmp_path, data=data)))
    start = next(e for e in read_log(outcome.folder) if e["event"] == "start")
    assert start["samples"] == 5
    assert start["skipped"] == ["some.h5, sample 2: not finite in ['field:u']"]
    assert outcome.steps == 12


def test_nan_everywhere_stops_with_advice(tmp_path):
    path = runs.write(tmp_path / "train.h5", [runs.spoiled(runs.record(k)) for k in range(3)])
    data = {"train": str(path)}
    with pytest.raises(DataError, match="none of 3 samples is usable"):
        train(read_config(runs.configuration(tmp_path, data=data)))


def test_a_run_that_breaks_keeps_its_last_good_checkpoint(files, tmp_path):
    raw = runs.configuration(files, output=str(tmp_path / "run"), budget={"steps": 400})
    settings = {**runs.TINY["optimiser"], "learning_rate": 10.0, "warm_up": 1, "clip": 1e30}
    raw = {**raw, "optimiser": {**settings, "name": "adamw"}, "least_converged": 1.0}
    with pytest.raises(TrainingError, match=r"batches in a row.*solved") as caught:
        train(read_config({**raw, "model": {**raw["model"], "newton": {"max_steps": 0}}}))
    assert f"{tmp_path / 'run' / LAST}: start a new run from it, --init" in str(caught.value)


@pytest.mark.parametrize("validated", [True, False])
def test_weights_that_are_not_finite_never_replace_good_ones(
    files, tmp_path, validated, monkeypatch
):
    data = {"train": str(files / "train.h5")}
    data |= {"validation": str(files / "val.h5")} if validated else {}
    raw = runs.configuration(files, output=str(tmp_path / "run"), data=data)
    raw |= {"budget": {"epochs": 4}, "checkpoint_every": 1000}
    made = []
    plain = SteadySOAP.step

    def step(self, *arguments):
        plain(self, *arguments)
        made.append(None)
        if len(made) == 5:  # after the first epoch of three batches, within the second
            with torch.no_grad():
                self.param_groups[0]["params"][0].fill_(float("nan"))

    monkeypatch.setattr(SteadySOAP, "step", step)
    with pytest.raises(TrainingError, match=r"not finite|of no use"):
        train(read_config(raw))
    assert len(made) >= 5
    for name in (LAST, BEST):
        weights = read_container(tmp_path / "run" / name)[0]
        assert all(torch.isfinite(t).all() for t in weights.values() if t.is_floating_point())


def test_skipped_batches_count_and_end_epochs_too(files, tmp_path, monkeypatch):
    raw = runs.configuration(files, output=str(tmp_path / "run"), budget={"epochs": 2})
    asked = []
    plain = torch.nn.utils.clip_grad_norm_

    def norm(*arguments, **named):
        asked.append(None)
        found = plain(*arguments, **named)
        return found if len(asked) != 3 else torch.tensor(float("inf"))  # the first epoch's last

    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", norm)
    train(read_config(raw))
    events = read_log(tmp_path / "run")
    notes = [e["text"] for e in events if e["event"] == "note"]
    assert notes == ["batch skipped: 4 of 4 samples solved, but the gradient is not finite"]
    checked = [e["step"] for e in events if e["event"] == "validation"]
    assert checked == [2, 5, 5], "each epoch's end, and the run's"
    assert events[-1]["skipped_batches"] == 1


def test_the_converged_share_is_that_of_all_batches(files, tmp_path, monkeypatch):
    raw = runs.configuration(files, output=str(tmp_path / "run"), budget={"steps": 4})
    raw |= {"log": {"every": 2, "tensorboard": False}}
    plain, asked = Objective.forward, []

    def some(self, batch):
        asked.append(None)
        found = plain(self, batch)
        return found._replace(converged=1) if len(asked) == 2 else found

    monkeypatch.setattr(Objective, "forward", some)
    train(read_config(raw))
    shares = [e["converged"] for e in read_log(tmp_path / "run") if e["event"] == "step"]
    assert shares == pytest.approx([(4 + 1 + 4) / 12, 1.0])


@pytest.mark.slow
def test_one_batch_can_be_learned(files, tmp_path):
    data = {"train": str(files / "train.h5"), "train_limit": 4}
    model = {**runs.TINY["model"], "width": 32, "partitions": 16}
    raw = runs.configuration(files, output=str(tmp_path / "run"), data=data, model=model)
    config = read_config({**raw, "budget": {"steps": 800}, "log": {"tensorboard": False}})
    assert losses(train(config).folder)[-1] < 1e-3


def test_a_baseline_trains_in_the_same_harness(files, tmp_path):
    model = {"kind": "inducing", "width": 16, "depth": 1, "heads": 2}
    raw = runs.configuration(files, output=str(tmp_path / "run"), model=model)
    outcome = train(read_config({**raw, "budget": {"steps": 25}}))
    assert np.mean(losses(outcome.folder)[-3:]) < 0.7 * losses(outcome.folder)[0]
    again, about = read_model(outcome.model)
    assert type(again).__name__ == "Inducing"
    assert about.choice.kind == "inducing"


def test_tensorboard_gets_the_same_figures(files, tmp_path):
    raw = runs.configuration(files, output=str(tmp_path / "run"), budget={"steps": 3})
    raw |= {"log": {"every": 1, "tensorboard": True}}
    folder = train(read_config(raw)).folder
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    shown = [scalar.value for scalar in events.Scalars("step/loss")]
    np.testing.assert_allclose(shown, losses(folder), rtol=1e-6)

    train(read_config({**raw, "budget": {"steps": 5}}), resume=True)
    events.Reload()
    assert [scalar.step for scalar in events.Scalars("step/loss")] == [1, 2, 3, 4, 5]


@pytest.mark.slow
def test_memory_stays_flat(files, tmp_path):
    used: list[float] = []

    def look(event: str, values: object) -> None:
        if event == "step":
            used.append(psutil.Process().memory_info().rss / 2**20)

    raw = runs.configuration(files, output=str(tmp_path / "run"), budget={"steps": 1200})
    train(read_config({**raw, "log": {"every": 10, "tensorboard": False}}), observers=[look])
    early, late = np.median(used[15:25]), np.median(used[-10:])
    assert late - early < 8.0, f"{late - early:.1f} MB more after 1,000 steps"


def test_an_existing_run_is_not_overwritten(files, tmp_path):
    config = read_config(runs.configuration(files, output=str(tmp_path), budget={"steps": 3}))
    train(config)
    with pytest.raises(ConfigError, match="holds a run already"):
        train(config)
    with pytest.raises(ConfigError, match="other settings: seed"):
        train(
            read_config({**runs.configuration(files, output=str(tmp_path)), "seed": 5}),
            resume=True,
        )


def test_a_split_serves_its_own_purpose(files, tmp_path):
    swapped = {"train": str(files / "val.h5"), "validation": str(files / "train.h5")}
    with pytest.raises(DataError, match="holds the split 'val', not 'train'"):
        train(read_config(runs.configuration(tmp_path, data=swapped)))
