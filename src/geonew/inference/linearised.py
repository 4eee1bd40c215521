r"""What a model reads of boundary data and parameters, as a differentiable function of them.

    data g on fixed nodes --harmonic extension--> E --> tokens made of data, lift, group means

:mod:`geonew.model.sample` computes these numbers once, in NumPy. Here the same arithmetic is done
on tensors, for the few arrays that depend on data at all:

.. math:: E = \begin{pmatrix} g \\ -K_{II}^{-1} K_{ID}\, g \end{pmatrix}, \qquad
          \frac{\partial J}{\partial g} = w_D - K_{DI} K_{II}^{-1} w_I, \quad
          w = \frac{\partial J}{\partial E},

one solve with the transposed, here symmetric, matrix. Identity kept: at the given data the arrays
are those of the sample; that is checked each time, so a feature that is not known here is refused
rather than differentiated wrongly.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from geonew.errors import FeatureError
from geonew.features.distance import contact_distance, distance_to
from geonew.features.tokens import contested_nodes
from geonew.fem import FineOperators, SolverPool, assemble
from geonew.fem.dirichlet import DirichletSolver
from geonew.fem.loads import neumann_load
from geonew.model.sample import Sample
from geonew.problem import BoundaryData, Problem

# How well the arrays here must agree with the sample's own, relative to their largest entry.
AGREEMENT = 1e-9
_DATA = "data:"


class _Extend(torch.autograd.Function):
    """Harmonic extension of values at fixed nodes; the gradient is the adjoint solve."""

    @staticmethod
    def forward(ctx, values: Tensor, solver: DirichletSolver) -> Tensor:  # type: ignore[override]
        ctx.solver = solver
        return torch.from_numpy(solver.extend(values.detach().numpy()))

    @staticmethod
    def backward(ctx, gradient: Tensor):  # type: ignore[override]
        solver: DirichletSolver = ctx.solver
        w = gradient.numpy()
        inside = solver.solve(w)  # K_II^-1 w_I, zero on fixed nodes
        back = w[solver.fixed] - (solver.stiffness @ inside)[solver.fixed]
        return torch.from_numpy(back), None


@dataclass(frozen=True, eq=False)
class Readings:
    """The arrays of a sample that depend on data and parameters.

    Args:
        tokens: node features.
        extension: E over the reference values.
        group_value: mean data of each group.
        parameters: global scalars over their reference values.

    """

    tokens: Float[Tensor, "N C"]
    extension: Float[Tensor, "N F"]
    group_value: Float[Tensor, "F G"]
    parameters: Float[Tensor, "p"]


class Linearised:
    """The readings of one sample as functions of its data; factorisations are made once.

    Args:
        sample: what the model sees.
        boundary: its data, as given.

    """

    def __init__(self, sample: Sample, boundary: BoundaryData) -> None:
        self.sample, self.problem = sample, sample.problem
        self.operators: FineOperators = assemble(sample.frame.place(sample.mesh))
        self.pool = SolverPool(self.operators.stiffness)
        self.contested = contested_nodes(
            sample.problem, sample.mesh, boundary, sample.frame, sample.values
        )
        self.means = _mean_weights(sample)

    def read(
        self, data: Float[Tensor, "N F"], parameters: Mapping[str, Float[Tensor, "*n"]]
    ) -> Readings:
        """The readings at given data and parameters, both over their reference values.

        Args:
            data: prescribed components in the frame; anything where nothing is prescribed.
            parameters: name -> number, vector in the frame, or nodal values.

        """
        extension = self._extension(data)
        tokens = self._tokens(extension, parameters)
        scalars = [parameters[p.name].reshape(1) for p in self.problem.parameters if _global(p)]
        group_value = torch.einsum("fgn,nf->fg", self.means, data)
        mu = torch.cat(scalars) if scalars else data.new_zeros(0)
        readings = Readings(tokens, extension, group_value, mu)
        self._check(readings)
        return readings

    def _extension(self, data: Float[Tensor, "N F"]) -> Float[Tensor, "N F"]:
        fixed = self.sample.fixed
        columns = []
        for f in range(self.problem.n_components):
            nodes = np.flatnonzero(fixed[:, f])
            if not len(nodes):
                columns.append(data.new_zeros(len(data)))
                continue
            columns.append(_Extend.apply(data[nodes, f], self.pool.fixing(nodes)))
        return torch.stack(columns, dim=1)

    def _tokens(
        self, extension: Float[Tensor, "N F"], parameters: Mapping[str, Float[Tensor, "*n"]]
    ) -> Float[Tensor, "N C"]:
        known = torch.from_numpy(np.asarray(self.sample.tokens, dtype=np.float64))
        columns = list(known.unbind(1))
        for k, name in enumerate(self.sample.columns):
            if "parameter:" in name:
                columns[k] = _parameter_column(name, parameters, len(known))
            elif _DATA in name:
                columns[k] = self._data_column(name, extension)
        return torch.stack(columns, dim=1)

    def _data_column(self, name: str, extension: Float[Tensor, "N F"]) -> Float[Tensor, "N"]:
        """A column made of data, by its name (:mod:`geonew.features.tokens`)."""
        problem = self.problem
        if name.startswith(_DATA):
            return extension[:, self._component(name)]
        if found := re.fullmatch(r"\|data:(.+)\|", name):
            return _length(extension[:, problem.columns(found[1])])
        if found := re.fullmatch(r"d(\d) (data:.+)", name):
            return self._gradient(found[2], extension)[:, int(found[1]) - 1]
        if found := re.fullmatch(r"\|grad (data:.+)\|", name):
            return _length(self._gradient(found[1], extension))
        if found := re.fullmatch(r"grad (.+) \. grad (.+)", name):
            a, b = (self._gradient(part, extension) for part in found.groups())
            return (a * b).sum(1)
        raise FeatureError(f"the feature {name!r} has no known derivative with respect to data")

    def _component(self, name: str) -> int:
        return self.problem.component_names.index(name.removeprefix(_DATA))

    def _gradient(self, name: str, extension: Float[Tensor, "N F"]) -> Float[Tensor, "N d"]:
        """Weighted nodal gradient of a smooth column."""
        weight = self._weight(name)
        if name.startswith(_DATA):
            values = extension[:, self._component(name)]
            lumped = torch.from_numpy(self.operators.lumped)
            parts = [_sparse(G) @ values[:, None] for G in self.operators.gradient]
            slopes = torch.cat(parts, dim=1) / lumped[:, None]
        else:
            column = self.sample.tokens[:, self.sample.columns.index(name)]
            slopes = torch.from_numpy(self.operators.nodal_gradient(column))
        return slopes if weight is None else slopes * torch.from_numpy(weight)[:, None]

    def _weight(self, name: str) -> ndarray | None:
        mesh = self.operators.mesh
        if name.startswith(_DATA):
            nodes = np.flatnonzero(self.contested[:, self._component(name)])
            return distance_to(mesh, nodes[:, None]) if nodes.size else None
        for first, second in self.problem.harmonic:
            if name == f"harmonic:{first}-{second}" and {first, second} <= set(mesh.groups):
                return contact_distance(mesh, (first, second))
        return None

    def _check(self, readings: Readings) -> None:
        sample = self.sample
        for what, made, stored in (
            ("tokens", readings.tokens, sample.tokens),
            ("lift", readings.extension, sample.extension),
            ("group means", readings.group_value, sample.group_value),
        ):
            size = max(float(np.abs(stored).max(initial=0.0)), 1e-300)
            gap = np.abs(made.detach().numpy() - stored)
            if gap.size and gap.max() > AGREEMENT * size:
                raise FeatureError(
                    f"the {what} computed for derivatives differ from the sample's by "
                    f"{gap.max():.2e} of {size:.2e}",
                    "derivatives at other data than the sample's are not available",
                )


def _global(parameter) -> bool:  # type: ignore[no-untyped-def]
    return parameter.support == "global" and parameter.rank == "scalar"


def _mean_weights(sample: Sample) -> Float[Tensor, "F G N"]:
    """Weights of each group's mean data, as in the sample."""
    problem: Problem = sample.problem
    placed = sample.frame.place(sample.mesh)
    weights = np.zeros((problem.n_components, len(problem.groups), sample.n_nodes))
    for g, group in enumerate(problem.groups):
        if group not in placed.groups:
            continue
        measure = neumann_load(placed, group, np.ones(sample.n_nodes))
        for f in range(problem.n_components):
            own = sample.values.owner[:, f] == g
            if own.any():
                weights[f, g, own] = measure[own] / measure[own].sum()
    return torch.from_numpy(weights)


def _parameter_column(
    name: str, parameters: Mapping[str, Float[Tensor, "*n"]], n: int
) -> Float[Tensor, "N"]:
    if found := re.fullmatch(r"\|parameter:(.+)\|", name):
        return torch.linalg.vector_norm(parameters[found[1]], dim=-1).expand(n)
    label, _, axis = name.removeprefix("parameter:").partition(":")
    value = parameters[label]
    if axis:
        value = value[..., int(axis) - 1]
    return value.reshape(-1).expand(n) if value.numel() == 1 else value


def _length(vectors: Float[Tensor, "N d"]) -> Float[Tensor, "N"]:
    """Lengths, with derivative 0 where the vector vanishes: torch's own is 0 there too."""
    return torch.linalg.vector_norm(vectors, dim=1)


def _sparse(matrix) -> Tensor:  # type: ignore[no-untyped-def]
    coo = matrix.tocoo()
    places = np.stack([coo.row, coo.col]).astype(np.int64)
    return torch.sparse_coo_tensor(
        torch.from_numpy(places), torch.from_numpy(coo.data), coo.shape, check_invariants=False
    )
