r"""Meshes with a wanted number of nodes, and what all families share: levels, axes, splits.

The number of nodes of a mesh of size h is about :math:`a + b / h^d`: the boundary's curves and gaps
have nodes of their own. The size is found by a secant in :math:`h^{-d}`, on the coarse level; the
other levels halve it, so that all levels belong to one geometry and one size field.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from geonew.data.record import Case, Level, Split
from geonew.errors import InputError, ShapeError
from geonew.mesh import Mesh
from geonew.shape import Shape, Solid, triangulate

# What coarse means for every family that is not a fixed grid.
FEWEST_NODES, MOST_NODES = 700, 1200
MOST_TRIES = 6
# Nodes per |Omega| / h^d, for the first guess.
DENSITY = {2: 1.9, 3: 1.5}
# Of the nodes, boundaries are never taken to cost more than this share: cells grow away from them.
BOUNDARY_SHARE = 0.8


def mesh_of(
    shape: Shape | Solid,
    level: Level,
    nodes: int,
    volume: float,
    *,
    extra: float = 0.0,
    per_cell: float | None = None,
    fewest: int = FEWEST_NODES,
    most: int = MOST_NODES,
    corner_refinement: float = 4.0,
    curve_points: int | None = None,
) -> Mesh:
    """A mesh of the level; the coarse one has about ``nodes`` nodes.

    Args:
        shape: the domain.
        level: which level.
        nodes: wanted number of nodes of the coarse level.
        volume: measure of the domain, for the first guess.
        extra: nodes that curves, corners and gaps take, for the first guess.
        per_cell: nodes per volume / size^d, for the first guess.
        fewest: fewest nodes to be content with.
        most: most nodes to be content with.
        corner_refinement: see :func:`geonew.shape.triangulate`.
        curve_points: see :func:`geonew.shape.triangulate`.

    """
    dim = 2 if isinstance(shape, Shape) else 3

    def made(density: float, at: Level) -> Mesh:
        return triangulate(
            shape,
            density ** (-1 / dim),
            level=at,
            corner_refinement=corner_refinement,
            curve_points=curve_points,
        )

    extra = min(extra, BOUNDARY_SHARE * nodes)
    cost = (per_cell or DENSITY[dim]) * volume
    tried: list[tuple[float, int]] = []
    for _ in range(MOST_TRIES):
        density = (nodes - extra) / cost
        mesh = made(density, "coarse")
        if fewest <= mesh.n_nodes <= most:
            return mesh if level == "coarse" else made(density, level)
        tried.append((density, mesh.n_nodes))
        extra = min(extra, BOUNDARY_SHARE * mesh.n_nodes)
        if len(tried) > 1:
            (x, m), (y, n) = tried[-2:]
            extra = float(
                np.clip(m - x * (n - m) / (y - x), 0.0, BOUNDARY_SHARE * min(m, n, nodes))
            )
        cost = (mesh.n_nodes - extra) / density
    raise ShapeError(
        f"no mesh with {fewest} to {most} nodes was found in {MOST_TRIES} tries: the last has "
        f"{mesh.n_nodes}",
        "its gaps and curves take too many nodes; draw another shape",
    )


def check_axis(
    family: str, axis: tuple[str, float] | None, allowed: Mapping[str, tuple[float, float]]
) -> tuple[str, float] | None:
    """The axis of a sweep, or an error that lists the axes of the family with their ranges."""
    if axis is None:
        return None
    name, value = axis
    if name not in allowed:
        raise InputError(
            f"family {family!r} has no axis {name!r}",
            f"its axes are {_listed(allowed)}" if allowed else "it cannot be swept",
        )
    low, high = allowed[name]
    if not low <= value <= high:
        raise InputError(
            f"axis {name!r} of family {family!r} is {value}", f"its range is {low:g} to {high:g}"
        )
    return name, float(value)


def refuse_swap(family: str, swap: bool) -> None:
    """An error for families whose flow cannot be reversed."""
    if swap:
        raise InputError(
            f"family {family!r} has no inlet and outlet to swap",
            "swap is for the flow families ns2d-c, ns2d-c++, ns2d-re, pipe and duct-stokes",
        )


def check_case(family: str, case: Case) -> None:
    """Refuse the case of another family."""
    if case.family != family:
        raise InputError(
            f"family {family!r} was given a case of family {case.family!r}",
            "solve it with the family that drew it: geonew.data.families.family(case.family)",
        )


def is_ood(split: Split, axis: tuple[str, float] | None) -> bool:
    """Whether all axes are drawn out of distribution: the split ``ood`` without a sweep."""
    return split == "ood" and axis is None


def _listed(allowed: Mapping[str, tuple[float, float]]) -> str:
    return ", ".join(f"{name} ({low:g} to {high:g})" for name, (low, high) in allowed.items())
