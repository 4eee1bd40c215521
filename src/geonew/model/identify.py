r"""The constants of a medium from solutions, before any training: linear least squares.

.. math:: \min_\theta\; \sum_{\text{samples}} \| A(\theta)\, u - f \|_{-1}^2
          + \epsilon \sum_j D_j\, (\theta_j - \theta^0_j)^2, \qquad \theta = (S, C),

u a solution at the vertices, A u its balances tested with hat functions, linear in the constants
(:mod:`geonew.model.constitutive`), f the load; rows of prescribed components are left out. The norm
is the dual one, :math:`\|r\|_{-1}^2 = r^T K^{-1} r`: on irregular meshes the residual of an exact
solution at a single vertex is no smaller than its terms, whatever the mesh size, but it averages
out. D is the diagonal of the normal equations.

The small second term draws to the start. It decides what the solutions leave open: where nothing
loads a problem, all multiples of a law are one, and that with the start's trace of S is taken.

Training begins with the law that was found and goes on from there, with the space it is used in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from geonew.errors import ConfigError
from geonew.fem import SolverPool
from geonew.model.constitutive import Constitutive
from geonew.model.sample import Sample
from geonew.model.terms import STIFFNESS, gradient_positions, part_positions

# Samples that are looked at, evenly spread: constants need few.
MOST = 32
# The epsilon above.
PRIOR = 1e-6
# Least eigenvalue of S that is taken over, in terms of the largest.
LEAST = 1e-3


@dataclass(frozen=True, eq=False)
class Medium:
    """What was found.

    Args:
        S: as a matrix over components, or over pairs (direction, component) if anisotropic.
        C: one matrix per direction.
        residual: what of the load is left unexplained, in the dual norm; nan without any load.

    """

    S: Float[ndarray, "m m"]
    C: Float[ndarray, "k F F"]
    residual: float

    def __str__(self) -> str:
        parts = {"S": self.S, **{f"C{k + 1}": C for k, C in enumerate(self.C)}}
        found = ", ".join(f"{name} = {_shown(matrix)}" for name, matrix in parts.items())
        if np.isnan(self.residual):
            return f"constants found in the training data: {found} (no load: up to a factor)"
        left = f"{100 * self.residual:.2g} % of the load are left unexplained"
        return f"constants found in the training data: {found}; {left}"


def identify(law: Constitutive, samples: Sequence[Sample]) -> Medium:
    """The medium that explains the solutions of some samples best.

    Args:
        law: which constants there are, and where they start.
        samples: with their solutions.

    """
    chosen = samples[:: -(-len(samples) // MOST)] if samples else []
    if not chosen or any(sample.target is None for sample in chosen):
        raise ConfigError(
            "constants are to be identified, but there are no solutions",
            "give training samples, or leave out `identified`",
        )
    unknowns = _Unknowns.of(law)
    size = len(unknowns.start)
    normal, right, load = np.zeros((size, size)), np.zeros(size), 0.0
    for sample in chosen:
        solvers = SolverPool(sample.matrix(STIFFNESS))
        for f, columns in enumerate(unknowns.columns(sample)):
            fixed = np.flatnonzero(sample.fixed[:, f])
            solver = solvers.fixing(fixed if fixed.size else np.zeros(1, dtype=np.int64))
            own = np.column_stack([columns, sample.load[:, f]])
            gram = own.T @ solver.solve(own)  # which is 0 at fixed nodes
            normal += gram[:-1, :-1]
            right += gram[:-1, -1]
            load += gram[-1, -1]
    weight = PRIOR * normal.diagonal() + np.finfo(float).tiny
    theta = np.linalg.solve(normal + np.diag(weight), right + weight * unknowns.start)
    S, C = unknowns.medium(theta)
    if load == 0:
        factor = unknowns.medium(unknowns.start)[0].trace() / S.trace()
        S, C = factor * S, factor * C
    missed = load - 2 * theta @ right + theta @ normal @ theta
    return Medium(_positive(S), C, float(np.sqrt(max(missed, 0) / load)) if load else np.nan)


@dataclass(frozen=True)
class _Unknowns:
    """The numbers theta: entries of S's upper triangle, then those of C that a law has.

    Args:
        first: entries of S by row and column, the row not after the column.
        second: entries of C by direction, row and column.
        components: number of components.
        directions: number of matrices C^k.
        start: theta at the start.

    """

    first: tuple[tuple[int, int], ...]
    second: tuple[tuple[int, int, int], ...]
    components: int
    directions: int
    start: Float[ndarray, "t"]

    @classmethod
    def of(cls, law: Constitutive) -> _Unknowns:
        F, d = law.components, law.directions
        m = F * d if law.tensor is not None else F
        first = tuple((a, b) for a in range(m) for b in range(a, m))
        rows = [f for f in range(F) if f not in law.gauged]
        second = tuple((k, f, g) for k in range(d) for f in rows for g in range(F))
        start = [law.diffusion * (a == b) for a, b in first] + [0.0] * len(second)
        return cls(first, second, F, d, np.array(start))

    def columns(self, sample: Sample) -> list[Float[ndarray, "N t"]]:
        """What each unknown, at 1, adds to the balances of each component."""
        F, u = self.components, sample.target
        assert u is not None
        result = [np.zeros((sample.n_nodes, len(self.start))) for _ in range(F)]
        whole = len(self.first) == F * (F + 1) // 2
        positions = part_positions(self.directions)
        for t, (a, b) in enumerate(self.first):
            (j, f), (k, g) = divmod(a, F), divmod(b, F)
            matrix = sample.matrix(STIFFNESS if whole else positions[j, k])
            result[f][:, t] += matrix @ u[:, g]
            if a != b:
                result[g][:, t] += matrix.T @ u[:, f]
        for t, (k, f, g) in enumerate(self.second, len(self.first)):
            matrix = sample.matrix(gradient_positions(self.directions)[k])
            result[f][:, t] += matrix @ u[:, g]
            result[g][:, t] -= matrix.T @ u[:, f]
        return result

    def medium(
        self, theta: Float[ndarray, "t"]
    ) -> tuple[Float[ndarray, "m m"], Float[ndarray, "k F F"]]:
        """S and C of some numbers."""
        m = self.first[-1][0] + 1
        S, C = np.zeros((m, m)), np.zeros((self.directions, self.components, self.components))
        for (a, b), value in zip(self.first, theta[: len(self.first)], strict=True):
            S[a, b] = S[b, a] = value
        for (k, f, g), value in zip(self.second, theta[len(self.first) :], strict=True):
            C[k, f, g] = value
        return S, C


def _shown(matrix: Float[ndarray, "m m"]) -> str:
    """Rows of a matrix with as many digits as matter."""
    digits = 2 - int(np.floor(np.log10(np.abs(matrix).max(initial=1e-300))))
    return str(np.round(matrix, max(digits, 0)).tolist())


def _positive(S: Float[ndarray, "m m"]) -> Float[ndarray, "m m"]:
    """The nearest matrix whose eigenvalues are positive."""
    values, vectors = np.linalg.eigh(S)
    if values[-1] <= 0:
        raise ConfigError(
            "the solutions follow no diffusive law: the constants found have no positive part",
            "leave out `identified`, and let training find them",
        )
    return (vectors * np.maximum(values, LEAST * values[-1])) @ vectors.T
