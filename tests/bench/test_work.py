"""Cells of a tiny campaign: trained, resumed, chosen, evaluated, interrupted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

import bench_runs as tiny
from geonew.bench import sets
from geonew.bench.campaign import Campaign, rate_cells
from geonew.bench.choices import chosen_rate
from geonew.bench.place import Place
from geonew.bench.runner import THREADS, only_one, run_cells
from geonew.bench.work import (
    INTERRUPTED,
    again_command,
    configuration,
    heat_map,
    result_line,
    run_cell,
    train_command,
)
from geonew.data.families import family
from geonew.data.generate import generate
from geonew.data.request import Request
from geonew.errors import ConfigError, TrainingError
from geonew.evaluate.evaluation import Evaluation
from geonew.evaluate.report import write_json
from geonew.train.log import read_log
from geonew.train.metrics import Errors
from geonew.train.validation import validate

TESTS = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Data, and the cells that others build on, computed one after another in this process."""
    folder = tmp_path_factory.mktemp("bench")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GEONEW_HOME", str(folder / "home"))
        here = tiny.place(folder)
        first = here.campaign["rate/known+learned/0.001"]
        assert here.state(first) == "waiting"
        assert here.waits_for(first)[0] == "poly-poisson train (0 of 4)"
        tiny.build_data()
        assert here.state(first) == "open"
        names = [c.name for c in here.campaign.cells if c.group in ("rate", "main")]
        for name in names:
            assert run_cell(here, here.campaign[name]) == 0
        yield here


def result(place: Place, name: str) -> dict:
    return json.loads(place.result(place.campaign[name]).read_text())


def test_a_result_is_complete(place):
    found = result(place, "main/poly-poisson/known+learned")
    assert found["family"] == "poly-poisson"
    assert found["model"] == "known+learned"
    assert found["cpu_seconds"] >= tiny.SECONDS
    assert found["steps"] > 0
    assert found["parameters"] > 1000
    assert found["samples_per_second"] > 0
    for split in ("id", "ood"):
        for column in ("combined", "u"):
            figures = found["error"][split][column]["relative"]
            assert 0 < figures["mean"] < 10
            assert figures["count"] == 2
        assert found["boundary"][split]["u"]["worst"] < 1e-14
        assert found["certificate"][split]["unique"] == 1.0
        assert len(found["tested_hash"][split]) == 64
    assert found["validation"]["combined"] > 0
    assert len(found["data_hash"]["train"]) == 64
    assert "torch" in found["versions"]
    assert ", " in found["processor"]
    assert min(found["pace"].values()) > 0
    assert result(place, "main/poly-poisson/inducing")["certificate"]["id"] is None
    assert found["architecture"]["partitions"] == 6
    assert found["train_samples"] == 4
    assert found["samples"] == {"id": 2, "ood": 2}
    assert list(found["runtime"]) == ["id"], "cost is measured once"
    assert found["runtime"]["id"]["forward"] > 0
    assert found["reference_seconds"]["id"] > 0
    curve = found["history"]["training"]
    assert curve["step"][-1] == found["steps"]
    assert len(curve["newton_steps"]) == len(curve["step"])
    assert min(found["history"]["validation"]["error"]) == pytest.approx(
        found["validation"]["combined"], rel=1e-3
    )
    assert "validation" in result_line(found)


def test_the_learning_rate_is_the_best_of_those_tried(place):
    tried = {r: result(place, f"rate/known+learned/{r:g}") for r in tiny.RATES}
    best = min(tried, key=lambda r: tried[r]["validation"]["combined"])
    assert result(place, "main/poly-poisson/known+learned")["learning_rate"] == best
    assert all(found["error"] == {} for found in tried.values()), "no test data are touched"


def test_the_command_trains_the_same_model(place):
    """It names no folder of this machine, and its settings are those of the run."""
    cell = place.campaign["main/poly-poisson/inducing"]
    config, settings = configuration(place, cell)
    shown = result(place, cell.name)["command"]
    assert shown == train_command(place, cell, settings)
    assert str(place.runs) not in shown
    script = 'for part in "$@"; do printf "%s\\n" "$part"; done'
    words = shown.removeprefix("OMP_NUM_THREADS=1 geonew ")
    parts = subprocess.run(
        ["bash", "-c", f"set -- {words}; {script}"],
        capture_output=True, text=True, check=True, env=os.environ,
    ).stdout.splitlines()  # fmt: skip
    given = [parts[k + 1] for k, part in enumerate(parts) if part == "--set"]
    from geonew.train.config import load_config

    again = load_config(parts[1], given)
    assert again == config


def test_only_the_best_row_is_trained_longest(place):
    ours, direct = (place.campaign[f"longest/{row}"] for row in ("known+learned", "inducing"))
    errors = {
        row: result(place, f"main/poly-poisson/{row}")["validation"]["combined"]
        for row in ("known+learned", "inducing")
    }
    best, other = (ours, direct) if errors["known+learned"] < errors["inducing"] else (direct, ours)
    assert place.state(best) == "open"
    assert place.state(other) == "left out"


def test_a_model_is_tuned_further_and_evaluated_elsewhere(place):
    tuned = place.campaign["finetune/init"]
    assert run_cell(place, tuned) == 0
    found = result(place, "finetune/init")
    assert '--init "$GEONEW_HOME/runs/bench/tiny/main/poly-poisson/inducing/' in found["command"]
    first = next(e for e in read_log(place.run(tuned)) if e["event"] == "step")
    fresh = next(
        e
        for e in read_log(place.run(place.campaign["main/poly-poisson/inducing"]))
        if e["event"] == "step"
    )
    assert first["loss"] < fresh["loss"], "it does not start anew"
    assert run_cell(place, place.campaign["swap/inducing"]) == 0
    again = result(place, "swap/inducing")
    assert again["trained"] == "main/poly-poisson/inducing"
    assert again["error"] == result(place, "main/poly-poisson/inducing")["error"]


def test_refinement_is_measured_and_transferred(place):
    path = Path(os.environ["GEONEW_HOME"]) / "data" / "tiny" / "medium.h5"
    generate(family(tiny.FAMILY), Request(tiny.FAMILY, "test", 2, 0, "medium"), path)
    assert run_cell(place, place.campaign["refine/known+learned"]) == 0
    found = result(place, "refine/known+learned")["refinement"]
    assert list(found) == ["coarse", "medium", "coarse to medium"]
    assert found["medium"]["nodes"] > 2 * found["coarse"]["nodes"]
    errors = [found[level]["error"]["combined"]["relative"]["mean"] for level in found]
    coarse = result(place, "main/poly-poisson/known+learned")["error"]["id"]
    assert errors[0] == pytest.approx(coarse["combined"]["relative"]["mean"], rel=1e-4)
    assert max(errors) < 2 * min(errors), "shapes are the same, and so are predictions"


def test_what_a_plain_evaluation_cannot_repeat_is_repeated_as_a_cell(place):
    refined, elsewhere = (place.campaign[n] for n in ("refine/known+learned", "swap/inducing"))
    wanted = "geonew bench --suite tiny --only refine/known+learned"
    assert again_command(place, refined) == wanted
    assert again_command(place, replace(refined, task="rescale")) == wanted
    assert again_command(place, elsewhere).startswith('geonew evaluate "$GEONEW_HOME/runs/bench')
    if place.is_done(refined):
        assert result(place, refined.name)["command"] == wanted


# No step of Newton's method is made, so nothing is ever solved.
UNSOLVED = ("model.newton={max_steps: 0}", "least_converged=1.0")


def test_a_rate_at_which_training_fails_has_a_result_and_is_not_chosen(place, tmp_path):
    tried = [
        tiny.cell(name, "known+learned", 1.0, rate=rate, tests={}, settings=UNSOLVED)
        for name, rate in zip(rate_cells("lost"), tiny.RATES, strict=True)
    ]
    after = tiny.cell("main/lost", "known+learned", needs=tuple(c.name for c in tried))
    after = replace(after, rate_of="lost")
    here = Place(Campaign("tiny", (*tried, after)), tmp_path / "results", place.configs)
    assert run_cell(here, tried[0]) == 0
    found = here.read(tried[0])
    assert found["validation"] == found["error"] == {}
    assert "batches in a row were of no use" in found["failed"]
    assert result_line(found).startswith("training failed: ")
    assert found["steps"] == 0
    assert here.state(tried[0]) == "done"
    for cell, error in zip(tried[1:], (0.3, 0.2), strict=True):
        write_json(here.result(cell), {**found, "name": cell.name, "learning_rate": cell.rate,
                                       "validation": {"combined": error}})  # fmt: skip
    assert here.state(after) == "open", "the row goes on"
    assert chosen_rate(after, here.decided(after)) == tiny.RATES[2]
    with pytest.raises(TrainingError, match="of no use"):
        run_cell(here, replace(tried[0], name="main/unsolved"))


def failing_validations(monkeypatch, fails):
    """Let some validations find a prediction that is not finite; ``fails`` says which."""
    count = iter(range(1000))

    def validated(*arguments):
        errors, solved = validate(*arguments)
        bad = np.full_like(errors.relative, np.inf)
        return (replace(errors, relative=bad) if fails(next(count)) else errors), solved

    monkeypatch.setattr("geonew.train.loop.validate", validated)


def test_a_validation_that_is_not_finite_costs_no_result(place, tmp_path, monkeypatch):
    failing_validations(monkeypatch, lambda number: number == 0)
    cell = tiny.cell("main/once", "inducing", rate=3e-3, tests={}, settings=("validate_every=1",))
    here = Place(Campaign("tiny", (cell,)), tmp_path / "results", place.configs)
    assert run_cell(here, cell) == 0
    found = here.read(cell)
    first, *others = found["history"]["validation"]["error"]
    assert first is None
    assert all(error > 0 for error in others)
    assert found["validation"]["combined"] > 0
    assert "Infinity" not in (here.run(cell) / "log.jsonl").read_text()


def test_validations_that_all_fail_are_a_failed_training(place, tmp_path, monkeypatch):
    failing_validations(monkeypatch, lambda number: True)
    cells = [
        tiny.cell(f"{group}/never", "inducing", rate=3e-3, tests={}) for group in ("rate", "main")
    ]
    here = Place(Campaign("tiny", tuple(cells)), tmp_path / "results", place.configs)
    assert run_cell(here, cells[0]) == 0
    assert "no validation error was finite" in here.read(cells[0])["failed"]
    with pytest.raises(TrainingError, match="no validation error was finite"):
        run_cell(here, cells[1])


def test_a_place_with_a_failed_prediction_has_no_mean():
    axes = {"length": (1.0, 1.0, 2.0), "obstacles": (1, 1, 1), "angle": (0.0, 0.0, 0.0)}
    relative = np.array([[0.1], [np.inf], [0.2]])
    solved = np.array([True, False, True])
    errors = Errors(("combined",), relative, relative, relative)
    made = Evaluation("boxes", "test", "x.h5", errors, solved, {}, {}, {}, {}, {}, (), axes, {})
    found = heat_map(made)
    assert [one["error"] for one in found] == [None, 0.2]


def worker(place: Place, cell) -> list[str]:
    script = str(TESTS / "bench_runs.py")
    return [sys.executable, script, str(place.results), str(place.configs), cell.name]


def test_failures_are_reported_and_an_interrupt_loses_nothing(place, monkeypatch):
    """Two processes: one fails at once, the other trains until the campaign is told to stop."""
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    broken, endless = (place.campaign[f"{n}/inducing"] for n in ("broken", "endless"))
    events: list[tuple[str, str]] = []
    log = place.run(endless) / "log.jsonl"

    def interrupt() -> None:
        for _ in range(1200):
            time.sleep(0.05)
            failed = ("failed", broken.name) in events
            if failed and log.exists() and '"step": 6' in log.read_text():
                break
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    summary = run_cells(
        place, [broken, endless], 2, lambda e, c, t: events.append((e, c.name)), worker
    )
    assert summary.interrupted
    assert list(summary.failed) == [broken.name]
    assert "batch is 0" in summary.failed[broken.name]
    assert events[-1] == ("stopped", endless.name)
    assert place.state(endless) == "begun"
    assert not place.result(endless).exists()
    last = read_log(place.run(endless))[-1]
    assert last["event"] == "end"
    assert last["interrupted"] is True
    # It goes on where it was: with the step budget it has reached, it ends at once.
    config, _ = configuration(place, endless)
    from geonew.train.budget import Budget
    from geonew.train.loop import train

    outcome = train(replace(config, budget=Budget(steps=last["step"] + 1)), resume=True)
    assert outcome.steps == last["step"] + 1


def test_a_cell_is_computed_by_one_process_only(place, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    cell = place.campaign["swap/inducing"]
    with only_one(place.run(cell)) as alone:
        assert alone
        done = subprocess.run(
            worker(place, cell), env=os.environ | dict.fromkeys(THREADS, "1"),
            capture_output=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 75
    assert INTERRUPTED == 130


def test_a_missing_configuration_is_named(place, tmp_path):
    elsewhere = Place(place.campaign, tmp_path, tmp_path)
    with pytest.raises(ConfigError, match="project's folder"):
        elsewhere.config(place.campaign["main/poly-poisson/inducing"])


def test_workers_are_counted(place):
    with pytest.raises(ConfigError, match="at least 1"):
        run_cells(place, [], 0, lambda *_: None)


def test_settings_on_one_line_are_yaml():
    from geonew.bench.work import _flow

    nested = {"kind": "geonew", "structured": {"strength": 1.0}, "known": False}
    assert yaml.safe_load(_flow(nested)) == nested
    assert "\n" not in _flow(nested)


def test_all_sets_of_the_campaign_have_a_recipe():
    from geonew.bench.campaign import campaign

    wanted = {c.name for c in campaign("cpu").cells if c.task == "make"}
    assert wanted == set(sets.sets("cpu"))
