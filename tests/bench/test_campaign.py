"""The campaign as data: complete, ordered, fair; its configurations are read."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from geonew.bench.campaign import (
    ABLATED,
    FAMILIES,
    GRIDS,
    RATES,
    campaign,
    rate_cells,
    rows_of,
    unchanged_cell,
)
from geonew.bench.cell import Cell, check_order, matching
from geonew.bench.choices import best_rows, chosen_rate, is_chosen, visible
from geonew.bench.rows import OURS, ROWS, model_of, settings_of
from geonew.data.euler.grid import AIRFOIL_CELLS, NORMAL_CELLS, WAKE_CELLS
from geonew.data.families.pipe import CELLS as PIPE_CELLS
from geonew.errors import ConfigError
from geonew.train.config import RunConfig, load_config
from geonew.train.models import ModelChoice
from geonew.train.reading import read_yaml

CONFIGS = Path(__file__).resolve().parents[2] / "configs" / "cpu"
WHOLE = campaign("cpu")


def test_every_model_meets_every_family():
    cells = {c.name: c for c in WHOLE.cells}
    for name in FAMILIES:
        for row in rows_of(name):
            cell = cells[f"main/{name}/{row}"]
            assert (cell.cpu_minutes, cell.seed, cell.settings) == (5.0, 0, ())
            assert set(cell.tests) >= {"id", "ood"}
    assert rows_of("ns2d-c++") == ROWS[:9]
    assert rows_of("pipe") == ROWS
    assert "known+learned" not in rows_of("naca"), "no term of its equation is known"
    assert "ood_L1" in cells["main/ns2d-c++/linear"].tests
    seeds = Counter(c.row for c in WHOLE.cells if c.name.startswith("long/ns2d-c++/"))
    assert seeds == dict.fromkeys(
        ("known+learned", "learned", "inducing", "transolver", "linear"), 3
    )
    groups = {c.group for c in WHOLE.cells}
    assert groups == {
        "rate", "main", "long", "longest", "ablation", "swap", "sweep", "rescale", "refine",
        "cavity", "finetune", "shown", "data",
    }  # fmt: skip


def test_budgets_are_equal_within_a_table():
    for group, minutes in (("rate", 2), ("main", 5), ("long", 15), ("longest", 60), ("shown", 5)):
        assert {c.cpu_minutes for c in WHOLE.cells if c.group == group} == {minutes}
    assert {c.cpu_minutes for c in WHOLE.cells if c.group == "ablation"} == {5}


def test_every_ablation_is_compared_with_the_same_model_unchanged():
    ablations = [c for c in WHOLE.cells if c.group == "ablation"]
    plain = {c.row: c for c in ablations if not c.settings}
    assert {unchanged_cell(row) for row in ABLATED} == {c.name for c in plain.values()}
    for cell in ablations:
        base = plain[cell.row]
        assert (cell.family, cell.seed, cell.tests) == (base.family, base.seed, base.tests)


def test_the_small_suite_is_the_same_campaign_in_seconds():
    few = campaign("smoke")
    assert [c.name for c in few.cells] == [c.name for c in WHOLE.cells]
    for small, full in zip(few.cells, WHOLE.cells, strict=True):
        assert (small.task, small.settings, small.before) == (full.task, full.settings, full.before)
        assert small.cpu_minutes == pytest.approx(full.cpu_minutes / 150)
        assert not set(small.tests.values()) & set(full.tests.values())
    cell = few["main/pipe/unet"]
    assert few.data_settings(cell) == (
        "data.train=smoke/pipe/train.h5",
        "data.validation=smoke/pipe/val.h5",
    )
    assert few.data_settings(few["cavity/linear"])[0] == (
        "data.train=smoke-bench/skewed-cavity/train.h5"
    )
    assert WHOLE.data_settings(WHOLE["main/pipe/unet"]) == ()


def test_every_row_gets_the_same_rates():
    rows = {c.rate_of or c.row for c in WHOLE.cells if c.task == "train" and c.rate is None}
    cells = {c.name: c for c in WHOLE.cells}
    for row in rows:
        assert [cells[name].rate for name in rate_cells(row)] == list(RATES)


def test_the_order_is_checked():
    one = Cell("a/b", "train", "pipe", "unet", cpu_minutes=1.0, rate=1e-3)
    later = Cell("a/c", "train", "pipe", "unet", cpu_minutes=1.0, rate=1e-3, needs=("a/b",))
    check_order([one, later])
    with pytest.raises(ConfigError, match="do not come before"):
        check_order([later, one])
    with pytest.raises(ConfigError, match="two cells"):
        check_order([one, one])
    with pytest.raises(ConfigError, match="no name"):
        Cell("../a", "make", "pipe", "")


def test_cells_are_found_by_their_names():
    assert [c.name for c in matching(WHOLE.cells, ["main/pipe/unet"])] == ["main/pipe/unet"]
    assert len(matching(WHOLE.cells, ["main/*/lamo"])) == len(FAMILIES)
    assert matching(WHOLE.cells, []) == list(WHOLE.cells)
    with pytest.raises(ConfigError, match="their groups are"):
        matching(WHOLE.cells, ["mian"])


@pytest.mark.parametrize("name", [*FAMILIES, "skewed-cavity"])
def test_base_configurations_hold_the_common_sizes(name):
    config = load_config(CONFIGS / f"{name}.yaml")
    settings = config.model.settings
    assert (settings.width, settings.depth) == (64, 2)
    assert (config.batch, config.features.coordinates) == (8, True)
    assert config.features.torsion == (name not in ("poly-poisson", "ball-poisson"))
    assert f"{name}/train.h5" in config.data.train


def test_rows_differ_in_the_model():
    base = read_yaml(CONFIGS / "pipe.yaml")["model"]
    for row in ROWS:
        plain = model_of(row, base)
        choice = ModelChoice.from_plain(plain, "model")
        assert choice.settings.width == 64
        assert row == "unet" or choice.settings.depth == 2
    learned = ModelChoice.from_plain(model_of("learned", base), "model").settings
    known = ModelChoice.from_plain(model_of("known+learned", base), "model").settings
    assert (learned.known, known.known) == (False, True)
    with pytest.raises(ConfigError, match="needs a grid"):
        model_of("unet", read_yaml(CONFIGS / "ns2d-c.yaml")["model"])


def test_grids_of_the_recipes_are_those_of_the_data():
    pipe, naca = (load_config(CONFIGS / f"{n}.yaml").model.settings.grid for n in GRIDS)
    assert (pipe.rows, pipe.cols, pipe.cut) == (PIPE_CELLS[0] + 1, PIPE_CELLS[1] + 1, 0)
    rows = 2 * WAKE_CELLS + AIRFOIL_CELLS + 1
    assert (naca.rows, naca.cols, naca.cut) == (rows, NORMAL_CELLS + 1, WAKE_CELLS + 1)


def test_rows_differ_in_weight_decay_and_nothing_else():
    base = load_config(CONFIGS / "ns2d-c++.yaml")
    for row in ROWS:
        config = load_config(CONFIGS / "ns2d-c++.yaml", list(settings_of(row)))
        decay = 0.03 if row in OURS else 0.0
        optimiser = replace(base.optimiser, weight_decay=decay)
        assert config == replace(base, optimiser=optimiser)


def test_every_setting_of_every_cell_is_accepted():
    for cell in WHOLE.cells:
        if cell.task != "train":
            continue
        base = CONFIGS / f"{cell.family}.yaml"
        model = model_of(cell.row, read_yaml(base)["model"])
        text = "{" + ", ".join(f"{k}: {v}" for k, v in model.items()) + "}"
        text = text.replace("'", "").replace("True", "true").replace("False", "false")
        assert isinstance(
            load_config(base, [f"model={text}", *settings_of(cell.row), *cell.settings]), RunConfig
        )


def test_choices_see_validation_alone():
    result = {"model": "x", "validation": {"combined": 0.1}, "error": {"id": 1}, "learning_rate": 1}
    assert "error" not in visible(result)
    cell = Cell("main/pipe/gnot", "train", "pipe", "gnot", cpu_minutes=5.0)
    tried = {
        name: {"learning_rate": rate, "validation": {"combined": error}}
        for name, rate, error in zip(rate_cells("gnot"), RATES, (0.3, 0.1, 0.2), strict=True)
    }
    assert chosen_rate(cell, tried) == RATES[1]
    tried[rate_cells("gnot")[1]]["validation"] = {}  # a run that gave no error is no good one
    assert chosen_rate(cell, tried) == RATES[2]
    with pytest.raises(ConfigError, match="not finished"):
        chosen_rate(cell, {})


def test_the_best_of_all_rows_are_trained_longest():
    assert best_rows({"a": 0.2, "b": 0.1, "c": 0.3}, 2) == ["b", "a"]
    cells = {c.name: c for c in WHOLE.cells}
    deciding = cells["longest/ns2d-c++/linear"].among
    assert {cells[name].row for name in deciding} == set(rows_of("ns2d-c++"))
    assert {cells[name].cpu_minutes for name in deciding} == {5.0}, "at equal budget"
    best = ["known+learned", "galerkin", "deeponet", "learned"]
    results = {
        name: {"validation": {"combined": 1.0 if cells[name].row in best else 2.0}}
        for name in deciding
    }
    rows = rows_of("ns2d-c++")
    chosen = [row for row in rows if is_chosen(cells[f"longest/ns2d-c++/{row}"], cells, results)]
    assert sorted(chosen) == sorted(best)
