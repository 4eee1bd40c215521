r"""Linear solvers for the reference problems: sparse LU in 2D, preconditioned Krylov in 3D.

**Direct.** SuperLU without pivoting on a nested-dissection order. The order comes from the mesh:
cells are halved at the median along the longest axis, nodes common to both halves form the
separator and are eliminated last. Fill is O(n log n) in 2D instead of what COLAMD leaves: a
Taylor-Hood Jacobian on 4,000 vertices factorises in 0.24 s instead of 0.82 s. Pivoting would undo
the order, so it is switched off; this needs a matrix that is definite, or made so. A saddle point
is made so by a small multiple of the pressure mass in its zero block (a quasi-definite matrix has
an LU factorisation in every order, Vanderbei 1995), and the outer :func:`gmres` on the true matrix
removes the trace of it. The residual is measured; where LU without pivoting fails, COLAMD with
pivoting takes over.

**Iterative.** For P2 in 3D, a two-level cycle: Chebyshev-Jacobi smoothing on the P2 nodes, an exact
solve on the P1 vertices inside the same mesh (an eighth of the unknowns), symmetric when the matrix
is, so that it preconditions CG and MINRES.

Other direct solvers are not used: on these matrices and one thread MKL PARDISO takes 3.0 times as
long at 35,000 unknowns and 1.8 times at 144,000, COLAMD 3.4 times at 35,000.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray
from scipy.sparse import csc_matrix, csr_matrix
from scipy.sparse.linalg import LinearOperator, cg, splu

from geonew.errors import SolverError

# Nested dissection stops at this many nodes: smaller blocks fill completely anyway.
LEAF_NODES = 20

# An LU whose solution leaves more than this relative residual has broken down.
LU_RESIDUAL = 1e-6

# Chebyshev smoothing acts on this upper part of the spectrum of D^-1 A; the lower part is what the
# P1 vertices see.
SMOOTHED_PART = (0.25, 1.1)
SMOOTHING_STEPS = 3
POWER_STEPS = 12

# A vector that keeps this part of its length in one Gram-Schmidt sweep is orthogonal to the basis
# up to ten times round-off.
KEPT_LENGTH = 0.1

Operator = Callable[[ndarray], ndarray]


def nested_dissection(
    points: Float[ndarray, "n d"], cell_nodes: Int[ndarray, "C k"]
) -> Int[ndarray, "n"]:
    """Elimination order of the nodes of a mesh, separators last.

    The first d + 1 nodes of a cell are its vertices.
    """
    dim = points.shape[1]
    centres = points[cell_nodes].mean(axis=1)
    neighbours = _neighbours(cell_nodes[:, : dim + 1])
    side = np.zeros(len(cell_nodes) + 1, dtype=np.int8)  # the last entry stands for "no neighbour"
    open_nodes = np.ones(len(points), dtype=bool)
    marked = np.zeros(len(points), dtype=bool)
    parts: list[ndarray] = []  # separators before what they separate; reversed at the end

    def nodes_in(cells: ndarray) -> ndarray:
        # What np.unique does, without its overhead: most of the calls are for a few cells.
        nodes = cell_nodes[cells].ravel()
        nodes = nodes[open_nodes[nodes]]
        nodes.sort()
        first = np.ones(len(nodes), dtype=bool)
        np.not_equal(nodes[1:], nodes[:-1], out=first[1:])
        return nodes[first]

    def common(a: ndarray, b: ndarray) -> ndarray:
        marked[a] = True
        both = b[marked[b]]
        marked[a] = False
        return both

    def halves(cells: ndarray) -> tuple[ndarray, ndarray]:
        centre = centres[cells]
        along = centre[:, np.argmax(centre.max(axis=0) - centre.min(axis=0))]
        order, middle = np.argsort(along, kind="stable"), len(cells) // 2
        side[cells[order[:middle]]], side[cells[order[middle:]]] = 1, 2
        # A cell with all but one of its facets on the cut is a tooth of the separator: give it to
        # the other side. This halves the fill.
        for here, there in ((1, 2), (2, 1)):
            own = cells[side[cells] == here]
            side[own[(side[neighbours[own]] == there).sum(axis=1) >= dim]] = there
        left, right = cells[side[cells] == 1], cells[side[cells] == 2]
        side[cells] = 0
        return left, right

    every = np.arange(len(cell_nodes))
    stack = [(every, nodes_in(every))]
    while stack:
        cells, nodes = stack.pop()
        nodes = nodes[open_nodes[nodes]]
        left, right = halves(cells) if len(nodes) > LEAF_NODES else (cells, cells[:0])
        if min(len(left), len(right)) == 0:
            parts.append(nodes)
            open_nodes[nodes] = False
            continue
        in_left, in_right = nodes_in(left), nodes_in(right)
        separator = common(in_left, in_right)
        parts.append(separator)
        open_nodes[separator] = False
        stack += [(left, in_left), (right, in_right)]
    return np.concatenate(parts)[::-1].copy()


def _neighbours(cells: Int[ndarray, "C k"]) -> Int[ndarray, "C k"]:
    """The cell across each facet; C, one past the last, where there is none."""
    count, k = cells.shape
    facets = [np.sort(np.delete(cells, slot, axis=1), axis=1) for slot in range(k)]
    stacked = np.stack(facets, axis=1).reshape(count * k, -1)
    order = np.lexsort(stacked.T)
    same = (stacked[order[1:]] == stacked[order[:-1]]).all(axis=1)
    first, second = order[:-1][same], order[1:][same]
    across = np.full(count * k, count)
    across[first], across[second] = second // k, first // k
    return across.reshape(count, k)


@dataclass(frozen=True, eq=False)
class Factorization:
    """A factorised matrix; ``solve(b)`` applies its inverse. ``backend`` says who did it."""

    solve: Operator
    backend: str


def factorize(matrix: csc_matrix, *, definite: bool) -> Factorization:
    """Factorise a matrix whose rows and columns are already in elimination order.

    Args:
        matrix: square matrix.
        definite: its symmetric part is definite, or quasi-definite after regularisation: LU
            needs no pivots. Otherwise COLAMD with pivoting.

    """
    size = len(matrix.indptr) - 1
    probe = np.random.default_rng(0).standard_normal(size)
    if definite:
        options = {"SymmetricMode": True}
        try:
            lu = splu(matrix, permc_spec="NATURAL", diag_pivot_thresh=0.0, options=options)
        except RuntimeError:  # an exactly zero pivot
            pass
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # overflow is caught by the test
                residual = np.linalg.norm(matrix @ lu.solve(probe) - probe)
            if residual <= LU_RESIDUAL * np.linalg.norm(probe):
                return Factorization(lu.solve, "SuperLU, nested dissection")
    try:
        return Factorization(splu(matrix, permc_spec="COLAMD").solve, "SuperLU, COLAMD")
    except RuntimeError as error:
        raise SolverError(
            f"the matrix of {size} unknowns is singular ({error})",
            "prescribe the unknown on some boundary group, or set a gauge",
        ) from error


def factorized(matrix: csr_matrix, order: Int[ndarray, "n"]) -> Operator:
    """The inverse of a definite matrix, factorised in the given elimination order."""
    factor = factorize(matrix[order][:, order].tocsc(), definite=True)

    def apply(b: ndarray) -> ndarray:
        x = np.empty_like(b)
        x[order] = factor.solve(b[order])
        return x

    return apply


# -- the two-level cycle -----------------------------------------------------------------------


class TwoLevel:
    """One cycle of P2 smoothing and exact P1 correction as an approximate inverse.

    Args:
        matrix: the matrix on the free nodes of the P2 space; definite.
        prolongation: interpolation from the free vertices to the free nodes.
        order: elimination order of the free vertices.

    """

    def __init__(self, matrix: csr_matrix, prolongation: csr_matrix, order: ndarray) -> None:
        self.matrix = matrix
        self.up = prolongation[:, order].tocsr()
        self.down = self.up.T.tocsr()
        coarse = (self.down @ matrix @ self.up).tocsc()
        self.coarse = factorize(coarse, definite=True)
        self.scale = np.reciprocal(np.asarray(matrix.diagonal(), dtype=np.float64))
        top = _largest_eigenvalue(matrix, self.scale)
        low, high = SMOOTHED_PART[0] * top, SMOOTHED_PART[1] * top
        self.middle, self.spread = (high + low) / 2, (high - low) / 2

    def __call__(self, r: ndarray) -> ndarray:
        """Approximate solution of ``matrix x = r``, r one vector or columns; symmetric in r."""
        x = self._smooth(np.zeros_like(r), r, fresh=True)
        x += self.up @ self.coarse.solve(self.down @ (r - self.matrix @ x))
        return self._smooth(x, r, fresh=False)

    def _smooth(self, x: ndarray, r: ndarray, *, fresh: bool) -> ndarray:
        """Chebyshev iteration; the same polynomial before and after keeps the cycle symmetric."""
        sigma = self.middle / self.spread
        rho = 1.0 / sigma
        scale = self.scale if r.ndim == 1 else self.scale[:, None]
        step = scale * (r if fresh else r - self.matrix @ x) / self.middle
        x = x + step
        for _ in range(SMOOTHING_STEPS - 1):
            rho_next = 1.0 / (2 * sigma - rho)
            rest = scale * (r - self.matrix @ x)
            step = rho_next * rho * step + 2 * rho_next / self.spread * rest
            x = x + step
            rho = rho_next
        return x


def _largest_eigenvalue(matrix: csr_matrix, scale: ndarray) -> float:
    """Largest eigenvalue of D^-1 A in modulus, by the power method."""
    x = np.random.default_rng(0).standard_normal(len(scale))
    value = 1.0
    for _ in range(POWER_STEPS):
        x = scale * (matrix @ x)
        value = float(np.linalg.norm(x))
        x /= value
    return value


# -- Krylov methods ----------------------------------------------------------------------------


@dataclass(frozen=True)
class KrylovResult:
    """What a Krylov method returns: solution, relative residuals by iteration, success."""

    x: Float[ndarray, "n"]
    residuals: tuple[float, ...]
    converged: bool


def gmres(
    matrix: Operator,
    b: Float[ndarray, "n"],
    inverse: Operator,
    rtol: float,
    max_steps: int,
    *,
    impatient: bool = False,
    always_twice: bool = True,
) -> KrylovResult:
    """Flexible GMRES, preconditioned from the right, without restart.

    SciPy's preconditions from the left, so that its stopping test sees the preconditioned residual;
    Newton's forcing terms need the true one. If ``impatient``, it gives up after three steps once
    the mean rate so far does not lead to the goal within ``max_steps``. Gram-Schmidt is done twice,
    which keeps the basis orthogonal to round-off; unless ``always_twice`` only where a vector loses
    much of its length to the basis, as Daniel and others (1976) do: for long bases of long vectors.
    """
    norm_b = float(np.linalg.norm(b))
    if norm_b == 0.0:
        return KrylovResult(np.zeros_like(b), (0.0,), True)
    # Rows of these arrays are touched, and take memory, only as the iteration reaches them.
    basis, directions = np.empty((max_steps + 1, len(b))), np.empty((max_steps, len(b)))
    basis[0] = b / norm_b
    hessenberg = np.zeros((max_steps + 1, max_steps))
    target = np.zeros(max_steps + 1)
    target[0] = norm_b
    weights, residuals = np.zeros(0), [1.0]
    for k in range(max_steps):
        directions[k] = inverse(basis[k])
        w = matrix(directions[k])
        for sweep in range(2):
            before = 0.0 if always_twice or sweep else float(np.linalg.norm(w))
            h = basis[: k + 1] @ w
            hessenberg[: k + 1, k] += h
            w = w - h @ basis[: k + 1]
            if before and np.linalg.norm(w) > KEPT_LENGTH * before:
                break
        hessenberg[k + 1, k] = np.linalg.norm(w)
        if not np.isfinite(hessenberg[: k + 2, k]).all():
            break
        small = hessenberg[: k + 2, : k + 1]
        weights = np.linalg.lstsq(small, target[: k + 2], rcond=None)[0]
        residuals.append(float(np.linalg.norm(target[: k + 2] - small @ weights)) / norm_b)
        if residuals[-1] <= rtol or hessenberg[k + 1, k] <= 1e-14 * np.abs(small).max():
            break
        if impatient and k >= 2 and residuals[-1] ** (max_steps / (k + 1)) > rtol:
            break
        basis[k + 1] = w / hessenberg[k + 1, k]
    x = weights @ directions[: len(weights)]
    return KrylovResult(x, tuple(residuals), bool(residuals[-1] <= rtol))


def conjugate_gradients(
    matrix: csr_matrix, b: Float[ndarray, "n"], inverse: Operator, rtol: float, max_steps: int
) -> KrylovResult:
    """Preconditioned CG for a symmetric positive definite matrix."""
    norm_b = float(np.linalg.norm(b))
    if norm_b == 0.0:
        return KrylovResult(np.zeros_like(b), (0.0,), True)
    steps: list[float] = []
    operator = LinearOperator((len(b), len(b)), matvec=inverse, dtype=np.float64)  # type: ignore

    def count(_: ndarray) -> None:
        steps.append(1.0)

    x, _ = cg(matrix, b, rtol=rtol, atol=0.0, maxiter=max_steps, M=operator, callback=count)
    residual = float(np.linalg.norm(b - matrix @ x)) / norm_b
    # CG tests an updated residual that drifts from the true one by round-off.
    return KrylovResult(x, (*steps, residual), bool(residual <= 10 * rtol))


@dataclass(frozen=True)
class LinearSolution:
    """Solution of a linear system with its relative residual, iterations and method."""

    x: Float[ndarray, "n"]
    residual: float
    iterations: int
    method: str


# Relative residual asked of every linear reference problem.
LINEAR_RTOL = 1e-12
MAX_CG_STEPS = 400


def solve_definite(
    matrix: csr_matrix,
    b: Float[ndarray, "n"],
    order: Int[ndarray, "n"],
    preconditioner: Callable[[], Operator] | None = None,
) -> LinearSolution:
    """Solve a symmetric positive definite system.

    Args:
        matrix: the matrix.
        b: right-hand side.
        order: elimination order of the unknowns, for the direct solver.
        preconditioner: makes an approximate inverse; if given, CG instead of the direct solver.

    """
    norm_b = float(np.linalg.norm(b))
    if norm_b == 0.0:
        return LinearSolution(np.zeros_like(b), 0.0, 0, "zero load")
    if preconditioner is not None:
        result = conjugate_gradients(matrix, b, preconditioner(), LINEAR_RTOL, MAX_CG_STEPS)
        if not result.converged:
            raise SolverError(
                f"conjugate gradients stopped at relative residual {result.residuals[-1]:.2e} "
                f"after {len(result.residuals) - 1} steps ({len(b)} unknowns)",
                "check the mesh for very flat cells and the coefficients for extreme contrasts",
            )
        return LinearSolution(
            result.x, result.residuals[-1], len(result.residuals) - 1, "CG, two-level"
        )
    permuted = matrix[order][:, order].tocsc()
    factor = factorize(permuted, definite=True)
    rhs = b[order]
    y = factor.solve(rhs)
    y += factor.solve(rhs - permuted @ y)  # one refinement removes the growth of unpivoted LU
    residual = float(np.linalg.norm(rhs - permuted @ y)) / norm_b
    if not residual <= np.sqrt(LINEAR_RTOL):
        raise SolverError(
            f"the direct solver left a relative residual of {residual:.2e} ({len(b)} unknowns)",
            "check the mesh for very flat cells and the coefficients for extreme contrasts",
        )
    x = np.empty_like(b)
    x[order] = y
    return LinearSolution(x, residual, 1, factor.backend)
