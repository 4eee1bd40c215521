r"""The problem: what is asked for, before any mesh or model.

A :class:`Problem` declares fields and how they transform, boundary groups, which field has Dirichlet
data on which group, parameters, sources, Neumann data, and the terms of the equation that are known.
Features, model and data all read it and nothing else: nothing in Geo-NeW is tied to one equation.

Scales. With a reference length l and a reference value s_f per field (one for all components of a
vector), the model sees only dimensionless quantities: x/l, u_f/s_f. A known term with coefficient
kappa and n derivatives becomes

.. math:: \kappa\, s_f s_g\, l^{d-n} / e,

rows and unknowns scaled alike (a congruence, which keeps symmetry and skewness), a source f of field
f becomes s_f l^d f / e, Neumann data s_f l^{d-1} g / e; e is the energy scale. Fields are scaled,
never shifted.

Identity kept: the reduced system is never singular. A field that has no Dirichlet data declares
``gauge`` (its level is free and fixed by a zero mean), ``reaction`` (a learned r M0 u, r > 0) or is
``derived``; otherwise the problem is refused here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from geonew.errors import ProblemError
from geonew.fem.forms import Form, Rank, known_form

Level = Literal["dirichlet", "gauge", "reaction"]
SCHEMA = 1


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
        object.__setattr__(self, "labels", tuple(self.labels))
        _check_name("field", self.name)
        _check_choice(f"rank of field {self.name!r}", self.rank, ("scalar", "vector"))
        _check_choice(
            f"level of field {self.name!r}", self.level, ("dirichlet", "gauge", "reaction")
        )
        _check_positive(f"reference value of field {self.name!r}", self.reference)


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
    constants: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "inputs", tuple(self.inputs))
        object.__setattr__(self, "constants", dict(self.constants))
        _check_name("derived field", self.name)


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
        if self.axes is not None:
            object.__setattr__(self, "axes", tuple(sorted(self.axes)))


@dataclass(frozen=True)
class Neumann:
    """A field may have a prescribed flux (scalar) or traction (vector) on a group."""

    field: str
    group: str


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
        _check_name("parameter", self.name)
        _check_choice(f"support of parameter {self.name!r}", self.support, ("global", "nodal"))
        _check_choice(f"rank of parameter {self.name!r}", self.rank, ("scalar", "vector"))
        _check_positive(f"reference value of parameter {self.name!r}", self.reference)


@dataclass(frozen=True)
class Term:
    r"""A known term: a registered form on named fields, times :math:`c \prod_k \mu_k^{a_k}`.

    Args:
        form: a name registered in :mod:`geonew.fem.forms`.
        fields: the field it acts on; for a pair, the tested field first.
        coefficient: the number c.
        powers: exponents a_k of parameters, e.g. ``{"reynolds": -1}``.

    """

    form: str
    fields: tuple[str, ...]
    coefficient: float = 1.0
    powers: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", tuple(self.fields))
        object.__setattr__(self, "powers", dict(self.powers))


@dataclass(frozen=True)
class FrameRule:
    """One way to fix a direction of the canonical frame; the first well-defined one is taken.

    Args:
        kind: ``"normal"`` (mean outward facet normal of ``group``, reversed: into the domain),
            ``"inflow"`` (mean of the vector boundary data ``field`` over ``group``), or
            ``"gradient"`` (mean gradient of the harmonic coordinate 1 on ``group``, 0 on ``other``).

    """

    kind: Literal["normal", "inflow", "gradient"]
    group: str
    field: str = ""
    other: str = ""

    def __post_init__(self) -> None:
        _check_choice("kind of frame rule", self.kind, ("normal", "inflow", "gradient"))


@dataclass(frozen=True)
class Problem:
    """Fields, groups, conditions, parameters and known terms; checked when built.

    Args:
        name: for people and files.
        dim: 2 or 3.
        fields: the unknowns, in the order of their columns.
        groups: boundary groups, in order of priority: a node shared by two Dirichlet groups of a
            field belongs to the first.
        dirichlet: which field has data on which group.
        neumann: where a flux or traction may be given; zero when it is not.
        sources: fields with a source given by the user.
        parameters: what varies besides geometry and data.
        terms: known terms of the equation.
        derived: fields computed from the solution.
        frame: how the canonical frame is found; needed for vector fields.
        harmonic: ordered pairs of groups (1 on the first, 0 on the second) for features.
        optional_groups: groups a mesh may lack.
        reference_length: length by which coordinates are divided.
        energy: the scale e of the module docstring; by default that of the first symmetric term.

    """

    name: str
    dim: int
    fields: tuple[Field, ...]
    groups: tuple[str, ...]
    dirichlet: tuple[Dirichlet, ...]
    neumann: tuple[Neumann, ...] = ()
    sources: tuple[str, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    terms: tuple[Term, ...] = ()
    derived: tuple[Derived, ...] = ()
    frame: tuple[FrameRule, ...] = ()
    harmonic: tuple[tuple[str, str], ...] = ()
    optional_groups: tuple[str, ...] = ()
    reference_length: float = 1.0
    energy: float | None = None

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, list):
                object.__setattr__(self, item.name, tuple(value))
        object.__setattr__(self, "harmonic", tuple((a, b) for a, b in self.harmonic))
        _check_problem(self)

    # -- components ----------------------------------------------------------------------------

    def width(self, name: str) -> int:
        """Number of components of a field: 1 or d."""
        return self.dim if self.field(name).rank == "vector" else 1

    def offset(self, name: str) -> int:
        """Column of the field's first component."""
        before = self.fields[: self.fields.index(self.field(name))]
        return sum(self.width(other.name) for other in before)

    def columns(self, name: str) -> slice:
        """Columns of the field's components."""
        return slice(self.offset(name), self.offset(name) + self.width(name))

    @property
    def n_components(self) -> int:
        """Number of scalar unknowns per node, F."""
        return sum(self.width(f.name) for f in self.fields)

    @property
    def component_names(self) -> tuple[str, ...]:
        """Name of each component, in the order of the columns."""
        names: list[str] = []
        for f in self.fields:
            default = (
                (f.name,)
                if f.rank == "scalar"
                else tuple(f"{f.name}_{a}" for a in "xyz"[: self.dim])
            )
            names.extend(f.labels or default)
        return tuple(names)

    @property
    def component_fields(self) -> tuple[Field, ...]:
        """The field each component belongs to."""
        return tuple(f for f in self.fields for _ in range(self.width(f.name)))

    @property
    def references(self) -> tuple[float, ...]:
        """Reference value of each component."""
        return tuple(f.reference for f in self.component_fields)

    def dirichlet_groups(self, component: int) -> tuple[str, ...]:
        """Groups on which a component is prescribed, in order of priority."""
        owner = self.component_fields[component]
        axis = component - self.offset(owner.name)
        named = {
            d.group
            for d in self.dirichlet
            if d.field == owner.name and (d.axes is None or axis in d.axes)
        }
        return tuple(group for group in self.groups if group in named)

    # -- look-ups ------------------------------------------------------------------------------

    def field(self, name: str) -> Field:
        """The field of that name."""
        for candidate in self.fields:
            if candidate.name == name:
                return candidate
        raise ProblemError(
            f"problem {self.name!r} has no field {name!r}; it has {[f.name for f in self.fields]}"
        )

    def parameter(self, name: str) -> Parameter:
        """The parameter of that name."""
        for candidate in self.parameters:
            if candidate.name == name:
                return candidate
        raise ProblemError(
            f"problem {self.name!r} has no parameter {name!r}; "
            f"it has {[p.name for p in self.parameters]}"
        )

    @property
    def has_vectors(self) -> bool:
        """Whether anything turns with the mesh, so that a frame is needed."""
        return any(f.rank == "vector" for f in self.fields) or any(
            p.rank == "vector" for p in self.parameters
        )

    # -- scales --------------------------------------------------------------------------------

    def coefficient_reference(self, term: Term) -> float:
        """The term's coefficient at the reference values of its parameters."""
        value = term.coefficient
        for name, power in term.powers.items():
            value *= self.parameter(name).reference ** power
        return value

    @property
    def energy_scale(self) -> float:
        """The scale e by which every known matrix and load is divided."""
        if self.energy is not None:
            return self.energy
        for term in self.terms:
            form = known_form(term.form)
            if form.kind == "symmetric":
                s = self.field(term.fields[0]).reference
                kappa = abs(self.coefficient_reference(term))
                return kappa * s * s * self.reference_length ** (self.dim - form.derivatives)
        s = max(f.reference for f in self.fields)
        return s * s * self.reference_length ** (self.dim - 2)

    def term_scale(self, term: Term) -> float:
        """Factor from a form on the dimensionless mesh to the dimensionless system; no coefficient."""
        form = known_form(term.form)
        s = math.prod(self.field(term.fields[k]).reference for k in (0, -1))
        if (
            form.kind == "quadratic"
        ):  # the field stands three times: test, transported, transporting
            s *= self.field(term.fields[0]).reference
        return s * self.reference_length ** (self.dim - form.derivatives) / self.energy_scale

    def source_scale(self, name: str) -> float:
        """Factor from a source in the user's units to the dimensionless load."""
        return self.field(name).reference * self.reference_length**self.dim / self.energy_scale

    def neumann_scale(self, name: str) -> float:
        """Factor from Neumann data in the user's units to the dimensionless load."""
        return self.source_scale(name) / self.reference_length

    def with_references(self, references: Mapping[str, float]) -> Problem:
        """The same problem with other reference values, by field name."""
        for name in references:
            self.field(name)
        return replace(
            self,
            fields=tuple(
                replace(f, reference=references.get(f.name, f.reference)) for f in self.fields
            ),
        )

    # -- files ---------------------------------------------------------------------------------

    def to_json(self) -> str:
        """The problem as JSON; terms by name and coefficients, never code."""
        return json.dumps({"schema": SCHEMA, **asdict(self)}, indent=2)

    @classmethod
    def from_json(cls, text: str) -> Problem:
        """Inverse of :meth:`to_json`; unknown keys are refused."""
        try:
            raw = json.loads(text)
        except json.JSONDecodeError as error:
            raise ProblemError(f"the problem is not valid JSON: {error}") from error
        if not isinstance(raw, dict):
            raise ProblemError(f"the problem must be a JSON object, not {type(raw).__name__}")
        if raw.pop("schema", SCHEMA) != SCHEMA:
            raise ProblemError(
                f"the problem has another schema than {SCHEMA}",
                "it was written by another version of geonew; write it again with this one",
            )
        parts: dict[str, type] = {
            "fields": Field,
            "dirichlet": Dirichlet,
            "neumann": Neumann,
            "parameters": Parameter,
            "terms": Term,
            "derived": Derived,
            "frame": FrameRule,
        }
        for key, kind in parts.items():
            if key in raw:
                raw[key] = tuple(
                    _from_dict(kind, item, f"{key}[{n}]") for n, item in enumerate(raw[key])
                )
        return _from_dict(cls, raw, "problem")

    def save(self, path: str | Path) -> None:
        """Write the problem to a JSON file."""
        Path(path).write_text(self.to_json() + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Problem:
        """Read a problem from a JSON file."""
        try:
            return cls.from_json(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise ProblemError(f"cannot read problem file {path}: {error.strerror}") from error


# -- common equations ----------------------------------------------------------------------------


def stokes_terms(
    velocity: str, pressure: str, viscosity: float, **powers: float
) -> tuple[Term, ...]:
    r"""Terms of :math:`-\nu \Delta u + \nabla p = 0`, :math:`\nabla \cdot u = 0`, stabilised.

    ``powers`` are exponents of parameters in the viscosity: ``stokes_terms("u", "p", 1, reynolds=-1)``.
    """
    inverse = {name: -power for name, power in powers.items()}
    return (
        Term("diffusion", (velocity,), viscosity, powers),
        Term("divergence", (pressure, velocity), 1.0),
        Term("stabilisation", (pressure,), 1.0 / viscosity, inverse),
    )


def elasticity_terms(
    displacement: str, young: float, poisson: float, *, plane_stress: bool = False
) -> tuple[Term, ...]:
    r"""Terms of :math:`-\nabla \cdot (\lambda\, \mathrm{div}\, u\, I + 2 \mu\, \varepsilon(u)) = f`."""
    if not -1.0 < poisson < 0.5:
        raise ProblemError(f"Poisson's ratio {poisson} is outside (-1, 0.5)")
    mu = young / (2 * (1 + poisson))
    lam = young * poisson / ((1 + poisson) * (1 - 2 * poisson))
    if plane_stress:
        lam = 2 * mu * lam / (lam + 2 * mu)
    terms = [Term("strain", (displacement,), mu)]
    if lam:
        terms.append(Term("div_div", (displacement,), lam))
    return tuple(terms)


# -- checks --------------------------------------------------------------------------------------


def _check_problem(problem: Problem) -> None:
    where = f"problem {problem.name!r}"
    _check_choice(f"dimension of {where}", problem.dim, (2, 3))
    _check_positive(f"reference length of {where}", problem.reference_length)
    if problem.energy is not None:
        _check_positive(f"energy scale of {where}", problem.energy)
    if not problem.fields:
        raise ProblemError(f"{where} has no fields", "declare at least one Field")
    _check_unique(f"fields of {where}", [f.name for f in (*problem.fields, *problem.derived)])
    _check_unique(f"components of {where}", list(problem.component_names))
    _check_unique(f"groups of {where}", list(problem.groups))
    _check_unique(f"parameters of {where}", [p.name for p in problem.parameters])
    for f in problem.fields:
        if f.labels and len(f.labels) != problem.width(f.name):
            raise ProblemError(
                f"field {f.name!r} of {where} has {problem.width(f.name)} components "
                f"but labels {f.labels}"
            )
    _check_conditions(problem, where)
    for term in problem.terms:
        _check_term(problem, term, where)
    for derived in problem.derived:
        for name in derived.inputs:
            problem.field(name)
    for name in problem.sources:
        problem.field(name)
    named = [g for pair in problem.harmonic for g in pair] + [r.group for r in problem.frame]
    named += [r.other for r in problem.frame if r.kind == "gradient"]
    for group in [*named, *problem.optional_groups]:
        _check_group(problem, group, where)
    if problem.has_vectors and not problem.frame:
        raise ProblemError(
            f"{where} has vectors but no frame rule",
            "add frame=(FrameRule('normal', group),) with a group whose normal fixes a direction",
        )


def _check_conditions(problem: Problem, where: str) -> None:
    prescribed: set[tuple[str, str, int]] = set()
    for condition in problem.dirichlet:
        _check_group(problem, condition.group, where)
        width = problem.width(condition.field)
        if condition.axes is not None and (
            width == 1 or not condition.axes or not set(condition.axes) <= set(range(width))
        ):
            raise ProblemError(
                f"Dirichlet condition of field {condition.field!r} on {condition.group!r} names axes "
                f"{condition.axes}, but the field has {width} component(s)"
            )
        for axis in range(width) if condition.axes is None else condition.axes:
            key = (condition.field, condition.group, axis)
            if key in prescribed:
                raise ProblemError(f"{where} prescribes {key[0]!r} on {key[1]!r} twice")
            prescribed.add(key)
    for condition in problem.neumann:
        _check_group(problem, condition.group, where)
        axes = {a for f, g, a in prescribed if (f, g) == (condition.field, condition.group)}
        if len(axes) == problem.width(condition.field):
            raise ProblemError(
                f"{where} gives field {condition.field!r} both Dirichlet and Neumann data "
                f"on {condition.group!r}",
                "keep one of the two",
            )
    for number, (f, name) in enumerate(
        zip(problem.component_fields, problem.component_names, strict=True)
    ):
        groups = problem.dirichlet_groups(number)
        if f.level == "dirichlet" and not groups:
            raise ProblemError(
                f"component {name!r} of {where} has Dirichlet data on no group: its level is free "
                "and the system would be singular",
                "prescribe it on a group, or declare level='gauge' (mean zero) or "
                "level='reaction' (an effective, non-conserved field)",
            )
        if f.level == "gauge" and groups:
            raise ProblemError(
                f"component {name!r} of {where} declares a gauge but is prescribed on {groups}",
                "drop the gauge: the data fix its level",
            )


def _check_term(problem: Problem, term: Term, where: str) -> None:
    form: Form = known_form(term.form)
    if len(term.fields) != len(form.ranks):
        raise ProblemError(
            f"term {term.form!r} of {where} names {len(term.fields)} fields; it takes {len(form.ranks)}"
        )
    for name, rank in zip(term.fields, form.ranks, strict=True):
        if rank not in ("any", problem.field(name).rank):
            raise ProblemError(
                f"term {term.form!r} of {where} needs a {rank} field, but {name!r} is a "
                f"{problem.field(name).rank}"
            )
    if not math.isfinite(term.coefficient):
        raise ProblemError(f"term {term.form!r} of {where} has coefficient {term.coefficient}")
    if form.kind in ("symmetric", "stabilisation") and term.coefficient < 0:
        raise ProblemError(
            f"term {term.form!r} of {where} has the negative coefficient {term.coefficient}",
            "symmetric terms must be positive semidefinite; check the sign convention: the system "
            "is (known terms) u = load",
        )
    for name in term.powers:
        if problem.parameter(name).rank != "scalar":
            raise ProblemError(
                f"term {term.form!r} of {where} has the vector parameter {name!r} as factor"
            )


def _check_group(problem: Problem, group: str, where: str) -> None:
    if group not in problem.groups:
        raise ProblemError(
            f"{where} refers to group {group!r}; its groups are {list(problem.groups)}",
            "add the group to Problem.groups, or correct the name",
        )


def _check_name(what: str, name: str) -> None:
    if not name.isidentifier():
        raise ProblemError(f"{what} {name!r} is not a plain name", "use letters, digits and _")


def _check_choice(what: str, value: object, choices: Sequence[object]) -> None:
    if value not in choices:
        raise ProblemError(f"{what} is {value!r}; it must be one of {list(choices)}")


def _check_positive(what: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise ProblemError(f"{what} is {value}; it must be positive and finite")


def _check_unique(what: str, names: Sequence[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ProblemError(f"{what} repeat {twice}", "give each its own name")


def _from_dict(kind: type, raw: Any, where: str) -> Any:
    if not isinstance(raw, dict):
        raise ProblemError(f"{where} must be a JSON object, not {type(raw).__name__}")
    known = {f.name for f in fields(kind)}
    unknown = sorted(set(raw) - known)
    if unknown:
        raise ProblemError(f"{where} has unknown keys {unknown}", f"known keys are {sorted(known)}")
    try:
        return kind(**raw)
    except (TypeError, ValueError, AttributeError) as error:
        raise ProblemError(f"{where} cannot be read: {error}") from error
