r"""Reduced Whitney forms: the exact sequence on the learned partition of unity, on demand.

With the rows W (partitions x nodes) of one component, interior and group rows alike,

.. math::
    M_0 = W M_0' W^\top, \quad K = W K' W^\top, \quad
    (W_1)_{(ij),(ab)} = W_{ia} W_{jb} - W_{ib} W_{ja}, \quad M_1 = W_1 M_1' W_1^\top,

W_2 the 3 x 3 minors of W, d0 and d1 the incidence matrices of the complete graph of partitions.

Identities kept: :math:`d_0' W^\top = W_1^\top d_0`, :math:`K = d_0^\top M_1 d_0`,
:math:`d_1' W_1^\top = W_2^\top d_1`, :math:`d_1 d_0 = 0`, :math:`K 1 = 0`.

A training step needs K and M0 alone and makes them elsewhere; these forms serve analysis and tests.
The paper's code scales them by N/P, which makes K depend on the mesh: we do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from geonew.fem import FineOperators


@dataclass(frozen=True, eq=False)
class ReducedForms:
    """Whitney forms of one component of one sample.

    Args:
        operators: fine operators.
        rows: the partition of unity W.

    """

    operators: FineOperators
    rows: Float[ndarray, "Q N"]

    @cached_property
    def d0(self) -> Float[ndarray, "E Q"]:
        """Incidence of edges (i, j), i < j, and partitions: rows e_j - e_i."""
        pairs = list(combinations(range(len(self.rows)), 2))
        d0 = np.zeros((len(pairs), len(self.rows)))
        for row, (i, j) in zip(d0, pairs, strict=True):
            row[i], row[j] = -1.0, 1.0
        return d0

    @cached_property
    def d1(self) -> Float[ndarray, "T E"]:
        """Incidence of triples (i, j, k) and edges: (i,j) + (j,k) - (i,k)."""
        number = {pair: n for n, pair in enumerate(combinations(range(len(self.rows)), 2))}
        triples = list(combinations(range(len(self.rows)), 3))
        d1 = np.zeros((len(triples), len(number)))
        for row, (i, j, k) in zip(d1, triples, strict=True):
            row[number[i, j]], row[number[j, k]], row[number[i, k]] = 1.0, 1.0, -1.0
        return d1

    @cached_property
    def mass0(self) -> Float[ndarray, "Q Q"]:
        """M0."""
        return _gram(self.rows, self.operators.mass)

    @cached_property
    def stiffness(self) -> Float[ndarray, "Q Q"]:
        """K, its diagonal minus the sum of the others in the row, so that K 1 = 0 exactly."""
        K = _gram(self.rows, self.operators.stiffness)
        np.fill_diagonal(K, 0.0)
        np.fill_diagonal(K, -K.sum(axis=1))
        return K

    @cached_property
    def edge_rows(self) -> Float[ndarray, "E N1"]:
        """W1: coefficients of the reduced 1-forms in the fine ones."""
        a, b = self.operators.mesh.edges.T
        i, j = np.array(list(combinations(range(len(self.rows)), 2))).T
        W = self.rows
        return W[i][:, a] * W[j][:, b] - W[i][:, b] * W[j][:, a]

    @cached_property
    def mass1(self) -> Float[ndarray, "E E"]:
        """M1."""
        return _gram(self.edge_rows, self.operators.whitney1_mass)

    @cached_property
    def face_rows(self) -> Float[ndarray, "T N2"]:
        """W2: the 3 x 3 minors."""
        nodes = self.operators.mesh.faces.T
        triples = np.array(list(combinations(range(len(self.rows)), 3))).T
        a, b, c = ([self.rows[p][:, n] for n in nodes] for p in triples)
        # By cofactors: elimination divides, and rows that are all but zero make it warn.
        return (
            a[0] * (b[1] * c[2] - b[2] * c[1])
            - a[1] * (b[0] * c[2] - b[2] * c[0])
            + a[2] * (b[0] * c[1] - b[1] * c[0])
        )

    @cached_property
    def mass2(self) -> Float[ndarray, "T T"]:
        """M2, in 3D."""
        return _gram(self.face_rows, self.operators.whitney2_mass)


def _gram(rows: ndarray, matrix) -> ndarray:
    product = rows @ (matrix @ rows.T)
    return (product + product.T) / 2
