r"""The problem: what is asked for, before any mesh or model.

A :class:`Problem` declares fields and how they transform, boundary groups, which field has
Dirichlet data on which group, parameters, sources, Neumann data, and the terms of the equation that
are known. Features, model and data all read it and nothing else: nothing in Geo-NeW is tied to one
equation.

Scales. With a reference length l and a reference value s_f per field (one for all components of a
vector), the model sees only dimensionless quantities: x/l, u_f/s_f. A known term with coefficient
kappa and n derivatives becomes

.. math:: \kappa\, s_f s_g\, l^{d-n} / e,

rows and unknowns scaled alike (a congruence, which keeps symmetry and skewness), a source f of
field f becomes s_f l^d f / e, Neumann data s_f l^{d-1} g / e; e is the energy scale. A length that
the model multiplies with (H^2 of the stabilisation) is one in the user's units, l times its
dimensionless value. Fields are scaled, never shifted. A change of units changes none of these
numbers.

Identity kept: the reduced system is never singular. A field that has no Dirichlet data declares
``gauge`` (its level is free and fixed by a zero mean), ``reaction`` (a learned r M0 u, r > 0) or is
``derived``; otherwise the problem is refused here.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from geonew.errors import ProblemError
from geonew.fem.forms import known_form
from geonew.problem.consistency import check_problem, normalise
from geonew.problem.declarations import (
    Derived,
    Dirichlet,
    Field,
    FrameRule,
    Neumann,
    Parameter,
    Term,
)
from geonew.problem.reading import build, parse

SCHEMA = 1


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
        normalise(self)
        check_problem(self)

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
                kappa = self.coefficient_reference(term)
                return kappa * s * s * self.reference_length ** (self.dim - form.derivatives)
        s = max(f.reference for f in self.fields)
        return s * s * self.reference_length ** (self.dim - 2)

    def term_scale(self, term: Term) -> float:
        """Factor from a form on the dimensionless mesh to the dimensionless system, coefficient 1.

        A quadratic form has its field three times: test, transported, transporting.
        """
        form = known_form(term.form)
        s = self.field(term.fields[0]).reference * self.field(term.fields[-1]).reference
        if form.kind == "quadratic":
            s *= self.field(term.fields[0]).reference
        return s * self.reference_length ** (self.dim - form.derivatives) / self.energy_scale

    def load_scale(self, name: str) -> float:
        """Factor from a load integrated on the user's mesh, in the user's units."""
        return self.field(name).reference / self.energy_scale

    def source_scale(self, name: str) -> float:
        """Factor from a source in the user's units, integrated on the dimensionless mesh."""
        return self.load_scale(name) * self.reference_length**self.dim

    def neumann_scale(self, name: str) -> float:
        """Factor from Neumann data in the user's units, integrated on the dimensionless mesh."""
        return self.load_scale(name) * self.reference_length ** (self.dim - 1)

    def with_references(self, references: Mapping[str, float]) -> Problem:
        """The same problem with other reference values, by field name."""
        for name in references:
            self.field(name)
        changed = tuple(
            dataclasses.replace(f, reference=references.get(f.name, f.reference))
            for f in self.fields
        )
        return dataclasses.replace(self, fields=changed)

    # -- files ---------------------------------------------------------------------------------

    def to_json(self) -> str:
        """The problem as JSON; terms by name and coefficients, never code."""
        return json.dumps({"schema": SCHEMA, **dataclasses.asdict(self)}, indent=2, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Problem:
        """Inverse of :meth:`to_json`; unknown keys are refused."""
        raw = parse(text)
        schema = raw.pop("schema", SCHEMA)
        if schema != SCHEMA:
            raise ProblemError(
                f"the problem has schema {schema!r}; this version of geonew reads {SCHEMA}",
                "write it again with this version",
            )
        return build(cls, raw, "problem")

    def save(self, path: str | Path) -> None:
        """Write the problem to a JSON file."""
        try:
            Path(path).write_text(self.to_json() + "\n", encoding="utf-8")
        except OSError as error:
            raise ProblemError(f"cannot write problem file {path}: {error.strerror}") from error

    @classmethod
    def load(cls, path: str | Path) -> Problem:
        """Read a problem from a JSON file."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as error:
            raise ProblemError(f"cannot read problem file {path}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise ProblemError(f"problem file {path} is not UTF-8 text: {error.reason}") from error
        return cls.from_json(text)
