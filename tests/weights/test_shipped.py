"""The models that come with the package are as good as their cards say, on samples kept here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import geonew.weights as weights
from geonew.calibrate.calibration import KEY
from geonew.evaluate.evaluation import Evaluation
from geonew.evaluate.report import evaluate
from geonew.train.checkpoint import read_model

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = Path(__file__).parent / "samples"
# Largest mean error over the samples kept here: (split, column) -> part of 1.
FLOORS = {
    "poly-poisson": {("id", "combined"): 0.0005},
    "ns2d-c++": {("id", "combined"): 0.03, ("ood_L1", "combined"): 0.10},
    "elasticity": {("id", "displacement"): 0.01},
    "pipe": {("id", "combined"): 0.01},
}


def found(name: str, split: str) -> Evaluation:
    """A shipped model on the samples of a split."""
    model, data = weights.locate(name), SAMPLES / f"{name}-{split}.h5"
    (row,) = evaluate([model], [data], runtime=False, cache=False).rows
    return row.evaluation


@pytest.mark.parametrize("name", weights.names())
def test_samples_are_predicted_as_well_as_the_card_says(name: str) -> None:
    figures = json.loads((ROOT / "results/shipped" / f"{name}.json").read_text("utf-8"))
    by_split = {r["split"]: r["error"]["combined"] for r in figures["evaluation"]["results"]}
    measured = found(name, "id")
    assert measured.samples == 20
    assert measured.converged.all()
    card = by_split["test"]["relative"]
    # The mean of 20 of the samples that the card's mean is over.
    assert abs(measured.combined - card["mean"]) <= 4 * card["deviation"] / 20**0.5
    for errors in measured.boundary.values():
        assert (errors == 0).all()


@pytest.mark.parametrize(
    ("name", "split", "column"), [(n, *key) for n, keys in FLOORS.items() for key in keys]
)
def test_errors_are_below_what_we_promise(name: str, split: str, column: str) -> None:
    if name not in weights.names():
        pytest.fail(f"{name} is not shipped")
    assert found(name, split).column(column).mean <= FLOORS[name][split, column]


@pytest.mark.parametrize("name", weights.names())
def test_shipped_models_are_calibrated_and_say_nothing_of_the_machine(name: str) -> None:
    _, about = read_model(weights.locate(name))
    assert about.extra[KEY]["level"] == 0.9
    assert not Path(about.run["output"]).is_absolute()
    for text in (weights.card(name), json.dumps(about.to_plain())):
        assert str(Path.home()) not in text
    assert f"configs/shipped/{name}.yaml" in weights.card(name)


@pytest.mark.parametrize("name", weights.names())
def test_bands_cover_and_geometries_are_told_apart(name: str) -> None:
    figures = json.loads((ROOT / "results/shipped" / f"{name}.json").read_text("utf-8"))
    for share in figures["coverage"]["id"]["share"].values():
        assert 0.87 <= share <= 0.93
    assert figures["auroc"] >= 0.9


@pytest.mark.parametrize("name", weights.names())
def test_distance_and_bands_grow_along_every_axis(name: str) -> None:
    figures = json.loads((ROOT / "results/shipped" / f"{name}.json").read_text("utf-8"))
    assert figures["along"]
    for axis, places in figures["along"].items():
        first, last = places[0], places[-1]
        assert last["distance"] > first["distance"], axis
        for field, width in last["width"].items():
            assert width > first["width"][field], (axis, field)


def test_the_readme_has_the_figures_of_today() -> None:
    made = subprocess.run(
        [sys.executable, str(ROOT / "tools/ship.py"), "--table"],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert made.stdout.strip() in (ROOT / "README.md").read_text("utf-8")
