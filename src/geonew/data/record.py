"""One solved sample, and what a family of samples is.

    Family.draw(split, generator, ...) -> Case --solve(case, level)--> Record --store--> HDF5

A :class:`Case` fixes everything by numbers (shape, parameters, place on the axes of the
distribution), before any mesh; a :class:`Record` is the solved sample as it is stored and read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from geonew.mesh import Mesh
from geonew.problem import Problem

Split = Literal["train", "val", "calibration", "test", "ood"]
Level = Literal["coarse", "medium", "fine"]
Number = float | int


@dataclass(frozen=True)
class Case:
    """What a draw fixes.

    Args:
        family: name of the family.
        split: which split it was drawn for.
        shape: the geometry as plain data (``Shape.to_dict`` or a family's own parameters).
        parameters: every drawn number by its documented name.
        axes: place on the axes of the distribution (e.g. ``{"length": 3.2, "obstacles": 5}``).

    """

    family: str
    split: Split
    shape: Mapping[str, Any]
    parameters: Mapping[str, Number]
    axes: Mapping[str, Number | str]


@dataclass(frozen=True, eq=False)
class Record:
    """One solved sample, in the user's units and axes.

    Args:
        mesh: nodes, cells, named groups.
        fields: name -> nodal values, (N,) for scalars and (N, d) for vectors; derived fields too.
        boundary: group -> field -> prescribed values on ``mesh.nodes_of(group)``, (n, w).
        parameters: problem parameters -> number or nodal array.
        sources: field -> nodal values of a prescribed source.
        neumann: group -> field -> values on the group's nodes, (n, w).
        case: what it was drawn from.
        info: numbers about the solve: residual, seconds, nodes of the truth mesh, attempts.

    """

    mesh: Mesh
    fields: Mapping[str, Float[ndarray, "N ..."]]
    boundary: Mapping[str, Mapping[str, Float[ndarray, "_ _"]]]
    case: Case
    parameters: Mapping[str, float | ndarray] = field(default_factory=dict)
    sources: Mapping[str, Float[ndarray, "N ..."]] = field(default_factory=dict)
    neumann: Mapping[str, Mapping[str, Float[ndarray, "_ _"]]] = field(default_factory=dict)
    info: Mapping[str, float] = field(default_factory=dict)


@runtime_checkable
class Family(Protocol):
    """A parametric family of solved problems; each is registered in ``geonew.data.families``."""

    @property
    def name(self) -> str:
        """Such as ``"ns2d-c++"``."""
        ...

    @property
    def problem(self) -> Problem:
        """Fields, groups, conditions, known terms."""
        ...

    @property
    def ranges(self) -> Mapping[str, str]:
        """Each drawn parameter with its range in and out of distribution, for the data card."""
        ...

    @property
    def units(self) -> Mapping[str, str]:
        """Units of what is stored and drawn; see :class:`geonew.data.header.Header`."""
        ...

    def draw(
        self,
        split: Split,
        generator: np.random.Generator,
        axis: tuple[str, float] | None = None,
        swap: bool = False,
    ) -> Case:
        """A random case.

        ``axis`` fixes one axis of the distribution (a sweep), ``swap`` reverses.
        """
        ...

    def solve(self, case: Case, level: Level) -> Record:
        """Mesh the case and solve it, accurately; raises a named error where it cannot."""
        ...
