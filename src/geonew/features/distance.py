r"""Distances: to boundary facets, to groups of them, and to the sets where groups touch.

.. math:: d_S(x) = \min_{y \in S} |x - y|,

with S a union of segments or triangles, not of their nodes: the distance to the nearest boundary
*node* is wrong by up to half an edge, everywhere near the boundary, and depends on the mesh.

libigl finds the nearest point y by a bounding-box tree; :math:`|x - y|` is then taken from y,
since the root of its squared distance has lost half the digits near S. Nodes of S have
distance exactly 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

import igl
import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from geonew.errors import FeatureError
from geonew.mesh import Mesh


def distance_to(mesh: Mesh, simplices: Int[ndarray, "S k"]) -> Float[ndarray, "N"]:
    """Distance of every node to a union of vertices, segments or triangles of the mesh."""
    if len(simplices) == 0:
        raise FeatureError("the distance to an empty set is not defined")
    space = np.zeros((mesh.n_nodes, 3))
    space[:, : mesh.dim] = mesh.points
    # libigl takes a point as a segment of length 0
    segments = np.repeat(simplices, 2, axis=1) if simplices.shape[1] == 1 else simplices
    used, local = np.unique(segments, return_inverse=True)
    elements = np.ascontiguousarray(local.reshape(segments.shape), dtype=np.int64)
    _, _, nearest = igl.point_mesh_squared_distance(space, space[used], elements)
    distance = np.linalg.norm(space - np.asarray(nearest), axis=1)
    distance[used] = 0.0
    return distance


def boundary_distance(mesh: Mesh) -> Float[ndarray, "N"]:
    """SDF: distance to the boundary, positive inside."""
    return distance_to(mesh, mesh.boundary_facets)


def group_distance(mesh: Mesh, groups: Iterable[str]) -> Float[ndarray, "N"] | None:
    """Distance to the union of some groups; none where the mesh has none of them."""
    present = [mesh.facets_of(group) for group in groups if group in mesh.groups]
    return distance_to(mesh, np.concatenate(present)) if present else None


def contact_distance(mesh: Mesh, groups: Iterable[str]) -> Float[ndarray, "N"] | None:
    r"""Distance to the contact set :math:`\bigcup_{a \ne b} \overline{\Gamma_a} \cap
    \overline{\Gamma_b}`; none where no two of the groups touch.
    """
    parts = contact_set(mesh, groups)
    return np.min([distance_to(mesh, part) for part in parts], axis=0) if parts else None


def contact_set(mesh: Mesh, groups: Iterable[str]) -> list[Int[ndarray, "_ k"]]:
    """Where groups touch: shared vertices, and in 3D the shared edges too."""
    present = [mesh.facets_of(group) for group in groups if group in mesh.groups]
    vertices = [np.intersect1d(a, b) for a, b in combinations(present, 2)]
    shared = np.unique(np.concatenate(vertices)) if vertices else np.empty(0, dtype=np.int64)
    if shared.size == 0:
        return []
    parts: list[ndarray] = [shared[:, None]]
    if mesh.dim == 3:
        edges = np.concatenate(
            [_common_rows(_edges(a), _edges(b)) for a, b in combinations(present, 2)]
        )
        if len(edges):
            parts.append(edges)
    return parts


def _edges(facets: ndarray) -> ndarray:
    sides = [facets[:, [0, 1]], facets[:, [0, 2]], facets[:, [1, 2]]]
    return np.unique(np.concatenate(sides), axis=0)


def _common_rows(a: ndarray, b: ndarray) -> ndarray:
    rows, count = np.unique(np.concatenate([a, b]), axis=0, return_counts=True)
    return rows[count > 1]
