"""The Python in README and docs runs as it stands there, and their links and pictures exist."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from geonew.bench.campaign import FAMILIES, campaign
from geonew.bench.place import Place
from geonew.report.accuracy import summary
from geonew.report.results import read_results
from pages import PAGES, ROOT, TUTORIALS, python_of

LARGEST_PICTURE = 300_000  # bytes: a page must load quickly
RUNNING = [page for page in PAGES if python_of(page) and page not in TUTORIALS]


def links_of(page: Path) -> list[str]:
    """Local files a page refers to."""
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())
    return [t for t in targets if not re.match(r"[a-z]+:", t)]


def test_the_readme_has_code_and_pictures():
    assert "predict(" in python_of(PAGES[0])
    assert any(link.endswith(".png") for link in links_of(PAGES[0]))


@pytest.mark.parametrize("page", RUNNING, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_python_runs(page: Path, tmp_path):
    environment = os.environ | {"MPLBACKEND": "Agg"}
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", python_of(page)],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_local_links_lead_somewhere(page: Path):
    missing = [link for link in links_of(page) if not (page.parent / link).exists()]
    assert not missing


def test_the_speed_is_the_measured_one():
    found = json.loads((ROOT / "results/benchmarks/end_to_end.json").read_text("utf-8"))
    text = " ".join(PAGES[0].read_text("utf-8").split())
    assert f"takes {found['seconds']:.2f} s" in text
    assert f"{found['speedup_over_reference']:.1f} times faster than the Navier-Stokes" in text
    assert f"`ns2d-c++` is {found['speedup_at_reynolds_7']:.1f} times faster" in text


def test_the_comparison_is_that_of_the_results():
    place = Place(campaign("cpu"), ROOT / "results" / "cpu", ROOT / "configs" / "cpu")
    lines = summary(read_results(place)).markdown().splitlines()
    table = [line for line in lines if line.startswith("| ")][1:]
    assert len(table) == len(FAMILIES)
    text = PAGES[0].read_text("utf-8")
    assert [line for line in table if line not in text] == []


def test_pictures_are_small():
    pictures = sorted((ROOT / "docs" / "images").glob("*"))
    assert pictures
    assert {p.name: p.stat().st_size for p in pictures if p.stat().st_size > LARGEST_PICTURE} == {}
