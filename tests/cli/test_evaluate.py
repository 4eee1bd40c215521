"""``geonew evaluate``: tables, JSON, mistakes."""

from __future__ import annotations

import json

import pytest

import training_runs as runs
from geonew.cli import main
from geonew.train.config import read_config
from geonew.train.loop import train


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.setenv("GEONEW_HOME", str(tmp_path / "home"))
    files = runs.data_files(tmp_path, count=4)
    return train(read_config(runs.configuration(files, budget={"steps": 4}))).model


def test_tables_and_json(model, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    out = tmp_path / "out.json"
    command = ["evaluate", str(model), "--data", str(tmp_path / "val.h5"), "--json", str(out)]
    assert main([*command, "--quiet"]) == 0
    shown = capsys.readouterr().out
    assert "Relative L2 error in %" in shown
    assert "Milliseconds per sample" in shown
    (found,) = json.loads(out.read_text())["results"]
    error = found["error"]["combined"]["relative"]["mean"]
    assert f"{100 * error:.3g}" in shown
    assert found["split"] == "val"
    assert main([*command, "--markdown", "--no-runtime", "--limit", "2"]) == 0
    shown = capsys.readouterr().out
    assert "| model | data | samples |" in shown
    assert "Milliseconds" not in shown
    assert json.loads(out.read_text())["results"][0]["samples"] == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--where", "length"], "write it as length=1"),
        (["--limit", "0"], "at least 1"),
        (["--data", "nowhere.h5"], "no data file nowhere.h5"),
    ],
)
def test_mistakes_are_explained(model, tmp_path, capsys, arguments, message):
    command = ["evaluate", str(model), "--data", str(tmp_path / "val.h5"), "--quiet"]
    assert main([*command, *arguments]) == 1
    assert message in capsys.readouterr().err
