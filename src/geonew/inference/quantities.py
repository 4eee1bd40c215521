r"""Numbers read off fields: a flux through a group, a mean, a drop between groups, a point value.

.. math:: \int_\Gamma u \cdot n, \qquad \frac{1}{|\Gamma|} \int_\Gamma p, \qquad u(x),

each a weighted sum over nodes, exact for P1 fields. They take NumPy arrays and torch tensors alike,
so that the same quantity is read off a prediction, differentiated, and compared with a reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray
from numpy.typing import ArrayLike

from geonew.errors import InputError
from geonew.fem.interpolate import locate
from geonew.fem.loads import neumann_load, normal_load
from geonew.mesh import Mesh


@dataclass(frozen=True, eq=False)
class Quantity:
    """A linear functional of one field.

    Args:
        name: for people.
        field: which field.
        nodes: where it has weights.
        weights: (n,) for a scalar field or (n, d) for a vector.

    """

    name: str
    field: str
    nodes: Int[ndarray, "n"]
    weights: Float[ndarray, "n *d"]

    def __call__(self, fields: Mapping[str, Any]) -> Any:
        """Its value: a number, or a tensor where the field is one."""
        if self.field not in fields:
            raise InputError(
                f"{self.name} is read off the field {self.field!r}", f"there are {list(fields)}"
            )
        values = fields[self.field]
        if np.shape(values)[1:] != self.weights.shape[1:]:
            raise InputError(
                f"{self.name}: the field {self.field!r} has shape {tuple(np.shape(values))}",
                "of a vector take a flux or a component, of a scalar a mean or a value",
            )
        if isinstance(values, ndarray):
            return float((values[self.nodes] * self.weights).sum())
        here = values[self.nodes.tolist()]
        return (here * here.new_tensor(self.weights)).sum()

    def __sub__(self, other: Quantity) -> Quantity:
        """The difference of two quantities of the same field."""
        if other.field != self.field or other.weights.shape[1:] != self.weights.shape[1:]:
            raise InputError(f"{self.name} and {other.name} are read off different fields")
        return Quantity(
            f"{self.name} minus {other.name}",
            self.field,
            np.concatenate([self.nodes, other.nodes]),
            np.concatenate([self.weights, -other.weights]),
        )


def flux_through(mesh: Mesh, group: str, name: str) -> Quantity:
    """Integral of u.n over a group, n outward; of a vector field."""
    load = normal_load(mesh, group, np.ones(mesh.n_nodes))
    nodes = mesh.nodes_of(group)
    return Quantity(f"flux of {name} through {group}", name, nodes, load[nodes])


def mean_over(mesh: Mesh, group: str, name: str) -> Quantity:
    """Mean of a scalar field over a group."""
    load = neumann_load(mesh, group, np.ones(mesh.n_nodes))
    nodes = mesh.nodes_of(group)
    return Quantity(f"mean of {name} over {group}", name, nodes, load[nodes] / load.sum())


def drop_between(mesh: Mesh, first: str, second: str, name: str) -> Quantity:
    """Mean over the first group minus mean over the second: a pressure drop."""
    return mean_over(mesh, first, name) - mean_over(mesh, second, name)


def value_at(mesh: Mesh, point: ArrayLike, name: str, axis: int | None = None) -> Quantity:
    """Value of a field at a point; of a vector field the component along a coordinate axis."""
    place = np.asarray(point, dtype=np.float64)
    if place.shape != (mesh.dim,):
        raise InputError(f"a point has {mesh.dim} coordinates, not {place.shape}")
    cell, weights = locate(mesh, place[None])
    if cell[0] < 0:
        raise InputError(f"the point {place.tolist()} lies outside the mesh", "choose another")
    row: ndarray = weights[0]
    if axis is not None:
        if not 0 <= axis < mesh.dim:
            raise InputError(f"axis {axis} does not exist in {mesh.dim}D")
        row = row[:, None] * np.eye(mesh.dim)[axis]
    return Quantity(f"{name} at {place.tolist()}", name, mesh.cells[cell[0]], row)
