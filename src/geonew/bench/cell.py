"""A cell of the campaign: one thing to compute, described by data alone.

    train     a model on a family, then its errors
    evaluate  a model that another cell trained, on other data
    refine    the same, on coarse, medium and fine meshes of the same shapes
    rescale   the same, with coordinates squeezed to the lengths of the training data
    make      a data set that only the campaign needs

A cell knows which cells must be finished before it (``needs``): those that choose its learning
rate, train its model or make its data. Choices are made by validation errors, never by test data.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal

from geonew.errors import ConfigError

Task = Literal["train", "evaluate", "refine", "rescale", "make"]
_NAME = re.compile(r"[a-z0-9][a-z0-9+.=-]*(/[a-z0-9][a-z0-9+.=-]*)*")


@dataclass(frozen=True)
class Cell:
    """One thing to compute.

    Args:
        name: unique, with slashes, such as ``main/ns2d-c++/transolver``.
        task: what is done; see the module docstring.
        family: name of the configuration, and of the family of its data.
        row: name of the model in the tables.
        seed: of the training.
        cpu_minutes: budget of the training; 0 where nothing is trained.
        settings: settings of the configuration that differ, as ``key=value``.
        tests: name in the results -> data file, relative to ``GEONEW_HOME/data``.
        rate: learning rate; none takes the one chosen for ``rate_of``.
        rate_of: whose learning rate; the row by default.
        start: cell whose model the training starts from, or that is evaluated.
        needs: cells that must be finished before.
        chosen: only if the row is among so many best ones of ``among``.
        among: cells, one per row, that decide that, by validation.

    """

    name: str
    task: Task
    family: str
    row: str
    seed: int = 0
    cpu_minutes: float = 0.0
    settings: tuple[str, ...] = ()
    tests: Mapping[str, str] = field(default_factory=dict)
    rate: float | None = None
    rate_of: str = ""
    start: str = ""
    needs: tuple[str, ...] = ()
    chosen: int | None = None
    among: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigError(f"{self.name!r} is no name of a cell")
        if (self.task == "train") != (self.cpu_minutes > 0):
            raise ConfigError(f"cell {self.name} of task {self.task} has {self.cpu_minutes} min")
        if self.task in ("evaluate", "refine", "rescale") and not self.start:
            raise ConfigError(f"cell {self.name} evaluates no model")

    @property
    def group(self) -> str:
        """First part of the name: ``rate``, ``main``, ``long``, ..."""
        return self.name.split("/", 1)[0]

    @property
    def tries_rate(self) -> bool:
        """Whether it tries a learning rate for others, so that its failure is an answer too."""
        return self.group == "rate"

    @property
    def before(self) -> tuple[str, ...]:
        """All cells that must be finished before this one."""
        started = (self.start,) if self.start else ()
        return tuple(dict.fromkeys([*self.needs, *started, *self.among]))


def matching(cells: Sequence[Cell], patterns: Sequence[str]) -> list[Cell]:
    """The cells whose name has or matches one of the patterns; all without patterns."""
    if not patterns:
        return list(cells)
    found = [
        cell for cell in cells if any(p in cell.name or fnmatchcase(cell.name, p) for p in patterns)
    ]
    if not found:
        groups = ", ".join(dict.fromkeys(cell.group for cell in cells))
        raise ConfigError(
            f"no cell matches {' or '.join(map(repr, patterns))}",
            f"`geonew bench --list` shows all names; their groups are {groups}",
        )
    return found


def check_order(cells: Sequence[Cell]) -> None:
    """Refuse a list in which a name occurs twice, or a cell needs one that does not come before."""
    seen: set[str] = set()
    for cell in cells:
        if cell.name in seen:
            raise ConfigError(f"two cells are named {cell.name}")
        missing = [name for name in cell.before if name not in seen]
        if missing:
            raise ConfigError(f"cell {cell.name} needs {missing}, which do not come before it")
        seen.add(cell.name)
