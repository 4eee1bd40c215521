"""That the pieces of a problem fit together: names, ranks, conditions, levels, scales.

Identity kept: what passes here leads to a system that is not singular, whose symmetric terms are
positive semidefinite and whose scales are finite, on every mesh that has the problem's groups.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from geonew.errors import ProblemError
from geonew.fem.derived import known_formula
from geonew.fem.forms import Form, Rank, known_form
from geonew.problem.declarations import (
    Derived,
    Dirichlet,
    Field,
    FrameRule,
    Neumann,
    Parameter,
    Term,
    check_choice,
    check_text,
    positive,
    sequence,
    texts,
)

if TYPE_CHECKING:
    from geonew.problem.problem import Problem
else:
    Problem = Any  # which imports this module: its type is checked statically alone

_PIECES: dict[str, type] = {
    "fields": Field,
    "dirichlet": Dirichlet,
    "neumann": Neumann,
    "parameters": Parameter,
    "terms": Term,
    "derived": Derived,
    "frame": FrameRule,
}


def normalise(problem: Problem) -> None:
    """Tuples where lists were given, floats where whole numbers were, and the type of each item."""
    check_text("name of a problem", problem.name)
    where = f"problem {problem.name!r}"
    check_choice(f"dimension of {where}", problem.dim, (2, 3))
    clean: dict[str, object] = {
        "reference_length": positive(f"reference length of {where}", problem.reference_length)
    }
    if problem.energy is not None:
        clean["energy"] = positive(f"energy scale of {where}", problem.energy)
    for key, kind in _PIECES.items():
        items = sequence(f"{key} of {where}", getattr(problem, key))
        for item in items:
            if not isinstance(item, kind):
                raise ProblemError(
                    f"{key} of {where} hold {item!r}, which is no {kind.__name__}",
                    f"build each with geonew.problem.{kind.__name__}(...)",
                )
        clean[key] = items
    for key in ("groups", "sources", "optional_groups"):
        clean[key] = texts(f"{key} of {where}", getattr(problem, key))
    pairs = [
        texts(f"harmonic pairs of {where}", pair)
        for pair in sequence(f"harmonic pairs of {where}", problem.harmonic)
    ]
    for pair in pairs:
        if len(pair) != 2 or pair[0] == pair[1]:
            raise ProblemError(f"harmonic pair {pair} of {where} must name two groups")
    clean["harmonic"] = tuple(pairs)
    for key, value in clean.items():
        object.__setattr__(problem, key, value)


def check_problem(problem: Problem) -> None:
    """Refuse a problem whose pieces do not fit together, or that has no unique solution."""
    where = f"problem {problem.name!r}"
    if not problem.fields:
        raise ProblemError(f"{where} has no fields", "declare at least one Field")
    derived_names = [d.name for d in problem.derived]
    _check_unique(f"fields of {where}", [*(f.name for f in problem.fields), *derived_names])
    for f in problem.fields:
        if f.labels and len(f.labels) != problem.width(f.name):
            raise ProblemError(
                f"field {f.name!r} of {where} has {problem.width(f.name)} components "
                f"but labels {f.labels}"
            )
    _check_unique(f"components of {where}", [*problem.component_names, *derived_names])
    _check_unique(f"groups of {where}", problem.groups)
    _check_unique(f"optional groups of {where}", problem.optional_groups)
    _check_unique(f"sources of {where}", problem.sources)
    _check_unique(f"parameters of {where}", [p.name for p in problem.parameters])
    for name in problem.sources:
        problem.field(name)
    for group in [*(g for pair in problem.harmonic for g in pair), *problem.optional_groups]:
        _check_group(problem, group, where)
    _check_conditions(problem, where)
    _check_level(problem, where)
    for term in problem.terms:
        _check_term(problem, term, where)
    for derived in problem.derived:
        ranks: list[Rank] = [problem.field(name).rank for name in derived.inputs]
        known_formula(derived.formula).check(ranks, derived.constants, problem.dim)
    _check_frame(problem, where)
    _check_scales(problem, where)


def _check_conditions(problem: Problem, where: str) -> None:
    for condition in (*problem.dirichlet, *problem.neumann):
        _check_group(problem, condition.group, where)
        problem.field(condition.field)
    for kind in (problem.dirichlet, problem.neumann):
        keys = [(condition.field, condition.group) for condition in kind]
        twice = sorted({key for key in keys if keys.count(key) > 1})
        if twice:
            raise ProblemError(
                f"{where} prescribes {twice[0][0]!r} on {twice[0][1]!r} twice",
                "keep one condition; several components go into one, as axes=(0, 1)",
            )
    for condition in problem.dirichlet:
        width = problem.width(condition.field)
        if condition.axes is not None and (
            width == 1 or not condition.axes or not set(condition.axes) <= set(range(width))
        ):
            raise ProblemError(
                f"Dirichlet condition of field {condition.field!r} on {condition.group!r} names "
                f"axes {condition.axes}, but the field has {width} component(s)"
            )
    full = {
        (d.field, d.group)
        for d in problem.dirichlet
        if d.axes is None or len(d.axes) == problem.width(d.field)
    }
    for condition in problem.neumann:
        if (condition.field, condition.group) in full:
            raise ProblemError(
                f"{where} gives field {condition.field!r} both Dirichlet and Neumann data "
                f"on {condition.group!r}",
                "keep one of the two",
            )


def _check_level(problem: Problem, where: str) -> None:
    """Something fixes the level of every component, or the system would be singular."""
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
    if problem.dim not in form.dims:
        raise ProblemError(f"term {term.form!r} of {where} is for dimensions {form.dims}")
    if len(term.fields) != len(form.ranks):
        raise ProblemError(
            f"term {term.form!r} of {where} names {len(term.fields)} fields; "
            f"it takes {len(form.ranks)}"
        )
    for name, rank in zip(term.fields, form.ranks, strict=True):
        if rank not in ("any", problem.field(name).rank):
            raise ProblemError(
                f"term {term.form!r} of {where} needs a {rank} field, but {name!r} is a "
                f"{problem.field(name).rank}"
            )
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


def _check_frame(problem: Problem, where: str) -> None:
    if problem.has_vectors and not problem.frame:
        raise ProblemError(
            f"{where} has vectors but no frame rule",
            "add frame=(FrameRule('normal', group),) with a group whose normal fixes a direction",
        )
    for rule in problem.frame:
        _check_group(problem, rule.group, where)
        if rule.kind == "gradient":
            _check_group(problem, rule.other, where)
        if rule.kind == "inflow" and (
            problem.field(rule.field).rank != "vector"
            or Dirichlet(rule.field, rule.group) not in problem.dirichlet
        ):
            raise ProblemError(
                f"the frame rule 'inflow' of {where} reads field {rule.field!r} on {rule.group!r}, "
                "which is no vector prescribed there in all components",
                f"declare Dirichlet({rule.field!r}, {rule.group!r}) without axes, or use the rule "
                "'normal'",
            )


def _check_scales(problem: Problem, where: str) -> None:
    """References of absurd size leave the range of floating point."""
    try:
        scales = [problem.energy_scale, *(problem.source_scale(f.name) for f in problem.fields)]
        scales += [
            problem.term_scale(t) * abs(problem.coefficient_reference(t)) for t in problem.terms
        ]
    except (OverflowError, ZeroDivisionError):
        scales = [math.inf]
    if not all(0 < scale < math.inf for scale in scales):
        raise ProblemError(
            f"the scales of {where} leave the range of floating point: {scales}",
            "choose reference values, reference length and units of moderate size",
        )


def _check_group(problem: Problem, group: str, where: str) -> None:
    if group not in problem.groups:
        raise ProblemError(
            f"{where} refers to group {group!r}; its groups are {list(problem.groups)}",
            "add the group to Problem.groups, or correct the name",
        )


def _check_unique(what: str, names: Sequence[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ProblemError(f"{what} repeat {twice}", "give each its own name")
