r"""Names for boundary facets by rules: a box, a normal direction, a curve, a component, the rest.

``label(mesh, {"inlet": Box((0, 0), (0, 1)), "wall": Rest()})``: rules apply in their order and
each facet goes to the first rule that selects it. A rule takes facets from groups the mesh had
before; ``Rest`` takes only facets that nothing else has. A rule that selects nothing is an error.

Components of the boundary (facets joined through shared (d-2)-simplices) are numbered by the
diagonal of their bounding box, largest first, so 0 is the outermost; then by measure, then by
position. The numbering depends on the geometry alone, not on the numbering of nodes.

On the command line: ``inlet=box:0,0:0,1``, ``top=normal:0,1`` or ``top=normal:0,1:20`` (degrees),
``wing=near:0.01:0,0:1,0`` (distance, then points), ``outer=component:0``, ``wall=rest``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from geonew.errors import GroupError
from geonew.mesh.mesh import Mesh

# Coordinates agree with the faces of a box up to this fraction of the mesh's extent.
ON_FACE = 1e-9
# Lengths and positions that decide the order of components are equal up to this fraction.
SAME_EXTENT = 1e-7
DEFAULT_ANGLE = 30.0

Number = float | int


@runtime_checkable
class Rule(Protocol):
    """Selects boundary facets of a mesh."""

    def select(self, mesh: Mesh) -> Bool[ndarray, "B"]:
        """For each of ``mesh.boundary_facets``, whether the rule selects it."""
        ...


@dataclass(frozen=True)
class Box:
    """Facets whose nodes all lie in the closed box; infinite sides are allowed."""

    lower: tuple[Number, ...]
    upper: tuple[Number, ...]

    def __post_init__(self) -> None:
        _check_vector("box", self.lower, finite=False)
        _check_vector("box", self.upper, finite=False)
        if len(self.lower) != len(self.upper):
            raise GroupError(
                f"box corners have {len(self.lower)} and {len(self.upper)} coordinates",
                "give both corners with as many coordinates as the mesh has",
            )
        if any(a > b for a, b in zip(self.lower, self.upper, strict=True)):
            raise GroupError(
                f"box from {self.lower} to {self.upper} is empty", "give the lower corner first"
            )

    def select(self, mesh: Mesh) -> Bool[ndarray, "B"]:
        """Facets inside."""
        _check_dimension(mesh, "box", len(self.lower))
        slack = ON_FACE * float(np.ptp(mesh.points, axis=0).max())
        corners = mesh.points[mesh.boundary_facets]  # (B, d, d)
        above = corners >= np.array(self.lower) - slack
        below = corners <= np.array(self.upper) + slack
        inside: ndarray = (above & below).reshape(len(corners), -1)
        return np.asarray(inside.all(axis=1))


@dataclass(frozen=True)
class NormalDirection:
    """Facets whose outward normal is within ``angle`` degrees of a direction."""

    direction: tuple[Number, ...]
    angle: Number = DEFAULT_ANGLE

    def __post_init__(self) -> None:
        _check_vector("normal", self.direction)
        if not np.any(self.direction):
            raise GroupError("the normal direction is zero", "give a direction such as 0,1")
        if not 0 < self.angle <= 180:
            raise GroupError(f"the angle {self.angle} is not in (0, 180] degrees", "give one")

    def select(self, mesh: Mesh) -> Bool[ndarray, "B"]:
        """Facets that look this way."""
        _check_dimension(mesh, "normal", len(self.direction))
        direction = np.array(self.direction, dtype=float)
        direction /= np.linalg.norm(direction)
        normals = mesh.boundary_normals
        cosine = normals @ direction / np.linalg.norm(normals, axis=1)
        return cosine >= np.cos(np.deg2rad(self.angle)) - 1e-12


@dataclass(frozen=True)
class NearCurve:
    """Facets whose nodes and midpoint are within a distance of a polyline (or of one point)."""

    points: tuple[tuple[Number, ...], ...]
    distance: Number

    def __post_init__(self) -> None:
        if not self.points:
            raise GroupError("the curve has no points", "give at least one point")
        for point in self.points:
            _check_vector("curve", point)
        if len({len(point) for point in self.points}) > 1:
            raise GroupError("the points of the curve differ in dimension", "give equal ones")
        if not (np.isfinite(self.distance) and self.distance > 0):
            raise GroupError(f"the distance {self.distance} is not positive", "give a positive one")

    def select(self, mesh: Mesh) -> Bool[ndarray, "B"]:
        """Facets close to the curve."""
        _check_dimension(mesh, "curve", len(self.points[0]))
        curve = np.array(self.points, dtype=float)
        near = _distance(mesh.points, curve) <= self.distance
        middle = mesh.points[mesh.boundary_facets].mean(axis=1)
        return near[mesh.boundary_facets].all(axis=1) & (_distance(middle, curve) <= self.distance)


@dataclass(frozen=True)
class BoundaryComponent:
    """All facets of one connected component of the boundary, by number."""

    number: int

    def select(self, mesh: Mesh) -> Bool[ndarray, "B"]:
        """Facets of the component."""
        parts = boundary_components(mesh)
        if not 0 <= self.number < len(parts):
            raise GroupError(
                f"the boundary has no component {self.number}",
                "choose one of these:\n" + describe_components(mesh),
            )
        chosen = np.zeros(len(mesh.boundary_facets), dtype=bool)
        chosen[parts[self.number].facets] = True
        return chosen


@dataclass(frozen=True)
class Rest:
    """Facets that no other rule and no group has."""

    def select(self, mesh: Mesh) -> Bool[ndarray, "B"]:
        """All facets; :func:`label` takes away those that have a name."""
        return np.ones(len(mesh.boundary_facets), dtype=bool)


def label(mesh: Mesh, rules: Mapping[str, Rule]) -> Mesh:
    """The mesh with its boundary facets named by the rules, first match first."""
    names = [*mesh.groups, *(name for name in rules if name not in mesh.groups)]
    owner = mesh.group_index.copy()
    claimed = np.zeros(len(owner), dtype=bool)
    for name, rule in sorted(rules.items(), key=lambda item: isinstance(item[1], Rest)):
        mine = rule.select(mesh) & ~claimed
        if isinstance(rule, Rest):
            mine &= owner < 0
        if not mine.any():
            raise GroupError(
                f"the rule for group {name!r} ({rule}) selects no boundary facet"
                + (" that is still free" if rule.select(mesh).any() else ""),
                "the boundary consists of:\n" + describe_components(mesh),
            )
        owner[mine] = names.index(name)
        claimed |= mine
    notes = list(mesh.notes)
    groups = {}
    for number, name in enumerate(names):
        mine = owner == number
        if mine.any():
            groups[name] = mesh.boundary_facets[mine]
        else:
            notes.append(f"rules took all {len(mesh.groups[name])} facets of group {name!r}")
    # A note of the reader about facets without group may have been overtaken by the rules.
    notes = [note for note in notes if not note.endswith("boundary facets have no group")]
    if (owner < 0).any():
        notes.append(f"{int((owner < 0).sum())} of {len(owner)} boundary facets have no group")
    return Mesh(mesh.points, mesh.cells, groups, tuple(notes))


# -- components --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class BoundaryPart:
    """One connected component of the boundary."""

    number: int
    facets: Int[ndarray, "_"]  # positions in mesh.boundary_facets
    lower: Float[ndarray, "d"]
    upper: Float[ndarray, "d"]
    measure: float  # length in 2D, area in 3D


def boundary_components(mesh: Mesh) -> tuple[BoundaryPart, ...]:
    """Connected components of the boundary, outermost first."""
    facets = mesh.boundary_facets
    joints = (
        facets
        if mesh.dim == 2
        else np.concatenate([facets[:, [0, 1]], facets[:, [0, 2]], facets[:, [1, 2]]])
    )
    if mesh.dim == 2:
        joint, n_joints, of_facet = (
            joints.ravel(),
            mesh.n_nodes,
            np.repeat(np.arange(len(facets)), 2),
        )
    else:
        _, joint = np.unique(joints, axis=0, return_inverse=True)
        joint, n_joints = joint.ravel(), int(joint.max()) + 1
        of_facet = np.tile(np.arange(len(facets)), 3)
    ones = np.ones(len(joint), dtype=np.int8)
    total = len(facets) + n_joints
    graph = coo_array((ones, (of_facet, len(facets) + joint)), shape=(total, total))
    _, component = connected_components(graph, directed=False)
    component = component[: len(facets)]
    measure = np.linalg.norm(mesh.boundary_normals, axis=1)
    size = float(np.linalg.norm(np.ptp(mesh.points, axis=0)))
    found = []
    for value in np.unique(component):
        mine = np.flatnonzero(component == value)
        corners = mesh.points[np.unique(facets[mine])]
        lower, upper = corners.min(axis=0), corners.max(axis=0)
        extent = np.linalg.norm(upper - lower) / size
        area = float(measure[mine].sum())
        place = (lower - mesh.points.min(axis=0)) / size
        key = [-extent, -area / size ** (mesh.dim - 1), *place]
        found.append(([round(float(k) / SAME_EXTENT) for k in key], mine, lower, upper, area))
    found.sort(key=lambda part: part[0])
    return tuple(BoundaryPart(k, *part[1:]) for k, part in enumerate(found))


def describe_components(mesh: Mesh) -> str:
    """A line of text per boundary component: extents, measure, number of facets."""
    what = "length" if mesh.dim == 2 else "area"
    lines = []
    for part in boundary_components(mesh):
        box = " x ".join(f"[{a:.6g}, {b:.6g}]" for a, b in zip(part.lower, part.upper, strict=True))
        lines.append(
            f"    component {part.number}: {box}, {what} {part.measure:.6g}, "
            f"{len(part.facets)} facets"
        )
    return "\n".join(lines)


def unlabelled(mesh: Mesh, source: str) -> GroupError:
    """The error for a mesh without boundary groups: what there is, and how to name it."""
    return GroupError(
        f"{source} names no boundary group; its boundary has these components:\n"
        + describe_components(mesh),
        "name physical groups (or sets) in the mesher, or give rules such as\n"
        "    --label outer=component:0 --label inlet=box:0,0:0,1 --label top=normal:0,1 "
        "--label wall=rest\n"
        "  (in Python: labels={'outer': BoundaryComponent(0), 'wall': Rest()})",
    )


# -- the command line --------------------------------------------------------------------------

SYNTAX = (
    "write NAME=box:x,y:x,y (corners), NAME=normal:x,y or NAME=normal:x,y:degrees, "
    "NAME=near:distance:x,y:x,y:..., NAME=component:number, or NAME=rest"
)


def parse_rule(text: str) -> tuple[str, Rule]:
    """Name and rule from a string such as ``inlet=box:0,0:0,1``."""
    name, equals, rest = text.partition("=")
    kind, *arguments = rest.strip().split(":")
    name, kind = name.strip(), kind.strip().lower()
    if not equals or not name:
        raise GroupError(f"label {text!r} has no name", SYNTAX)
    try:
        if kind == "box" and len(arguments) == 2:
            return name, Box(_vector(arguments[0]), _vector(arguments[1]))
        if kind == "normal" and len(arguments) in (1, 2):
            return name, NormalDirection(_vector(arguments[0]), *map(float, arguments[1:]))
        if kind == "near" and len(arguments) >= 2:
            curve = tuple(_vector(argument) for argument in arguments[1:])
            return name, NearCurve(curve, float(arguments[0]))
        if kind == "component" and len(arguments) == 1:
            return name, BoundaryComponent(int(arguments[0]))
        if kind == "rest" and not arguments:
            return name, Rest()
    except ValueError as error:
        raise GroupError(f"label {text!r} has a part that is no number: {error}", SYNTAX) from error
    raise GroupError(f"label {text!r} is not understood", SYNTAX)


def parse_rules(texts: list[str]) -> dict[str, Rule]:
    """Rules from several strings; a name given twice is an error."""
    rules: dict[str, Rule] = {}
    for text in texts:
        name, rule = parse_rule(text)
        if name in rules:
            raise GroupError(f"label {name!r} is given twice", "use each name once")
        rules[name] = rule
    return rules


def _vector(text: str) -> tuple[float, ...]:
    return tuple(float(word) for word in text.split(","))


def _check_vector(what: str, vector: tuple[Number, ...], finite: bool = True) -> None:
    wrong = not all(np.isfinite(vector)) if finite else any(np.isnan(vector))
    if len(vector) not in (2, 3) or wrong:
        raise GroupError(f"{what}: {vector} is not a point or direction in 2D or 3D", SYNTAX)


def _check_dimension(mesh: Mesh, what: str, dim: int) -> None:
    if dim != mesh.dim:
        raise GroupError(
            f"the {what} has {dim} coordinates, but the mesh is {mesh.dim}D",
            f"give {mesh.dim} coordinates",
        )


def _distance(points: ndarray, curve: ndarray) -> Float[ndarray, "_"]:
    """Distance of points to a polyline, segment by segment; a single point is a polyline too."""
    best = np.linalg.norm(points - curve[0], axis=1)
    for start, end in pairwise(curve):
        along = end - start
        square = float(along @ along)
        t = (
            np.clip((points - start) @ along / square, 0, 1)
            if square > 0
            else np.zeros(len(points))
        )
        best = np.minimum(best, np.linalg.norm(points - start - t[:, None] * along, axis=1))
    return best
