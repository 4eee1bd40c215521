r"""Whitney forms on edges and faces, oriented by vertex numbers.

.. math::
    w_{ij} = \phi_i\nabla\phi_j - \phi_j\nabla\phi_i, \qquad
    w_{ijk} = 2(\phi_i\nabla\phi_j\times\nabla\phi_k + \phi_j\nabla\phi_k\times\nabla\phi_i
              + \phi_k\nabla\phi_i\times\nabla\phi_j),

for :math:`i < j < k`. The circulation of :math:`w_{ij}` along its own edge and the flux of
:math:`w_{ijk}` through its own face are 1, and 0 along or through the others.

Identities kept: :math:`d_1 d_0 = 0` in exact integers, and :math:`K = d_0^T M_1 d_0`, because
:math:`\nabla\phi_j = \sum_i w_{ij}` with the signs of d0. In 3D also the curl-curl form is
:math:`d_1^T M_2 d_1`.

scikit-fem's elements span the same spaces. Its edge element (``ElementTriN1``, ``ElementTetN0``)
differs from :math:`w_{ij}` by one sign common to all edges, which the mass does not see. Its face
element (``ElementTetRT0``) has flux 1/2 and points out of the first cell of each face, hence
:math:`w_f = 2\sigma_f\,\mathrm{RT}_f` with :math:`\sigma_f` the sign of that normal against
:math:`(x_j - x_i)\times(x_k - x_i)`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import skfem
from numpy import ndarray
from scipy.sparse import csr_array, diags_array
from skfem.helpers import dot

from geonew.errors import MeshError
from geonew.fem.bridge import skfem_mesh
from geonew.mesh import Mesh
from geonew.mesh.mesh import find_rows


def vertex_to_edge(mesh: Mesh) -> csr_array:
    """d0: row of edge (i, j) is e_j - e_i."""
    edges = mesh.edges
    signs = np.tile([-1.0, 1.0], len(edges))
    return _incidence(signs, edges, mesh.n_nodes)


def edge_to_face(mesh: Mesh) -> csr_array:
    """d1: row of face (i, j, k) is +(i, j) - (i, k) + (j, k)."""
    faces = mesh.faces
    sides = [faces[:, [0, 1]], faces[:, [0, 2]], faces[:, [1, 2]]]
    columns = np.stack([find_rows(side, mesh.edges, mesh.n_nodes) for side in sides], axis=1)
    return _incidence(np.tile([1.0, -1.0, 1.0], len(faces)), columns, len(mesh.edges))


def edge_mass(mesh: Mesh) -> csr_array:
    """M1 over ``mesh.edges``."""
    skmesh = skfem_mesh(mesh)
    if mesh.dim == 2:
        basis = skfem.Basis(skmesh, skfem.ElementTriN1(), intorder=2)
        table, dofs = skmesh.facets.T, np.asarray(basis.facet_dofs)[0]
    else:
        basis = skfem.Basis(skmesh, skfem.ElementTetN0(), intorder=2)
        table, dofs = skmesh.edges.T, np.asarray(basis.edge_dofs)[0]
    ours = np.empty(len(table), dtype=np.int64)
    ours[find_rows(np.sort(table, axis=1), mesh.edges, mesh.n_nodes)] = dofs
    return _reordered(_mass(basis), ours, np.ones(len(ours)))


def face_mass(mesh: Mesh) -> csr_array:
    """M2 over ``mesh.faces``, in 3D."""
    if mesh.dim != 3:
        raise MeshError(
            f"face Whitney forms with a vector value need a 3D mesh; this one is {mesh.dim}D",
            "in 2D the 2-forms are constants on cells; use mesh.volumes",
        )
    skmesh = skfem_mesh(mesh)
    basis = skfem.Basis(skmesh, skfem.ElementTetRT0(), intorder=2)
    table = skmesh.facets.T
    position = find_rows(table, mesh.faces, mesh.n_nodes)
    ours, scale = np.empty(len(table), dtype=np.int64), np.empty(len(table))
    ours[position] = np.asarray(basis.facet_dofs)[0]
    scale[position] = 2.0 * _outward_signs(mesh, skmesh, table)
    return _reordered(_mass(basis), ours, scale)


def _outward_signs(mesh: Mesh, skmesh: Any, table: ndarray) -> ndarray:
    """sigma: does (x_j - x_i) x (x_k - x_i) point out of the first cell of each face?"""
    corners = mesh.points[table]
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    first_cell = skmesh.t[:, skmesh.f2t[0]].T
    inside = mesh.points[first_cell].mean(axis=1)
    return np.sign(np.einsum("fd,fd->f", normal, corners[:, 0] - inside))


def _mass(basis: skfem.Basis) -> csr_array:
    return csr_array(skfem.BilinearForm(lambda u, v, w: dot(u, v)).assemble(basis))


def _reordered(matrix: csr_array, order: ndarray, scale: ndarray) -> csr_array:
    """Rows and columns taken in the given order, then scaled; symmetric to the bit."""
    scaling = diags_array(scale)
    taken = scaling @ csr_array(matrix[order][:, order]) @ scaling
    return csr_array((taken + taken.T) * 0.5)


def _incidence(signs: ndarray, columns: ndarray, width: int) -> csr_array:
    count, each = columns.shape
    starts = np.arange(0, count * each + 1, each)
    matrix = csr_array((signs, columns.ravel(), starts), shape=(count, width))
    matrix.sort_indices()
    return matrix
