r"""Derivatives of any number of a prediction with respect to its data, by the adjoint.

With coefficients u solving G(u, a) = 0 and a quantity J(u, a) of the fields,

.. math:: \frac{dJ}{da} = \frac{\partial J}{\partial a} - \lambda^T \frac{\partial G}{\partial a},
          \qquad \Big(\frac{\partial G}{\partial u}\Big)^T \lambda = \frac{\partial J}{\partial u},

one transposed solve for all data at once: nodal boundary values, sources, fluxes, parameters. The
model's implicit step (:mod:`geonew.model.implicit`) is that adjoint; what is before it, features of
the data included, is differentiated in :mod:`geonew.inference.linearised`.

In float64 whatever the model's own precision: a derivative is a difference, and a difference of
single-precision predictions is noise.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from geonew.errors import InputError, SolverError
from geonew.fem.loads import neumann_load, source_load
from geonew.inference.inputs import complete
from geonew.inference.linearised import Linearised
from geonew.mesh import Mesh
from geonew.model.geonew import GeoNeW
from geonew.model.newton import Status
from geonew.model.sample import Sample, prepare
from geonew.problem import BoundaryData, resolve_parameters
from geonew.problem.values import Value, evaluate
from geonew.weights import load

Scalar = Callable[[Mapping[str, Tensor]], Tensor]


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """A quantity and its derivatives, in the user's axes and units.

    Args:
        value: of the quantity.
        boundary: group -> field -> derivative with respect to the values on the group's nodes, in
            the order of ``mesh.nodes_of(group)``.
        neumann: the same for fluxes and tractions.
        source: field -> derivative with respect to nodal values.
        parameters: name -> derivative.
        mesh: where.

    """

    value: float
    boundary: Mapping[str, Mapping[str, Float[ndarray, "_ _"]]]
    neumann: Mapping[str, Mapping[str, Float[ndarray, "_ _"]]]
    source: Mapping[str, Float[ndarray, "N _"]]
    parameters: Mapping[str, Float[ndarray, "*n"]]
    mesh: Mesh

    def along(
        self,
        *,
        boundary: BoundaryData | None = None,
        neumann: BoundaryData | None = None,
        source: Mapping[str, Value] | None = None,
        parameters: Mapping[str, Value] | None = None,
    ) -> float:
        """Derivative along a change of the data; each is given like the data themselves."""
        total = 0.0
        for mine, theirs in ((self.boundary, boundary or {}), (self.neumann, neumann or {})):
            for group, by_field in theirs.items():
                nodes = self.mesh.nodes_of(group)
                for name, change in by_field.items():
                    slope = _known(_known(mine, group), name)
                    given = evaluate(self.mesh, nodes, change, slope.shape[1], f"change of {name}")
                    total += float((slope * given).sum())
        for name, change in (source or {}).items():
            slope = _known(self.source, name)
            everywhere = np.arange(self.mesh.n_nodes)
            given = evaluate(self.mesh, everywhere, change, slope.shape[1], f"change of {name}")
            total += float((slope * given).sum())
        for name, change in (parameters or {}).items():
            slope = _known(self.parameters, name)
            total += float((slope * np.asarray(change, dtype=np.float64)).sum())
        return total


def sensitivity(
    model: GeoNeW | str | Path,
    mesh: Mesh,
    quantity: Scalar,
    boundary: BoundaryData | None = None,
    *,
    parameters: Mapping[str, Value] | None = None,
    source: Mapping[str, Value] | None = None,
    neumann: BoundaryData | None = None,
) -> Sensitivity:
    """Derivatives of a quantity of the prediction with respect to all its data.

    Args:
        model: a model, the name of a shipped one, or a checkpoint.
        mesh: with the problem's groups.
        quantity: from fields by name, as torch tensors on the nodes in the user's axes and units,
            to a number; :mod:`geonew.inference.quantities` has the usual ones.
        boundary: as in :func:`geonew.inference.answer.predict`.
        parameters: likewise.
        source: likewise.
        neumann: likewise.

    """
    model = model if isinstance(model, GeoNeW) else load(model)
    exact = copy.deepcopy(model).double().cpu().eval()
    problem = exact.problem
    if any(rule.kind == "inflow" for rule in problem.frame):
        raise InputError(
            f"the frame of problem {problem.name!r} follows its boundary data, which no derivative "
            "here takes into account",
            "use a frame rule of kind normal or gradient",
        )
    inputs = complete(problem, mesh, boundary, parameters, source, neumann)
    sample = prepare(
        mesh,
        problem,
        inputs.boundary,
        spec=exact.spec,
        parameters=inputs.parameters,
        source=inputs.source,
        neumann=inputs.neumann,
    )
    leaves = _Leaves.of(sample, inputs.parameters)
    fields, converged = _forward(exact, sample, leaves, inputs.boundary)
    if not converged:
        raise SolverError(
            "the prediction did not converge, so it has no derivative", "see its certificate"
        )
    value = quantity(fields)
    if not isinstance(value, Tensor) or value.numel() != 1:
        raise InputError("the quantity is not one number", "return a tensor with a single entry")
    slopes = torch.autograd.grad(value, leaves.tensors, allow_unused=True)
    return _collected(sample, leaves, float(value.detach()), slopes)


@dataclass(frozen=True, eq=False)
class _Leaves:
    """What is differentiated with respect to: data, load and parameters, dimensionless."""

    data: Float[Tensor, "N F"]
    load: Float[Tensor, "N F"]
    parameters: dict[str, Tensor]

    @classmethod
    def of(cls, sample: Sample, parameters: Mapping[str, Value]) -> _Leaves:
        problem = sample.problem
        scale = np.array(problem.references)
        data = torch.from_numpy(sample.values.value / scale).requires_grad_()
        mu = resolve_parameters(problem, sample.mesh, parameters, sample.frame.rotation)
        scaled = {
            p.name: torch.from_numpy(np.asarray(mu[p.name] / p.reference)).requires_grad_()
            for p in problem.parameters
        }
        return cls(data, torch.from_numpy(sample.load.copy()).requires_grad_(), scaled)

    @property
    def tensors(self) -> list[Tensor]:
        return [self.data, self.load, *self.parameters.values()]


def _forward(
    model: GeoNeW, sample: Sample, leaves: _Leaves, boundary: BoundaryData
) -> tuple[dict[str, Tensor], bool]:
    """The fields as functions of the leaves."""
    readings = Linearised(sample, boundary).read(leaves.data, leaves.parameters)
    batch = replace(
        model.collate([sample]),
        tokens=readings.tokens[None],
        extension=readings.extension[None],
        group_value=readings.group_value[None],
        load=leaves.load[None],
        parameters=readings.parameters[None],
    )
    output = model(batch)
    problem = sample.problem
    values = output.fields[0, : sample.n_nodes]
    mass = torch.from_numpy(sample.mass)
    for f, owner in enumerate(problem.component_fields):
        if owner.level == "gauge":
            level = (mass @ values[:, f]) / mass.sum()
            values = values - level * torch.eye(values.shape[1], dtype=values.dtype)[f]
    values = torch.where(torch.from_numpy(sample.fixed), leaves.data, values)
    values = values * torch.tensor(problem.references, dtype=torch.float64)
    rotation = torch.from_numpy(sample.frame.rotation)
    fields: dict[str, Tensor] = {}
    for field in problem.fields:
        part = values[:, problem.columns(field.name)]
        fields[field.name] = part @ rotation if field.rank == "vector" else part[:, 0]
    return fields, bool(output.solution.status[0] == Status.CONVERGED)


def _collected(
    sample: Sample, leaves: _Leaves, value: float, slopes: tuple[Tensor | None, ...]
) -> Sensitivity:
    """Derivatives with respect to the leaves -> with respect to what the user gave."""
    problem, mesh, rotation = sample.problem, sample.mesh, sample.frame.rotation
    arrays = [
        np.zeros(tuple(leaf.shape)) if slope is None else slope.numpy()
        for leaf, slope in zip(leaves.tensors, slopes, strict=True)
    ]
    on_data, on_load, on_mu = arrays[0] / np.array(problem.references), arrays[1], arrays[2:]
    boundary: dict[str, dict[str, ndarray]] = {}
    for d in problem.dirichlet:
        if d.group not in mesh.groups:
            continue
        nodes = mesh.nodes_of(d.group)
        axes = range(problem.width(d.field)) if d.axes is None else d.axes
        chosen = np.ix_(nodes, np.array([problem.offset(d.field) + axis for axis in axes]))
        own = sample.values.owner[chosen] == problem.groups.index(d.group)
        slope = np.where(own, on_data[chosen], 0.0)
        if problem.field(d.field).rank == "vector" and d.axes is None:
            slope = slope @ rotation
        boundary.setdefault(d.group, {})[d.field] = slope

    def load_slope(name: str) -> Float[ndarray, "N w"]:
        slope = on_load[:, problem.columns(name)] * problem.load_scale(name)
        return slope @ rotation if problem.field(name).rank == "vector" else slope

    neumann: dict[str, dict[str, ndarray]] = {}
    for n in problem.neumann:
        if n.group in mesh.groups:
            tested = neumann_load(mesh, n.group, load_slope(n.field))
            neumann.setdefault(n.group, {})[n.field] = tested[mesh.nodes_of(n.group)]
    source = {name: source_load(mesh, load_slope(name)) for name in problem.sources}
    entering = {
        name
        for term in problem.terms
        for name in term.powers
        if problem.parameter(name).support == "nodal"
    }
    parameters: dict[str, ndarray] = {}
    for p, slope in zip(problem.parameters, on_mu, strict=True):
        if p.name in entering:  # the fine matrices depend on it, and they are constants here
            continue
        turned = slope @ rotation if p.rank == "vector" else slope
        parameters[p.name] = np.asarray(turned / p.reference)
    return Sensitivity(value, boundary, neumann, source, parameters, mesh)


def _known(mapping: Mapping, name: str):  # type: ignore[no-untyped-def]
    if name not in mapping:
        raise InputError(
            f"there is no derivative with respect to {name!r}", f"there are {list(mapping)}"
        )
    return mapping[name]
