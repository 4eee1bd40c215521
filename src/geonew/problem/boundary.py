r"""Boundary data: what the user prescribes, resolved on the nodes of one mesh.

``BoundaryData`` is a mapping group -> field -> value, a value being a constant, a nodal array or a
function of the coordinates (:mod:`geonew.problem.values`). :func:`resolve` turns Dirichlet data
into one value per node and component, in the canonical frame; :func:`neumann_loads` integrates
Neumann data,

.. math:: \ell_i = \int_\Gamma g\, \phi_i \quad\text{or}\quad \int_\Gamma g\, n\, \phi_i,

the second where a vector field is given one number per node: a value along the outward normal.

Identity kept: every Dirichlet node belongs to exactly one group per component, by the order of
``Problem.groups``; where a node's groups prescribe different values, the first one holds and the
conflict is reported. Values come from the problem and the user, never from a solution.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from geonew.errors import BoundaryDataError, GroupError
from geonew.fem.loads import neumann_load, node_normals, normal_load
from geonew.mesh import Mesh
from geonew.problem.declarations import Dirichlet
from geonew.problem.problem import Problem
from geonew.problem.values import Value, as_numbers, evaluate, spread, wrong_shape

BoundaryData = Mapping[str, Mapping[str, Value]]

# Two groups' values at a shared node conflict when they differ by more than this many references.
CONFLICT = 1e-6
# A rotation may miss orthogonality by round-off only, or it would change the size of vectors.
ORTHOGONAL = 1e-8


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

    def __post_init__(self) -> None:
        if not np.isfinite(self.value).all():
            raise BoundaryDataError("resolved boundary values are not finite")

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
    optional = problem.optional_groups
    missing = [g for g in problem.groups if g not in mesh.groups and g not in optional]
    unknown = [g for g in mesh.groups if g not in problem.groups]
    if missing or unknown:
        raise GroupError(
            f"the boundary groups do not match: problem {problem.name!r} has "
            f"{list(problem.groups)}, the mesh has {list(mesh.groups)}; missing {missing}, "
            f"unknown {unknown}",
            "rename the mesh's groups, e.g. mesh.renamed({'old': 'new'}) or --group new=old",
        )
    bare = int((mesh.group_index < 0).sum())
    if bare:
        raise GroupError(
            f"{bare} of {len(mesh.boundary_facets)} boundary facets belong to no group",
            "name them, e.g. with the labelling rule 'rest'",
        )
    for number, f in enumerate(problem.component_fields):
        groups = problem.dirichlet_groups(number)
        if f.level == "dirichlet" and not any(group in mesh.groups for group in groups):
            raise GroupError(
                f"the mesh has none of the groups {list(groups)} on which component "
                f"{problem.component_names[number]!r} is prescribed: its level would be free",
                "a mesh may lack optional groups, but not all that fix a field",
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
    axes = check_rotation(mesh.dim, rotation)
    owner = np.full((mesh.n_nodes, problem.n_components), -1)
    value = np.zeros((mesh.n_nodes, problem.n_components))
    conflicts: list[str] = []
    order = {group: k for k, group in enumerate(problem.groups)}
    for condition in sorted(problem.dirichlet, key=lambda c: order[c.group]):
        if condition.group not in mesh.groups:
            continue
        nodes = mesh.nodes_of(condition.group)
        columns = _condition_columns(problem, condition)
        what = f"boundary values of field {condition.field!r} on group {condition.group!r}"
        given = evaluate(
            mesh,
            nodes,
            data[condition.group][condition.field],
            len(columns),
            what,
            BoundaryDataError,
        )
        if problem.field(condition.field).rank == "vector" and condition.axes is None:
            given = given @ axes.T
        tolerance = CONFLICT * problem.field(condition.field).reference
        for k, column in enumerate(columns):
            free = owner[nodes, column] < 0
            gap = np.where(free, 0.0, np.abs(value[nodes, column] - given[:, k]))
            if gap.max() > tolerance:
                worst = int(gap.argmax())
                node, first = nodes[worst], problem.groups[owner[nodes[worst], column]]
                conflicts.append(
                    f"{problem.component_names[column]}: {int((gap > tolerance).sum())} nodes of "
                    f"{condition.group!r} have another value from an earlier group, which holds; "
                    f"largest at node {node}: {value[node, column]:.6g} from {first!r}, not "
                    f"{given[worst, k]:.6g}"
                )
            value[nodes[free], column] = given[free, k]
            owner[nodes[free], column] = order[condition.group]
    return BoundaryValues(owner, value, tuple(conflicts))


# -- Neumann -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Flux:
    """Neumann data of one field on one group, in the user's axes, zero off the group."""

    group: str
    field: str
    value: Float[ndarray, "N _"]
    along_normal: bool


def resolve_neumann(
    problem: Problem, mesh: Mesh, data: BoundaryData, rotation: Float[ndarray, "d d"] | None = None
) -> dict[str, Float[ndarray, "N F"]]:
    """Flux or traction per group on its nodes, components in the frame, zero elsewhere.

    A vector field given one number per node (or one for all) has that value along the outward
    normal; on the nodes that is the mean normal of the group's facets. Loads take the facets' own
    normals: see :func:`neumann_loads`. Two or three numbers on a group of as many nodes are read
    as the components of a constant vector; an array (n, 1) is read along the normal for sure.
    """
    axes = check_rotation(mesh.dim, rotation)
    result: dict[str, ndarray] = {}
    for flux in _fluxes(problem, mesh, data):
        value = flux.value
        if flux.along_normal:
            value = value * node_normals(mesh, flux.group)
        if problem.field(flux.field).rank == "vector":
            value = value @ axes.T
        shape = (mesh.n_nodes, problem.n_components)
        result.setdefault(flux.group, np.zeros(shape))[:, problem.columns(flux.field)] = value
    return result


def neumann_loads(
    problem: Problem, mesh: Mesh, data: BoundaryData, rotation: Float[ndarray, "d d"] | None = None
) -> Float[ndarray, "N F"]:
    """Neumann data of all groups tested with the hat functions, in the frame and user's units.

    Multiply a field's columns by ``Problem.load_scale`` for the dimensionless system.
    """
    axes = check_rotation(mesh.dim, rotation)
    load = np.zeros((mesh.n_nodes, problem.n_components))
    for flux in _fluxes(problem, mesh, data):
        if flux.along_normal:
            part = normal_load(mesh, flux.group, flux.value[:, 0])
        else:
            part = neumann_load(mesh, flux.group, flux.value)
        if problem.field(flux.field).rank == "vector":
            part = part @ axes.T
        load[:, problem.columns(flux.field)] += part
    return load


def _fluxes(problem: Problem, mesh: Mesh, data: BoundaryData) -> Iterator[_Flux]:
    allowed = {(n.group, n.field) for n in problem.neumann}
    for group, name in sorted(_keys(data)):
        if (group, name) not in allowed:
            raise BoundaryDataError(
                f"Neumann data for field {name!r} on {group!r}, but problem {problem.name!r} "
                f"declares only (group, field) {sorted(allowed)}",
                "declare Neumann(field, group) in the problem, or drop the data",
            )
        nodes, width = mesh.nodes_of(group), problem.width(name)
        what = f"Neumann data of field {name!r} on group {group!r}"
        array = as_numbers(mesh, nodes, data[group][name], what, BoundaryDataError)
        given = spread(array, mesh, nodes, width)
        along_normal = given is None and width > 1
        if given is None and along_normal:
            given = spread(array, mesh, nodes, 1)
        if given is None:
            raise wrong_shape(array, mesh, nodes, width, what, BoundaryDataError)
        value = np.zeros((mesh.n_nodes, given.shape[1]))
        value[nodes] = given
        yield _Flux(group, name, value, along_normal)


# -- checks --------------------------------------------------------------------------------------


def check_rotation(dim: int, rotation: Float[ndarray, "_ _"] | None) -> Float[ndarray, "d d"]:
    """The frame's axes as rows; the user's own where there is no frame."""
    if rotation is None:
        return np.eye(dim)
    axes = np.asarray(rotation, dtype=float)
    if axes.shape != (dim, dim) or not np.abs(axes @ axes.T - np.eye(dim)).max() < ORTHOGONAL:
        raise BoundaryDataError(
            f"the rotation {axes.tolist()} is no {dim} x {dim} orthogonal matrix",
            "its rows are the frame's axes, orthonormal",
        )
    return axes


def _keys(data: BoundaryData) -> set[tuple[str, str]]:
    """The (group, field) pairs of some data."""
    if not isinstance(data, Mapping) or not all(isinstance(d, Mapping) for d in data.values()):
        raise BoundaryDataError(
            f"boundary data are {data!r}", "give {group: {field: value, ...}, ...}"
        )
    return {(str(group), str(name)) for group, by_field in data.items() for name in by_field}


def _condition_columns(problem: Problem, condition: Dirichlet) -> list[int]:
    width = problem.width(condition.field)
    axes = range(width) if condition.axes is None else condition.axes
    return [problem.offset(condition.field) + axis for axis in axes]


def _check_complete(problem: Problem, mesh: Mesh, data: BoundaryData) -> None:
    wanted = {(d.group, d.field) for d in problem.dirichlet if d.group in mesh.groups}
    given = _keys(data)
    missing, extra = sorted(wanted - given), sorted(given - wanted)
    if missing:
        raise BoundaryDataError(
            f"boundary values are missing for (group, field) {missing}",
            "give a constant, a nodal array or a function for each of them",
        )
    if extra:
        raise BoundaryDataError(
            f"boundary values for (group, field) {extra}, which problem {problem.name!r} does not "
            "prescribe on this mesh",
            f"it prescribes {sorted(wanted)}; drop the others",
        )
