r"""Newton's method on a batch in which every sample has its own fate.

.. math:: u \leftarrow u - t\, J(u)^{-1} G(u), \qquad t \in \{1, 1/2, 1/4, \dots\}
          \text{ the first that lowers } |G|.

Start: the solution of the linear backbone. A sample is done when its residual is at most
rtol times the size of its data plus atol, and the field moved by no more than ``field_tolerance``
in the step that led there (coefficients of nearly equal partitions are ill-determined, the field is
not). Finished samples are frozen; failed ones keep their best iterate and say why. Nothing raises:
a singular or non-finite system is a status of its own sample and leaves its batch mates alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from geonew.model.backbone import LinearSystem
from geonew.model.balance import Balance


class Status(IntEnum):
    """How a sample's solve ended."""

    CONVERGED = 0
    STAGNATED = 1
    MAX_STEPS = 2
    NON_FINITE = 3
    SINGULAR = 4

    @property
    def advice(self) -> str:
        """What to do about it."""
        return {
            Status.CONVERGED: "",
            Status.STAGNATED: (
                "the residual cannot be lowered further: the tolerance is below round-off for this "
                "system; raise rtol, or use fewer partitions"
            ),
            Status.MAX_STEPS: (
                "allow more steps; if the residual falls slowly, the learned law is too strong "
                "against the known terms"
            ),
            Status.NON_FINITE: (
                "the system contains NaN or infinity: check boundary data, source, parameters and "
                "the weights of the model"
            ),
            Status.SINGULAR: (
                "the Jacobian is singular: a field has no Dirichlet data, gauge or reaction, or "
                "two partitions are identical"
            ),
        }[self]


@dataclass(frozen=True)
class NewtonConfig:
    """When to stop.

    Args:
        rtol: residual over the size of the data.
        atol: absolute residual, for samples without data.
        field_tolerance: largest change of the field (root mean square) in the last step.
        max_steps: Newton steps.
        max_halvings: halvings of a step.

    """

    rtol: float = 1e-8
    atol: float = 1e-12
    field_tolerance: float = 1e-6
    max_steps: int = 30
    max_halvings: int = 8


@dataclass(frozen=True, eq=False)
class Solution:
    """What the solve found, per sample.

    Args:
        u: coefficients; the best iterate where it did not converge.
        status: see :class:`Status`.
        steps: Newton steps taken.
        residual: final residual over the size of the data.
        lu: factors and pivots of the Jacobian at u.

    """

    u: Float[Tensor, "B F P"]
    status: Int[Tensor, "B"]
    steps: Int[Tensor, "B"]
    residual: Float[Tensor, "B"]
    lu: tuple[Tensor, Tensor]

    @property
    def converged(self) -> Bool[Tensor, "B"]:
        """Which samples are solved."""
        return self.status == Status.CONVERGED


def linear_start(system: LinearSystem) -> Float[Tensor, "B F P"]:
    """Solution of A u + a = 0; zero where A is singular."""
    u, info = torch.linalg.solve_ex(system.dense(), -system.constant.flatten(1)[..., None])
    good = (info == 0) & torch.isfinite(u).all(1)[:, 0]
    return torch.where(good[:, None, None], u.view_as(system.constant), 0.0)


@torch.no_grad()
def solve(
    balance: Balance,
    config: NewtonConfig,
    field_size: Callable[[Float[Tensor, "B F P"]], Float[Tensor, "B"]],
    start: Float[Tensor, "B F P"] | None = None,
) -> Solution:
    """Solve G(u) = 0 for every sample of a batch.

    Args:
        balance: G.
        config: tolerances.
        field_size: root mean square over the domain of the field with given coefficients.
        start: first iterate; the linear backbone's solution by default.

    """
    u = linear_start(balance.linear) if start is None else start.clone()
    B = len(u)
    size = balance.scale()
    tolerance = config.rtol * size + config.atol
    status = torch.full((B,), int(Status.MAX_STEPS), device=u.device)
    steps = torch.zeros(B, dtype=torch.int64, device=u.device)
    moved = torch.full_like(size, torch.inf)
    r, J = balance.linearise(u)
    norm = r.flatten(1).norm(dim=1)
    active = torch.isfinite(norm) & torch.isfinite(size)
    status[~active] = int(Status.NON_FINITE)
    lu, pivots, info = torch.linalg.lu_factor_ex(_guarded(J))
    while True:
        singular = active & (info != 0)
        status[singular] = int(Status.SINGULAR)
        active = active & ~singular
        done = active & (norm <= tolerance) & (moved <= config.field_tolerance)
        status[done] = int(Status.CONVERGED)
        active = active & ~done & (steps < config.max_steps)
        if not active.any():
            break
        step = -torch.linalg.lu_solve(lu, pivots, r.flatten(1)[..., None]).view_as(u)
        size_of_step = field_size(step)
        # A sample already at its tolerance only has to show that its field no longer moves.
        still = active & (norm <= tolerance) & (size_of_step <= config.field_tolerance)
        status[still] = int(Status.CONVERGED)
        active = active & ~still
        if not active.any():
            break
        t, trial, trial_norm = _line_search(balance, u, step, norm, tolerance, active, config)
        better = active & (t > 0)
        stuck = active & ~better
        settled = stuck & (norm <= tolerance)  # round-off is reached; the tolerance was met before
        status[stuck] = int(Status.STAGNATED)
        status[settled] = int(Status.CONVERGED)
        bad = stuck & ~torch.isfinite(size_of_step)
        status[bad] = int(Status.NON_FINITE)
        active = better
        u = torch.where(better[:, None, None], trial, u)
        norm = torch.where(better, trial_norm, norm)
        moved = torch.where(better, t * size_of_step, moved)
        steps = steps + better
        if not active.any():
            break
        r, J = balance.linearise(u)
        lu, pivots, info = torch.linalg.lu_factor_ex(_guarded(J))
    return Solution(
        u, status, steps, norm / size.clamp_min(torch.finfo(size.dtype).tiny), (lu, pivots)
    )


def _line_search(
    balance: Balance,
    u: Tensor,
    step: Tensor,
    norm: Tensor,
    tolerance: Tensor,
    active: Tensor,
    config: NewtonConfig,
) -> tuple[Tensor, Tensor, Tensor]:
    """Largest t = 2^-k per sample that lowers the residual (0 if none), the iterate, its norm."""
    t = torch.ones_like(norm)
    accepted = torch.zeros_like(norm)
    best, best_norm = u, norm
    searching = active.clone()
    for _ in range(config.max_halvings + 1):
        trial = u + t[:, None, None] * step
        trial_norm = balance.residual(trial).flatten(1).norm(dim=1)
        good = searching & (trial_norm < norm)
        best = torch.where(good[:, None, None], trial, best)
        best_norm = torch.where(good, trial_norm, best_norm)
        accepted = torch.where(good, t, accepted)
        searching = searching & ~good
        if not searching.any():
            break
        t = t / 2
    return accepted, best, best_norm


def _guarded(J: Tensor) -> Tensor:
    """Replace non-finite matrices by the identity, so that factoring the others cannot fail."""
    finite = torch.isfinite(J).all(-1).all(-1)
    eye = torch.eye(J.shape[-1], dtype=J.dtype, device=J.device)
    return torch.where(finite[:, None, None], J, eye)
