"""``geonew bench``: lists, dry runs, mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from geonew.cli import main

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.setenv("GEONEW_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(ROOT)


def test_list_shows_states_and_minutes(tmp_path, capsys):
    assert main(["bench", "--list", "--only", "pipe", "--results", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "main/pipe/unet" in shown
    assert "waiting   for rate/unet/0.001 and 2 more" in shown
    assert "0 cells done" in shown
    assert main(["bench", "--list", "--only", "rate/unet", "--results", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "for pipe train (0 of 400)" in shown
    assert "3 to do (6)" in shown


def test_a_damaged_result_is_listed_with_its_cure(tmp_path, capsys):
    broken = tmp_path / "rate" / "unet" / "0.001.json"
    broken.parent.mkdir(parents=True)
    broken.write_text("{")
    command = ["bench", "--only", "rate/unet", "--results", str(tmp_path)]
    assert main([*command, "--list"]) == 0
    shown = capsys.readouterr().out
    (line,) = [text for text in shown.splitlines() if text.startswith("rate/unet/0.001")]
    assert "damaged" in line
    assert f"{broken}: the result cannot be read" in line
    assert line.endswith("delete it and run the cell again")
    assert "3 to do" in shown
    assert main(command) == 1
    shown = capsys.readouterr().out
    assert "0 cells finished, 0 failed" in shown
    assert "damaged  rate/unet/0.001" in shown
    assert broken.read_text() == "{"


def test_dry_run_runs_nothing(tmp_path, capsys):
    command = ["bench", "--dry-run", "--only", "data/", "--results", str(tmp_path / "new")]
    assert main(command) == 0
    assert "data/swap: open" in capsys.readouterr().out
    assert not (tmp_path / "new").exists()
    assert not (tmp_path / "home" / "runs").exists()


def test_missing_data_end_a_run_with_advice(tmp_path, capsys):
    assert main(["bench", "--only", "rate/linear", "--results", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "0 cells finished" in shown
    assert "geonew data build --suite cpu --families ns2d-c++" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--suite", "gpu"], "there is no campaign 'gpu'"),
        (["--only", "mian"], "no cell matches 'mian'"),
        (["--cell", "main/nothing"], "there is no cell"),
        (["--only", "rate/linear", "--workers", "0"], "at least 1"),
    ],
)
def test_mistakes_are_explained(capsys, arguments, message):
    assert main(["bench", *arguments]) == 1
    assert message in capsys.readouterr().err
