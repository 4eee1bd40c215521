r"""Lagrange spaces P1 and P2 on a mesh, and their integrals as products with reference tensors.

On an affine cell :math:`x = x_0 + J \xi` every integral factors into geometry times a table that is
the same for all cells, for instance

.. math:: \int_c k\, \partial_a \varphi_i\, \partial_b \varphi_j
          = \sum_{q r s} \left[ |J|\, k(x_q)\, J^{-1}_{ra} J^{-1}_{sb} \right]
            \left[ w_q\, \partial_r \hat\varphi_i\, \partial_s \hat\varphi_j \right](\xi_q),

so a whole mesh is one matrix product. Basis functions and quadrature come from scikit-fem; its form
language is not used here because the Newton loop assembles the same two tensors again and again,
and one matrix product does that ten times faster than one einsum per pair of basis functions.

Nodes of P2 are the vertices, in the mesh's order, then the midpoints of ``mesh.edges``: the first N
coefficients are the values at the vertices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import skfem
from jaxtyping import Float, Int
from numpy import ndarray
from scipy.sparse import coo_matrix, csr_matrix
from scipy.spatial import KDTree
from skfem.quadrature import get_quadrature
from skfem.refdom import RefLine, RefTet, RefTri

from geonew.errors import MeshError
from geonew.mesh import Mesh
from geonew.mesh.mesh import find_rows

_ELEMENTS = {
    (1, 1): skfem.ElementLineP1,
    (1, 2): skfem.ElementLineP2,
    (2, 1): skfem.ElementTriP1,
    (2, 2): skfem.ElementTriP2,
    (3, 1): skfem.ElementTetP1,
    (3, 2): skfem.ElementTetP2,
}
_REFERENCE_CELLS = {1: RefLine, 2: RefTri, 3: RefTet}

# Data given as functions are integrated exactly up to this polynomial degree times a P2 function.
DATA_DEGREE = 4

# A point is inside a cell up to this (negative) barycentric coordinate.
OUTSIDE = -1e-9
# Cells whose middle is nearest to a point are searched first; flat cells may need more of them, and
# the last resort is all. Points are searched for in parts with at most so many pairs.
NEAREST_CELLS = (16, 256)
LARGEST_SEARCH = 2_000_000


@dataclass(frozen=True)
class ReferenceTable:
    """Basis functions and their reference gradients at quadrature points.

    Args:
        points: quadrature points in the reference cell.
        weights: quadrature weights; they sum to the measure of the reference cell.
        phi: values, basis function by point.
        dphi: reference gradients, basis function by direction by point.

    """

    points: Float[ndarray, "m q"]
    weights: Float[ndarray, "q"]
    phi: Float[ndarray, "k q"]
    dphi: Float[ndarray, "k m q"]


def reference_table(cell_dim: int, degree: int, order: int) -> ReferenceTable:
    """The P``degree`` basis on the reference simplex, exact for integrands of ``order``."""
    # scikit-fem's rules for tetrahedra of order 5 to 8 are exact to one degree less than they say.
    asked = order + 1 if cell_dim == 3 and order >= 5 else order
    points, weights = get_quadrature(_REFERENCE_CELLS[cell_dim], asked)
    phi, dphi = _tabulate(cell_dim, degree, points)
    return ReferenceTable(points, weights, phi, dphi)


def _tabulate(cell_dim: int, degree: int, points: ndarray) -> tuple[ndarray, ndarray]:
    element = _ELEMENTS[cell_dim, degree]()
    values, gradients = zip(
        *(element.lbasis(points, i) for i in range(len(element.doflocs))), strict=True
    )
    count = points.shape[1]
    phi = np.stack([np.broadcast_to(v, (count,)) for v in values])
    dphi = np.stack([np.broadcast_to(g, (cell_dim, count)) for g in gradients])
    return phi.astype(np.float64), dphi.astype(np.float64)


def _simplex_nodes(simplices: ndarray, mesh: Mesh, degree: int) -> ndarray:
    """Node numbers of each simplex in scikit-fem's local order (vertices, then edges)."""
    if degree == 1:
        return simplices
    m = simplices.shape[1] - 1
    middles = np.asarray(_ELEMENTS[m, 2]().doflocs)[m + 1 :]  # local coordinates of edge midpoints
    barycentric = np.column_stack([1 - middles.sum(axis=1), middles])
    pairs = [np.flatnonzero(row > 0.25) for row in barycentric]
    edges = [
        mesh.n_nodes + find_rows(np.sort(simplices[:, pair], axis=1), mesh.edges, mesh.n_nodes)
        for pair in pairs
    ]
    return np.column_stack([simplices, *edges])


@dataclass(frozen=True, eq=False)
class LagrangeSpace:
    """Continuous piecewise polynomials of degree 1 or 2 on a mesh; see the module docstring."""

    mesh: Mesh
    degree: int

    def __post_init__(self) -> None:
        if self.degree not in (1, 2):
            raise MeshError(f"Lagrange degree {self.degree} is not available", "use 1 or 2")

    # -- nodes ---------------------------------------------------------------------------------

    @property
    def n(self) -> int:
        """Number of nodes."""
        return self.mesh.n_nodes + (len(self.mesh.edges) if self.degree == 2 else 0)

    @cached_property
    def points(self) -> Float[ndarray, "n d"]:
        """Coordinates of the nodes."""
        vertices = self.mesh.points
        if self.degree == 1:
            return vertices
        return np.concatenate([vertices, vertices[self.mesh.edges].mean(axis=1)])

    @cached_property
    def cell_nodes(self) -> Int[ndarray, "C k"]:
        """Node numbers of each cell."""
        return _simplex_nodes(self.mesh.cells, self.mesh, self.degree)

    def facet_nodes(self, group: str) -> Int[ndarray, "B k"]:
        """Node numbers of each facet of a boundary group."""
        return self.facet_nodes_of(self.mesh.facets_of(group))

    def facet_nodes_of(self, facets: Int[ndarray, "B d"]) -> Int[ndarray, "B k"]:
        """Node numbers of each of these facets, given by their vertices."""
        return _simplex_nodes(facets, self.mesh, self.degree)

    def nodes_of(self, group: str) -> Int[ndarray, "_"]:
        """Nodes of a boundary group, ascending."""
        return np.unique(self.facet_nodes(group))

    # -- geometry ------------------------------------------------------------------------------

    @cached_property
    def jacobian(self) -> Float[ndarray, "C d d"]:
        """J[c, a, r] = dx_a / dxi_r."""
        corners = self.mesh.points[self.mesh.cells]
        return np.swapaxes(corners[:, 1:] - corners[:, :1], 1, 2)

    @cached_property
    def inverse(self) -> Float[ndarray, "C d d"]:
        """J^-1[c, r, a] = dxi_r / dx_a."""
        return np.linalg.inv(self.jacobian)

    @cached_property
    def determinant(self) -> Float[ndarray, "C"]:
        """|J|, the measure of the cell over that of the reference cell."""
        return self.mesh.volumes * (2.0 if self.mesh.dim == 2 else 6.0)

    def table(self, order: int) -> ReferenceTable:
        """Basis on the reference cell at the points of a quadrature of that order."""
        return reference_table(self.mesh.dim, self.degree, order)

    def physical(self, reference_points: Float[ndarray, "d q"]) -> Float[ndarray, "C q d"]:
        """The points of every cell with these reference coordinates."""
        origin = self.mesh.points[self.mesh.cells[:, 0]]
        return origin[:, None] + np.swapaxes(self.jacobian @ reference_points, 1, 2)

    # -- matrices ------------------------------------------------------------------------------

    @cached_property
    def pattern(self) -> tuple[ndarray, ndarray, ndarray]:
        """CSR ``indptr`` and ``indices`` of matrices here, and the slot of each local entry."""
        k = self.cell_nodes.shape[1]
        rows = np.repeat(self.cell_nodes, k, axis=1).ravel()
        cols = np.tile(self.cell_nodes, (1, k)).ravel()
        ones = np.ones(len(rows), dtype=np.int8)
        csr = coo_matrix((ones, (rows, cols)), shape=(self.n, self.n)).tocsr()
        csr.sum_duplicates()
        owners = np.repeat(np.arange(self.n, dtype=np.int64), np.diff(csr.indptr))
        slot = np.searchsorted(owners * self.n + csr.indices, rows * self.n + cols)
        return csr.indptr, csr.indices, slot

    def entries(self, local: ndarray) -> Float[ndarray, "nnz"]:
        """Sum local matrices, k x k per cell in any shape, into the sparse matrix's entries."""
        _, indices, slot = self.pattern
        return np.bincount(slot, weights=local.ravel(), minlength=len(indices))

    def matrix(self, entries: Float[ndarray, "nnz"]) -> csr_matrix:
        """The sparse matrix with these entries."""
        indptr, indices, _ = self.pattern
        return csr_matrix((entries, indices, indptr), shape=(self.n, self.n))

    def gradient_product(
        self, a: int, b: int, coefficient: Float[ndarray, "C q"] | None = None
    ) -> Float[ndarray, "nnz"]:
        r"""Entries of :math:`\int k\, \partial_a \varphi_i\, \partial_b \varphi_j`; k given at the
        points of :meth:`data_table`, or 1.
        """
        metric = np.einsum("cr,cs->crs", self.inverse[:, :, a], self.inverse[:, :, b])
        return self._weighted_gradients(metric, coefficient)

    def stiffness(self, coefficient: Float[ndarray, "C q"] | None = None) -> Float[ndarray, "nnz"]:
        r"""Entries of :math:`\int k \nabla \varphi_i \cdot \nabla \varphi_j`."""
        return self._weighted_gradients(self.inverse @ np.swapaxes(self.inverse, 1, 2), coefficient)

    def _weighted_gradients(self, metric: ndarray, coefficient: ndarray | None) -> ndarray:
        metric = metric * self.determinant[:, None, None]  # (C, r, s)
        if coefficient is None:
            table = self.table(2 * self.degree - 2)
            tensor = np.einsum("q,irq,jsq->rsij", table.weights, table.dphi, table.dphi)
            left = metric
        else:
            table = self.data_table
            tensor = np.einsum("q,irq,jsq->qrsij", table.weights, table.dphi, table.dphi)
            left = coefficient[:, :, None, None] * metric[:, None]
        k2 = tensor.shape[-1] ** 2
        return self.entries(left.reshape(len(left), -1) @ tensor.reshape(-1, k2))

    def mass(self) -> Float[ndarray, "nnz"]:
        r"""Entries of :math:`\int \varphi_i \varphi_j`."""
        table = self.table(2 * self.degree)
        tensor = np.einsum("q,iq,jq->ij", table.weights, table.phi, table.phi)
        return self.entries(self.determinant[:, None] * tensor.ravel())

    @cached_property
    def integral(self) -> Float[ndarray, "n"]:
        r"""The vector :math:`\int \varphi_i`."""
        table = self.table(self.degree)
        return self.scatter(self.determinant[:, None] * (table.phi @ table.weights))

    # -- vectors -------------------------------------------------------------------------------

    @cached_property
    def data_table(self) -> ReferenceTable:
        """The quadrature at which coefficients and loads are sampled."""
        return self.table(DATA_DEGREE + 2 * self.degree - 2)

    def scatter(self, local: Float[ndarray, "C k"]) -> Float[ndarray, "n"]:
        """Sum local vectors into a global one."""
        return np.bincount(self.cell_nodes.ravel(), weights=local.ravel(), minlength=self.n)

    def load(self, values: Float[ndarray, "C q"]) -> Float[ndarray, "n"]:
        r"""The vector :math:`\int f \varphi_i`, f given at the points of :attr:`data_table`."""
        table = self.data_table
        return self.scatter((values * self.determinant[:, None]) @ (table.phi * table.weights).T)

    def facet_load(
        self, group: str, values: Callable[[ndarray], ndarray]
    ) -> Float[ndarray, "n *tail"]:
        r"""The vector :math:`\int_{group} g \varphi_i`.

        ``values`` is called with points (n, d) and returns (n,) or, for a vector g, (n, d).
        """
        table = reference_table(self.mesh.dim - 1, self.degree, DATA_DEGREE + self.degree)
        corners = self.mesh.points[self.mesh.facets_of(group)]  # (B, d, d)
        edges = corners[:, 1:] - corners[:, :1]
        measure = np.sqrt(np.linalg.det(edges @ np.swapaxes(edges, 1, 2)))
        x = corners[:, :1] + np.einsum("brd,rq->bqd", edges, table.points)
        g = values(x.reshape(-1, self.mesh.dim))
        g = g.reshape(*x.shape[:2], *g.shape[1:])
        local = np.einsum("b,bq...,kq->bk...", measure, g, table.phi * table.weights)
        total = np.zeros((self.n, *local.shape[2:]))
        np.add.at(total, self.facet_nodes(group), local)
        return total

    # -- evaluation ----------------------------------------------------------------------------

    @cached_property
    def prolongation(self) -> csr_matrix:
        """Interpolation of P1 functions into this space, (n, N)."""
        n_vertices, edges = self.mesh.n_nodes, self.mesh.edges
        rows, cols = [np.arange(n_vertices)], [np.arange(n_vertices)]
        weights = [np.ones(n_vertices)]
        if self.degree == 2:
            rows.append(np.repeat(n_vertices + np.arange(len(edges)), 2))
            cols.append(edges.ravel())
            weights.append(np.full(2 * len(edges), 0.5))
        where = (np.concatenate(rows), np.concatenate(cols))
        return csr_matrix((np.concatenate(weights), where), shape=(self.n, n_vertices))

    def evaluate(
        self, coefficients: Float[ndarray, "n *tail"], points: Float[ndarray, "m d"]
    ) -> Float[ndarray, "m *tail"]:
        """Values at points of the domain of the function with these coefficients."""
        cells, local = self._locate(points)
        phi = _tabulate(self.mesh.dim, self.degree, local.T)[0]  # (k, m)
        return np.einsum("km,mk...->m...", phi, coefficients[self.cell_nodes[cells]])

    def _locate(self, points: ndarray) -> tuple[ndarray, ndarray]:
        """The cell each point lies deepest in, among ever more of the nearest, and its local
        coordinates there.
        """
        tree = KDTree(self.mesh.points[self.mesh.cells].mean(axis=1))
        cells = np.zeros(len(points), dtype=np.int64)
        local = np.zeros_like(points)
        lost = np.arange(len(points))
        for count in (*NEAREST_CELLS, self.mesh.n_cells):
            for part in np.array_split(lost, 1 + len(lost) * count // LARGEST_SEARCH):
                near = tree.query(points[part], min(count, self.mesh.n_cells))[1]
                near = np.reshape(near, (len(part), -1))
                offset = points[part][:, None] - self.mesh.points[self.mesh.cells[near, 0]]
                xi = np.einsum("mkra,mka->mkr", self.inverse[near], offset)
                deepest = _depth(xi).argmax(axis=1)[:, None]
                cells[part] = np.take_along_axis(near, deepest, axis=1)[:, 0]
                local[part] = np.take_along_axis(xi, deepest[..., None], axis=1)[:, 0]
            lost = lost[_depth(local[lost]) < OUTSIDE]
            if not lost.size:
                return cells, local
        raise MeshError(
            f"{len(lost)} of the {len(points)} points lie outside the mesh, for instance "
            f"{points[lost[0]]}",
            "evaluate only inside the domain; points on a curved boundary may lie outside the "
            "polygon that stands for it",
        )


def _depth(xi: ndarray) -> ndarray:
    """Smallest barycentric coordinate, negative outside of the cell."""
    return np.minimum(xi.min(axis=-1), 1 - xi.sum(axis=-1))
