r"""Fine operators: the P1 and Whitney matrices of one mesh, in float64.

With :math:`\phi_i` the hat functions of the vertices,

.. math::
    K_{ij} = \int \nabla\phi_i\cdot\nabla\phi_j,\quad
    (M_0)_{ij} = \int \phi_i\phi_j,\quad
    (G_k)_{ij} = \int \phi_i\,\partial_k\phi_j,

and with the Whitney forms of :mod:`geonew.fem.whitney` on edges and faces, ``d0`` (rows
:math:`e_j - e_i`) and ``d1`` the incidence matrices of vertices, edges and faces.

Identities kept, asserted to round-off on every mesh of the tests: :math:`d_1 d_0 = 0`,
:math:`K = d_0^T M_1 d_0`, :math:`K 1 = 0`, K symmetric to the last bit and positive semidefinite,
:math:`G_k + G_k^T = \int_{\partial\Omega} \phi_i\phi_j n_k`.

The paper needs K, M0 and M1 for its reduced space; G, the lumped mass and the boundary masses serve
mesh features, known first-order terms and Neumann loads.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray
from scipy.sparse import coo_array, csr_array

from geonew.errors import MeshError
from geonew.fem import whitney
from geonew.mesh import Mesh
from geonew.mesh.mesh import find_rows


@dataclass(frozen=True, eq=False)
class FineOperators:
    """Matrices of one mesh; the Whitney masses are assembled when first asked for.

    Args:
        mesh: where they live.
        stiffness: K.
        mass: M0.
        gradient: G_k for k = 0 .. d-1; ``G_k @ u / lumped`` is a nodal derivative.

    """

    mesh: Mesh
    stiffness: csr_array
    mass: csr_array
    gradient: tuple[csr_array, ...]

    @cached_property
    def lumped(self) -> Float[ndarray, "N"]:
        r"""Lumped mass :math:`m_i = \int \phi_i = (M_0 1)_i`."""
        return np.asarray(self.mass.sum(axis=1)).ravel()

    @cached_property
    def d0(self) -> csr_array:
        """Incidence of edges and vertices, row of edge (i, j), i < j: e_j - e_i."""
        return whitney.vertex_to_edge(self.mesh)

    @cached_property
    def d1(self) -> csr_array:
        """Incidence of faces and edges, row of face (i, j, k), i < j < k: (i,j) + (j,k) - (i,k)."""
        return whitney.edge_to_face(self.mesh)

    @cached_property
    def whitney1_mass(self) -> csr_array:
        """M1, the mass of Whitney 1-forms, in the order and orientation of ``mesh.edges``."""
        return whitney.edge_mass(self.mesh)

    @cached_property
    def whitney2_mass(self) -> csr_array:
        """M2, the mass of Whitney 2-forms, in the order and orientation of ``mesh.faces``."""
        return whitney.face_mass(self.mesh)

    def boundary_mass(self, group: str) -> csr_array:
        r"""Mass :math:`\int_\Gamma \phi_i\phi_j` over one boundary group, for Neumann loads."""
        return boundary_mass(self.mesh, self.mesh.facets_of(group))

    def nodal_gradient(self, values: Float[ndarray, "N *C"]) -> Float[ndarray, "N *C d"]:
        r"""Mass-lumped averages :math:`(G_k u)_i / m_i` of the gradient of P1 functions."""
        weight = self.lumped.reshape(-1, *[1] * (values.ndim - 1))
        return np.stack([(G @ values) / weight for G in self.gradient], axis=-1)


def assemble(mesh: Mesh) -> FineOperators:
    r"""The fine operators of a mesh, cell by cell in closed form.

    With g_a the constant gradients of the hat functions of a cell T,

    .. math:: |T|\, g_a\cdot g_b, \qquad |T| \frac{1 + \delta_{ab}}{(d+1)(d+2)}, \qquad
              \frac{|T|}{d+1}\, (g_b)_k.
    """
    d, volumes, slopes = mesh.dim, mesh.volumes[:, None, None], _hat_gradients(mesh)
    stiffness = _summed(mesh, volumes * (slopes @ slopes.mT))
    mass = _summed(mesh, volumes * (1 + np.eye(d + 1)) / ((d + 1) * (d + 2)))
    each = np.repeat((volumes / (d + 1) * slopes)[:, None], d + 1, axis=1)  # (C, a, b, k)
    gradient = tuple(_summed(mesh, each[..., k]) for k in range(d))
    return FineOperators(mesh, _symmetric(stiffness), _symmetric(mass), gradient)


def stiffness_parts(
    mesh: Mesh, rotation: Float[ndarray, "d d"]
) -> dict[tuple[int, int], csr_array]:
    r"""The parts :math:`(K_{jk})_{ab} = \int \partial_j\phi_a\,\partial_k\phi_b`, j <= k, of K.

    Args:
        mesh: in any axes.
        rotation: its rows are the axes of the directions j and k.

    """
    slopes = _hat_gradients(mesh) @ rotation.T
    weighted, parts = mesh.volumes[:, None, None] * slopes, {}
    for j, k in combinations_with_replacement(range(mesh.dim), 2):
        part = _summed(mesh, weighted[:, :, None, j] * slopes[:, None, :, k])
        parts[j, k] = _symmetric(part) if j == k else part
    return parts


def boundary_mass(mesh: Mesh, facets: Int[ndarray, "B d"]) -> csr_array:
    r"""Boundary mass over boundary facets f, in closed form
    :math:`\int_f \phi_i\phi_j = |f| (1 + \delta_{ij}) / (d(d+1))`.

    scikit-fem takes traces from the cells, which leaves round-off at the vertex opposite a facet.
    """
    d = mesh.dim
    position = find_rows(np.sort(facets, axis=1), mesh.boundary_facets, mesh.n_nodes)
    if (position < 0).any():
        raise MeshError(
            f"{int((position < 0).sum())} of {len(facets)} facets are not on the boundary"
        )
    measure = np.linalg.norm(mesh.boundary_normals[position], axis=1)
    local = measure[:, None, None] * (1 + np.eye(d)) / (d * (d + 1))
    rows, columns = np.repeat(facets, d, axis=1), np.tile(facets, (1, d))
    entries = (local.ravel(), (rows.ravel(), columns.ravel()))
    return csr_array(coo_array(entries, shape=(mesh.n_nodes, mesh.n_nodes)))


def _hat_gradients(mesh: Mesh) -> Float[ndarray, "C v d"]:
    """Gradients of the hat functions in each cell: dual to its edges from the first vertex."""
    corners = mesh.points[mesh.cells]
    others = np.linalg.inv(corners[:, 1:] - corners[:, :1]).mT
    return np.concatenate([-others.sum(axis=1, keepdims=True), others], axis=1)


def _summed(mesh: Mesh, local: Float[ndarray, "C v v"]) -> csr_array:
    """The cells' small matrices as one."""
    v = mesh.dim + 1
    cells = mesh.cells.astype(np.int32)
    rows, columns = np.repeat(cells, v, axis=1), np.tile(cells, (1, v))
    entries = (local.ravel(), (rows.ravel(), columns.ravel()))
    return csr_array(coo_array(entries, shape=(mesh.n_nodes, mesh.n_nodes)))


def _symmetric(matrix: csr_array) -> csr_array:
    """Entries (i, j) and (j, i) are sums in different order; their mean is symmetric to the bit."""
    return csr_array((matrix + matrix.T) * 0.5)
