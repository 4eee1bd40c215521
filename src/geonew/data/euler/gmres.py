r"""GMRES with a right preconditioner, without restarts.

.. math:: \min_{y} \| b - A P^{-1} V_k y \|, \qquad V_k \text{ an orthonormal basis of }
          \mathrm{span}\{ b, A P^{-1} b, ... \},

by Gram-Schmidt twice (as matrix products) and Givens rotations. SciPy's does the same by
Gram-Schmidt once, vector by vector, and loses both time and orthogonality here.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.linalg import solve_triangular

Map = Callable[[ndarray], ndarray]


def gmres(
    apply: Map, solve: Map, b: Float[ndarray, "n"], tolerance: float, most: int
) -> tuple[Float[ndarray, "n"], int]:
    """An x that leaves at most ``tolerance`` of b, or the best of ``most`` vectors; their number.

    Args:
        apply: x -> A x.
        solve: r -> P^-1 r.
        b: right-hand side.
        tolerance: relative residual.
        most: most Krylov vectors.

    """
    size = float(np.linalg.norm(b))
    V = np.empty((most + 1, len(b)))
    H = np.zeros((most + 1, most))
    g = np.zeros(most + 1)
    turns: list[tuple[float, float]] = []
    V[0], g[0] = b / size, size
    k = 0
    while k < most and abs(g[k]) > tolerance * size:
        w = apply(solve(V[k]))
        for _ in range(2):
            h = V[: k + 1] @ w
            w -= h @ V[: k + 1]
            H[: k + 1, k] += h
        H[k + 1, k] = np.linalg.norm(w)
        V[k + 1] = w / H[k + 1, k]
        for j, (c, s) in enumerate(turns):
            H[j : j + 2, k] = c * H[j, k] + s * H[j + 1, k], c * H[j + 1, k] - s * H[j, k]
        radius = np.hypot(H[k, k], H[k + 1, k])
        c, s = H[k, k] / radius, H[k + 1, k] / radius
        turns.append((c, s))
        H[k, k], g[k], g[k + 1] = radius, c * g[k], -s * g[k]
        k += 1
    y = solve_triangular(H[:k, :k], g[:k])
    return solve(y @ V[:k]), k
