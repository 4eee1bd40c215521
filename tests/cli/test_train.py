"""``geonew train``: runs, goes on, explains mistakes."""

from __future__ import annotations

import yaml

import training_runs as runs
from geonew.cli import main
from geonew.train.log import read_log


def test_train_and_resume(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("GEONEW_HOME", str(tmp_path / "home"))
    raw = runs.configuration(runs.data_files(tmp_path, count=4), budget={"steps": 3})
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(raw))
    assert main(["train", str(path), "--device", "cpu"]) == 0
    out, shown = capsys.readouterr()
    assert "best.safetensors after 3 steps" in out
    assert "validation combined" in shown
    assert main(["train", str(path)]) == 1
    assert "--resume" in capsys.readouterr().err
    assert main(["train", str(path), "--resume", "--set", "budget.steps=5", "--quiet"]) == 0
    steps = [e["step"] for e in read_log(tmp_path / "run") if e["event"] == "step"]
    assert steps == [1, 2, 3, 4, 5]


def test_mistakes_are_explained(tmp_path, capsys):
    path = tmp_path / "config.yaml"
    path.write_text("output: x\nbudgit: {steps: 3}\n")
    assert main(["train", str(path)]) == 1
    assert "did you mean 'budget'" in capsys.readouterr().err
    path.write_text("output: x\nbudget: {steps: 40}\ndata: {train: nowhere.h5}\n")
    assert main(["train", str(path), "--set", f"output={tmp_path / 'run'}"]) == 1
    assert "no data file nowhere.h5" in capsys.readouterr().err
