r"""Boundary data: what the user prescribes, resolved on the nodes of one mesh.

``BoundaryData`` is a mapping group -> field -> value, a value being a constant, a nodal array or a
function of the coordinates. :func:`resolve` turns it into one value per Dirichlet node and
component, in the canonical frame.

Identity kept: every Dirichlet node belongs to exactly one group per component, by the order of
``Problem.groups``; where a node's groups prescribe different values, the first one holds and the
conflict is reported. Values come from the problem and the user, never from a solution.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from geonew.errors import BoundaryDataError, GroupError
from geonew.mesh import Mesh
from geonew.problem.problem import Dirichlet, Neumann, Problem

Value = float | int | list | tuple | ndarray | Callable[[ndarray], ndarray]
BoundaryData = Mapping[str, Mapping[str, Value]]

# Two groups' values at a shared node conflict when they differ by more than this times the reference.
CONFLICT = 1e-6


@dataclass(frozen=True)
class BoundaryValues:
    """Dirichlet values on the nodes, per component in the canonical frame, in the user's units.

    Args:
        owner: index into ``Problem.groups`` of the group a node belongs to; -1 where it is free.
        value: prescribed value; 0 where the node is free.
        conflicts: sentences about nodes whose groups disagree.

    """

    owner: Int[ndarray, "N F"]
    value: Float[ndarray, "N F"]
    conflicts: tuple[str, ...] = ()

    @property
    def fixed(self) -> Bool[ndarray, "N F"]:
        """Where a component is prescribed."""
        return self.owner >= 0


def check_groups(problem: Problem, mesh: Mesh) -> None:
    """Refuse a mesh of another dimension, with other groups, or with unlabelled boundary."""
    if mesh.dim != problem.dim:
        raise GroupError(
            f"problem {problem.name!r} is {problem.dim}D, the mesh is {mesh.dim}D",
            "use a mesh of the right dimension (a flat mesh stored with z = 0 is read as 2D)",
        )
    missing = [
        g for g in problem.groups if g not in mesh.groups and g not in problem.optional_groups
    ]
    unknown = [g for g in mesh.groups if g not in problem.groups]
    if missing or unknown:
        raise GroupError(
            f"the boundary groups do not match: problem {problem.name!r} has {list(problem.groups)}, "
            f"the mesh has {list(mesh.groups)}; missing {missing}, unknown {unknown}",
            "rename the mesh's groups, e.g. mesh.renamed({'old': 'new'}) or --group new=old",
        )
    bare = int((mesh.group_index < 0).sum())
    if bare:
        raise GroupError(
            f"{bare} of {len(mesh.boundary_facets)} boundary facets belong to no group",
            "name them, e.g. with the labelling rule 'rest'",
        )


def resolve(
    problem: Problem, mesh: Mesh, data: BoundaryData, rotation: Float[ndarray, "d d"] | None = None
) -> BoundaryValues:
    """Prescribed values on the nodes of a mesh.

    Args:
        problem: says which field has data on which group.
        mesh: where; in the user's coordinates.
        data: group -> field -> value. Vector values are in the user's coordinates, except on
            conditions along axes of the frame, whose values are components along those axes.
        rotation: rows are the frame's axes; none means the user's own axes.

    """
    check_groups(problem, mesh)
    _check_complete(problem, mesh, data)
    rotation = np.eye(mesh.dim) if rotation is None else np.asarray(rotation, dtype=float)
    owner = np.full((mesh.n_nodes, problem.n_components), -1)
    value = np.zeros((mesh.n_nodes, problem.n_components))
    conflicts: list[str] = []
    order = {group: k for k, group in enumerate(problem.groups)}
    for condition in sorted(problem.dirichlet, key=lambda c: order[c.group]):
        if condition.group not in mesh.groups:
            continue
        nodes = mesh.nodes_of(condition.group)
        axes, columns = _condition_columns(problem, condition)
        given = _evaluate(mesh, nodes, data[condition.group][condition.field], condition, len(axes))
        if problem.field(condition.field).rank == "vector" and condition.axes is None:
            given = given @ rotation.T
        tolerance = CONFLICT * problem.field(condition.field).reference
        for k, column in enumerate(columns):
            free = owner[nodes, column] < 0
            clash = ~free & (np.abs(value[nodes, column] - given[:, k]) > tolerance)
            if clash.any():
                worst = nodes[clash][np.argmax(np.abs(value[nodes, column] - given[:, k])[clash])]
                first = problem.groups[owner[worst, column]]
                conflicts.append(
                    f"{problem.component_names[column]}: {int(clash.sum())} nodes shared by "
                    f"{first!r} and {condition.group!r} have two values, {first!r} holds; largest at "
                    f"node {worst} ({value[worst, column]:.6g})"
                )
            value[nodes[free], column] = given[free, k]
            owner[nodes[free], column] = order[condition.group]
    return BoundaryValues(owner, value, tuple(conflicts))


def resolve_neumann(
    problem: Problem, mesh: Mesh, data: BoundaryData, rotation: Float[ndarray, "d d"] | None = None
) -> dict[str, Float[ndarray, "N F"]]:
    """Flux or traction per group on its nodes, components in the frame, zero elsewhere.

    A vector field given a scalar value has that value along the outward normal of the group's
    facets; see :func:`geonew.fem.loads.neumann_load` for how it is integrated.
    """
    rotation = np.eye(mesh.dim) if rotation is None else np.asarray(rotation, dtype=float)
    allowed = {(n.group, n.field): n for n in problem.neumann}
    result: dict[str, ndarray] = {}
    for group, by_field in data.items():
        for name, value in by_field.items():
            condition = allowed.get((group, name))
            if condition is None:
                raise BoundaryDataError(
                    f"Neumann data for field {name!r} on {group!r}, but problem {problem.name!r} "
                    f"declares only {sorted(allowed)}",
                    "declare Neumann(field, group) in the problem, or drop the data",
                )
            nodes = mesh.nodes_of(group)
            given = _evaluate(mesh, nodes, value, condition, problem.width(name))
            if problem.field(name).rank == "vector":
                given = given @ rotation.T
            target = result.setdefault(group, np.zeros((mesh.n_nodes, problem.n_components)))
            target[nodes, problem.columns(name)] = given
    return result


def _condition_columns(problem: Problem, condition: Dirichlet) -> tuple[list[int], list[int]]:
    width = problem.width(condition.field)
    axes = list(range(width)) if condition.axes is None else list(condition.axes)
    return axes, [problem.offset(condition.field) + axis for axis in axes]


def _check_complete(problem: Problem, mesh: Mesh, data: BoundaryData) -> None:
    wanted = {(d.group, d.field) for d in problem.dirichlet if d.group in mesh.groups}
    given = {(group, name) for group, by_field in data.items() for name in by_field}
    missing, extra = sorted(wanted - given), sorted(given - wanted)
    if missing:
        raise BoundaryDataError(
            f"boundary values are missing for (group, field) {missing}",
            "give a constant, a nodal array or a function for each of them",
        )
    if extra:
        raise BoundaryDataError(
            f"boundary values for (group, field) {extra}, which problem {problem.name!r} does not "
            "prescribe",
            f"it prescribes {sorted(wanted)}; drop the others",
        )


def _evaluate(
    mesh: Mesh, nodes: ndarray, value: Value, condition: Dirichlet | Neumann, width: int
) -> Float[ndarray, "n w"]:
    """Values (n, width) of one condition on the nodes of its group."""
    where = f"data of field {condition.field!r} on group {condition.group!r}"
    if callable(value):
        try:
            value = value(mesh.points[nodes])
        except Exception as error:
            raise BoundaryDataError(f"the function of {where} failed: {error}") from error
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise BoundaryDataError(f"{where} are not numbers: {value!r}") from error
    if array.shape in ((), (1,)) and width == 1:
        array = np.full((len(nodes), 1), array.reshape(()))
    elif array.shape == (width,) and len(nodes) != width:
        array = np.tile(array, (len(nodes), 1))
    else:
        if array.ndim == 1 and width == 1:
            array = array[:, None]
        if array.ndim == 1 and array.shape == (width,):
            array = np.tile(array, (len(nodes), 1))
        if array.shape == (mesh.n_nodes, width) and mesh.n_nodes != len(nodes):
            array = array[nodes]
    if array.shape != (len(nodes), width):
        raise BoundaryDataError(
            f"{where} have shape {array.shape}; expected {width} number(s), or an array "
            f"({len(nodes)}, {width}) on the group's nodes or ({mesh.n_nodes}, {width}) on all nodes"
        )
    bad = np.flatnonzero(~np.isfinite(array).all(axis=1))
    if bad.size:
        raise BoundaryDataError(
            f"{where} are not finite at {bad.size} of {len(nodes)} nodes, first at node "
            f"{nodes[bad[0]]}, x = {mesh.points[nodes[bad[0]]].tolist()}"
        )
    return array
