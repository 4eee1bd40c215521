"""A tiny campaign, computed once, and its report."""

from __future__ import annotations

from dataclasses import replace

import pytest

import report_runs as tiny
from geonew.bench.sets import AMOUNTS
from geonew.report.report import make_report

HARD = "ns2d-c++"
TRAINED = [
    f"main/{HARD}/known+learned",
    f"main/{HARD}/inducing",
    f"long/{HARD}/known+learned/0",
    f"long/{HARD}/known+learned/1",
    f"long/{HARD}/transolver/0",
    "ablation/unchanged/known+learned",
    "ablation/depth-1/known+learned",
]
EVALUATED = ["sweep/known+learned", "sweep/transolver", "swap/known+learned", "rescale/transolver"]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The place of the campaign, its report, and the folder it was written to."""
    folder = tmp_path_factory.mktemp("report")
    few = replace(
        AMOUNTS["smoke"], samples=1, places=((1.0, 1, 0.0), (2.0, 1, 0.0)), angles=(0.0, 30.0)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GEONEW_HOME", str(folder / "home"))
        patch.chdir(tiny.ROOT)
        patch.setitem(AMOUNTS, "smoke", few)
        place = tiny.place_in(folder)
        tiny.build_few(HARD, {"train": 2, "val": 1, "test": 1, "ood": 1})
        made = ["data/ood-l1", "data/angles", "data/heat-map", "data/swap"]
        tiny.compute(place, [*made, *TRAINED, *EVALUATED])
        report = make_report(place)
        report.write(folder / "out")
        yield place, report, folder / "out"
