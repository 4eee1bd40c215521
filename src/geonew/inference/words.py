"""From words of a command line to data: ``inlet.velocity=4*y*(1-y),0``, ``wall=3,4``.

GROUP.FIELD=VALUE, NAME=VALUE --> nested mappings      VALUE: numbers, formulas, a CSV file
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from geonew.errors import GroupError, InputError
from geonew.inference.expressions import parse
from geonew.inference.tables import read_profile
from geonew.mesh import Mesh
from geonew.problem import Problem
from geonew.problem.values import Value

TABLE = ".csv"
# What a reader calls a group that a file only numbers.
NUMBERED = "group_"


def value(text: str, dim: int, width: int) -> Value:
    """Numbers, formulas of x, y, z, or a table.

    Args:
        text: as typed.
        dim: of the mesh.
        width: number of components wanted.

    """
    if text.strip().lower().endswith(TABLE):
        return read_profile(text.strip(), dim, width)
    formula = parse(text)
    constant = formula.constant
    if constant is None:
        return formula
    return constant[0] if len(constant) == 1 and width == 1 else constant


def boundary(
    words: Sequence[str], problem: Problem, mesh: Mesh, option: str = "--boundary"
) -> dict[str, dict[str, Value]]:
    """Boundary data from words ``GROUP.FIELD=VALUE``."""
    result: dict[str, dict[str, Value]] = {}
    for word in words:
        place, equals, text = word.partition("=")
        group, dot, name = place.strip().rpartition(".")
        if not (equals and dot and group and name):
            raise InputError(f"{option} {word!r} is not understood", "write GROUP.FIELD=VALUE")
        if group not in problem.groups:
            raise GroupError(
                f"{option} {word!r}: problem {problem.name!r} has no group {group!r}",
                f"it has {', '.join(problem.groups)}; the mesh has {', '.join(mesh.groups)}",
            )
        if name not in [f.name for f in problem.fields]:
            fields = ", ".join(f.name for f in problem.fields)
            raise InputError(f"{option} {word!r}: there is no field {name!r}", f"use {fields}")
        if name in result.get(group, {}):
            raise InputError(f"{option} gives {group}.{name} twice", "give it once")
        axes = [d.axes for d in problem.dirichlet if (d.group, d.field) == (group, name)]
        width = len(axes[0]) if axes and axes[0] is not None else problem.width(name)
        result.setdefault(group, {})[name] = value(text, mesh.dim, width)
    return result


def named(words: Sequence[str], widths: dict[str, int], dim: int, option: str) -> dict[str, Value]:
    """Parameters or sources from words ``NAME=VALUE``; ``widths`` has the known names."""
    result: dict[str, Value] = {}
    for word in words:
        name, equals, text = word.partition("=")
        name = name.strip()
        if not equals or not name:
            raise InputError(f"{option} {word!r} is not understood", "write NAME=VALUE")
        if name not in widths:
            known = ", ".join(widths) or "none"
            raise InputError(f"{option} {word!r}: {name!r} is not known", f"there are: {known}")
        if name in result:
            raise InputError(f"{option} gives {name} twice", "give it once")
        result[name] = value(text, dim, widths[name])
    return result


def with_groups(mesh: Mesh, words: Sequence[str]) -> Mesh:
    """The mesh with groups renamed by words ``MODEL'S=FILE'S[,FILE'S...]``."""
    names: dict[str, str] = {}
    for word in words:
        new, equals, olds = word.partition("=")
        if not equals or not new.strip() or not olds.strip():
            raise GroupError(
                f"--group {word!r} is not understood",
                "write NAME=GROUP, the model's name first, as in --group inlet=2",
            )
        for old in olds.split(","):
            found = _group(mesh, old.strip())
            if found in names:
                raise GroupError(f"--group names the mesh's group {found!r} twice")
            names[found] = new.strip()
    return mesh.renamed(names)


def _group(mesh: Mesh, name: str) -> str:
    for candidate in (name, NUMBERED + name):
        if candidate in mesh.groups:
            return candidate
    raise GroupError(f"--group: the mesh has no group {name!r}", f"it has {', '.join(mesh.groups)}")


def check_writable(path: Path, overwrite: bool) -> None:
    """Refuse an output before anything is computed, not after."""
    folder = path.parent
    if path.is_dir():
        raise InputError(f"{path} is a directory", "give the name of a file")
    if path.exists() and not overwrite:
        raise InputError(f"{path}: the file exists", "give --overwrite or another name")
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}", "make it first, or write elsewhere")
    probe = folder / f".{path.name}.probe"
    try:
        probe.touch()
    except OSError as error:
        raise InputError(
            f"{path} cannot be written: {error.strerror}", "check the folder and its rights"
        ) from error
    probe.unlink(missing_ok=True)
