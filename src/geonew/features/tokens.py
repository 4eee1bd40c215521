r"""Mesh features: one row of numbers per node, everything the encoder sees of a geometry.

    mesh --frame--> placed mesh --operators--> columns --> tokens (N, C)

Identity kept: tokens do not depend on position, orientation or unit of length, and follow the
numbering of the mesh. Position, orientation and unit go when the mesh is placed in its canonical
frame (:mod:`geonew.features.frame`); all else is computed on the placed mesh. Without a frame only
invariant columns are used: scalars, lengths of gradients, products of gradients. The paper calls
its features invariant but uses Cartesian gradients: a rotation changed those tokens by 74 %.

Columns depend on problem and settings only, never on the mesh, except that a mesh without a
well-defined frame has invariants in place of components. What a mesh lacks (an optional group) is
filled with a neutral value and noted.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from itertools import combinations, pairwise

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from geonew import __version__
from geonew.cache import Cache, digest
from geonew.errors import FeatureError
from geonew.features.distance import (
    boundary_distance,
    contact_distance,
    distance_to,
    group_distance,
)
from geonew.features.frame import Frame, find_frame
from geonew.features.harmonic import harmonic_coordinate
from geonew.features.labels import patch_labels
from geonew.features.lift import Lift, boundary_lift
from geonew.features.spec import FeatureSpec
from geonew.features.spectral import dirichlet_eigenpairs, heat_kernel_signature, sun_times
from geonew.features.torsion import torsion_function
from geonew.fem import FineOperators, SolverPool, assemble
from geonew.mesh import Mesh
from geonew.problem import BoundaryData, BoundaryValues, Problem, check_groups, resolve

# Raised whenever the same mesh, problem and settings would yield other numbers than before.
SCHEMA = 1


@dataclass(frozen=True, eq=False)
class MeshFeatures:
    """Tokens of one mesh, and what they were made from.

    Args:
        tokens: one row per node.
        columns: name of each column.
        frame: where the mesh was placed; ``frame.canonical`` tells whether its axes mean anything.
        operators: fine operators of the placed mesh, which is ``operators.mesh``.
        values: the boundary data on the nodes, in the frame; none if no data were given.
        lift: their extension into the domain; none if no data were given.
        notes: what was missing or undefined, for people to read.

    """

    tokens: Float[ndarray, "N C"]
    columns: tuple[str, ...]
    frame: Frame
    operators: FineOperators
    values: BoundaryValues | None = None
    lift: Lift | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.tokens.shape != (self.operators.mesh.n_nodes, len(self.columns)):
            raise FeatureError(
                f"tokens have shape {self.tokens.shape} for {self.operators.mesh.n_nodes} nodes "
                f"and {len(self.columns)} columns"
            )
        bad = [self.columns[k] for k in np.flatnonzero(~np.isfinite(self.tokens).all(axis=0))]
        if bad:
            raise FeatureError(
                f"features {bad} are not finite",
                "check the mesh for nearly flat cells and the boundary data for huge values",
            )

    def column(self, name: str) -> Float[ndarray, "N"]:
        """One column by its name."""
        if name not in self.columns:
            raise FeatureError(f"there is no feature {name!r}", f"there are {list(self.columns)}")
        return self.tokens[:, self.columns.index(name)]


def featurise(
    mesh: Mesh,
    problem: Problem,
    spec: FeatureSpec | None = None,
    boundary: BoundaryData | None = None,
    cache: Cache | None = None,
) -> MeshFeatures:
    """Features of a mesh.

    Args:
        mesh: in the user's coordinates and units.
        problem: its groups, Dirichlet parts, harmonic pairs, frame rules and reference values.
        spec: which features; by default all but coordinates and distances per group.
        boundary: the boundary data; needed where ``spec.data`` and the problem has Dirichlet data.
        cache: where results are looked up and kept.

    """
    spec = FeatureSpec() if spec is None else spec
    check_groups(problem, mesh)
    if spec.data and problem.dirichlet and boundary is None:
        raise FeatureError(
            f"the features of problem {problem.name!r} include the extension of its boundary data, "
            "but no data were given",
            "give boundary=..., or choose FeatureSpec(data=False)",
        )
    frame, notes = find_frame(mesh, problem, boundary)
    values = None if boundary is None else resolve(problem, mesh, boundary, frame.rotation)
    contested = contested_nodes(problem, mesh, boundary, frame, values)
    operators = assemble(frame.place(mesh))
    key = ""
    if cache is not None:
        data = () if values is None else (values.owner, values.value, contested)
        key = digest(
            "features", SCHEMA, __version__, mesh.digest, list(mesh.groups), problem.to_json(),
            spec.to_json(), frame.rotation, *data,
        )  # fmt: skip
        stored = cache.get(key)
        if stored is not None:
            return _unpack(stored, frame, operators, values)
    columns = _Columns(operators, problem, spec, frame, values, contested, list(notes))
    columns.compute()
    features = MeshFeatures(
        np.stack(columns.arrays, axis=1) if columns.arrays else np.zeros((mesh.n_nodes, 0)),
        tuple(columns.names),
        frame,
        operators,
        values,
        columns.lift,
        tuple(columns.notes),
    )
    if cache is not None:
        cache.put(key, _pack(features))
    return features


def contested_nodes(
    problem: Problem,
    mesh: Mesh,
    boundary: BoundaryData | None,
    frame: Frame,
    values: BoundaryValues | None,
) -> ndarray:
    """(N, F): nodes whose groups prescribe different values; there an extension jumps.

    They are the nodes whose value changes when the priority of the groups is reversed.
    """
    if boundary is None or values is None or not values.conflicts:
        return np.zeros((mesh.n_nodes, problem.n_components), dtype=bool)
    reversed_priority = replace(problem, groups=problem.groups[::-1])
    other = resolve(reversed_priority, mesh, boundary, frame.rotation).value
    return np.abs(other - values.value) > 1e-6 * np.array(problem.references)


class _Columns:
    """Collects the columns of one mesh; solvers, and with them factorisations, are shared."""

    def __init__(
        self,
        operators: FineOperators,
        problem: Problem,
        spec: FeatureSpec,
        frame: Frame,
        values: BoundaryValues | None,
        contested: ndarray,
        notes: list[str],
    ) -> None:
        self.operators, self.mesh = operators, operators.mesh
        self.problem, self.spec, self.frame = problem, spec, frame
        self.values, self.contested, self.notes = values, contested, notes
        self.pool = SolverPool(operators.stiffness)
        self.lift: Lift | None = None
        self.names: list[str] = []
        self.arrays: list[ndarray] = []
        # Scalars whose gradients become columns: name -> (values, weight of the gradient).
        self.smooth: dict[str, tuple[ndarray, ndarray | None]] = {}

    def compute(self) -> None:
        spec = self.spec
        if self.values is not None:
            self.lift = boundary_lift(self.mesh, self.problem, self.values, self.pool)
        if spec.labels:
            labels = patch_labels(self.mesh, self.problem.groups)
            for name, column in zip(self.problem.groups, labels.T, strict=True):
                self._add(f"label:{name}", column)
        if spec.coordinates and self.frame.canonical:
            for axis, column in enumerate(self.mesh.points.T):
                self._add(f"x{axis + 1}", column)
        if spec.distance:
            self._add_smooth("sdf", boundary_distance(self.mesh))
        if spec.group_distances:
            self._group_distances()
        if spec.harmonic:
            self._harmonic()
        if spec.torsion:
            self._torsion()
        if spec.data and self.lift is not None:
            self._data(self.lift)
        if spec.gradients:
            self._gradients()
        if spec.hks_times:
            self._spectral()

    def _add(self, name: str, column: ndarray) -> None:
        self.names.append(name)
        self.arrays.append(column)

    def _add_smooth(self, name: str, column: ndarray, weight: ndarray | None = None) -> None:
        self._add(name, column)
        self.smooth[name] = (column, weight)

    def _group_distances(self) -> None:
        for group in self.problem.groups:
            column = group_distance(self.mesh, (group,))
            if column is None:  # further away than anything in the domain
                reach = np.linalg.norm(self.mesh.points, axis=1).max()
                column = np.full(self.mesh.n_nodes, 2 * reach)
                self.notes.append(f"no group {group!r}: its distance is {2 * reach:.3g} everywhere")
            self._add(f"distance:{group}", column)

    def _harmonic(self) -> None:
        for first, second in self.problem.harmonic:
            name = f"harmonic:{first}-{second}"
            column = harmonic_coordinate(self.mesh, self.pool, first, second)
            if column is None:
                self.notes.append(f"{name} is zero: the mesh lacks one of the groups")
                column, weight = np.zeros(self.mesh.n_nodes), None
            else:
                weight = contact_distance(self.mesh, (first, second))
            self._add_smooth(name, column, weight)

    def _torsion(self) -> None:
        parts = {self.problem.dirichlet_groups(k): None for k in range(self.problem.n_components)}
        for groups in parts:
            if not groups:
                continue
            name = "torsion:" + "+".join(groups)
            nodes = [self.mesh.nodes_of(group) for group in groups if group in self.mesh.groups]
            if nodes:
                fixed = np.unique(np.concatenate(nodes))
                column = torsion_function(self.pool, self.operators.lumped, fixed)
            else:
                self.notes.append(f"{name} is zero: the mesh lacks these groups")
                column = np.zeros(self.mesh.n_nodes)
            self._add_smooth(name, column)

    def _data(self, lift: Lift) -> None:
        extension = lift.extensions.sum(axis=2)
        for field in self.problem.fields:
            span = self.problem.columns(field.name)
            prescribed = [
                k for k in range(span.start, span.stop) if self.problem.dirichlet_groups(k)
            ]
            if not prescribed:
                continue
            if field.rank == "vector" and not self.frame.canonical:
                # components have no meaning without axes; length and gradient's length do
                self._add(f"|data:{field.name}|", np.linalg.norm(extension[:, span], axis=1))
                continue
            for k in prescribed:
                name = f"data:{self.problem.component_names[k]}"
                self._add_smooth(name, extension[:, k], self._jump_distance(k))

    def _jump_distance(self, component: int) -> ndarray | None:
        """Distance to the nodes where two groups' data disagree; none where they agree."""
        nodes = np.flatnonzero(self.contested[:, component])
        return distance_to(self.mesh, nodes[:, None]) if nodes.size else None

    def _gradients(self) -> None:
        if not self.smooth:
            return
        stacked = np.stack([column for column, _ in self.smooth.values()], axis=1)
        gradients = self.operators.nodal_gradient(stacked)  # (N, S, d)
        for k, (_, weight) in enumerate(self.smooth.values()):
            if weight is not None:
                gradients[:, k] *= weight[:, None]
        names = list(self.smooth)
        if self.frame.canonical:
            for k, name in enumerate(names):
                for axis in range(self.mesh.dim):
                    self._add(f"d{axis + 1} {name}", gradients[:, k, axis])
            return
        for k, name in enumerate(names):
            self._add(f"|grad {name}|", np.linalg.norm(gradients[:, k], axis=1))
        for a, b in combinations(range(len(names)), 2):
            product = np.einsum("nd,nd->n", gradients[:, a], gradients[:, b])
            self._add(f"grad {names[a]} . grad {names[b]}", product)

    def _spectral(self) -> None:
        spec, mesh = self.spec, self.mesh
        if len(mesh.boundary_nodes) == mesh.n_nodes:
            self.notes.append("the mesh has no interior node: its heat kernel signature is zero")
            signature = np.zeros((mesh.n_nodes, spec.hks_times))
        else:
            solver = self.pool.fixing(mesh.boundary_nodes)
            pairs = dirichlet_eigenpairs(solver, self.operators.mass, spec.eigenpairs)
            if pairs.nominal < spec.eigenpairs:
                self.notes.append(f"only {pairs.nominal} of {spec.eigenpairs} eigenpairs exist")
            signature = heat_kernel_signature(pairs, sun_times(pairs, spec.hks_times), mesh.volume)
        for k, column in enumerate(signature.T):
            self._add(f"hks:{k}", column)
        if not spec.hks_gradients:
            return
        gradients = self.operators.nodal_gradient(signature)
        for k in range(spec.hks_times):
            self._add(f"|grad hks:{k}|", np.linalg.norm(gradients[:, k], axis=1))
        for a, b in pairwise(range(spec.hks_times)):
            product = np.einsum("nd,nd->n", gradients[:, a], gradients[:, b])
            self._add(f"grad hks:{a} . grad hks:{b}", product)


# -- the cache's view ----------------------------------------------------------------------------


def _pack(features: MeshFeatures) -> dict[str, ndarray]:
    text = json.dumps({"columns": features.columns, "notes": features.notes})
    arrays = {"tokens": features.tokens, "text": np.frombuffer(text.encode(), dtype=np.uint8)}
    if features.lift is not None:
        arrays["indicators"] = features.lift.indicators
        arrays["extensions"] = features.lift.extensions
        arrays["distance"] = features.lift.distance
    return arrays


def _unpack(
    arrays: dict[str, ndarray],
    frame: Frame,
    operators: FineOperators,
    values: BoundaryValues | None,
) -> MeshFeatures:
    text = json.loads(arrays["text"].tobytes().decode())
    lift = None
    if "indicators" in arrays:
        lift = Lift(arrays["indicators"], arrays["extensions"], arrays["distance"])
    return MeshFeatures(
        arrays["tokens"],
        tuple(text["columns"]),
        frame,
        operators,
        values,
        lift,
        tuple(text["notes"]),
    )
