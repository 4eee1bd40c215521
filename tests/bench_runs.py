"""A campaign of seconds: real families, real training, tiny sizes; also the worker of its tests.

``python tests/bench_runs.py RESULTS CONFIGS CELL`` computes one cell, as ``geonew bench --cell``
does for the real campaign.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

from geonew.bench.campaign import RATES, Campaign
from geonew.bench.cell import Cell
from geonew.bench.place import Place
from geonew.bench.runner import BUSY, only_one
from geonew.bench.work import run_cell
from geonew.data.families import family
from geonew.data.suite import SUITES, Suite, build
from training_runs import TINY

FAMILY = "poly-poisson"
SECONDS = 0.6
SUITES["tiny"] = Suite("tiny", "coarse", {"train": 4, "val": 2, "test": 2, "ood": 2}, {})
TESTS = {"id": f"tiny/{FAMILY}/test.h5", "ood": f"tiny/{FAMILY}/ood.h5"}
BASE: dict[str, Any] = {
    **TINY,
    "output": "unused",
    "data": {"train": f"tiny/{FAMILY}/train.h5", "validation": f"tiny/{FAMILY}/val.h5"},
    "budget": {"steps": 5},
    "validate_every": 5,
    "checkpoint_every": 2,
}


def cell(name: str, row: str, minutes: float = SECONDS / 60, **more: Any) -> Cell:
    """A cell that trains."""
    return Cell(name, "train", FAMILY, row, 0, minutes, **{"tests": TESTS, **more})


def cells() -> tuple[Cell, ...]:
    """Every kind of cell once."""
    rates = [
        cell(f"rate/{row}/{rate:g}", row, 0.5 * SECONDS / 60, rate=rate, tests={})
        for row in ("known+learned",)
        for rate in RATES
    ]
    tried = tuple(one.name for one in rates)
    ours = cell(f"main/{FAMILY}/known+learned", "known+learned", needs=tried)
    direct = cell(f"main/{FAMILY}/inducing", "inducing", rate=3e-3)
    both = (ours.name, direct.name)
    return (
        *rates,
        ours,
        direct,
        cell("longest/known+learned", "known+learned", needs=tried, chosen=1, among=both),
        cell("longest/inducing", "inducing", rate=3e-3, chosen=1, among=both),
        cell("finetune/init", "inducing", rate=1e-3, start=direct.name,
             settings=("data.train_limit=2",)),
        Cell("swap/inducing", "evaluate", FAMILY, "inducing", tests=TESTS, start=direct.name),
        Cell("refine/known+learned", "refine", FAMILY, "known+learned", start=ours.name,
             tests={"coarse": f"tiny/{FAMILY}/test.h5", "medium": "tiny/medium.h5"}),
        cell("broken/inducing", "inducing", rate=3e-3, settings=("batch=0",)),
        cell("endless/inducing", "inducing", 60.0, rate=3e-3),
    )  # fmt: skip


def place(folder: Path) -> Place:
    """The campaign in a folder; writes its configuration."""
    configs = folder / "configs"
    configs.mkdir(parents=True, exist_ok=True)
    (configs / f"{FAMILY}.yaml").write_text(yaml.safe_dump(BASE))
    return Place(Campaign("tiny", cells()), folder / "results", configs)


def build_data() -> None:
    """All files of the suite."""
    for _ in build(SUITES["tiny"], [family(FAMILY)]):
        pass


if __name__ == "__main__":
    results, configs, name = sys.argv[1:]
    here = Place(Campaign("tiny", cells()), Path(results), Path(configs))
    chosen = here.campaign[name]
    with only_one(here.run(chosen)) as alone:
        sys.exit(run_cell(here, chosen) if alone else BUSY)
