"""The pieces of a problem: fields, conditions, parameters, known terms, rules for the frame.

Each is a frozen dataclass that checks itself when built; that the pieces fit together (names refer
to something, ranks match) is checked by :class:`geonew.problem.Problem`.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from geonew.errors import ProblemError
from geonew.fem.forms import Rank

Level = Literal["dirichlet", "gauge", "reaction"]


@dataclass(frozen=True)
class Field:
    """One unknown: a scalar, or a vector whose components share one scale.

    Args:
        name: e.g. ``"velocity"``.
        rank: ``"scalar"`` or ``"vector"``.
        reference: value by which it is divided; typical size of the field.
        level: what fixes its level: Dirichlet data, ``"gauge"`` or ``"reaction"``.
        labels: names of the components for people and files; default ``velocity_x`` and so on.

    """

    name: str
    rank: Rank = "scalar"
    reference: float = 1.0
    level: Level = "dirichlet"
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_name("field", self.name)
        where = f"field {self.name!r}"
        check_choice(f"rank of {where}", self.rank, ("scalar", "vector"))
        check_choice(f"level of {where}", self.level, ("dirichlet", "gauge", "reaction"))
        _set(self, "reference", positive(f"reference value of {where}", self.reference))
        _set(self, "labels", texts(f"labels of {where}", self.labels))


@dataclass(frozen=True)
class Derived:
    """A field that is a formula of others, such as von Mises stress from displacement.

    Args:
        name: e.g. ``"von_mises"``.
        formula: a name registered in :mod:`geonew.fem.derived`.
        inputs: the fields it reads.
        constants: numbers the formula needs, by name.

    """

    name: str
    formula: str
    inputs: tuple[str, ...]
    constants: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        check_name("derived field", self.name)
        where = f"derived field {self.name!r}"
        check_text(f"formula of {where}", self.formula)
        _set(self, "inputs", texts(f"inputs of {where}", self.inputs))
        _set(self, "constants", numbers_by_name(f"constants of {where}", self.constants))


@dataclass(frozen=True)
class Dirichlet:
    """A field has prescribed values on a group.

    Args:
        field: which field.
        group: which boundary group.
        axes: for a vector, the axes of the canonical frame along which components are prescribed;
            none means all components, given in the coordinates of the mesh.

    """

    field: str
    group: str
    axes: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        check_text("field of a Dirichlet condition", self.field)
        check_text("group of a Dirichlet condition", self.group)
        if self.axes is None:
            return
        where = f"axes of the Dirichlet condition of field {self.field!r} on {self.group!r}"
        axes = sequence(where, self.axes)
        if not all(type(axis) is int for axis in axes) or len(set(axes)) != len(axes):
            raise ProblemError(f"{where} are {axes}; they must be different whole numbers")
        _set(self, "axes", tuple(sorted(axes)))


@dataclass(frozen=True)
class Neumann:
    """A field may have a prescribed flux (scalar) or traction (vector) on a group."""

    field: str
    group: str

    def __post_init__(self) -> None:
        check_text("field of a Neumann condition", self.field)
        check_text("group of a Neumann condition", self.group)


@dataclass(frozen=True)
class Parameter:
    """A quantity mu that varies from sample to sample.

    Args:
        name: e.g. ``"reynolds"``.
        support: one number per sample (``"global"``) or one per node (``"nodal"``).
        rank: scalar, or vector (turned into the frame).
        reference: value by which it is divided before the model sees it.

    """

    name: str
    support: Literal["global", "nodal"] = "global"
    rank: Rank = "scalar"
    reference: float = 1.0

    def __post_init__(self) -> None:
        check_name("parameter", self.name)
        where = f"parameter {self.name!r}"
        check_choice(f"support of {where}", self.support, ("global", "nodal"))
        check_choice(f"rank of {where}", self.rank, ("scalar", "vector"))
        _set(self, "reference", positive(f"reference value of {where}", self.reference))


@dataclass(frozen=True)
class Term:
    r"""A known term: a registered form on named fields, times :math:`c \prod_k \mu_k^{a_k}`.

    Args:
        form: a name registered in :mod:`geonew.fem.forms`.
        fields: the field it acts on; for a pair, the tested field first.
        coefficient: the number c, not zero.
        powers: exponents a_k of parameters, e.g. ``{"reynolds": -1}``.

    """

    form: str
    fields: tuple[str, ...]
    coefficient: float = 1.0
    powers: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        check_text("form of a term", self.form)
        where = f"term {self.form!r}"
        _set(self, "fields", texts(f"fields of {where}", self.fields))
        _set(self, "coefficient", number(f"coefficient of {where}", self.coefficient))
        _set(self, "powers", numbers_by_name(f"powers of {where}", self.powers))
        if self.coefficient == 0:
            raise ProblemError(f"{where} has coefficient 0", "leave the term out")


@dataclass(frozen=True)
class FrameRule:
    """One way to fix a direction of the canonical frame; the first well-defined one is taken.

    Args:
        kind: ``"normal"`` (mean outward facet normal of ``group``, reversed: into the domain),
            ``"inflow"`` (mean of the vector boundary data ``field`` over ``group``), or
            ``"gradient"`` (mean gradient of the harmonic coordinate 1 on ``group``, 0 on
            ``other``).
        group: the group it looks at.
        field: for ``"inflow"``, a vector with all its components prescribed on the group.
        other: for ``"gradient"``, the second group.

    """

    kind: Literal["normal", "inflow", "gradient"]
    group: str
    field: str = ""
    other: str = ""

    def __post_init__(self) -> None:
        check_choice("kind of frame rule", self.kind, ("normal", "inflow", "gradient"))
        where = f"frame rule {self.kind!r}"
        check_text(f"group of {where}", self.group)
        for name, kind in (("field", "inflow"), ("other", "gradient")):
            if self.kind == kind:
                check_text(f"{name} of {where}", getattr(self, name))
            elif getattr(self, name) != "":
                raise ProblemError(f"{where} has no use for {name}={getattr(self, name)!r}")
        if self.group == self.other:
            raise ProblemError(f"{where} names group {self.group!r} twice", "name two groups")


# -- values --------------------------------------------------------------------------------------


def check_text(what: str, value: object) -> None:
    """A name of anything: printable and not blank."""
    if not (isinstance(value, str) and value.strip() and value.isprintable()):
        raise ProblemError(f"{what} is {value!r}; it must be a printable text, not blank")


def check_name(what: str, value: object) -> None:
    """A name that may become a column, a file or a keyword."""
    if not (isinstance(value, str) and value.isidentifier()):
        raise ProblemError(f"{what} {value!r} is not a plain name", "use letters, digits and _")


def check_choice(what: str, value: object, choices: Sequence[object]) -> None:
    """One of a few values, of the same type."""
    if not any(type(value) is type(choice) and value == choice for choice in choices):
        raise ProblemError(f"{what} is {value!r}; it must be one of {list(choices)}")


def number(what: str, value: object) -> float:
    """A finite number, as float."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ProblemError(f"{what} is {value!r}; it must be a number")
    try:
        result = float(value)
    except OverflowError:
        result = math.inf
    if not math.isfinite(result):
        raise ProblemError(f"{what} is {result}; it must be finite")
    return result


def positive(what: str, value: object) -> float:
    """A positive finite number, as float."""
    result = number(what, value)
    if result <= 0:
        raise ProblemError(f"{what} is {result}; it must be positive")
    return result


def sequence(what: str, value: object) -> tuple[Any, ...]:
    """A list or tuple, as tuple; a text is neither, though Python would iterate it."""
    if not isinstance(value, list | tuple):
        raise ProblemError(f"{what} are {value!r}; give a tuple", "a single one is written (x,)")
    return tuple(value)


def texts(what: str, value: object) -> tuple[str, ...]:
    """A tuple of printable texts."""
    result = sequence(what, value)
    for item in result:
        check_text(f"one of the {what}", item)
    return result


def numbers_by_name(what: str, value: object) -> dict[str, float]:
    """A mapping from names to finite numbers."""
    if not isinstance(value, Mapping):
        raise ProblemError(f"{what} are {value!r}; give a mapping such as {{'name': 1.0}}")
    for name in value:
        check_name(f"a name among the {what},", name)
    return {name: number(f"{name} among the {what}", item) for name, item in value.items()}


def _set(target: object, name: str, value: object) -> None:
    object.__setattr__(target, name, value)
