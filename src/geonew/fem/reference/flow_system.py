r"""Taylor-Hood discretisation of steady incompressible flow: residual, Jacobian, unknowns.

Velocity in P2, pressure in P1. In scaled units (below) the residual of momentum, tested with
:math:`\varphi_i e_a`, and of continuity, tested with :math:`\psi_i`, is

.. math::

    \nu K u_a + C(u) u_a - B_a^T p - \ell_a, \qquad \sum_a B_a u_a, \qquad
    C(w)_{ij} = \int \varphi_i\, w \cdot \nabla \varphi_j, \quad
    B_{a,ij} = \int \psi_i\, \partial_a \varphi_j .

Identity kept: constants are in P1, so :math:`\int_{\partial\Omega} u \cdot n = 0` to round-off.

Convection and its derivative :math:`N_{ab,ij} = \int \varphi_i \varphi_j \partial_b w_a` are
linear in w, so each is one product of cell coefficients with a constant tensor, exact on affine
cells. The sparsity of the Jacobian and the place of each entry in it are found once.

Unknowns live in the Cartesian frame except at nodes of an outlet with normal flow, where they are
(normal, tangential) so that the tangential ones can be prescribed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from scipy.sparse import coo_matrix, csc_matrix, csr_matrix

from geonew.fem.reference.linear_solver import nested_dissection
from geonew.fem.reference.space import LagrangeSpace
from geonew.mesh import Mesh


@dataclass(frozen=True, eq=False)
class FlowSystem:
    """The discrete equations on a mesh of size about 1, velocities of size about 1.

    Args:
        mesh: the scaled mesh.
        fixed: prescribed velocity components (in the local frame of turned nodes).
        values: their values; 0 where free.
        load: right-hand side of momentum, Cartesian.
        turned: nodes whose unknowns are not Cartesian.
        frames: their frames; column 0 is the normal.
        enclosed: no outlet, pressure up to a constant.
        dissected: unknowns stand in elimination order; without it in that of the nodes, which is
            made and read faster.

    """

    mesh: Mesh
    fixed: Bool[ndarray, "n d"]
    values: Float[ndarray, "n d"]
    load: Float[ndarray, "n d"]
    turned: Int[ndarray, "t"]
    frames: Float[ndarray, "t d d"]
    enclosed: bool
    dissected: bool = True

    # -- constant parts ------------------------------------------------------------------------

    @cached_property
    def V(self) -> LagrangeSpace:
        """Space of each velocity component."""
        return LagrangeSpace(self.mesh, 2)

    @cached_property
    def Q(self) -> LagrangeSpace:
        """Space of the pressure."""
        return LagrangeSpace(self.mesh, 1)

    @cached_property
    def stiffness(self) -> Float[ndarray, "nnz"]:
        """Entries of K."""
        return self.V.stiffness()

    @cached_property
    def divergence(self) -> tuple[csr_matrix, ...]:
        """The matrices B_a, all with the same sparsity."""
        return divergence_matrices(self.V, self.Q)

    @cached_property
    def _gradient(self) -> tuple[csr_matrix, ...]:
        return tuple(B.T.tocsr() for B in self.divergence)

    @cached_property
    def imbalance(self) -> Float[ndarray, "N"]:
        """Uniform source that absorbs the net flux of interpolated data in a closed domain."""
        if not self.enclosed:
            return np.zeros(self.Q.n)
        net = sum(
            (B @ v).sum()
            for B, v in zip(self.divergence, self.cartesian(self.values).T, strict=True)
        )
        return self.Q.integral * (net / self.Q.integral.sum())

    @cached_property
    def _tensors(self) -> tuple[ndarray, ndarray]:
        """Reference tensors [(k r), (i j)] of C and N."""
        table = self.V.table(5)
        phi, dphi, w = table.phi, table.dphi, table.weights
        convection = np.einsum("q,iq,kq,jrq->krij", w, phi, phi, dphi, optimize=True)
        reaction = np.einsum("q,iq,jq,krq->krij", w, phi, phi, dphi, optimize=True)
        k, r = convection.shape[:2]
        return convection.reshape(k * r, -1), reaction.reshape(k * r, -1)

    @cached_property
    def _scaled_inverse(self) -> ndarray:
        return self.V.inverse * self.V.determinant[:, None, None]

    # -- terms that depend on the velocity -----------------------------------------------------

    def convection(self, w: Float[ndarray, "n d"]) -> Float[ndarray, "nnz"]:
        """Entries of C(w)."""
        wind = np.einsum("cka,cra->ckr", w[self.V.cell_nodes], self._scaled_inverse, optimize=True)
        return self.V.entries(wind.reshape(len(wind), -1) @ self._tensors[0])

    def reaction(self, w: Float[ndarray, "n d"], a: int, b: int) -> Float[ndarray, "nnz"]:
        """Entries of N_ab(w)."""
        local = w[self.V.cell_nodes, a][:, :, None] * self._scaled_inverse[:, None, :, b]
        return self.V.entries(local.reshape(len(local), -1) @ self._tensors[1])

    # -- frames --------------------------------------------------------------------------------

    def cartesian(self, u: Float[ndarray, "n d"]) -> Float[ndarray, "n d"]:
        """Unknowns to Cartesian components."""
        if not self.turned.size:
            return u
        out = u.copy()
        out[self.turned] = np.einsum("tab,tb->ta", self.frames, u[self.turned])
        return out

    def local(self, u: Float[ndarray, "n d"]) -> Float[ndarray, "n d"]:
        """Cartesian components to unknowns."""
        if not self.turned.size:
            return u
        out = u.copy()
        out[self.turned] = np.einsum("tab,ta->tb", self.frames, u[self.turned])
        return out

    # -- unknowns ------------------------------------------------------------------------------

    @cached_property
    def free(self) -> Int[ndarray, "m"]:
        """Free unknowns (velocity component by component, then pressure) in elimination order.

        Nodes stand in nested-dissection order; at a vertex the pressure follows the velocity.
        """
        dim, n = self.mesh.dim, self.V.n
        kept = np.flatnonzero(
            np.concatenate([~self.fixed.T.ravel(), np.ones(self.Q.n, dtype=bool)])
        )
        if not self.dissected:
            return kept
        rank = np.empty(n, dtype=np.int64)
        rank[nested_dissection(self.V.points, self.V.cell_nodes)] = np.arange(n)
        components = [rank * (dim + 1) + a for a in range(dim)]
        key = np.concatenate([*components, rank[: self.Q.n] * (dim + 1) + dim])
        return kept[np.argsort(key[kept])]

    def pack(self, u: Float[ndarray, "n d"], p: Float[ndarray, "N"]) -> Float[ndarray, "m"]:
        """Free part of a velocity (in unknowns) and a pressure, or of their residuals."""
        return np.concatenate([u.T.ravel(), p])[self.free]

    def unpack(self, x: Float[ndarray, "m"]) -> tuple[Float[ndarray, "n d"], Float[ndarray, "N"]]:
        """Inverse of :meth:`pack`; 0 at prescribed unknowns."""
        n = self.V.n * self.mesh.dim
        full = np.zeros(n + self.Q.n)
        full[self.free] = x
        return full[:n].reshape(self.mesh.dim, -1).T.copy(), full[n:]

    # -- residual ------------------------------------------------------------------------------

    def residual(
        self,
        u: Float[ndarray, "n d"],
        p: Float[ndarray, "N"],
        viscosity: float,
        convection: ndarray | None,
    ) -> tuple[Float[ndarray, "m"], float]:
        """Residual at Cartesian (u, p), and the size of its terms, to which it is compared.

        ``convection``: entries of C(u), or None for Stokes flow.
        """
        viscous = self.V.matrix(viscosity * self.stiffness) @ u
        inertia = np.zeros_like(u) if convection is None else self.V.matrix(convection) @ u
        gradient = np.stack([G @ p for G in self._gradient], axis=1)
        parts = np.stack([B @ u[:, a] for a, B in enumerate(self.divergence)])
        momentum = self.local(viscous + inertia - gradient - self.load)
        continuity = parts.sum(axis=0) - self.imbalance
        inside = ~self.fixed
        size = np.sqrt(
            sum(
                float((term[inside] ** 2).sum()) for term in (viscous, inertia, gradient, self.load)
            )
            + float((parts**2).sum())
        )
        return self.pack(momentum, continuity), size

    # -- Jacobian for the direct solver --------------------------------------------------------

    @cached_property
    def _template(self) -> tuple[csc_matrix, ndarray, ndarray]:
        """Pattern of the reduced Jacobian, and for each entry its place in the stacked entries of
        [velocity blocks, B, -B^T, pressure diagonal]; last, the places of the pressure diagonal.
        """
        dim, n, m = self.mesh.dim, self.V.n, self.Q.n
        indptr, indices, _ = self.V.pattern
        i, j = np.repeat(np.arange(n), np.diff(indptr)), indices.astype(np.int64)
        B = self.divergence[0]
        bi, bj = np.repeat(np.arange(m), np.diff(B.indptr)) + dim * n, B.indices.astype(np.int64)
        rows = [i + a * n for a in range(dim) for _ in range(dim)]
        cols = [j + b * n for _ in range(dim) for b in range(dim)]
        rows += [bi] * dim + [bj + a * n for a in range(dim)] + [dim * n + np.arange(m)]
        cols += [bj + a * n for a in range(dim)] + [bi] * dim + [dim * n + np.arange(m)]
        position = np.full(dim * n + m, -1, dtype=np.int64)
        position[self.free] = np.arange(len(self.free))
        row, col = position[np.concatenate(rows)], position[np.concatenate(cols)]
        kept = np.flatnonzero((row >= 0) & (col >= 0))
        shape = (len(self.free), len(self.free))
        # Integers are exact in float64, so the conversion carries each entry's origin along.
        origin = coo_matrix((kept.astype(np.float64), (row[kept], col[kept])), shape=shape)
        matrix = csc_matrix(origin)
        matrix.sort_indices()
        source = matrix.data.astype(np.int64)
        diagonal = np.flatnonzero(source >= len(row) - m)
        return matrix, source, diagonal

    def jacobian(
        self, w: Float[ndarray, "n d"], viscosity: float, convection: ndarray | None
    ) -> csc_matrix:
        """Jacobian at Cartesian velocity w on the free unknowns; C(w) given, None for Stokes."""
        dim = self.mesh.dim
        blocks = np.zeros((dim, dim, len(self.stiffness)))
        for a in range(dim):
            blocks[a, a] = viscosity * self.stiffness
            if convection is not None:
                blocks[a, a] += convection
                for b in range(dim):
                    blocks[a, b] += self.reaction(w, a, b)
        div = np.stack([B.data for B in self.divergence])
        blocks, div = self._turn(blocks, div)
        template, source, _ = self._template
        stacked = np.concatenate([blocks.ravel(), div.ravel(), -div.ravel(), np.zeros(self.Q.n)])
        return csc_matrix((stacked[source], template.indices, template.indptr), template.shape)

    def regularized(self, jacobian: csc_matrix, weight: float) -> csc_matrix:
        """The Jacobian with ``weight`` times the lumped pressure mass in its zero block."""
        _, source, diagonal = self._template
        data = jacobian.data.copy()
        vertex = source[diagonal] - source[diagonal].min()
        data[diagonal] = weight * self.Q.integral[vertex]
        return csc_matrix((data, jacobian.indices, jacobian.indptr), jacobian.shape)

    def _turn(self, blocks: ndarray, div: ndarray) -> tuple[ndarray, ndarray]:
        """Blocks between unknowns from Cartesian ones, Q_i^T M_ij Q_j, at turned nodes."""
        if not self.turned.size:
            return blocks, div
        frame = np.full(self.V.n, -1)
        frame[self.turned] = np.arange(len(self.turned))
        indptr, indices, _ = self.V.pattern
        i = frame[np.repeat(np.arange(self.V.n), np.diff(indptr))]
        j = frame[indices]
        rows, cols = np.flatnonzero(i >= 0), np.flatnonzero(j >= 0)
        blocks[:, :, rows] = np.einsum("eab,ace->bce", self.frames[i[rows]], blocks[:, :, rows])
        blocks[:, :, cols] = np.einsum("ace,ecb->abe", blocks[:, :, cols], self.frames[j[cols]])
        j = frame[self.divergence[0].indices]
        cols = np.flatnonzero(j >= 0)
        div[:, cols] = np.einsum("ae,eab->be", div[:, cols], self.frames[j[cols]])
        return blocks, div


def divergence_matrices(V: LagrangeSpace, Q: LagrangeSpace) -> tuple[csr_matrix, ...]:
    r"""The matrices :math:`\int \psi_i \partial_a \varphi_j`, one per direction a."""
    fine, coarse = V.table(2), Q.table(2)
    tensor = np.einsum("q,iq,jrq->rij", fine.weights, coarse.phi, fine.dphi)
    rows = np.repeat(Q.cell_nodes, V.cell_nodes.shape[1], axis=1).ravel()
    cols = np.tile(V.cell_nodes, (1, Q.cell_nodes.shape[1])).ravel()
    matrices = []
    for a in range(V.mesh.dim):
        geometry = V.inverse[:, :, a] * V.determinant[:, None]
        local = geometry @ tensor.reshape(len(tensor), -1)
        matrices.append(coo_matrix((local.ravel(), (rows, cols)), shape=(Q.n, V.n)).tocsr())
    return tuple(matrices)
