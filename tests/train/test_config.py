"""Configurations: typed, strict, helpful; what is written reads back."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import training_runs as runs
from geonew.errors import ConfigError, FeatureError
from geonew.train.config import load_config, read_config
from geonew.train.loop import train
from geonew.train.models import MODELS
from geonew.train.reading import parse_yaml, plain, with_settings

ROOT = Path(__file__).resolve().parents[2]
RAW = runs.configuration(Path("somewhere"))


def changed(**changes: object) -> dict[str, object]:
    return {**RAW, **changes}


def test_a_configuration_survives_a_round_trip():
    config = read_config(RAW)
    assert read_config(plain(config)) == config
    assert config.model.settings.structured.channels == 3


@pytest.mark.parametrize("kind", list(MODELS))
def test_every_model_has_settings_that_survive(kind: str):
    config = read_config(changed(model={"kind": kind}))
    assert config.model.kind == kind
    assert read_config(plain(config)) == config


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (changed(optimizer={}), "did you mean 'optimiser'"),
        (changed(optimiser={"learning_rat": 1}), "did you mean 'learning_rate'"),
        (changed(model={"kind": "geonew", "with": 3}), "did you mean 'width'"),
        (changed(model={"kind": "geonev"}), "did you mean 'geonew'"),
        (changed(model={"structured": {"chanels": 3}}), "model.structured has no setting"),
        (changed(model={"law": "newton"}), "model.law is 'newton'"),
        (changed(model={"width": 15}), "not a multiple"),
        (changed(model={"known": 1}), "model.known is 1; it must be true or false"),
        (changed(batch=True), "batch is True; it must be a whole number"),
        (changed(batch=0), "at least 1"),
        (changed(batch="many"), "must be a whole number"),
        (changed(optimiser={"learning_rate": "fast"}), "must be a number"),
        (changed(optimiser={"learning_rate": -1.0}), "must lie between"),
        (changed(optimiser={"learning_rate": float("nan")}), "must lie between"),
        (changed(optimiser={"average": 1.5}), "between 0 and 1"),
        (changed(optimiser={"warm_up": 13}), "longer than the run"),
        (changed(budget={}), "exactly one of"),
        (changed(budget={"steps": 3, "epochs": 3}), "exactly one of"),
        (changed(budget={"steps": -3}), "must be positive"),
        (changed(data={"validation": "x.h5"}), "lacks 'train'"),
        (changed(data={"train": "x.h5", "validation": "x.h5"}), "the same file"),
        (changed(data=[]), "must be a mapping, not a list"),
        (changed(precision="mixed"), "is for a GPU"),
        (changed(least_converged=2.0), "a part of 1"),
        (changed(output=""), "name a folder"),
    ],
)
def test_mistakes_are_named(raw: dict[str, object], message: str):
    with pytest.raises(ConfigError, match=message):
        read_config(raw)


def test_mixed_precision_needs_the_gpu_that_auto_may_not_find(tmp_path, monkeypatch):
    output = tmp_path / "run"
    config = read_config(changed(precision="mixed", device="auto", output=str(output)))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match="is for a GPU"):
        train(config)
    assert not output.exists()
    config.check_device("cuda")


def test_features_check_themselves():
    with pytest.raises((FeatureError, ConfigError), match="hks_times"):
        read_config(changed(features={"hks_times": -1}))


@pytest.mark.parametrize(
    "text",
    ["a: 1\na: 2", "- 1", "", "a: [", "a: !!python/object/apply:os.system ['true']", "\x00"],
)
def test_hostile_yaml_is_refused(text: str):
    with pytest.raises(ConfigError):
        parse_yaml(text, "config.yaml")


def test_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"nowhere\.yaml"):
        load_config(tmp_path / "nowhere.yaml")


def test_single_settings_replace_those_of_the_file():
    new = with_settings(dict(RAW), ["optimiser.learning_rate=1e-4", "seed=7", "model.law=paper"])
    config = read_config(new)
    assert config.optimiser.learning_rate == 1e-4
    assert (config.seed, config.model.settings.law) == (7, "paper")
    assert read_config(RAW).seed == 0, "the original is left alone"
    for wrong in ("seed", "=3", "optimiser..name=x", "seed.deep=3"):
        with pytest.raises(ConfigError, match="--set"):
            with_settings(dict(RAW) | {"seed": 0}, [wrong])


def test_only_some_settings_may_change_on_resume():
    before = plain(read_config(RAW))
    assert read_config(changed(budget={"steps": 99}, device="auto")).changed(before) == []
    older = {**before, "model": {k: v for k, v in before["model"].items() if k != "tuned"}}
    assert read_config(changed()).changed(older) == []
    slower = {**runs.TINY["optimiser"], "learning_rate": 1e-4}
    other = read_config(changed(optimiser=slower, batch=2)).changed(before)
    assert other == ["optimiser.learning_rate", "batch"]


@pytest.mark.parametrize("path", sorted(ROOT.glob("configs/**/*.yaml")), ids=lambda p: p.stem)
def test_shipped_configurations_are_valid(path: Path):
    assert load_config(path).output
