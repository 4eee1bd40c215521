"""Two processes do what one does: the same losses at the same global batch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import training_runs as runs
from geonew.errors import ConfigError
from geonew.train.config import read_config
from geonew.train.distributed import choose_device
from geonew.train.log import read_log
from geonew.train.loop import train


def losses(folder: Path) -> list[float]:
    return [event["loss"] for event in read_log(folder) if event["event"] == "step"]


@pytest.mark.parametrize(
    ("name", "law"),
    [
        ("soap", "structured"),
        # The paper's law averages its bound over the samples of a step. By AdamW: what round-off
        # leaves, SOAP's eigenbases magnify.
        ("adamw", "paper"),
        pytest.param("adamw", "structured", marks=pytest.mark.slow),
    ],
)
def test_two_processes_give_the_losses_of_one(tmp_path, monkeypatch, name, law):
    monkeypatch.setenv("GEONEW_HOME", str(tmp_path / "home"))
    # Nine samples in batches of four: the last batch of an epoch leaves one process without any.
    raw = runs.configuration(
        runs.data_files(tmp_path, count=9),
        budget={"steps": 20},
        precision="float64",
        model={**runs.TINY["model"], "law": law},
        optimiser={**runs.TINY["optimiser"], "name": name, "weight_decay": 0.01},
    )
    alone = train(read_config({**raw, "output": str(tmp_path / "alone")}))
    runs.run(tmp_path, {**raw, "output": str(tmp_path / "two")}, processes=2)
    ours, theirs = losses(alone.folder), losses(tmp_path / "two")
    assert len(ours) == len(theirs) == 20
    np.testing.assert_allclose(theirs, ours, rtol=1e-6, atol=0)
    one, two = (
        [e["error"] for e in read_log(folder) if e["event"] == "validation"]
        for folder in (alone.folder, tmp_path / "two")
    )
    np.testing.assert_allclose(two, one, rtol=1e-6, atol=0)


def test_devices_are_checked():
    assert choose_device("cpu").type == "cpu"
    with pytest.raises(ConfigError, match="no device"):
        choose_device("abacus")
    if not torch.cuda.is_available():
        with pytest.raises(ConfigError, match="not available"):
            choose_device("cuda")
