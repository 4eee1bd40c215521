r"""Whether a model and data are of one problem, and what a model keeps where it is trained further.

With ``init`` a model goes on with other data. Then

- what its inputs and outputs mean must agree: dimension, fields, groups, Dirichlet and Neumann
  conditions, sources, parameters with the powers in which they enter known terms, the terms
  themselves, the frame's rules, the features. Anything else is refused, by name;
- its scales are kept, since its weights are made for them: reference values of fields and
  parameters, reference length, energy. At the start it therefore sees what it saw before;
- coefficients of known terms are those of the data: another material may be just what is meant.

Where the data declare other scales or coefficients, the run says so.
"""

from __future__ import annotations

from dataclasses import replace

from geonew.errors import CheckpointError
from geonew.problem import Problem
from geonew.train.checkpoint import ModelFile


def check_compatible(about: ModelFile, problem: Problem, columns: tuple[str, ...]) -> None:
    """Refuse a model of another problem or other features, by name."""
    theirs, ours = _statement(about.problem), _statement(problem)
    _refuse_unlike(about.problem, problem, theirs, ours)
    if about.columns != columns:
        missing = [c for c in about.columns if c not in columns]
        extra = [c for c in columns if c not in about.columns]
        raise CheckpointError(
            f"the given model reads other features: {missing} are missing here, {extra} unknown "
            "to it",
            "give the same settings under 'features' as the model was trained with",
        )


def check_start(start: Problem, problem: Problem) -> tuple[str, ...]:
    """Refuse to go on from a model whose inputs mean something else; what differs and may.

    Args:
        start: the problem of the given model.
        problem: that of the data.

    """
    _refuse_unlike(start, problem, _statement(start), _statement(problem))
    _refuse_unlike(start, problem, _inputs(start), _inputs(problem))
    theirs, ours = _coefficients(start), _coefficients(problem)
    notes = [
        f"{name} is {ours[name]:g} in the data, {theirs[name]:g} in the given model: that of the "
        "data is used"
        for name in ours
        if ours[name] != theirs[name]
    ]
    before, declared = _scales(start), _scales(problem)
    notes += [
        f"{name} is {declared[name]} in the data, {before[name]} in the given model, which keeps it"
        for name in declared
        if declared[name] != before[name]
    ]
    return tuple(notes)


def with_scales_of(start: Problem, problem: Problem) -> Problem:
    """The problem of the data with the scales of the given model, which must be compatible."""
    parameters = tuple(
        replace(p, reference=start.parameter(p.name).reference) for p in problem.parameters
    )
    kept = replace(
        problem,
        parameters=parameters,
        reference_length=start.reference_length,
        energy=start.energy,
    )
    return kept.with_references({f.name: f.reference for f in start.fields})


def _refuse_unlike(
    start: Problem, problem: Problem, theirs: dict[str, object], ours: dict[str, object]
) -> None:
    for what, mine in ours.items():
        if theirs[what] != mine:
            raise CheckpointError(
                f"the given model solves {start.name!r}, the data are of {problem.name!r}: "
                f"{what} are {theirs[what]} there and {mine} here",
                "start from a model of the same problem, or without --init",
            )


def _statement(problem: Problem) -> dict[str, object]:
    """What a model and any data for it must agree in."""
    return {
        "dimension": problem.dim,
        "fields": [f"{f.name} ({f.rank}, {f.level})" for f in problem.fields],
        "boundary groups": problem.groups,
        "Dirichlet conditions": sorted(
            f"{d.field} on {d.group}{d.axes or ''}" for d in problem.dirichlet
        ),
        "parameters": [f"{p.name} ({p.support} {p.rank})" for p in problem.parameters],
        "known terms": [_name(number, problem) for number in range(len(problem.terms))],
    }


def _inputs(problem: Problem) -> dict[str, object]:
    """What decides the meaning of a model's inputs, besides."""
    return {
        "sources": sorted(problem.sources),
        "Neumann conditions": sorted(f"{n.field} on {n.group}" for n in problem.neumann),
        "powers of parameters": [
            f"{_name(number, problem)}: {term.powers}"
            for number, term in enumerate(problem.terms)
            if term.powers
        ],
        "rules of the frame": [
            " ".join(filter(None, (rule.kind, rule.group, rule.field, rule.other)))
            for rule in problem.frame
        ],
    }


def _coefficients(problem: Problem) -> dict[str, float]:
    return {
        f"the coefficient of term {number + 1}, {_name(number, problem)},": term.coefficient
        for number, term in enumerate(problem.terms)
    }


def _scales(problem: Problem) -> dict[str, float | None]:
    """Declared scales; reference values of fields come from training data, and always differ."""
    return {
        "the reference length": problem.reference_length,
        "the energy": problem.energy,
        **{f"the reference value of parameter {p.name!r}": p.reference for p in problem.parameters},
    }


def _name(number: int, problem: Problem) -> str:
    term = problem.terms[number]
    return f"{term.form} of {'/'.join(term.fields)}"
