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


def test_samples_that_are_left_out_are_named(model, tmp_path, capsys):
    records = [runs.record(1000 + k, "val") for k in range(6)]
    spoiled = [runs.spoiled(one) if k != 1 else one for k, one in enumerate(records)]
    path, out = runs.write(tmp_path / "bad.h5", spoiled, "val"), tmp_path / "out.json"
    command = ["evaluate", str(model), "--data", str(path), "--quiet", "--no-runtime"]
    for more in (["--json", str(out)], ["--markdown"]):
        assert main([*command, *more]) == 0
        shown = capsys.readouterr().out
        assert "bad.h5: 5 samples left out: bad.h5, sample 0: not finite in ['field:u']; " in shown
        assert "sample 3: not finite in ['field:u']; and 2 more" in shown
    (found,) = json.loads(out.read_text())["results"]
    assert (found["samples"], len(found["skipped"])) == (1, 5)
    assert main([*command[:3], str(tmp_path / "val.h5"), "--quiet", "--no-runtime"]) == 0
    assert "left out" not in capsys.readouterr().out


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
