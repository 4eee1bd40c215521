"""Where the campaign keeps things, and how far each cell is.

    configs/cpu/FAMILY.yaml                  base configurations, read
    GEONEW_HOME/runs/bench/cpu/CELL/         checkpoints and logs
    results/cpu/CELL.json                    one result per cell, written as it finishes

A cell is *done* when its result is there, *damaged* when that is no result of this cell, *begun*
when it has a checkpoint, *waiting* while cells or data that it needs are missing, *left out* when
its row was not chosen, else *open*. A damaged result is never overwritten, for it may hold what
somebody wants back; until it is deleted, cells that need it wait and all others go on.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from geonew.bench.campaign import CAVITY, Campaign
from geonew.bench.cell import Cell
from geonew.bench.choices import is_chosen, visible
from geonew.bench.sets import sets, stored_samples
from geonew.cache import default_folder
from geonew.data.record import Split
from geonew.data.suite import suite
from geonew.errors import ConfigError, DataError
from geonew.train.state import LAST

State = Literal["done", "damaged", "begun", "open", "waiting", "left out"]
AGAIN = "delete it and run the cell again"
# What training and tests need; calibration comes after the campaign.
SPLITS: tuple[Split, ...] = ("train", "val", "test", "ood")


@dataclass(frozen=True)
class Place:
    """The folders of a campaign.

    Args:
        campaign: its cells.
        results: where results go.
        configs: where the base configurations are.

    """

    campaign: Campaign
    results: Path
    configs: Path
    _complete: set[str] = field(default_factory=set, repr=False, compare=False)
    # Cell -> its file's time and size when it was last read, and what was wrong with it.
    _read: dict[str, tuple[int, int, str]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def runs(self) -> Path:
        """Folder of all checkpoints and logs."""
        return default_folder() / "runs" / "bench" / self.campaign.suite

    def run(self, cell: Cell) -> Path:
        """Folder of a cell's checkpoints and log."""
        return self.runs / cell.name

    def result(self, cell: Cell) -> Path:
        """File of a cell's result."""
        return self.results / f"{cell.name}.json"

    def config(self, cell: Cell) -> Path:
        """Base configuration of a cell."""
        path = self.configs / f"{cell.family}.yaml"
        if not path.exists():
            raise ConfigError(
                f"there is no configuration {path}",
                "run geonew bench in the project's folder, or give --configs",
            )
        return path

    def read(self, cell: Cell) -> dict[str, Any]:
        """A cell's result."""
        path = self.result(cell)
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise DataError(f"{path}: the result cannot be read: {error}", AGAIN) from error
        if not isinstance(found, dict):
            raise DataError(f"{path} is no result", AGAIN)
        wrong = [
            key
            for key, value in (("name", cell.name), ("model", cell.row), ("family", cell.family))
            if found.get(key) != value
        ]
        if wrong or not isinstance(found.get("error"), dict):
            raise DataError(
                f"{path}: the result of {cell.name} is another cell's: "
                f"{', '.join(wrong) or 'error'} differ",
                AGAIN,
            )
        return found

    def damage(self, cell: Cell) -> str:
        """What is wrong with a cell's result; nothing where it is sound or not there."""
        try:
            found = self.result(cell).stat()
        except OSError:
            return ""
        time, size, wrong = self._read.get(cell.name, (-1, -1, ""))
        if (time, size) != (found.st_mtime_ns, found.st_size):  # results are looked at all the time
            try:
                self.read(cell)
                wrong = ""
            except DataError as error:
                wrong = error.what
            self._read[cell.name] = (found.st_mtime_ns, found.st_size, wrong)
        return wrong

    def is_done(self, cell: Cell) -> bool:
        """Whether a cell is finished, with a sound result."""
        if cell.task == "make":
            return all(made.is_complete() for made in sets(self.campaign.suite)[cell.name])
        return self.result(cell).exists() and not self.damage(cell)

    def decided(self, cell: Cell) -> dict[str, dict[str, Any]]:
        """Results of the finished cells that a cell needs, as far as choices may see them."""
        before = [self.campaign[name] for name in cell.before]
        return {
            one.name: visible(self.read(one))
            for one in before
            if one.task != "make" and self.is_done(one)
        }

    def state(self, cell: Cell) -> State:
        """How far a cell is."""
        if self.is_done(cell):
            return "done"
        if self.damage(cell):
            return "damaged"
        if not all(self.is_done(self.campaign[name]) for name in cell.before):
            return "waiting"
        cells = {one.name: one for one in self.campaign.cells}
        if not is_chosen(cell, cells, self.decided(cell)):
            return "left out"
        if self.missing_data(cell):
            return "waiting"
        return "begun" if (self.run(cell) / LAST).exists() else "open"

    def missing_data(self, cell: Cell) -> list[str]:
        """Files of the suite that a cell needs and that are not complete."""
        if cell.task == "make" or cell.family == CAVITY:
            return []
        if cell.family in self._complete:  # a file that is complete stays so
            return []
        chosen = suite(self.campaign.suite)
        found: list[str] = []
        for request in chosen.requests(cell.family):
            have = stored_samples(chosen.path(cell.family, request.split))
            if request.split in SPLITS and have < request.samples:
                found.append(f"{cell.family} {request.split} ({have} of {request.samples})")
        if not found:
            self._complete.add(cell.family)
        return found

    def waits_for(self, cell: Cell) -> list[str]:
        """What a waiting cell waits for: other cells, else data."""
        missing = [name for name in cell.before if not self.is_done(self.campaign[name])]
        return missing or self.missing_data(cell)
