r"""Newton's method on a batch in which every sample has its own fate.

.. math:: u \leftarrow u - t\, J(u)^{-1} G(u), \qquad t \in \{1, 1/2, 1/4, \dots\}
          \text{ the first that lowers } |G|.

Start: the solution of everything linear. A sample is done when its residual is at most
rtol times the size of its data plus atol, and the field moved by no more than ``field_tolerance``
in the step that led there (coefficients of nearly equal partitions are ill-determined, the field is
not). Where the old Jacobian's factors will do for the last step, they are used: the contraction of
the step before tells. Finished samples are frozen; failed ones keep their best iterate and say why.
Nothing raises: a singular or non-finite system is a status of its own sample and leaves its batch
mates alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from torch import Tensor

from geonew.model.balance import Balance

# A step by old factors is taken where its expected residual is this part of the tolerance.
SAFETY = 0.1


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

    def one_step_short(self) -> NewtonConfig:
        """Tolerances of a training step, which ends with one more Newton step, the differentiable.

        That squares the error of its values; its gradients are as exact as a model in float32 has
        use for.
        """
        return replace(
            self,
            rtol=max(self.rtol, 1e-4),
            field_tolerance=max(self.field_tolerance, 1e-3),
        )


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


@torch.no_grad()
@np.errstate(all="ignore")  # a sample's NaN is its status
def solve(
    balance: Balance,
    config: NewtonConfig,
    field_size: Callable[[Float[Tensor, "B F P"]], Float[Tensor, "B"]],
    start: Float[Tensor, "B F P"] | None = None,
    factored: bool = True,
) -> Solution:
    """Solve G(u) = 0 for every sample of a batch.

    What is one number per sample is kept in NumPy: a step asks for it at once, and there it costs a
    fifth.

    Args:
        balance: G.
        config: tolerances.
        field_size: root mean square over the domain of the field with given coefficients.
        start: first iterate; the solution of the linear part by default.
        factored: factor the Jacobian at the solution, as a gradient needs it; without, the
            factors are those of the last step.

    """
    size = _host(balance.scale())
    tolerance = config.rtol * size + config.atol
    u = _linear_solution(balance) if start is None else start
    r, jacobian = balance.evaluate(u)
    norm = _norms(r)
    active = np.isfinite(norm + size)
    status = np.where(active, Status.MAX_STEPS, Status.NON_FINITE)
    steps = np.zeros_like(status)
    lu, pivots, info = torch.linalg.lu_factor_ex(_guarded(jacobian()))
    ahead = np.zeros_like(norm)  # residual to expect after a step by the factors at hand
    stale = False  # whether these are of an earlier iterate
    while True:
        singular = active & (_host(info) != 0)
        status[singular] = Status.SINGULAR
        active &= ~singular
        step = -torch.linalg.lu_solve(lu, pivots, r.flatten(1)[..., None]).view_as(u)
        done = _at_rest(step, active & (norm <= tolerance), config, field_size)
        status[done] = Status.CONVERGED
        active &= ~done & (steps < config.max_steps)
        if not active.any():
            break
        fails = stale and not (ahead <= SAFETY * tolerance)[active].all()
        if not fails:
            trial = _where(active, u + step, u)
            r_trial, jacobian_trial = balance.evaluate(trial)
            norm_trial = _norms(r_trial)
            fails = not (norm_trial < norm)[active].all()
        if fails and (stale or not balance.has_exact_jacobian):
            if not stale:  # before a step is halved, it is to be Newton's
                balance = balance.with_exact_jacobian()
                r, jacobian = balance.evaluate(u)
            lu, pivots, info = torch.linalg.lu_factor_ex(_guarded(jacobian()))
            stale = False
            continue
        if fails:
            trial, taken = _backtrack(balance, u, step, norm, norm_trial, active, config)
            r_trial, jacobian_trial = balance.evaluate(trial)
            norm_trial = _norms(r_trial)
            stuck = active & (taken == 0)
            status[stuck] = Status.STAGNATED
            status[stuck & (norm <= tolerance)] = Status.CONVERGED  # round-off
            status[stuck & ~np.isfinite(_norms(step))] = Status.NON_FINITE
            active &= ~stuck
        steps += active
        # Newton: |G'| ~ c |G|^2 gives the same c to a step by old factors, |G''| ~ 2 c |G| |G'|.
        ahead = 2 * norm_trial**2 / norm
        u, r, jacobian = trial, r_trial, jacobian_trial
        norm = np.where(active, norm_trial, norm)
        stale = True
    if factored and stale:
        lu, pivots, _ = torch.linalg.lu_factor_ex(_guarded(jacobian()))
    scaled = norm / np.maximum(size, np.finfo(size.dtype).tiny)
    found = (torch.from_numpy(a).to(u.device) for a in (status, steps, scaled))
    return Solution(u, *found, lu=(lu, pivots))


def _host(numbers: Tensor) -> ndarray:
    """One number per sample, where Python decides."""
    return numbers.cpu().numpy()


def _norms(r: Float[Tensor, "B F P"]) -> Float[ndarray, "B"]:
    return _host(r.flatten(1).norm(dim=1))


def _where(which: Bool[ndarray, "B"], one: Tensor, other: Tensor) -> Tensor:
    """The samples of one tensor where told, else of the other."""
    if which.all():
        return one
    return torch.where(torch.from_numpy(which).to(one.device)[:, None, None], one, other)


def _at_rest(
    step: Float[Tensor, "B F P"],
    candidates: Bool[ndarray, "B"],
    config: NewtonConfig,
    field_size: Callable[[Float[Tensor, "B F P"]], Float[Tensor, "B"]],
) -> Bool[ndarray, "B"]:
    """Which candidates' fields a step moves by no more than the tolerance.

    Rows sum to at most 1, so the largest coefficient of a step bounds the change of the field;
    only where that is too large is the field itself looked at.
    """
    if not candidates.any():
        return candidates
    bounded = _host(step.flatten(1).abs().amax(1)) <= config.field_tolerance
    if bounded[candidates].all():
        return candidates
    return candidates & (bounded | (_host(field_size(step)) <= config.field_tolerance))


def _linear_solution(balance: Balance) -> Float[Tensor, "B F P"]:
    """Solution of everything linear; zero where that is singular."""
    constant = balance.constant.flatten(1)[..., None]
    u, info = torch.linalg.solve_ex(_guarded(balance.matrix), -constant)
    u = u.view_as(balance.constant)
    return _where((_host(info) == 0) & np.isfinite(_norms(u)), u, torch.zeros_like(u))


def _backtrack(
    balance: Balance,
    u: Float[Tensor, "B F P"],
    step: Float[Tensor, "B F P"],
    norm: Float[ndarray, "B"],
    full_norm: Float[ndarray, "B"],
    active: Bool[ndarray, "B"],
    config: NewtonConfig,
) -> tuple[Float[Tensor, "B F P"], Float[ndarray, "B"]]:
    """Per sample the largest t = 2^-k that lowers the residual; u itself (t = 0) if none does."""
    good = active & (full_norm < norm)
    taken = good.astype(float)
    trial = _where(good, u + step, u)
    searching = active & ~good
    t = 1.0
    for _ in range(config.max_halvings):
        if not searching.any():
            break
        t /= 2
        candidate = u + t * step
        lower = searching & (_norms(balance.residual(candidate)) < norm)
        trial = _where(lower, candidate, trial)
        taken[lower] = t
        searching &= ~lower
    return trial, taken


def _guarded(J: Float[Tensor, "B n n"]) -> Float[Tensor, "B n n"]:
    """Replace non-finite matrices by the identity, so that factoring the others cannot fail."""
    finite = torch.isfinite(J.sum((-2, -1)))  # a sum is finite only if all its terms are
    if finite.all():
        return J
    eye = torch.eye(J.shape[-1], dtype=J.dtype, device=J.device)
    return torch.where(finite[:, None, None], J, eye)
