"""Trained models and data, once for all tests of evaluation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import flow_runs
from geonew.train.config import read_config
from geonew.train.loop import train


@pytest.fixture(scope="session")
def flows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of data with three trained models: ours with two seeds, and a baseline."""
    folder = flow_runs.data_files(tmp_path_factory.mktemp("flows"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GEONEW_HOME", str(folder / "home"))
        for run, changes in {
            "ours-0": {},
            "ours-1": {"seed": 1},
            "direct": {"model": {"kind": "inducing", "width": 16, "depth": 1, "heads": 2}},
        }.items():
            train(read_config(flow_runs.configuration(folder, run, **changes)))
        yield folder
