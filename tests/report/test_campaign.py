"""Cells that take longer, end to end: grids, solids, cavities, finer meshes; then their report."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import report_runs as tiny
from geonew.bench.sets import CAVITY_FILE
from geonew.report.report import make_report

SHARED = Path(os.environ.get("GEONEW_SHARED_DATA", tiny.ROOT.parent / "shared" / "data"))
HARD = "ns2d-c++"
CELLS = [
    "data/levels",
    "rate/unet/0.001",
    "main/pipe/geofno",
    "main/pipe/unet",
    "main/naca/learned",
    "main/naca/geofno",
    "main/ball-poisson/known+learned",
    "main/ball-poisson/inducing",
    "main/duct-stokes/known+learned",
    "main/duct-stokes/inducing",
    f"long/{HARD}/known+learned/0",
    f"long/{HARD}/linear/0",
    "refine/known+learned",
    "refine/linear",
    "main/ns2d-c/known+learned",
    "finetune/scratch/inducing/10",
    "finetune/scratch/inducing/20",
]


@pytest.mark.slow
@pytest.mark.timeout(2400)  # 200 s of processor time, more of a busy machine's
def test_grids_solids_and_refinement_run_end_to_end(tmp_path, monkeypatch):
    monkeypatch.setenv("GEONEW_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GEONEW_SHARED_DATA", str(SHARED))
    monkeypatch.chdir(tiny.ROOT)
    place = tiny.place_in(tmp_path)
    cells = list(CELLS)
    if (SHARED / CAVITY_FILE).exists():
        cells += ["data/skewed-cavity", "cavity/known+learned", "cavity/linear"]
    for name in ("pipe", "naca", "ball-poisson", "duct-stokes", "ns2d-c", HARD):
        tiny.build_family(name)
    tiny.compute(place, ["data/ood-l1", *cells])
    for name in cells:
        assert place.is_done(place.campaign[name])
    report = make_report(place)
    tables = {table.key: table for table in report.tables}
    assert {"standard-main", "space-main", "refinement", "finetuning"} <= set(tables)
    labels = [line.label for line in tables["standard-main"].lines]
    assert {"Geo-FNO", "U-Net", "Geo-NeW, learned"} <= set(labels)
    levels = [column.name.split(" (")[0] for column in tables["refinement"].columns]
    assert levels == [
        "coarse", "medium", "fine", "encoded coarse to medium", "encoded coarse to fine"
    ]  # fmt: skip
    direct, attention = tables["refinement"].lines
    assert all(entry.value is not None for entry in direct.entries)
    assert attention.entries[3].value is None, "without anchors there is no transfer"
    drawn = {figure.key for figure in report.figures}
    assert {"airfoils", "basis", "features", "eigenvectors", "overview", "refinement"} <= drawn
