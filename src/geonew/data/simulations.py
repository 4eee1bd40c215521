"""Users' own simulations: a folder of mesh files with point data, and a recipe that names them.

kind: simulations
folder: results                      # relative to the recipe
files: "*.vtu"
problem: problem.json
fields: {velocity: U, pressure: p}   # field of the problem: array, or list of components
groups: {wall: [wall_1, wall_2]}     # group of the problem: group(s) of the file
labels: {outlet: "box:1,0:1,1"}      # or rules, as on the command line
boundary: {wall: {velocity: [0, 0]}} # numbers; what is not given is taken from the solution
parameters: {re: {column: Re}, kappa: {array: k}, mu: 2.0}
table: cases.csv                     # column "file", then one per parameter
axes: [Re]                           # columns of the table that are axes of the distribution
sources: {velocity: [0, -9.81]}
neumann: {outlet: {velocity: [0, 0]}}
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from geonew.data.recipe import Recipe, Source, boundary_of, check_keys
from geonew.data.record import Case, Record
from geonew.errors import DataError
from geonew.mesh import Mesh, read_fields, read_mesh
from geonew.mesh.labels import parse_rules
from geonew.problem import Problem

KEYS = ("folder", "files", "problem", "fields", "groups", "labels", "boundary", "parameters")
KEYS += ("table", "axes", "sources", "neumann", "keep", "merge")


def simulations(recipe: Recipe) -> Source:
    """The simulations of a folder, in the order of their names."""
    recipe.check(*KEYS)
    problem = recipe.problem()
    folder, pattern = recipe.place("folder", "."), recipe.text("files", "*.vtu")
    if pattern.startswith("/") or ".." in Path(pattern).parts:
        raise recipe.error(f"files is {pattern!r}", "give a pattern of names inside the folder")
    files = sorted(path for path in folder.glob(pattern) if path.is_file())
    if not files:
        raise recipe.error(f"no file in {folder} matches {pattern!r}", "check folder and files")
    table = _table(recipe)
    names = [f.name for f in problem.fields] + [d.name for d in problem.derived]
    check_keys(recipe.mapping("fields"), names, f"{recipe.path}: fields")
    for key in ("groups", "labels", "boundary", "neumann"):
        check_keys(recipe.mapping(key), problem.groups, f"{recipe.path}: {key}")
    parameters = [p.name for p in problem.parameters]
    check_keys(recipe.mapping("parameters"), parameters, f"{recipe.path}: parameters")
    check_keys(recipe.mapping("sources"), problem.sources, f"{recipe.path}: sources")
    chosen = recipe.span(len(files))

    def record(sample: int) -> Record:
        return _record(recipe, problem, files[chosen[sample]], table)

    return Source(problem, len(chosen), record, lambda sample: files[chosen[sample]].name)


def _record(
    recipe: Recipe, problem: Problem, path: Path, table: Mapping[str, dict[str, str]]
) -> Record:
    rename: dict[str, str | None] = {}
    for group, members in recipe.mapping("groups").items():
        for member in members if isinstance(members, list) else [members]:
            rename[str(member)] = group
    rules = parse_rules([f"{name}={rule}" for name, rule in recipe.mapping("labels").items()])
    keep = recipe.content.get("keep")
    merge = recipe.text("merge", "parts")
    mesh = read_mesh(path, rules or None, None if keep is None else str(keep), rename, merge)
    data = read_fields(path, mesh)
    fields = {}
    for f in problem.fields:
        source = recipe.mapping("fields").get(f.name, f.name)
        fields[f.name] = _array(recipe, data, source, mesh, problem.width(f.name))
    for derived in problem.derived:
        if derived.name in recipe.mapping("fields"):
            source = recipe.mapping("fields")[derived.name]
            fields[derived.name] = _array(recipe, data, source, mesh, 1)
    row = _row(recipe, path, table)
    numbers, values = {}, {}
    for name, given in recipe.mapping("parameters").items():
        values[name] = _value(recipe, given, data, mesh, row, f"parameter {name!r}")
        if isinstance(values[name], float):
            numbers[name] = values[name]
    wanted = recipe.content.get("axes", [])
    axes = {str(name): _number(recipe, row, str(name)) for name in wanted}
    sources = {
        name: _value(recipe, given, data, mesh, row, f"source of {name!r}")
        for name, given in recipe.mapping("sources").items()
    }
    return Record(
        mesh=mesh,
        fields=fields,
        boundary=boundary_of(problem, mesh, fields, recipe.mapping("boundary")),
        case=Case(recipe.name, recipe.split, {"file": path.name}, numbers, axes),
        parameters=values,
        sources={name: _spread(v, mesh, problem.width(name)) for name, v in sources.items()},
        neumann=_neumann(recipe, problem, mesh),
    )


def _array(
    recipe: Recipe, data: Mapping[str, ndarray], source: Any, mesh: Mesh, width: int
) -> ndarray:
    """One or several arrays of a file as a field; plane vectors lose a third component."""
    names = source if isinstance(source, list) else [source]
    for name in names:
        if name not in data:
            raise recipe.error(
                f"there is no point data {name!r}; there are {sorted(data)}",
                "name one of them under fields",
            )
    columns = [np.asarray(data[name], dtype=float).reshape(mesh.n_nodes, -1) for name in names]
    values = np.concatenate(columns, axis=1)
    if width > 1 and values.shape[1] == 3 and width == 2:
        values = values[:, :2]
    if values.shape[1] != width:
        raise recipe.error(f"point data {source!r} have {values.shape[1]} components, not {width}")
    return np.ascontiguousarray(values[:, 0] if width == 1 else values)


def _value(
    recipe: Recipe,
    given: Any,
    data: Mapping[str, ndarray],
    mesh: Mesh,
    row: Mapping[str, str],
    what: str,
) -> float | ndarray:
    """A number, a list of numbers, ``{array: NAME}`` or ``{column: NAME}``."""
    if isinstance(given, dict):
        check_keys(given, ("array", "column"), f"{recipe.path}: {what}")
        if "column" in given:
            return _number(recipe, row, str(given["column"]))
        name = str(given.get("array"))
        if name not in data:
            raise recipe.error(f"{what}: there is no point data {name!r}", f"of {sorted(data)}")
        values = np.asarray(data[name], dtype=float)
        return values[:, : mesh.dim] if values.ndim == 2 else values
    if isinstance(given, list):
        return np.asarray(given, dtype=float)
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise recipe.error(f"{what} is {given!r}", "give numbers, {array: NAME} or {column: NAME}")
    return float(given)


def _spread(value: float | ndarray, mesh: Mesh, width: int) -> ndarray:
    """A constant source as nodal values."""
    array = np.asarray(value, dtype=float)
    if array.shape[:1] == (mesh.n_nodes,):
        return array
    shape = (mesh.n_nodes,) if width == 1 else (mesh.n_nodes, width)
    return np.broadcast_to(array.reshape(-1) if width > 1 else array.item(), shape).copy()


def _neumann(recipe: Recipe, problem: Problem, mesh: Mesh) -> dict[str, dict[str, ndarray]]:
    result: dict[str, dict[str, ndarray]] = {}
    for group, by_field in recipe.mapping("neumann").items():
        for name, given in by_field.items():
            numbers = np.atleast_1d(np.asarray(given, dtype=float))
            if numbers.shape != (problem.width(name),):
                raise recipe.error(f"Neumann data of {name!r} on {group!r} are {given!r}")
            values = np.tile(numbers, (len(mesh.nodes_of(group)), 1))
            result.setdefault(group, {})[name] = values
    return result


def _table(recipe: Recipe) -> dict[str, dict[str, str]]:
    """The table of cases by the name of their file."""
    if "table" not in recipe.content:
        return {}
    path = recipe.place("table")
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: the table cannot be read: {error}") from error
    if rows and "file" not in rows[0]:
        raise DataError(f"{path}: the table has no column 'file'", f"it has {list(rows[0])}")
    return {row["file"]: row for row in rows}


def _row(recipe: Recipe, path: Path, table: Mapping[str, dict[str, str]]) -> dict[str, str]:
    if table and path.name not in table:
        raise recipe.error(f"the table has no row for {path.name!r}", "add one, or narrow files")
    return table.get(path.name, {})


def _number(recipe: Recipe, row: Mapping[str, str], column: str) -> float:
    try:
        return float(row[column])
    except KeyError:
        raise recipe.error(f"the table has no column {column!r}; it has {list(row)}") from None
    except (TypeError, ValueError):
        raise recipe.error(f"column {column!r} holds {row[column]!r}, no number") from None
