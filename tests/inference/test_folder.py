"""Training on a folder of simulations: dealt out, trained, calibrated, ready to predict."""

from __future__ import annotations

import numpy as np
import pytest

import training_runs
from geonew.data.store import DataSet
from geonew.errors import DataError
from geonew.inference.answer import predict
from geonew.inference.folder import _deal, train_on_folder
from geonew.mesh import write_mesh

SETTINGS = {
    key: value for key, value in training_runs.TINY.items() if key not in ("batch",)
} | {"budget": {"steps": 4}}  # fmt: skip


def simulate(folder, count):
    folder.mkdir()
    for k in range(count):
        made = training_runs.record(k)
        write_mesh(folder / f"run-{k:03}.vtu", made.mesh,
                   {"T": made.fields["u"], "f": made.sources["u"]})  # fmt: skip


def test_every_file_is_dealt_once():
    for count in (4, 5, 20, 59, 60, 61, 200):
        dealt = _deal(count, 3)
        together = sorted(number for numbers in dealt.values() for number in numbers)
        assert together == list(range(count))
        assert len(dealt["val"]) >= 1
        assert len(dealt["calibration"]) in (0, len(dealt["val"]))
        assert (len(dealt["calibration"]) >= 9) == (count >= 60)
    assert _deal(50, 0) == _deal(50, 0) != _deal(50, 1)


def test_from_files_to_a_calibrated_model(tmp_path, monkeypatch):
    monkeypatch.setenv("GEONEW_HOME", str(tmp_path / "home"))
    simulate(tmp_path / "runs", 60)
    recipe = {"fields": {"u": "T"}, "sources": {"u": {"array": "f"}}}
    model = train_on_folder(tmp_path / "runs", training_runs.PROBLEM, tmp_path / "out",
                            recipe=recipe, settings=SETTINGS)  # fmt: skip
    with DataSet(tmp_path / "out" / "train.h5") as data:
        assert len(data) == 42
    made = training_runs.record(1000)
    data = {"hole": {"u": 1.0}, "outside": {"u": 0.0}}
    answer = predict(model, made.mesh, data, source={"u": np.full(made.mesh.n_nodes, 1.5)})
    assert answer.certificate.converged
    assert answer.familiarity is not None
    assert (answer.bands["u"] >= 0).all()
    assert answer.bands["u"].max() > 0


def test_what_is_wrong_with_a_folder_is_said(tmp_path):
    simulate(tmp_path / "runs", 4)
    with pytest.raises(DataError, match="no file in"):
        train_on_folder(tmp_path / "runs", training_runs.PROBLEM, tmp_path / "a", files="*.vtk")
    with pytest.raises(DataError, match="there is no point data 'u'"):
        train_on_folder(tmp_path / "runs", training_runs.PROBLEM, tmp_path / "a")
    (tmp_path / "runs" / "run-003.vtu").unlink()
    with pytest.raises(DataError, match="has 3 files"):
        train_on_folder(tmp_path / "runs", training_runs.PROBLEM, tmp_path / "a")
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot make the folder"):
        train_on_folder(tmp_path / "runs", training_runs.PROBLEM, tmp_path / "file" / "a")
