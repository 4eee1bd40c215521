"""A campaign of seconds for the tests of the report: real families, real training, tiny models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from geonew.bench.campaign import CONFIGS, Campaign, campaign
from geonew.bench.cell import Cell
from geonew.bench.place import Place
from geonew.bench.work import run_cell
from geonew.data.families import family
from geonew.data.generate import generate
from geonew.data.request import Request
from geonew.data.suite import SUITES, suite

ROOT = Path(__file__).resolve().parents[1]
RATE = 3e-3
SECONDS = 0.6
SMALL = (
    "model.width=16", "features.hks_times=2", "features.eigenpairs=6", "batch=2",
    "features.hks_gradients=false", "log.every=1", "validate_every=2",
)  # fmt: skip


def small_campaign() -> Campaign:
    """The cells of the suite ``smoke`` with tiny models and no choice of learning rates."""
    return replace(campaign("smoke"), cells=tuple(map(_small, campaign("smoke").cells)))


def _small(cell: Cell) -> Cell:
    if cell.task != "train":
        return replace(cell, needs=())
    anchors = ("model.anchors=16",) if cell.row in ("known+learned", "learned", "inducing") else ()
    ours = ("model.partitions=6", "model.hidden=16") if "learned" in cell.row else ()
    settings = (*SMALL, *anchors, *ours, *cell.settings)  # what a cell changes comes last
    return replace(
        cell, needs=(), among=(), chosen=None, rate=RATE, cpu_minutes=SECONDS / 60,
        settings=settings,
    )  # fmt: skip


def place_in(folder: Path) -> Place:
    """The campaign in a folder; to be used from the project's own, as people do."""
    return Place(small_campaign(), folder / "results", Path("configs") / CONFIGS)


def build_family(name: str, splits: Sequence[str] = ("train", "val", "test", "ood")) -> None:
    """Data of a family, as many as the suite has."""
    for request in SUITES["smoke"].requests(name):
        if request.split in splits:
            generate(family(name), request, suite("smoke").path(name, request.split))


def build_few(name: str, counts: dict[str, int]) -> None:
    """Fewer samples than the suite has; test and others at its coarse level."""
    for split, count in counts.items():
        request = Request(name, split, count, 0)  # type: ignore[arg-type]
        generate(family(name), request, suite("smoke").path(name, split))  # type: ignore[arg-type]


def compute(place: Place, names: Sequence[str]) -> None:
    """Compute cells one after another in this process."""
    for name in names:
        assert run_cell(place, place.campaign[name]) == 0


def walk(value: Any, path: str = "") -> list[tuple[str, float]]:
    """All numbers in JSON data, with where they are."""
    if isinstance(value, dict):
        return [found for k, v in value.items() for found in walk(v, f"{path}/{k}")]
    if isinstance(value, list):
        return [found for k, v in enumerate(value) for found in walk(v, f"{path}/{k}")]
    return [(path, float(value))] if isinstance(value, int | float) else []
