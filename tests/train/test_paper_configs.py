"""The paper's settings: read as its appendix states them, and stepped once on tiny data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import flow_runs
import training_runs as runs
from geonew.data.families import FAMILIES
from geonew.model.config import ModelConfig
from geonew.train.config import load_config
from geonew.train.log import read_log
from geonew.train.loop import train

FOLDER = Path(__file__).resolve().parents[2] / "configs" / "paper"
# Dataset -> partitions, epochs, batch, gamma: the appendix's table of hyperparameters.
TABLE = {
    "naca": (32, 1000, 16, -2.0),
    "elasticity": (32, 10_000, 16, -4.0),
    "pipe": (32, 5000, 16, -2.0),
    "poly-poisson": (8, 2000, 16, -2.0),
    "ns2d-c": (32, 12_000, 16, -2.0),
    "ns2d-c++": (16, 1000, 8, -3.0),
}
BASELINES = ("inducing", "gnot", "transolver", "linear")
# Small versions of what the problems have: one scalar, or velocity and pressure.
SCALAR = ("naca", "elasticity", "poly-poisson")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("paper")
    runs.write(folder / "scalar.h5", [runs.record(k) for k in range(2)])
    flow_runs.write(folder / "flow.h5", 2, "train", fineness=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GEONEW_HOME", str(folder / "home"))
        yield folder


def stepped(name: str, folder: Path, tmp_path: Path, kind: str, *settings: str) -> None:
    """One step; its loss and gradient are finite numbers."""
    config = load_config(
        FOLDER / f"{name}.yaml",
        [
            f"data={{train: {folder / kind}.h5}}",
            f"output={tmp_path / 'run'}",
            "budget={steps: 1}",
            "device=cpu",
            "optimiser.warm_up=0",
            "log={every: 1, tensorboard: false}",
            *settings,
        ],
    )
    assert train(config).steps == 1
    (step,) = [e for e in read_log(tmp_path / "run") if e["event"] == "step"]
    assert np.isfinite([step["loss"], step["gradient"]]).all()
    assert step["gradient"] > 0
    assert step["converged"] == 1.0


def test_there_is_a_file_for_everything_and_nothing_else():
    names = {*TABLE, *(f"baseline-{b}" for b in BASELINES)}
    assert {p.stem for p in FOLDER.glob("*.yaml")} == names
    assert set(TABLE) <= set(FAMILIES)


@pytest.mark.parametrize("name", TABLE)
def test_the_appendix_is_followed(name):
    config = load_config(FOLDER / f"{name}.yaml")
    model = config.model.settings
    assert isinstance(model, ModelConfig)
    found = (model.partitions, config.budget.epochs, config.batch, model.paper.gamma)
    assert found == TABLE[name]
    assert (model.depth, model.heads, model.width) == (4, 2, 128)
    assert (config.optimiser.name, config.optimiser.learning_rate) == ("soap", 1e-3)
    assert (model.newton.max_steps, model.newton.rtol) == (200, 1e-6)
    assert (config.least_converged, model.known, model.learned_source) == (0.8, False, False)
    assert (model.law, model.paper.mode, config.device) == ("paper", "published", "cuda")


@pytest.mark.parametrize("name", BASELINES)
def test_baselines_have_the_stated_sizes(name):
    config = load_config(FOLDER / f"baseline-{name}.yaml")
    settings = config.model.settings
    assert (settings.depth, settings.width) == (4, 128)
    assert settings.heads == (2 if name == "inducing" else 4)
    assert (config.batch, config.budget.steps) == (4, 500_000)


@pytest.mark.parametrize("name", TABLE)
def test_every_configuration_steps(name, data, tmp_path):
    """With AdamW, which needs no eigenbases of wide layers."""
    kind = "scalar" if name in SCALAR else "flow"
    stepped(name, data, tmp_path, kind, "optimiser.name=adamw")


@pytest.mark.slow
def test_the_configured_optimiser_steps(data, tmp_path):
    stepped("ns2d-c++", data, tmp_path, "flow")


@pytest.mark.parametrize("name", BASELINES)
def test_every_baseline_trains(name, data, tmp_path):
    stepped(f"baseline-{name}", data, tmp_path, "flow")
