r"""Heat kernel signature from the lowest Dirichlet eigenpairs.

.. math::
    K\phi_k = \lambda_k M_0 \phi_k \text{ on interior nodes},\qquad
    \mathrm{HKS}(x, t) = \frac{|\Omega| \sum_k e^{-\lambda_k t} \phi_k(x)^2}
                              {\sum_k e^{-\lambda_k t}},

at Sun's times, spaced evenly in log t from :math:`4\ln 10/\lambda_K` to :math:`4\ln 10/\lambda_1`.

Identity kept: :math:`\int \mathrm{HKS}(\cdot, t) = |\Omega|` for every t. So the signature does not
depend on the unit of length; the paper's, without these factors, scales as :math:`a^{-d}`.

Eigenvectors of a multiple eigenvalue are arbitrary, but the sum of their squares is not. Hence the
sum is cut only at a relative gap, or a rotation would change the signature where a degenerate pair
is split; and since a Krylov method meets the second vector of such a pair by round-off only, the
number of eigenvalues below the cut is compared with the inertia of :math:`K - \sigma M_0`
(Sylvester's law).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from jaxtyping import Float
from numpy import ndarray
from scipy.sparse import csc_array, csr_array
from scipy.sparse.linalg import splu

from geonew.errors import FeatureError
from geonew.fem.dirichlet import DirichletSolver
from geonew.fem.lanczos import lowest_eigenpairs

# Eigenvalues closer than this (relative) may be one multiple eigenvalue, split by the mesh.
GAP = 1e-3
# Pairs computed beyond those asked for, among which a gap is sought.
EXTRA_PAIRS = 8
# With fewer interior nodes than this a dense solve is as fast, and cannot miss a pair.
DENSE_BELOW = 300
# e^{-lambda t} = 10^{-4} at both ends of Sun's range.
DECAY = 4 * np.log(10.0)


@dataclass(frozen=True)
class Eigenpairs:
    """Lowest Dirichlet eigenpairs, cut at a gap.

    Args:
        values: eigenvalues, ascending.
        vectors: M0-orthonormal eigenvectors on all nodes, zero at fixed ones.
        nominal: how many were asked for (or exist); the gap may lie a few pairs further.

    """

    values: Float[ndarray, "K"]
    vectors: Float[ndarray, "N K"]
    nominal: int


def dirichlet_eigenpairs(solver: DirichletSolver, mass: csr_array, count: int) -> Eigenpairs:
    """The lowest ``count`` eigenpairs, and those beyond up to the next gap.

    Args:
        solver: its fixed nodes carry the Dirichlet condition.
        mass: M0 on all nodes.
        count: wanted number of pairs; fewer where there are fewer free nodes.

    """
    free = solver.free
    if free.size == 0:
        raise FeatureError(
            f"all {len(solver.fixed)} nodes of the mesh are fixed: it has no Dirichlet modes",
            "refine the mesh, or leave the heat kernel signature out",
        )
    inner = csr_array(csr_array(mass[free])[:, free])
    wanted = min(count + EXTRA_PAIRS, free.size)
    if free.size < max(DENSE_BELOW, 3 * wanted):
        values, vectors = scipy.linalg.eigh(
            solver.matrix.toarray(), inner.toarray(), subset_by_index=[0, wanted - 1]
        )
        keep = _cut(values, min(count, free.size), complete=wanted == free.size)
    else:
        values, vectors, keep = _krylov(solver, inner, count, wanted)
    full = np.zeros((solver.n_nodes, keep))
    full[free] = vectors[:, :keep]
    return Eigenpairs(values[:keep], full, min(count, free.size))


def sun_times(pairs: Eigenpairs, count: int) -> Float[ndarray, "T"]:
    """Times from 4 ln 10 / lambda_K to 4 ln 10 / lambda_1, K the nominal number of pairs."""
    ends = DECAY / pairs.values[[min(pairs.nominal, len(pairs.values)) - 1, 0]]
    return np.geomspace(ends[0], ends[1], count)


def heat_kernel_signature(
    pairs: Eigenpairs, times: Float[ndarray, "T"], volume: float
) -> Float[ndarray, "N T"]:
    """The scale-free signature at the given times; its mean over the domain is 1."""
    decay = np.exp(-np.outer(pairs.values - pairs.values[0], times))  # common factor cancels
    return volume * (pairs.vectors**2 @ decay) / decay.sum(axis=0)


def _krylov(
    solver: DirichletSolver, mass: csr_array, count: int, wanted: int
) -> tuple[ndarray, ndarray, int]:
    """Inverse Lanczos from a fixed start vector, no pair missed by the count of negative pivots."""
    matrix = csr_array(solver.matrix)

    def complete(values: ndarray) -> bool:
        keep = _cut(values, count, complete=False)
        return _count_below(solver.matrix, mass, np.sqrt(values[keep - 1] * values[keep])) == keep

    values, vectors = lowest_eigenpairs(solver.backsolve, matrix, mass, wanted, complete)
    return values, vectors, _cut(values, count, complete=False)


def _cut(values: ndarray, count: int, *, complete: bool) -> int:
    """How many pairs to keep: the first gap at or after ``count``, else the last one before it."""
    if complete and count >= len(values):
        return len(values)
    gaps = np.diff(values) / values[1:] > GAP  # gaps[k]: between pairs k and k+1, counted from 0
    after = np.flatnonzero(gaps[count - 1 :])
    if after.size:
        return count + int(after[0])
    if complete:
        return len(values)
    before = np.flatnonzero(gaps[: count - 1])
    return int(before[-1]) + 1 if before.size else len(values) - 1


def _count_below(stiffness: csc_array, mass: csr_array, shift: float) -> int:
    """Number of eigenvalues below the shift: negative pivots of K - shift M0."""
    factor = splu(
        csc_array(stiffness - shift * mass),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )
    return int((factor.U.diagonal() < 0).sum())
