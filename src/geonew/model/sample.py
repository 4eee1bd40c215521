r"""A sample: one mesh with its data, as arrays ready for batching.

    mesh, problem, data --featurise--> features, lift --> tokens, lift, loads, fine matrices

Everything here is dimensionless and in the canonical frame: lengths over the reference length,
fields over their reference values, loads over the energy scale. What belongs to the user (mesh,
frame, prescribed values in user's units) is kept beside it for the way back.

Identity kept: a field with a gauge gets a load that sums to zero, boundary fluxes of the data
included; anything else has no solution and is refused with the numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from scipy.sparse import csr_array

from geonew.cache import Cache
from geonew.errors import FeatureError, InputError
from geonew.features import FeatureSpec, Frame, MeshFeatures, featurise
from geonew.fem.loads import neumann_load, sum_at
from geonew.fem.operators import stiffness_parts
from geonew.mesh import Mesh
from geonew.model.anchors import farthest_points
from geonew.model.terms import (
    global_parameters,
    global_powers,
    part_positions,
    term_matrices,
    term_plan,
)
from geonew.problem import (
    BoundaryData,
    BoundaryValues,
    Problem,
    resolve,
    resolve_loads,
    resolve_parameters,
)
from geonew.problem.values import Value

# log(d/l) of a node that is prescribed, and, with the other sign, of one that nothing reaches.
FAR = 1e9
# Distances below this part of the domain's size count as this: the logarithm stays finite.
NEAREST = 1e-12
# Net inflow that a gauged field's data may have, relative to its gross flow.
NET_FLOW = 1e-3
# Sums of flows that cancel (constant velocities) are known to this part of their summands.
ROUND_OFF = 1e-12


@dataclass(frozen=True, eq=False)
class Sample:
    """Arrays of one sample; N nodes, F components, G groups of the problem.

    Args:
        problem: what is asked for.
        mesh: the user's mesh.
        frame: the placement of the arrays below.
        values: prescribed values in the frame, user's units.
        lab_values: the same in the user's axes (components along frame axes excepted).
        tokens, columns: node features and their names, parameters last.
        mass: lumped mass of the placed mesh.
        log_distance: log(d / l); see :class:`geonew.model.batch.Batch`.
        indicators, extension: h_g, and E over the reference values.
        group_value: mean of each group's data, weighted by boundary measure.
        live: whether a group has data for a component.
        load: fine load vector.
        parameters: global scalar parameters over their reference values.
        matrices: fine matrices of the known terms.
        anchor_key: what orders nodes that are equally far apart; see :meth:`farthest`.
        target: the solution over the reference values in the frame, where known.
        notes: for people.

    """

    problem: Problem
    mesh: Mesh
    frame: Frame
    values: BoundaryValues
    lab_values: BoundaryValues
    tokens: Float[ndarray, "N C"]
    columns: tuple[str, ...]
    mass: Float[ndarray, "N"]
    log_distance: Float[ndarray, "N F"]
    indicators: Float[ndarray, "N F G"]
    extension: Float[ndarray, "N F"]
    group_value: Float[ndarray, "F G"]
    live: Bool[ndarray, "F G"]
    load: Float[ndarray, "N F"]
    parameters: Float[ndarray, "p"]
    matrices: tuple[csr_array, ...]
    anchor_key: Float[ndarray, "N k"]
    target: Float[ndarray, "N F"] | None = None
    notes: tuple[str, ...] = ()
    _farthest: list[Int[ndarray, "_"]] = field(default_factory=list, init=False, repr=False)
    _parts: dict[int, csr_array] = field(default_factory=dict, init=False, repr=False)

    @property
    def n_nodes(self) -> int:
        """Number of nodes N."""
        return len(self.tokens)

    @property
    def points(self) -> Float[ndarray, "N d"]:
        """The nodes in reference lengths."""
        return self.mesh.points / self.problem.reference_length

    @property
    def fixed(self) -> Bool[ndarray, "N F"]:
        """Prescribed components."""
        return self.values.fixed

    def matrix(self, position: int) -> csr_array:
        """A fine matrix by its position (:mod:`geonew.model.terms`)."""
        if position >= 0:
            return self.matrices[position]
        if not self._parts:
            length = self.problem.reference_length ** (self.mesh.dim - 2)
            parts = stiffness_parts(self.mesh, self.frame.rotation)
            positions = part_positions(self.mesh.dim)
            self._parts.update({positions[pair]: part / length for pair, part in parts.items()})
        return self._parts[position]

    def farthest(self, count: int) -> Int[ndarray, "_"]:
        """The first so many farthest points, or all nodes; found when first asked for."""
        if not self._farthest or self._farthest[0].size < min(count, self.n_nodes):
            self._farthest[:] = [farthest_points(self.points, self.anchor_key, count)]
        return self._farthest[0][:count]

    def with_target(self, fields: Float[ndarray, "N F"]) -> Sample:
        """The sample with a known solution, given in the user's axes and units."""
        return replace(self, target=to_frame(self, fields))


def prepare(
    mesh: Mesh,
    problem: Problem,
    boundary: BoundaryData,
    *,
    spec: FeatureSpec | None = None,
    parameters: Mapping[str, Value] | None = None,
    source: Mapping[str, Value] | None = None,
    neumann: BoundaryData | None = None,
    cache: Cache | None = None,
) -> Sample:
    """Make a sample of a mesh and what is prescribed on it.

    Args:
        mesh: in the user's coordinates.
        problem: what is asked for.
        boundary: Dirichlet data, group -> field -> value.
        spec: which features.
        parameters: name -> value.
        source: field -> value.
        neumann: group -> field -> value.
        cache: where features are kept.

    """
    features = featurise(mesh, problem, spec, boundary, cache)
    assert features.values is not None
    assert features.lift is not None
    rotation = features.frame.rotation
    placed = features.operators.mesh
    mu = resolve_parameters(problem, mesh, parameters or {}, rotation)
    scaled = {p.name: np.asarray(mu[p.name] / p.reference) for p in problem.parameters}
    lift, values = features.lift, features.values
    load = resolve_loads(problem, mesh, source or {}, neumann or {}, rotation)
    scales = [problem.load_scale(f.name) for f in problem.component_fields]
    size = placed.volume ** (1 / placed.dim)
    log_distance = np.full(values.owner.shape, FAR)
    reached = np.isfinite(lift.distance)
    log_distance[reached] = np.log(np.maximum(lift.distance[reached] / size, NEAREST))
    log_distance[values.fixed] = -FAR
    group_value, live = _group_values(problem, placed, values)
    tokens, columns = _with_parameters(features, problem, scaled)
    nodal = {p.name: scaled[p.name] for p in problem.parameters if p.support == "nodal"}
    sample = Sample(
        problem=problem,
        mesh=mesh,
        frame=features.frame,
        values=values,
        lab_values=resolve(problem, mesh, boundary),
        tokens=tokens,
        columns=columns,
        mass=features.operators.lumped,
        log_distance=log_distance,
        indicators=lift.indicators,
        extension=lift.extensions.sum(axis=2),
        group_value=group_value,
        live=live,
        load=load * np.array(scales),
        parameters=np.array([float(scaled[name]) for name in global_parameters(problem)]),
        matrices=term_matrices(problem, features.operators, nodal),
        anchor_key=_anchor_key(features),
        notes=(*mesh.notes, *features.notes, *values.conflicts),
    )
    _check_gauges(sample)
    return sample


def check_columns(samples: Sequence[Sample], columns: tuple[str, ...]) -> None:
    """Refuse samples whose features are not those that a model reads."""
    for sample in samples:
        if sample.columns != columns:
            missing = [c for c in columns if c not in sample.columns]
            extra = [c for c in sample.columns if c not in columns]
            raise FeatureError(
                f"the sample's features do not fit the model: missing {missing}, extra {extra}",
                "use the model's own FeatureSpec; a model that reads components in the frame "
                "cannot take a mesh without a well-defined frame",
            )


def to_frame(sample: Sample, fields: Float[ndarray, "N F"]) -> Float[ndarray, "N F"]:
    """Fields in the user's axes and units -> the frame, over the reference values."""
    turned = np.array(fields, dtype=np.float64)
    for f in sample.problem.fields:
        if f.rank == "vector":
            span = sample.problem.columns(f.name)
            turned[:, span] = sample.frame.to_frame(turned[:, span])
    return turned / np.array(sample.problem.references)


def to_lab(sample: Sample, fields: Float[ndarray, "N F"]) -> Float[ndarray, "N F"]:
    """Inverse of :func:`to_frame`, before prescribed values are written."""
    turned = np.asarray(fields, dtype=np.float64) * np.array(sample.problem.references)
    for f in sample.problem.fields:
        if f.rank == "vector":
            span = sample.problem.columns(f.name)
            turned[:, span] = sample.frame.to_lab(turned[:, span])
    return turned


def write_prescribed(sample: Sample, fields: Float[ndarray, "N F"]) -> Float[ndarray, "N F"]:
    """Fields in the user's axes with the prescribed values written, to the last bit.

    Where only components along frame axes are prescribed, they are replaced in the frame.
    """
    problem, result = sample.problem, np.array(fields)
    for f in problem.fields:
        span = problem.columns(f.name)
        fixed = sample.values.fixed[:, span]
        whole, part = fixed.all(axis=1), fixed.any(axis=1) & ~fixed.all(axis=1)
        if part.any():
            in_frame = sample.frame.to_frame(result[part, span])
            in_frame = np.where(fixed[part], sample.values.value[part, span], in_frame)
            result[part, span] = sample.frame.to_lab(in_frame)
        result[whole, span] = _lab_values(sample, f.name)[whole]
    return result


def _lab_values(sample: Sample, name: str) -> Float[ndarray, "N w"]:
    """Prescribed values in the user's axes; exact unless some came along frame axes."""
    problem = sample.problem
    span = problem.columns(name)
    groups = [
        problem.groups.index(d.group) for d in problem.dirichlet if d.field == name and d.axes
    ]
    by_axes: ndarray = np.any(np.isin(sample.values.owner[:, span], groups), axis=1)
    turned = sample.values.value[:, span]
    if problem.field(name).rank == "vector":
        turned = sample.frame.to_lab(turned)
    return np.where(by_axes[:, None], turned, sample.lab_values.value[:, span])


def _group_values(
    problem: Problem, mesh: Mesh, values: BoundaryValues
) -> tuple[Float[ndarray, "F G"], Bool[ndarray, "F G"]]:
    """Mean data of each group, and which groups have any, per component."""
    shape = (problem.n_components, len(problem.groups))
    mean, live = np.zeros(shape), np.zeros(shape, dtype=bool)
    for g, group in enumerate(problem.groups):
        if group not in mesh.groups:
            continue
        measure = neumann_load(mesh, group, np.ones(mesh.n_nodes))
        for f, reference in enumerate(problem.references):
            own = values.owner[:, f] == g
            if own.any():
                live[f, g] = True
                mean[f, g] = np.average(values.value[own, f], weights=measure[own]) / reference
    return mean, live


def _with_parameters(
    features: MeshFeatures, problem: Problem, scaled: Mapping[str, ndarray]
) -> tuple[Float[ndarray, "N C"], tuple[str, ...]]:
    """Tokens with one more column per component of every parameter."""
    n = len(features.tokens)
    parts, names = [features.tokens], list(features.columns)
    for p in problem.parameters:
        if p.rank == "vector" and not features.frame.canonical:
            column = np.linalg.norm(scaled[p.name], axis=-1)
            parts.append(np.broadcast_to(column, (n,))[:, None])
            names.append(f"|parameter:{p.name}|")
            continue
        width = problem.dim if p.rank == "vector" else 1
        column = scaled[p.name].reshape(-1, width) if p.support == "nodal" else scaled[p.name]
        parts.append(np.broadcast_to(column, (n, width)))
        names.extend(
            f"parameter:{p.name}" + (f":{k + 1}" if width > 1 else "") for k in range(width)
        )
    return np.concatenate(parts, axis=1), tuple(names)


def _anchor_key(features: MeshFeatures) -> Float[ndarray, "N k"]:
    """What orders tied nodes: tokens and indicators of the groups, then the position.

    Tokens made of the data are left out: anchors that followed the data would make a prediction
    jump when these are scaled. The indicators tell mirror images apart in their place, and the
    centre of a node's cells the two sides of a crack.
    """
    assert features.lift is not None
    steady = [k for k, name in enumerate(features.columns) if "data:" not in name]
    indicators = features.lift.indicators
    known = np.hstack([features.tokens[:, steady], indicators.reshape(len(indicators), -1)])
    mix = known @ np.cos(np.arange(1, known.shape[1] + 1))  # any fixed weights without relations
    mesh = features.operators.mesh
    centres = mesh.points[mesh.cells].mean(axis=1)
    weighted = mesh.volumes[:, None] * np.column_stack([centres, np.ones(len(centres))])
    moments = sum_at(mesh.n_nodes, mesh.cells, weighted[:, None])
    return np.column_stack([mix, mesh.points, moments[:, :-1] / moments[:, -1:]])


def _check_gauges(sample: Sample) -> None:
    """Refuse data whose net flow no gauged field can take up."""
    problem = sample.problem
    for f, owner in enumerate(problem.component_fields):
        if owner.level != "gauge":
            continue
        net, gross, round_off = 0.0, 0.0, 0.0
        for block in term_plan(problem).blocks:
            if block.test != f or block.trial == f:
                continue
            term = problem.terms[block.term]
            kappa = problem.term_scale(term) * problem.coefficient_reference(term)
            for position, power in global_powers(problem, term).items():
                kappa *= sample.parameters[position] ** power
            matrix, lifted = sample.matrices[block.matrix], sample.extension[:, block.trial]
            flow = kappa * (matrix @ lifted)
            round_off += ROUND_OFF * abs(kappa) * float(np.sum(abs(matrix) @ np.abs(lifted)))
            net, gross = net + float(np.sum(flow)), gross + float(np.abs(flow).sum())
        net -= sample.load[:, f].sum()
        if abs(net) > NET_FLOW * gross + round_off:
            raise InputError(
                f"the data leave a net flow of {net:.3g} (gross {gross:.3g}) in the balance of "
                f"{problem.component_names[f]!r}, whose level is a gauge",
                "prescribe values whose inflow equals their outflow, or leave an outlet open",
            )
