r"""Preconditioner of Newton's systems: incomplete factors of the first-order Jacobian.

Of the first-order scheme with the matrix |A| frozen, each face couples its two cells by the blocks

.. math:: \frac{\partial F}{\partial U_L} = \tfrac12 (A_L + |A|), \qquad
          \frac{\partial F}{\partial U_R} = \tfrac12 (A_R - |A|),

4 by 4. Pseudo time adds :math:`V/\Delta t = \sum_f |f| (|u_n| + c) / \mathrm{CFL}` to the diagonal.
Incomplete LU without fill changes only the diagonal blocks,
:math:`D_i = A_{ii} - \sum_{j < i} A_{ij} D_j^{-1} A_{ji}`, as long as no two neighbours of
a cell are neighbours, which holds on a structured grid. Blocks are kept in single precision: the
sweeps are bound by memory, and a preconditioner need not be exact.
"""

from __future__ import annotations

from math import sqrt

from geonew.data.euler.flux import GAMMA, roe_mean
from geonew.data.euler.jit import compiled

G1 = GAMMA - 1


@compiled
def add_flux_jacobian(u, v, p_over_r, nx, ny, factor, A):
    """A += factor dF_n/dU at a state; p_over_r is the pressure divided by the density."""
    q = 0.5 * (u * u + v * v)
    un = u * nx + v * ny
    h = GAMMA / G1 * p_over_r + q
    A[0, 1] += factor * nx
    A[0, 2] += factor * ny
    A[1, 0] += factor * (G1 * q * nx - u * un)
    A[1, 1] += factor * (un + (1 - G1) * u * nx)
    A[1, 2] += factor * (u * ny - G1 * v * nx)
    A[1, 3] += factor * G1 * nx
    A[2, 0] += factor * (G1 * q * ny - v * un)
    A[2, 1] += factor * (v * nx - G1 * u * ny)
    A[2, 2] += factor * (un + (1 - G1) * v * ny)
    A[2, 3] += factor * G1 * ny
    A[3, 0] += factor * un * (G1 * q - h)
    A[3, 1] += factor * (h * nx - G1 * u * un)
    A[3, 2] += factor * (h * ny - G1 * v * un)
    A[3, 3] += factor * GAMMA * un


@compiled
def roe_matrix(wl, wr, nx, ny, A):
    """A = |A| at Roe's mean of two primitive states; returns the largest speed."""
    _, u, v, h, c, un, middle, alpha, beta = roe_mean(
        wl[0], wl[1], wl[2], wl[3], wr[0], wr[1], wr[2], wr[3], nx, ny
    )
    dp = (G1 * 0.5 * (u * u + v * v), -G1 * u, -G1 * v, G1)  # of the pressure
    dn = (-un, nx, ny, 0.0)  # of density times normal speed
    first = (1.0, u, v, h)
    second = (0.0, nx, ny, un)
    for b in range(4):
        wave = alpha * dp[b] / (c * c) + beta * dn[b] / c
        push = alpha * dn[b] + beta * dp[b] / c
        for a in range(4):
            A[a, b] = first[a] * wave + second[a] * push
        A[b, b] += middle
    return abs(un) + c


@compiled
def assemble(
    W, stencil, normals, wall_cells, wall_normals, far_cells, far_normals, far_states, D, B, speed
):
    """Diagonal blocks D (C, 4, 4), face blocks B (F, 2, 4, 4), and sums of |f| (|u_n| + c) (C,).

    B[f, 0] stands in the row of the left cell, B[f, 1] in that of the right one.
    """
    D[:] = 0.0
    B[:] = 0.0
    speed[:] = 0.0
    absolute = D[0].copy()
    for f in range(stencil.shape[0]):
        left, right = stencil[f, 1], stencil[f, 2]
        nx, ny = normals[f, 0], normals[f, 1]
        size = sqrt(nx * nx + ny * ny)
        nx, ny = nx / size, ny / size
        fast = size * roe_matrix(W[left], W[right], nx, ny, absolute)
        speed[left] += fast
        speed[right] += fast
        half = 0.5 * size
        add_flux_jacobian(W[left, 1], W[left, 2], W[left, 3] / W[left, 0], nx, ny, -half, B[f, 1])
        add_flux_jacobian(
            W[right, 1], W[right, 2], W[right, 3] / W[right, 0], nx, ny, half, B[f, 0]
        )
        for a in range(4):
            for b in range(4):
                B[f, 0, a, b] -= half * absolute[a, b]
                B[f, 1, a, b] -= half * absolute[a, b]
                D[left, a, b] -= B[f, 1, a, b]
                D[right, a, b] -= B[f, 0, a, b]
    for f in range(wall_cells.shape[0]):
        cell = wall_cells[f, 0]
        u, v = W[cell, 1], W[cell, 2]
        dp = (G1 * 0.5 * (u * u + v * v), -G1 * u, -G1 * v, G1)
        for b in range(4):
            D[cell, 1, b] += dp[b] * wall_normals[f, 0]
            D[cell, 2, b] += dp[b] * wall_normals[f, 1]
    for f in range(far_cells.shape[0]):
        c = far_cells[f]
        nx, ny = far_normals[f, 0], far_normals[f, 1]
        size = sqrt(nx * nx + ny * ny)
        nx, ny = nx / size, ny / size
        speed[c] += size * roe_matrix(W[c], far_states[f], nx, ny, absolute)
        add_flux_jacobian(W[c, 1], W[c, 2], W[c, 3] / W[c, 0], nx, ny, 0.5 * size, D[c])
        for a in range(4):
            for b in range(4):
                D[c, a, b] += 0.5 * size * absolute[a, b]


@compiled
def invert(A):
    """Invert a 4 by 4 matrix in place, by Gauss-Jordan steps with diagonal pivots.

    The blocks are close to multiples of the identity plus a matrix with positive spectrum, for
    which the pivots do not vanish.
    """
    for k in range(4):
        pivot = 1.0 / A[k, k]
        A[k, k] = 1.0
        for b in range(4):
            A[k, b] *= pivot
        for a in range(4):
            if a != k:
                t = A[a, k]
                A[a, k] = 0.0
                for b in range(4):
                    A[a, b] -= t * A[k, b]


@compiled
def factorise(D, B, shift, stencil, neighbours, inverse):
    """Inverses of the diagonal blocks of the incomplete factors, with ``shift`` (C,) added."""
    block = D[0].copy()
    for c in range(D.shape[0]):
        for a in range(4):
            for b in range(4):
                block[a, b] = D[c, a, b]
            block[a, a] += shift[c]
        for k in range(4):
            f = neighbours[c, k]
            if f < 0:
                break
            side = 0 if stencil[f, 1] == c else 1
            other = stencil[f, 2 - side]
            if other < c:
                for a in range(4):
                    for b in range(4):
                        t = 0.0
                        for e in range(4):
                            t += B[f, side, a, e] * inverse[other, e, b]
                        for e in range(4):
                            block[a, e] -= t * B[f, 1 - side, b, e]
        invert(block)
        for a in range(4):
            for b in range(4):
                inverse[c, a, b] = block[a, b]


@compiled
def solve_factors(inverse, B, stencil, neighbours, rhs, x):
    """X = (LU)^-1 rhs, both (C, 4)."""
    cells = rhs.shape[0]
    for c in range(cells):
        y0, y1, y2, y3 = rhs[c, 0], rhs[c, 1], rhs[c, 2], rhs[c, 3]
        for k in range(4):
            f = neighbours[c, k]
            if f < 0:
                break
            side = 0 if stencil[f, 1] == c else 1
            o = stencil[f, 2 - side]
            if o < c:
                A = B[f, side]
                x0, x1, x2, x3 = x[o, 0], x[o, 1], x[o, 2], x[o, 3]
                y0 -= A[0, 0] * x0 + A[0, 1] * x1 + A[0, 2] * x2 + A[0, 3] * x3
                y1 -= A[1, 0] * x0 + A[1, 1] * x1 + A[1, 2] * x2 + A[1, 3] * x3
                y2 -= A[2, 0] * x0 + A[2, 1] * x1 + A[2, 2] * x2 + A[2, 3] * x3
                y3 -= A[3, 0] * x0 + A[3, 1] * x1 + A[3, 2] * x2 + A[3, 3] * x3
        V = inverse[c]
        for a in range(4):
            x[c, a] = V[a, 0] * y0 + V[a, 1] * y1 + V[a, 2] * y2 + V[a, 3] * y3
    for c in range(cells - 1, -1, -1):
        y0, y1, y2, y3 = 0.0, 0.0, 0.0, 0.0
        for k in range(4):
            f = neighbours[c, k]
            if f < 0:
                break
            side = 0 if stencil[f, 1] == c else 1
            o = stencil[f, 2 - side]
            if o > c:
                A = B[f, side]
                x0, x1, x2, x3 = x[o, 0], x[o, 1], x[o, 2], x[o, 3]
                y0 += A[0, 0] * x0 + A[0, 1] * x1 + A[0, 2] * x2 + A[0, 3] * x3
                y1 += A[1, 0] * x0 + A[1, 1] * x1 + A[1, 2] * x2 + A[1, 3] * x3
                y2 += A[2, 0] * x0 + A[2, 1] * x1 + A[2, 2] * x2 + A[2, 3] * x3
                y3 += A[3, 0] * x0 + A[3, 1] * x1 + A[3, 2] * x2 + A[3, 3] * x3
        V = inverse[c]
        for a in range(4):
            x[c, a] -= V[a, 0] * y0 + V[a, 1] * y1 + V[a, 2] * y2 + V[a, 3] * y3
