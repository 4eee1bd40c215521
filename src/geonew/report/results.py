"""The results of a campaign, as the report reads them: what is there, and what is not.

    results/SUITE/CELL.json --read_results--> Results --error, Entry--> tables and figures

Runs that differ by their seed alone are summarised by mean and standard deviation over the seeds.
A cell whose file is damaged is listed as such and otherwise treated as not run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from geonew.bench.campaign import SEEDS
from geonew.bench.cell import Cell
from geonew.bench.place import Place
from geonew.bench.rows import ROWS
from geonew.errors import DataError
from geonew.report.table import FAILED, Entry
from geonew.train.metrics import COMBINED
from geonew.train.state import BEST

Document = Mapping[str, Any]
LABELS = {
    "known+learned": "Geo-NeW, known + learned",
    "learned": "Geo-NeW, learned",
    "inducing": "Inducing point",
    "transolver": "Transolver",
    "gnot": "GNOT",
    "linear": "Linear attention",
    "galerkin": "Galerkin",
    "lamo": "LaMO",
    "deeponet": "DeepONet",
    "geofno": "Geo-FNO",
    "unet": "U-Net",
}
# Groups of trainings with one budget each, the longest last.
BUDGETS = ("main", "long", "longest")
MODELS = "models"
# Paces of one machine differ by less, with another cell on the other core.
UNLIKE = 1.4


@dataclass(frozen=True)
class Results:
    """What a campaign has found so far.

    Args:
        place: its folders and cells.
        found: cell -> its result.
        damaged: why files that are there could not be read.

    """

    place: Place
    found: Mapping[str, Document]
    damaged: tuple[str, ...] = ()

    def __contains__(self, name: str) -> bool:
        return name in self.found

    def __getitem__(self, name: str) -> Document:
        return self.found[name]

    def knows(self, names: Sequence[str]) -> bool:
        """Whether the campaign has any of these cells, run or not."""
        return any(cell.name in names for cell in self.place.campaign.cells)

    @property
    def suite(self) -> str:
        """Name of the campaign."""
        return self.place.campaign.suite

    def rows(self, names: Sequence[str]) -> list[str]:
        """Rows of the given cells, in the order of all tables."""
        present = {self.found[name]["model"] for name in names if name in self.found}
        return [row for row in ROWS if row in present]

    def entry(self, names: Sequence[str], test: str, column: str = COMBINED) -> Entry:
        """Mean error over runs that differ by their seed, with its spread."""
        entries = [entry_of(figures_of(self.found.get(name), test, column)) for name in names]
        if FAILED in entries:
            return FAILED
        values = [float(entry.value) for entry in entries if entry.value is not None]
        if not values:
            return Entry()
        spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
        return Entry(float(np.mean(values)), spread, len(values))

    def checkpoint(self, name: str) -> Path | None:
        """The model that a cell trained, where it is still on disk or was kept."""
        paths = (self.place.run(self.place.campaign[name]) / BEST, self.kept_model(name))
        return next((path for path in paths if path.exists()), None)

    def kept_model(self, name: str) -> Path:
        """Where the model of a cell is kept, beside the results."""
        return self.place.results / MODELS / f"{name}.safetensors"

    def missing(self) -> list[Cell]:
        """Cells that have not been run, those left out by choice aside."""
        return [
            cell
            for cell in self.place.campaign.cells
            if cell.task != "make"
            and cell.name not in self.found
            and (cell.chosen is None or self.place.state(cell) != "left out")
        ]

    def provenance(self, names: Sequence[str], test: str = "id") -> str:
        """Budget, seeds and samples of some cells, and the command that computes them."""
        there = [self.found[name] for name in names if name in self.found]
        minutes = sorted({float(d["cpu_minutes"]) for d in there if "cpu_minutes" in d})
        seeds = sorted({int(d["seed"]) for d in there if "seed" in d})
        counts = sorted({int(d["samples"][test]) for d in there if test in d.get("samples", {})})
        groups = dict.fromkeys(name.split("/", 1)[0] for name in names if name in self.found)
        budget = " or ".join(_duration(m) for m in minutes)
        parts = [
            f"trained {budget} of processor time" if budget else "",
            f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}" if seeds else "",
            f"{', '.join(map(str, counts))} test sample{'s' if counts != [1] else ''}"
            if counts
            else "",
            "not all on one kind of processor: steps per minute differ" if _unlike(there) else "",
        ]
        only = " ".join(f"--only {group}/" for group in groups)
        command = f"`geonew bench --suite {self.suite} {only}`"
        text = "; ".join([*filter(None, parts), command])
        return text[0].upper() + text[1:] + "."


def read_results(place: Place) -> Results:
    """Everything that the campaign has written."""
    if not place.results.is_dir():
        raise DataError(
            f"there is no folder {place.results}", "give the folder that geonew bench wrote"
        )
    found, damaged = {}, []
    for cell in place.campaign.cells:
        if cell.task == "make" or not place.result(cell).exists():
            continue
        try:
            found[cell.name] = place.read(cell)
        except DataError as error:
            damaged.append(error.what)
    return Results(place, found, tuple(damaged))


def runs_of(group: str, family: str, row: str) -> tuple[str, ...]:
    """Names of the cells that train a row on a family for one budget."""
    if group == "long":
        return tuple(f"long/{family}/{row}/{seed}" for seed in SEEDS)
    return (f"{group}/{family}/{row}",)


def main_of(family: str) -> list[str]:
    """Cells of all rows on a family at the common budget."""
    return [f"main/{family}/{row}" for row in ROWS]


def entry_of(figures: Document | None) -> Entry:
    """The mean of some figures; a mean that is not finite is a failed prediction."""
    if not figures:
        return Entry()
    mean = figures["mean"]
    return FAILED if mean is None and figures["count"] > 0 else Entry(mean)


def figures_of(document: Document | None, test: str, column: str) -> Document | None:
    """Figures of one column of the relative errors on a test set; none where there are none."""
    table = {} if document is None else document["error"].get(test, {})
    return table[column]["relative"] if column in table else None


def _unlike(trained: Sequence[Document]) -> bool:
    """Whether a minute was worth more to one training than to another."""
    processors = {d.get("processor", "") for d in trained if "steps" in d}
    paces = [fmean(d["pace"].values()) for d in trained if "pace" in d]
    return len(processors) > 1 or (bool(paces) and max(paces) > UNLIKE * min(paces))


def _duration(minutes: float) -> str:
    return f"{60 * minutes:.3g} s" if minutes < 1 else f"{minutes:g} min"
