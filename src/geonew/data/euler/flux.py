r"""Fluxes of the Euler equations: Roe's scheme, second order by limited reconstruction.

Conserved variables :math:`U = (\rho, \rho u, \rho v, \rho E)`, gas constant :math:`\gamma = 1.4`;
scaled so that the free stream has density 1 and speed of sound 1. Through a face with unit normal n

.. math:: F(U_L, U_R) = \tfrac12 (F_n(U_L) + F_n(U_R)) - \tfrac12 |A| (U_R - U_L),

.. math:: |A| \Delta U = |\lambda_0| \Delta U
          + \bigl( \tfrac{\alpha \Delta p}{c^2} + \tfrac{\beta \rho \Delta u_n}{c} \bigr)
            (1, u, v, H)
          + \bigl( \alpha \rho \Delta u_n + \tfrac{\beta \Delta p}{c} \bigr) (0, n_x, n_y, u_n),

at Roe's mean state, :math:`\alpha = \tfrac12(|\lambda_+| + |\lambda_-|) - |\lambda_0|`,
:math:`\beta = \tfrac12 (|\lambda_+| - |\lambda_-|)`. The speeds are kept away from zero
(Harten), the acoustic ones against expansion shocks, the convective one little, for Newton's sake.

Identities kept: F(U, U) = F(U); F(U_L, U_R; n) = -F(U_R, U_L; -n), hence conservation to round-off.

Reconstruction of density, velocity and pressure towards the face, a and b the differences behind
and ahead, with van Albada's limiter s:

.. math:: q + \tfrac{s}{4} [(1 - \kappa s) a + (1 + \kappa s) b], \quad
          s = \frac{2ab + \epsilon}{a^2 + b^2 + \epsilon}, \quad \kappa = \tfrac13.

At the airfoil the flux is the pressure, its logarithm extrapolated from two cells; at the far
field Roe's flux against the outer state.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from geonew.data.euler.jit import compiled

GAMMA = 1.4
KAPPA = 1.0 / 3.0
# Acoustic speeds below this part of the sound speed are rounded off, convective ones below that.
ACOUSTIC_FIX, CONVECTIVE_FIX = 0.2, 0.02
# Differences well below its root count as smooth; free stream density and sound speed are 1.
LIMITER_EPSILON = 1e-4
# The reconstruction falls back to the cell's value where it would leave less than this part of it.
LEAST_PART = 0.1


@compiled
def to_primitive(U, W):
    """W = (density, velocity, pressure) of the conserved variables U; both (C, 4)."""
    for c in range(U.shape[0]):
        r = U[c, 0]
        u, v = U[c, 1] / r, U[c, 2] / r
        W[c, 0] = r
        W[c, 1] = u
        W[c, 2] = v
        W[c, 3] = (GAMMA - 1) * (U[c, 3] - 0.5 * r * (u * u + v * v))


@compiled
def rounded(speed, width):
    """|speed|, a parabola below the width."""
    size = abs(speed)
    return size if size >= width else 0.5 * (size * size / width + width)


@compiled
def roe_mean(rl, ul, vl, pl, rr, ur, vr, pr, nx, ny):
    """Roe's mean: density, u, v, enthalpy, sound speed, normal speed, |lambda_0|, alpha, beta."""
    hl = GAMMA / (GAMMA - 1) * pl / rl + 0.5 * (ul * ul + vl * vl)
    hr = GAMMA / (GAMMA - 1) * pr / rr + 0.5 * (ur * ur + vr * vr)
    root = sqrt(rr / rl)
    part = 1 / (1 + root)
    u, v, h = (ul + root * ur) * part, (vl + root * vr) * part, (hl + root * hr) * part
    c = sqrt((GAMMA - 1) * (h - 0.5 * (u * u + v * v)))
    un = u * nx + v * ny
    middle = rounded(un, CONVECTIVE_FIX * c)
    plus, minus = rounded(un + c, ACOUSTIC_FIX * c), rounded(un - c, ACOUSTIC_FIX * c)
    alpha, beta = 0.5 * (plus + minus) - middle, 0.5 * (plus - minus)
    return rl * root, u, v, h, c, un, middle, alpha, beta


@compiled
def roe_flux(rl, ul, vl, pl, rr, ur, vr, pr, nx, ny):
    """Roe's flux through a unit face, from the two primitive states."""
    r, u, v, h, c, un, middle, alpha, beta = roe_mean(rl, ul, vl, pl, rr, ur, vr, pr, nx, ny)
    unl, unr = ul * nx + vl * ny, ur * nx + vr * ny
    el = pl / (GAMMA - 1) + 0.5 * rl * (ul * ul + vl * vl)
    er = pr / (GAMMA - 1) + 0.5 * rr * (ur * ur + vr * vr)
    dp, dn = pr - pl, r * (unr - unl)
    wave = alpha * dp / (c * c) + beta * dn / c
    push = alpha * dn + beta * dp / c
    f0 = rl * unl + rr * unr - middle * (rr - rl) - wave
    f1 = (
        rl * unl * ul + rr * unr * ur + (pl + pr) * nx
        - middle * (rr * ur - rl * ul) - wave * u - push * nx
    )  # fmt: skip
    f2 = (
        rl * unl * vl + rr * unr * vr + (pl + pr) * ny
        - middle * (rr * vr - rl * vl) - wave * v - push * ny
    )  # fmt: skip
    f3 = (el + pl) * unl + (er + pr) * unr - middle * (er - el) - wave * h - push * un
    return 0.5 * f0, 0.5 * f1, 0.5 * f2, 0.5 * f3


@compiled
def towards_face(a, b):
    """Limited step from a cell's value to its face; differences a behind and b ahead."""
    s = (2 * a * b + LIMITER_EPSILON) / (a * a + b * b + LIMITER_EPSILON)
    return 0.25 * s * ((1 - KAPPA * s) * a + (1 + KAPPA * s) * b)


@compiled
def reconstruct(W, behind, cell, ahead):
    """Primitive state of ``cell`` at its face to ``ahead``; without a cell behind, linear."""
    back = cell if behind < 0 else behind
    one_sided = behind < 0
    r0, u0, v0, p0 = W[cell, 0], W[cell, 1], W[cell, 2], W[cell, 3]
    br, bu = W[ahead, 0] - r0, W[ahead, 1] - u0
    bv, bp = W[ahead, 2] - v0, W[ahead, 3] - p0
    ar = br if one_sided else r0 - W[back, 0]
    au = bu if one_sided else u0 - W[back, 1]
    av = bv if one_sided else v0 - W[back, 2]
    ap = bp if one_sided else p0 - W[back, 3]
    r, p = r0 + towards_face(ar, br), p0 + towards_face(ap, bp)
    if not (r > LEAST_PART * r0 and p > LEAST_PART * p0):
        return r0, u0, v0, p0
    return r, u0 + towards_face(au, bu), v0 + towards_face(av, bv), p


@compiled
def wall_pressure(W, cell, beyond):
    """Pressure at the airfoil: its logarithm extrapolated from two cells, so always positive."""
    p = W[cell, 3]
    return p * sqrt(p / W[beyond, 3])


@compiled
def residual(
    U, W, stencil, normals, wall_cells, wall_normals, far_cells, far_normals, far_states, second, R
):
    """R = sum of the fluxes out of each cell, (C, 4); W is work space; second or first order."""
    to_primitive(U, W)
    R[:] = 0.0
    for f in range(stencil.shape[0]):
        left, right = stencil[f, 1], stencil[f, 2]
        nx, ny = normals[f, 0], normals[f, 1]
        size = sqrt(nx * nx + ny * ny)
        nx, ny = nx / size, ny / size
        if second:
            rl, ul, vl, pl = reconstruct(W, stencil[f, 0], left, right)
            rr, ur, vr, pr = reconstruct(W, stencil[f, 3], right, left)
        else:
            rl, ul, vl, pl = W[left, 0], W[left, 1], W[left, 2], W[left, 3]
            rr, ur, vr, pr = W[right, 0], W[right, 1], W[right, 2], W[right, 3]
        f0, f1, f2, f3 = roe_flux(rl, ul, vl, pl, rr, ur, vr, pr, nx, ny)
        R[left, 0] += size * f0
        R[left, 1] += size * f1
        R[left, 2] += size * f2
        R[left, 3] += size * f3
        R[right, 0] -= size * f0
        R[right, 1] -= size * f1
        R[right, 2] -= size * f2
        R[right, 3] -= size * f3
    for f in range(wall_cells.shape[0]):
        cell = wall_cells[f, 0]
        p = wall_pressure(W, cell, wall_cells[f, 1])
        R[cell, 1] += p * wall_normals[f, 0]
        R[cell, 2] += p * wall_normals[f, 1]
    for f in range(far_cells.shape[0]):
        c = far_cells[f]
        nx, ny = far_normals[f, 0], far_normals[f, 1]
        size = sqrt(nx * nx + ny * ny)
        o = far_states[f]
        f0, f1, f2, f3 = roe_flux(
            W[c, 0], W[c, 1], W[c, 2], W[c, 3], o[0], o[1], o[2], o[3], nx / size, ny / size
        )
        R[c, 0] += size * f0
        R[c, 1] += size * f1
        R[c, 2] += size * f2
        R[c, 3] += size * f3


def conserved(W: np.ndarray) -> np.ndarray:
    """Conserved variables of primitive ones, (..., 4)."""
    r, u, v, p = np.moveaxis(W, -1, 0)
    return np.stack([r, r * u, r * v, p / (GAMMA - 1) + r * (u * u + v * v) / 2], axis=-1)
