"""Recipes: small YAML files that say what is where in the data of others.

Read by ``yaml.safe_load``, so a recipe makes lists, mappings, texts and numbers and runs nothing.
Every key is known or refused, with the nearest known one. Paths are relative to the recipe.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy import ndarray

from geonew.data.record import Record
from geonew.data.request import SPLITS
from geonew.errors import DataError
from geonew.mesh import Mesh
from geonew.problem import Problem

COMMON = ("kind", "name", "split", "samples", "units")
SOLUTION = "solution"


@dataclass(frozen=True)
class Source:
    """What an import reads from.

    Args:
        problem: what the samples are solutions of.
        count: how many there are.
        record: the k-th one, made when asked for.
        label: its name for people, such as its file.
        units: what -> unit.

    """

    problem: Problem
    count: int
    record: Callable[[int], Record]
    label: Callable[[int], str]
    units: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Recipe:
    """A recipe as it is written.

    Args:
        path: the file.
        content: its entries.

    """

    path: Path
    content: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """Which reader it is for."""
        return str(self.content.get("kind", ""))

    @property
    def name(self) -> str:
        """Of the data set."""
        return str(self.content.get("name", self.kind))

    @property
    def split(self) -> Any:
        """Which split the samples become."""
        split = self.content.get("split", "train")
        if split not in SPLITS:
            raise self.error(f"split is {split!r}", f"choose one of {list(SPLITS)}")
        return split

    def error(self, what: str, cure: str = "") -> DataError:
        """An error that names the recipe."""
        return DataError(f"{self.path}: {what}", cure)

    def check(self, *known: str) -> None:
        """Refuse keys that the reader does not know."""
        check_keys(self.content, (*COMMON, *known), str(self.path))

    def text(self, key: str, default: str | None = None) -> str:
        """An entry that is a text."""
        value = self.content.get(key, default)
        if not isinstance(value, str):
            raise self.error(f"{key} is {value!r}", f"write {key}: TEXT")
        return value

    def number(self, key: str, default: float) -> float:
        """An entry that is a number."""
        value = self.content.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(f"{key} is {value!r}", f"write {key}: NUMBER")
        return float(value)

    def mapping(self, key: str) -> dict[str, Any]:
        """An entry that is a mapping; empty where it is missing."""
        value = self.content.get(key, {})
        if not isinstance(value, dict):
            raise self.error(f"{key} is {value!r}", f"write {key}: {{NAME: VALUE, ...}}")
        return {str(name): item for name, item in value.items()}

    def place(self, key: str, default: str | None = None) -> Path:
        """An entry that is a path, relative to the recipe."""
        return self.path.parent / Path(self.text(key, default)).expanduser()

    def problem(self) -> Problem:
        """The problem: a JSON file, or written out in the recipe."""
        value = self.content.get("problem")
        if isinstance(value, str):
            return Problem.load(self.path.parent / value)
        if isinstance(value, dict):
            import json

            try:
                return Problem.from_json(json.dumps(value, allow_nan=False))
            except (TypeError, ValueError) as error:
                raise self.error(f"problem cannot be read: {error}") from error
        raise self.error("there is no problem", "write problem: FILE.json, or its entries")

    def span(self, count: int) -> range:
        """Which samples of a set are imported: ``samples: [first, last + 1]``, or all."""
        value = self.content.get("samples", [0, count])
        if not (isinstance(value, list) and len(value) == 2 and all(type(v) is int for v in value)):
            raise self.error(f"samples is {value!r}", "write samples: [FIRST, END]")
        first, end = value
        if not 0 <= first < end <= count:
            raise self.error(f"samples is {value}, but there are {count}", "choose among these")
        return range(first, end)


def read_recipe(path: Path) -> Recipe:
    """Read a recipe; what it names is read later."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{path}: cannot be opened: {error.strerror}", "check the path") from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        reason = " ".join(str(error).split())[:300]
        raise DataError(f"{path}: is not valid YAML: {reason}") from error
    if not isinstance(content, dict) or "kind" not in content:
        raise DataError(f"{path}: is not a recipe", "it is a mapping with at least a kind")
    return Recipe(path, {str(key): value for key, value in content.items()})


def check_keys(content: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    """Refuse unknown keys, and say which known one is nearest."""
    for key in content:
        if key not in known:
            near = difflib.get_close_matches(key, known, 1, 0.5)
            raise DataError(
                f"{where}: unknown key {key!r}",
                f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}",
            )


def load_array(path: Path) -> ndarray:
    """An array from a ``.npy`` file, left on the disk; never an object."""
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(
            f"{path}: cannot be read as an array: {' '.join(str(error).split())[:200]}",
            "give the .npy file as it was published",
        ) from error
    if not isinstance(found, ndarray) or found.dtype.kind not in "iuf":
        raise DataError(f"{path}: does not hold an array of numbers")
    return found


def boundary_of(
    problem: Problem,
    mesh: Mesh,
    fields: Mapping[str, ndarray],
    given: Mapping[str, Mapping[str, Any]],
) -> dict[str, dict[str, ndarray]]:
    """Boundary data of an imported sample: numbers of the recipe, or the solution's own values.

    Args:
        problem: says where data belong.
        mesh: the sample's mesh.
        fields: the solution.
        given: group -> field -> numbers or ``"solution"``, which is the default.

    """
    result: dict[str, dict[str, ndarray]] = {}
    for condition in problem.dirichlet:
        if condition.group not in mesh.groups:
            continue
        nodes = mesh.nodes_of(condition.group)
        value = given.get(condition.group, {}).get(condition.field, SOLUTION)
        if value == SOLUTION:
            if condition.axes is not None:
                raise DataError(
                    f"values of {condition.field!r} on {condition.group!r} are components along "
                    "the frame, which a solution does not tell",
                    "give the numbers in the recipe under boundary",
                )
            values = fields[condition.field].reshape(mesh.n_nodes, -1)[nodes]
        else:
            width = problem.width(condition.field)
            width = width if condition.axes is None else len(condition.axes)
            numbers = np.atleast_1d(np.asarray(value))
            if numbers.dtype.kind not in "iuf" or numbers.shape != (width,):
                raise DataError(
                    f"boundary value of {condition.field!r} on {condition.group!r} is {value!r}",
                    f"give {width} number(s), or {SOLUTION!r}",
                )
            values = np.tile(numbers.astype(float), (len(nodes), 1))
        result.setdefault(condition.group, {})[condition.field] = np.array(values, dtype=float)
    return result
