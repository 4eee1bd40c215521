r"""Harmonic functions with values from boundary groups.

Coordinate of an ordered pair of groups, natural elsewhere:

.. math:: -\Delta h = 0,\quad h = 1 \text{ on } \Gamma_a,\quad h = 0 \text{ on } \Gamma_b,\quad
          \partial_n h = 0 \text{ on the rest},

the potential of the flow from b to a along the other walls. A node of both groups gets 1/2, so that
:math:`h_{ab} = 1 - h_{ba}` also where they touch.

Indicators: :math:`h_g` is 1 on the nodes a group owns and 0 on the other fixed nodes.
Identity kept: :math:`h_g \ge 0,\ \sum_g h_g = 1`. The discrete maximum principle fails where K has
positive off-diagonal entries (obtuse angles; nearly every 3D mesh): there the indicators are
clamped at 0 and divided by their sum, which changes no fixed node.

Where two groups touch with different values the gradient grows like 1/d, d the distance to the
contact set; d grad h stays bounded.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from geonew.fem.dirichlet import SolverPool, has_positive_couplings
from geonew.mesh import Mesh


def harmonic_coordinate(
    mesh: Mesh, pool: SolverPool, first: str, second: str
) -> Float[ndarray, "N"] | None:
    """1 on the first group, 0 on the second, natural elsewhere; none if the mesh lacks one."""
    if first not in mesh.groups or second not in mesh.groups:
        return None
    ones, zeros = mesh.nodes_of(first), mesh.nodes_of(second)
    value = np.zeros(mesh.n_nodes)
    value[ones] = 1.0
    value[np.intersect1d(ones, zeros)] = 0.5
    solver = pool.fixing(np.union1d(ones, zeros))
    return solver.extend(value[solver.fixed])


def group_indicators(
    pool: SolverPool, owner: Int[ndarray, "N"], n_groups: int
) -> Float[ndarray, "N G"]:
    """Harmonic extensions h_g of the indicators of the nodes each group owns (-1: free node)."""
    solver = pool.fixing(np.flatnonzero(owner >= 0))
    present, column = np.unique(owner[solver.fixed], return_inverse=True)
    extended = solver.extend(np.eye(len(present))[column])
    if has_positive_couplings(pool.stiffness):
        extended = np.maximum(extended, 0.0)
    extended[solver.free] /= extended[solver.free].sum(axis=1, keepdims=True)
    indicators = np.zeros((len(owner), n_groups))
    indicators[:, present] = extended
    return indicators


def data_extension(
    pool: SolverPool, owner: Int[ndarray, "N"], value: Float[ndarray, "N"], n_groups: int
) -> Float[ndarray, "N G"]:
    """Harmonic extensions E_g of the data, the part each group owns; their sum extends all data."""
    solver = pool.fixing(np.flatnonzero(owner >= 0))
    parts = np.zeros((len(solver.fixed), n_groups))
    parts[np.arange(len(solver.fixed)), owner[solver.fixed]] = value[solver.fixed]
    live = np.flatnonzero(parts.any(axis=0))  # a no-slip wall costs nothing
    extension = np.zeros((len(owner), n_groups))
    if live.size:
        extension[:, live] = solver.extend(parts[:, live])
    return extension
