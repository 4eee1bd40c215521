"""``geonew data``: every subcommand, its words and its exit codes."""

from __future__ import annotations

import re

import h5py
import pytest

import geonew.data.families as families
from geonew.cli import main
from geonew.cli.data import parse_axis
from geonew.data.store import DataSet
from geonew.errors import DataError
from square_family import Square


@pytest.fixture(autouse=True)
def square(monkeypatch):
    """The tests' family, under its own name; computed in this process by one worker."""
    monkeypatch.setitem(families.FAMILIES, "square", Square(failing=0.2))


def run(capsys, *words: object) -> tuple[int, str, str]:
    code = main([str(word) for word in words])
    said = capsys.readouterr()
    return code, said.out, said.err


def made(capsys, path, *more):
    words = ("--samples", 5, "--seed", 3, "--out", path, "--workers", 1)
    return run(capsys, "data", "generate", "square", *words, *more)


def test_from_generation_to_verification(tmp_path, capsys):
    path = tmp_path / "d.h5"
    code, out, err = made(capsys, path)
    assert code == 0, err
    assert f"wrote {path}: 5 samples" in out
    assert "5/5" in err  # the bar
    code, out, err = made(capsys, path, "--resume")
    assert (code, "5 of them from before" in out) == (0, True)
    code, out, err = made(capsys, path, "--level", "fine")
    assert code == 1
    assert "another request: level 'coarse' there, 'fine' here" in err

    code, out, _ = run(capsys, "data", "info", path)
    assert code == 0
    for words in ("square, train: 5 samples", "seed", "m: length", "samples per CPU minute"):
        assert words in out
    assert re.search(r"width +1\.\d+ to 1\.\d+; 1 to 2, ood 2 to 4", out)

    code, out, _ = run(capsys, "data", "verify", path)
    assert code == 0
    assert "no hash is known for square/train/coarse/seed 3/5 samples" in out
    assert "all 5 samples are as they should be" in out

    picture = tmp_path / "d.png"
    assert run(capsys, "data", "plot", path, "--out", picture)[0] == 0
    assert picture.stat().st_size > 10_000
    assert run(capsys, "data", "plot", path, "--out", picture)[0] == 1
    code, _, err = run(capsys, "data", "plot", path, "--out", tmp_path / "e.png", "--field", "v")
    assert (code, "no field 'v'" in err) == (1, True)

    card = tmp_path / "card.md"
    assert run(capsys, "data", "card", path, "--out", card)[0] == 0
    assert "![samples](card.png)" in card.read_text()
    assert (tmp_path / "card.png").exists()


def test_a_damaged_file_fails_verification(tmp_path, capsys):
    path = tmp_path / "d.h5"
    made(capsys, path)
    with h5py.File(path, "r+") as file:
        rows = file["columns/field:u/rows"][2]
        file["columns/field:u/data"][rows[0]] += 1.0
    code, out, err = run(capsys, "data", "verify", path)
    assert code == 1
    assert out.startswith("sample 2: sample 2 is damaged")
    assert "1 of 5 samples are wrong" in err


def test_sweeps(tmp_path, capsys):
    path = tmp_path / "d.h5"
    code, _, err = made(capsys, path, "--axis", "width=1:3:3", "--split", "ood", "--swap")
    assert code == 0, err
    assert DataSet(path).axes["width"] == (1.0, 2.0, 3.0, 1.0, 2.0)
    assert parse_axis("a=2") == ("a", (2.0,))
    assert parse_axis("a=1,-2.5") == ("a", (1.0, -2.5))
    assert parse_axis(None) is None
    for wrong in ("a", "a=", "a=x", "a=1:2", "a=1:2:x"):
        with pytest.raises(DataError, match="is not understood"):
            parse_axis(wrong)


def test_mistakes_are_explained(tmp_path, capsys):
    path = tmp_path / "d.h5"
    words = ("data", "generate", "nothing", "--samples", 1, "--out", path)
    code, _, err = run(capsys, *words)
    assert (code, "there is no family 'nothing'" in err) == (1, True)
    code, _, err = made(capsys, path, "--resume")
    assert (code, "no file to resume" in err) == (1, True)
    assert made(capsys, path, "--scheduler", "x")[0] == 2  # either workers or a scheduler
    assert run(capsys, "data", "info", tmp_path / "none.h5")[0] == 1
    (tmp_path / "recipe.yaml").write_text("kind: holed-poison\nfile: x.npz\n")
    code, _, err = run(capsys, "data", "import", tmp_path / "recipe.yaml", "--out", path)
    assert (code, "did you mean 'holed-poisson'?" in err) == (1, True)


def test_families_are_listed(capsys):
    code, out, _ = run(capsys, "data", "families")
    assert code == 0
    assert "square: u, 2D" in out
    assert "    width: 1 to 2, ood 2 to 4" in out
