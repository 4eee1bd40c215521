r"""Gradients of a solution, exactly, by one differentiable Newton step.

At a root u* of G(u, p), with J = dG/du detached,

.. math:: u = u^* - J^{-1} G(u^*, p) \quad\Rightarrow\quad
          \frac{du}{dp} = -J^{-1} \frac{\partial G}{\partial p},

the implicit function theorem, by plain autograd through everything G is made of: reduced matrices,
basis, loads, data, weights. No gradient is written by hand.

The second derivative of one such step would be silently wrong, so differentiating twice raises,
unless ``order=2``, which takes two steps and is exact to second order. The refusal is part of the
graph, a function of the residual: torch's own ``once_differentiable`` stands beside it, and
``torch.autograd.grad`` with respect to given inputs would pass it by.
"""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from geonew.errors import SolverError
from geonew.model.balance import Balance
from geonew.model.newton import Solution


class _SolveOnce(torch.autograd.Function):
    """J^-1 r with the gradient J^-T g in r; differentiable once."""

    @staticmethod
    def forward(ctx, lu: Tensor, pivots: Tensor, r: Tensor) -> Tensor:  # type: ignore[override]
        ctx.save_for_backward(lu, pivots, r)
        return torch.linalg.lu_solve(lu, pivots, r[..., None])[..., 0]

    @staticmethod
    def backward(ctx, gradient: Tensor):  # type: ignore[override]
        lu, pivots, r = ctx.saved_tensors
        return None, None, _AdjointSolve.apply(lu, pivots, gradient, r)


class _AdjointSolve(torch.autograd.Function):
    """J^-T g, which cannot be differentiated: J depends on all that r depends on."""

    @staticmethod
    def forward(ctx, lu: Tensor, pivots: Tensor, gradient: Tensor, r: Tensor) -> Tensor:  # type: ignore[override]
        return torch.linalg.lu_solve(lu, pivots, gradient[..., None], adjoint=True)[..., 0]

    @staticmethod
    def backward(ctx, _: Tensor):  # type: ignore[override]
        raise SolverError(
            "a prediction is differentiated twice, but was made to be differentiated once",
            "call the model with order=2",
        )


def differentiable(
    balance: Balance, solution: Solution, order: Literal[1, 2] = 1
) -> Float[Tensor, "B F P"]:
    """The solution's coefficients as a function of everything the balance depends on.

    Args:
        balance: G, with its graph.
        solution: a root of it, found without gradients; all samples converged.
        order: how often the result may be differentiated.

    """
    u = solution.u.detach()
    lu, pivots = solution.lu
    for _ in range(order):
        r = balance.differentiable_residual(u).flatten(1)
        if order == 1:
            correction = _SolveOnce.apply(lu, pivots, r)
        else:
            correction = torch.linalg.lu_solve(lu, pivots, r[..., None])[..., 0]
        u = u - correction.view_as(u)  # type: ignore[union-attr]
    return u
