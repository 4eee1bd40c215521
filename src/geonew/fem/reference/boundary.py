"""Data of a reference problem by boundary group: a constant, or a function of the points.

A scalar datum is a number or a function x (n, d) -> (n,); a vector datum a function x (n, d) ->
(n, d), or one scalar datum per component, where ``None`` leaves a component free. A node shared by
two groups belongs to the group listed first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from geonew.errors import BoundaryDataError
from geonew.fem.reference.space import LagrangeSpace

PointFunction = Callable[[ndarray], Any]
Scalar = float | int | PointFunction
Vector = PointFunction | Sequence[Scalar | None] | ndarray


def scalar_values(data: Scalar, x: Float[ndarray, "n d"], where: str) -> Float[ndarray, "n"]:
    """A scalar datum at points; ``where`` names it in errors."""
    values = np.asarray(data(x) if callable(data) else data, dtype=np.float64)
    if values.shape not in ((), (len(x),)):
        raise BoundaryDataError(
            f"{where}: the function returned shape {values.shape} for {len(x)} points",
            f"return ({len(x)},), one value per point",
        )
    return _finite(np.broadcast_to(values, (len(x),)).copy(), x, where)


def vector_values(
    data: Vector, x: Float[ndarray, "n d"], where: str
) -> tuple[Float[ndarray, "n d"], Bool[ndarray, "d"]]:
    """A vector datum at points, and which components it prescribes."""
    dim = x.shape[1]
    if callable(data):
        values = np.asarray(data(x), dtype=np.float64)
        if values.shape != x.shape:
            raise BoundaryDataError(
                f"{where}: the function returned shape {values.shape} for points {x.shape}",
                f"return {x.shape}, one vector per point",
            )
        return _finite(values, x, where), np.ones(dim, dtype=bool)
    if len(data) != dim:
        raise BoundaryDataError(
            f"{where}: {len(data)} components given in {dim}D",
            f"give {dim} components, None for a free one",
        )
    given = np.array([part is not None for part in data])
    values = np.zeros(x.shape)
    for a, part in enumerate(data):
        if part is not None:
            values[:, a] = scalar_values(part, x, f"{where}, component {a}")
    return values, given


def _finite(values: ndarray, x: ndarray, where: str) -> ndarray:
    bad = np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))
    if bad.size:
        raise BoundaryDataError(
            f"{where}: {bad.size} of {len(values)} values are not finite, first at {x[bad[0]]}",
            "check the function there",
        )
    return values


def dirichlet_nodes(
    space: LagrangeSpace, data: Mapping[str, Scalar]
) -> tuple[Int[ndarray, "m"], Float[ndarray, "m"]]:
    """Nodes with a prescribed scalar, ascending, and their values."""
    fixed = np.zeros(space.n, dtype=bool)
    values = np.zeros(space.n)
    for group, datum in data.items():
        nodes = space.nodes_of(group)
        nodes = nodes[~fixed[nodes]]
        values[nodes] = scalar_values(datum, space.points[nodes], f"Dirichlet data on {group!r}")
        fixed[nodes] = True
    nodes = np.flatnonzero(fixed)
    return nodes, values[nodes]


def dirichlet_components(
    space: LagrangeSpace, data: Mapping[str, Vector]
) -> tuple[Bool[ndarray, "n d"], Float[ndarray, "n d"]]:
    """Which components are prescribed at which nodes, and their values (0 where free)."""
    fixed = np.zeros(space.points.shape, dtype=bool)
    values = np.zeros(space.points.shape)
    for group, datum in data.items():
        nodes = space.nodes_of(group)
        new, given = vector_values(datum, space.points[nodes], f"Dirichlet data on {group!r}")
        take = given & ~fixed[nodes]
        values[nodes] = np.where(take, new, values[nodes])
        fixed[nodes] |= take
    return fixed, values


def check_groups_apart(
    first: Mapping[str, object], second: Mapping[str, object], what: str
) -> None:
    """Refuse a group that carries two kinds of data at once."""
    both = sorted(set(first) & set(second))
    if both:
        raise BoundaryDataError(f"groups {both} carry {what}", "give each group one of the two")
