"""Everything a prediction needs besides its mesh: what the user gave, completed by the family.

    given --family's own values where it has fixed ones--> Inputs, with a sentence for each of these

A value that neither the user nor the family gives is an error that lists what is missing and what
the mesh has; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from geonew.data.families.prescribed import Prescribed, prescribed
from geonew.errors import BoundaryDataError, GroupError, InputError
from geonew.mesh import Mesh
from geonew.problem import BoundaryData, Problem, check_groups
from geonew.problem.values import Value


@dataclass(frozen=True, eq=False)
class Inputs:
    """Data of one prediction.

    Args:
        boundary: group -> field -> value.
        parameters: name -> value.
        source: field -> value.
        neumann: group -> field -> value.
        assumed: sentences on what was taken from the family.

    """

    boundary: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    parameters: Mapping[str, Value] = field(default_factory=dict)
    source: Mapping[str, Value] = field(default_factory=dict)
    neumann: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    assumed: tuple[str, ...] = ()


def complete(
    problem: Problem,
    mesh: Mesh,
    boundary: BoundaryData | None = None,
    parameters: Mapping[str, Value] | None = None,
    source: Mapping[str, Value] | None = None,
    neumann: BoundaryData | None = None,
) -> Inputs:
    """What was given, and the family's own values for what was not.

    Args:
        problem: says what is needed.
        mesh: with the problem's groups.
        boundary: group -> field -> value.
        parameters: name -> value.
        source: field -> value.
        neumann: group -> field -> value; zero where neither user nor family gives one.

    """
    _check_groups(problem, mesh)
    own = prescribed(problem, mesh)
    wanted = [(d.group, d.field) for d in problem.dirichlet if d.group in mesh.groups]
    assumed: list[str] = []
    values = _boundary(wanted, boundary or {}, own.boundary, assumed)
    missing = [key for key in wanted if key[1] not in values.get(key[0], {})]
    if missing:
        raise _missing_values(problem, mesh, missing, own)
    allowed = [(n.group, n.field) for n in problem.neumann if n.group in mesh.groups]
    fluxes = _boundary(allowed, neumann or {}, own.neumann, assumed, "flux on ")
    mu = _named(problem, "parameter", [p.name for p in problem.parameters], parameters or {},
                own.parameters, assumed)  # fmt: skip
    f = _named(problem, "source", list(problem.sources), source or {}, own.sources, assumed)
    return Inputs(values, mu, f, fluxes, tuple(assumed))


def _check_groups(problem: Problem, mesh: Mesh) -> None:
    """The problem's own check; what was noted about the file's groups may be the reason."""
    try:
        check_groups(problem, mesh)
    except GroupError as error:
        remarks = [note for note in mesh.notes if "group" in note]
        raise GroupError("; ".join([error.what, *remarks]), error.cure) from error


def _boundary(
    wanted: list[tuple[str, str]],
    given: BoundaryData,
    own: BoundaryData,
    assumed: list[str],
    what: str = "",
) -> dict[str, dict[str, Value]]:
    """Given values first, then the family's; names that fit nowhere are kept for the checks."""
    result = {group: dict(by_field) for group, by_field in given.items()}
    for group, name in wanted:
        if name in result.get(group, {}) or name not in own.get(group, {}):
            continue
        value = own[group][name]
        result.setdefault(group, {})[name] = value
        assumed.append(f"{what}{group}.{name} = {_brief(value)}")
    return result


def _named(
    problem: Problem,
    what: str,
    wanted: list[str],
    given: Mapping[str, Value],
    own: Mapping[str, Value],
    assumed: list[str],
) -> dict[str, Value]:
    unknown = [name for name in given if name not in wanted]
    missing = [name for name in wanted if name not in given and name not in own]
    if unknown or missing:
        raise InputError(
            f"problem {problem.name!r} has the {what}s {wanted}: missing {missing}, "
            f"unknown {unknown}",
            f"give --{what} {(missing or wanted or ['NAME'])[0]}=VALUE (in Python {what}={{...}})",
        )
    for name in wanted:
        if name not in given:
            assumed.append(f"{what} {name} = {_brief(own[name])}")
    return {name: given.get(name, own.get(name)) for name in wanted}  # type: ignore[misc]


def _missing_values(
    problem: Problem, mesh: Mesh, missing: list[tuple[str, str]], own: Prescribed
) -> BoundaryDataError:
    group, name = missing[0]
    axes = next(d.axes for d in problem.dirichlet if (d.group, d.field) == missing[0])
    width = problem.width(name) if axes is None else len(axes)
    example = ",".join(["0"] * width)
    why = ""
    if own.no_profile and (group, name) == ("inlet", "velocity"):
        why = f" (its profile {own.no_profile})"
    return BoundaryDataError(
        f"boundary values are missing for {', '.join(f'{g}.{f}' for g, f in missing)}{why}; the "
        f"mesh has the groups {list(mesh.groups)}",
        f"give --boundary {group}.{name}={example}, a formula such as 4*y*(1-y), or a CSV file "
        f"(in Python boundary={{{group!r}: {{{name!r}: ...}}}})",
    )


def _brief(value: Value) -> str:
    array = np.asarray(value, dtype=np.float64)
    if array.ndim < 2:
        return ", ".join(f"{v:g}" for v in array.ravel())
    return f"a profile with peak {np.linalg.norm(array, axis=1).max():.4g}"
