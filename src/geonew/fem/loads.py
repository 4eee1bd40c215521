r"""Loads: sources and Neumann data tested with the hat functions.

.. math::
    (\ell_f)_i = \int_\Omega f \phi_i, \qquad
    (\ell_g)_i = \int_\Gamma g \phi_i, \qquad
    (\ell_{gn})_i = \int_\Gamma g\, n\, \phi_i,

f and g interpolated in P1, n the outward normal of each facet. The integrals are closed: on a
simplex S with k vertices :math:`\int_S \phi_i \phi_j = |S| (1 + \delta_{ij}) / (k (k + 1))`.

Identities kept: the hat functions sum to 1, so a load sums to the integral of its density; and the
boundary is closed, so :math:`\sum_i (\ell_{n})_i = 0` over all groups. A normal averaged over the
nodes of a curved or cornered group would keep neither.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from geonew.mesh import Mesh
from geonew.mesh.mesh import find_rows


def source_load(mesh: Mesh, f: Float[ndarray, "N *F"]) -> Float[ndarray, "N *F"]:
    r""":math:`\int f \phi_i` for nodal values f: the mass matrix times f, without the matrix."""
    return _tested(mesh.n_nodes, mesh.cells, mesh.volumes, f[mesh.cells])


def neumann_load(mesh: Mesh, group: str, g: Float[ndarray, "N *F"]) -> Float[ndarray, "N *F"]:
    r""":math:`\int_\Gamma g \phi_i` over a boundary group, for nodal values g read on its nodes."""
    facets = mesh.facets_of(group)
    areas = np.linalg.norm(group_normals(mesh, group), axis=1)
    return _tested(mesh.n_nodes, facets, areas, g[facets])


def normal_load(mesh: Mesh, group: str, g: Float[ndarray, "N"]) -> Float[ndarray, "N d"]:
    r""":math:`\int_\Gamma g\, n\, \phi_i`, n the facet's own outward normal.

    A pressure p_out prescribed at an outlet is the traction :math:`-p_{out}\, n`: g = -p_out.
    """
    facets, normals = mesh.facets_of(group), group_normals(mesh, group)
    return _tested(
        mesh.n_nodes, facets, np.ones(len(facets)), g[facets][..., None] * normals[:, None]
    )


def group_normals(mesh: Mesh, group: str) -> Float[ndarray, "_ d"]:
    """Outward normals of a group's facets, in their order, each as long as the facet's measure."""
    position = find_rows(mesh.facets_of(group), mesh.boundary_facets, mesh.n_nodes)
    return mesh.boundary_normals[position]


def node_normals(mesh: Mesh, group: str) -> Float[ndarray, "N d"]:
    """Unit normals at the nodes of a group, the mean of its facets by measure; zero elsewhere.

    For display and features; loads take the facets' own normals. Where the facets' normals cancel
    (both faces of a sheet without thickness) the mean has no direction and is zero.
    """
    sums = normal_load(mesh, group, np.ones(mesh.n_nodes))
    areas = neumann_load(mesh, group, np.ones(mesh.n_nodes))
    size = np.linalg.norm(sums, axis=1)
    directed = size > CANCELLED * areas
    return np.where(directed[:, None], sums / np.where(directed, size, 1.0)[:, None], 0.0)


# Sums of normals shorter than this, relative to the sum of their lengths, are round-off.
CANCELLED = 1e-9


def _tested(
    n_nodes: int,
    simplices: Int[ndarray, "S k"],
    measures: Float[ndarray, "S"],
    values: Float[ndarray, "S k *F"],
) -> Float[ndarray, "_ *F"]:
    """Sum over simplices of measure (sum of corner values + own value) / (k (k + 1))."""
    k = simplices.shape[1]
    weight = measures.reshape(-1, *[1] * (values.ndim - 1)) / (k * (k + 1))
    return sum_at(n_nodes, simplices, weight * (values.sum(axis=1, keepdims=True) + values))


def sum_at(
    n_nodes: int, simplices: Int[ndarray, "S k"], corners: Float[ndarray, "S c *F"]
) -> Float[ndarray, "N *F"]:
    """Sums at the nodes of what the simplices have at their corners, or (c = 1) at all alike."""
    each = np.broadcast_to(corners, (*simplices.shape, *corners.shape[2:]))
    columns = each.reshape(simplices.size, -1).T
    sums = [np.bincount(simplices.ravel(), column, n_nodes) for column in columns]
    return np.stack(sums, axis=-1).reshape(n_nodes, *corners.shape[2:])
