"""Shipped models by name: whatever lies in the folder is known, and nothing else."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

import geonew.weights as weights
import training_runs
from geonew.errors import CheckpointError
from geonew.model.geonew import GeoNeW


@pytest.fixture
def shelf(trained, tmp_path, monkeypatch):
    """A registry with one model and its card."""
    shutil.copy(trained / "poly-poisson.safetensors", tmp_path)
    (tmp_path / "poly-poisson.md").write_text("# A card\n")
    monkeypatch.setattr(weights, "_FOLDER", tmp_path)
    return tmp_path


def test_names_load_and_cards(shelf, trained):
    assert weights.names() == ("poly-poisson",)
    assert weights.card("poly-poisson") == "# A card\n"
    model = weights.load("poly-poisson")
    assert isinstance(model, GeoNeW)
    assert not model.training
    same = weights.load(trained / "run-poly-poisson")
    theirs = same.state_dict()
    assert all((theirs[name] == value).all() for name, value in model.state_dict().items())


def test_an_unknown_name_lists_the_known(shelf):
    with pytest.raises(CheckpointError, match="did you mean 'poly-poisson'") as raised:
        weights.load("poly-posson")
    assert "poly-posson" in raised.value.what
    with pytest.raises(CheckpointError, match="the shipped models are poly-poisson"):
        weights.card("channel")
    (shelf / "poly-poisson.md").unlink()
    with pytest.raises(CheckpointError, match="has no card"):
        weights.card("poly-poisson")


def test_an_empty_registry_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(weights, "_FOLDER", tmp_path)
    assert weights.names() == ()
    with pytest.raises(CheckpointError, match="no models are shipped"):
        weights.load("ns2d")


def test_a_baseline_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("GEONEW_HOME", str(tmp_path / "home"))
    from geonew.train.config import read_config
    from geonew.train.loop import train

    training_runs.data_files(tmp_path, 4)
    model = {"kind": "inducing", "width": 16, "depth": 1, "heads": 2}
    optimiser = {"name": "adamw", "warm_up": 1}
    raw = training_runs.configuration(
        tmp_path, model=model, optimiser=optimiser, budget={"steps": 2}
    )
    outcome = train(read_config(raw))
    with pytest.raises(CheckpointError, match="baseline 'inducing'"):
        weights.load(outcome.model)


def test_every_shipped_model_loads_and_has_a_card():
    for name in weights.names():
        assert weights.load(name).problem.fields
        assert weights.card(name).startswith("# ")


def test_loading_imports_no_training_code(trained):
    code = (
        "import sys, geonew.weights as w; w.load(sys.argv[1]); "
        "print('\\n'.join(m for m in sys.modules))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(trained / "ns2d-c++.safetensors")],
        capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    loaded = set(run.stdout.split())
    heavy = {"h5py", "gmsh", "numba", "pytorch_optimizer", "tensorboard", "matplotlib"}
    ours = {f"geonew.train.{m}" for m in ("loop", "optimiser", "setup", "state", "samples")}
    assert not loaded & (heavy | ours)
