r"""The canonical frame: where a mesh is placed before anything with a direction is computed.

.. math:: x \mapsto R\,(x - b)/l,

R the rotation whose rows are the frame's axes, b the mass centroid, l the reference length of the
problem. Operators, gradients, data and loads are formed on the placed mesh, so nothing else is ever
rotated, and whatever a model does there is equivariant under rotations and translations once its
vector results are turned back by :meth:`Frame.to_lab`.

The first axis is the first well-defined vector among the problem's rules (mean normal of a group
into the domain, mean boundary data of a vector field, mean gradient of a harmonic coordinate). In
3D the second axis is the next rule's vector that is not along the first, made orthogonal; the last
axis completes a right-handed frame. Hence a reflection of the mesh keeps all but the last axis:
features along it change their sign, which is why predictions are not equivariant under reflections.

A vector is well defined when it is not the small remainder of a cancellation: a closed far-field
group has mean normal zero, and a harmonic coordinate constant on it mean gradient zero. When no
rule is well defined, the mesh is centred and scaled only, and the features are invariants.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from geonew.errors import FeatureError
from geonew.features.harmonic import harmonic_coordinate
from geonew.fem import SolverPool, assemble
from geonew.mesh import Mesh
from geonew.problem import BoundaryData, FrameRule, Problem, resolve

# A mean vector shorter than this part of the mean length has no trustworthy direction: it would
# turn by degrees when the mesh is refined.
WELL_DEFINED = 1e-2
ORTHOGONAL = 1e-12


@dataclass(frozen=True, eq=False)
class Frame:
    """A placement of a mesh.

    Args:
        rotation: rows are the axes, right-handed and orthonormal.
        origin: the point that is moved to zero.
        length: the length that becomes 1.
        canonical: whether the axes follow the mesh; if not, they are the user's own.

    """

    rotation: Float[ndarray, "d d"]
    origin: Float[ndarray, "d"]
    length: float
    canonical: bool = True

    def __post_init__(self) -> None:
        defect = np.abs(self.rotation @ self.rotation.T - np.eye(len(self.origin))).max()
        if not defect < ORTHOGONAL or not np.linalg.det(self.rotation) > 0:
            raise FeatureError(f"the frame is not a rotation: defect {defect:.2e}")
        if not self.length > 0:
            raise FeatureError(f"the reference length {self.length} is not positive")

    def place(self, mesh: Mesh) -> Mesh:
        """The mesh in the frame, dimensionless."""
        return mesh.moved(self.rotation, self.origin, self.length)

    def to_frame(self, vectors: Float[ndarray, "*n d"]) -> Float[ndarray, "*n d"]:
        """Components along the frame's axes."""
        return vectors @ self.rotation.T

    def to_lab(self, vectors: Float[ndarray, "*n d"]) -> Float[ndarray, "*n d"]:
        """Components along the user's axes."""
        return vectors @ self.rotation


def find_frame(
    mesh: Mesh, problem: Problem, data: BoundaryData | None = None
) -> tuple[Frame, tuple[str, ...]]:
    """The frame of a mesh by the problem's rules, and what to say about it."""
    origin = mass_centroid(mesh)
    plain = Frame(np.eye(mesh.dim), origin, problem.reference_length, canonical=False)
    if not problem.frame:
        return plain, ()
    axes: list[ndarray] = []
    notes: list[str] = []
    for vector, why in _candidates(mesh, problem, data):
        if vector is None:
            notes.append(why)
            continue
        for axis in axes:
            vector = vector - (vector @ axis) * axis
        size = float(np.linalg.norm(vector))
        if size < WELL_DEFINED:
            notes.append(f"{why}: its direction is not well defined (relative size {size:.1e})")
            continue
        axes.append(vector / size)
        if len(axes) == mesh.dim - 1:
            return Frame(_completed(axes), origin, problem.reference_length), tuple(notes)
    found = f"{len(axes)} of {mesh.dim - 1} axes found"
    notes.append(f"no canonical frame ({found}); features are invariants only")
    return plain, tuple(notes)


def mass_centroid(mesh: Mesh) -> Float[ndarray, "d"]:
    """Centre of mass of the domain."""
    return mesh.volumes @ mesh.points[mesh.cells].mean(axis=1) / mesh.volume


def _candidates(
    mesh: Mesh, problem: Problem, data: BoundaryData | None
) -> Iterator[tuple[ndarray | None, str]]:
    """Per rule its vector, relative to what it would be without cancellation, and its name."""
    for rule in problem.frame:
        needed = (rule.group, rule.other) if rule.kind == "gradient" else (rule.group,)
        if not set(needed) <= set(mesh.groups):
            yield None, f"frame rule {rule.kind} of {rule.group!r}: the mesh lacks the group"
        elif rule.kind == "normal":
            yield _mean_normal(mesh, rule), f"frame rule normal of {rule.group!r}"
        elif rule.kind == "inflow":
            vector = _mean_data(mesh, problem, rule, data)
            missing = "" if vector is not None else ": no vector data given there"
            yield vector, f"frame rule inflow of {rule.group!r}{missing}"
        else:
            yield _mean_gradient(mesh, rule), f"frame rule gradient {rule.group!r}-{rule.other!r}"


def _mean_normal(mesh: Mesh, rule: FrameRule) -> ndarray:
    normals = mesh.boundary_normals[_facets_in(mesh, rule.group)]
    return -normals.sum(axis=0) / np.linalg.norm(normals, axis=1).sum()


def _mean_data(
    mesh: Mesh, problem: Problem, rule: FrameRule, data: BoundaryData | None
) -> ndarray | None:
    """Mean of a vector field's data over a group, in the user's axes."""
    name = rule.field or next((f.name for f in problem.fields if f.rank == "vector"), "")
    given = [
        c for c in problem.dirichlet if (c.field, c.group) == (name, rule.group) and c.axes is None
    ]
    if data is None or not given or problem.field(name).rank != "vector":
        return None
    values = resolve(problem, mesh, data).value[:, problem.columns(name)]
    chosen = _facets_in(mesh, rule.group)
    measure = np.linalg.norm(mesh.boundary_normals[chosen], axis=1)
    on_facets = values[mesh.boundary_facets[chosen]].mean(axis=1)
    size = measure @ np.linalg.norm(on_facets, axis=1)
    return measure @ on_facets / size if size > 0 else np.zeros(mesh.dim)


def _mean_gradient(mesh: Mesh, rule: FrameRule) -> ndarray:
    """Mean of grad h over the domain, relative to the mean of its length."""
    operators = assemble(mesh)
    height = harmonic_coordinate(mesh, SolverPool(operators.stiffness), rule.group, rule.other)
    assert height is not None
    gradient = operators.nodal_gradient(height)
    size = operators.lumped @ np.linalg.norm(gradient, axis=1)
    return operators.lumped @ gradient / size if size > 0 else np.zeros(mesh.dim)


def _facets_in(mesh: Mesh, group: str) -> ndarray:
    return mesh.group_index == list(mesh.groups).index(group)


def _completed(axes: list[ndarray]) -> ndarray:
    """A right-handed orthonormal frame from its first d - 1 axes."""
    if len(axes) == 1:
        (e1,) = axes
        return np.stack([e1, np.array([-e1[1], e1[0]])])
    e1, e2 = axes
    return np.stack([e1, e2, np.cross(e1, e2)])
