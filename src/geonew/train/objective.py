r"""The loss: mean over the converged samples of a batch of the relative L2 error.

.. math:: \ell_k = \frac{|(u' - u)/\sigma|_2}{|u/\sigma|_2}

over the nodes of sample k and all components, sigma the training standard deviation of each field:
the metric of record (:mod:`geonew.train.metrics`, ``combined``) itself. Fields with a gauge lose
their mean first. Samples whose solve failed are left out by indexing, never by multiplying with
zero: 0 times NaN is NaN.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from geonew.model.batch import Batch
from geonew.problem import Problem
from geonew.train.metrics import NEAR_ZERO
from geonew.train.models import newton_steps, sit_out


class Losses(NamedTuple):
    """What one forward pass says.

    Args:
        total: sum over converged samples of their losses; carries the gradient.
        converged: how many.
        size: samples in the batch.
        steps: Newton steps, summed over samples.

    """

    total: Tensor
    converged: int
    size: int
    steps: float


def relative_errors(
    problem: Problem, fields: Tensor, batch: Batch, deviations: Float[Tensor, "F"]
) -> Float[Tensor, "B"]:
    """The loss of each sample of a batch; of those that all but vanish, the absolute error."""
    assert batch.target is not None
    defect = fields - batch.target
    gauged = [k for k, owner in enumerate(problem.component_fields) if owner.level == "gauge"]
    if gauged:
        weight = (batch.mass / batch.volume[:, None])[..., None]
        level = (weight * defect).sum(1, keepdim=True)
        held = torch.tensor([k not in gauged for k in range(defect.shape[-1])], device=level.device)
        defect = defect - level.masked_fill(held, 0.0)
    scale = batch.mask[..., None] / deviations
    size = (batch.target * scale).flatten(1).norm(dim=1)
    least = NEAR_ZERO * (batch.mask.sum(1) * defect.shape[-1]).sqrt()
    return (defect * scale).flatten(1).norm(dim=1) / torch.maximum(size, least)


class Objective(nn.Module):
    """Batch -> sum of losses; the module that several processes join.

    Args:
        model: what is trained.
        problem: its problem.
        deviations: training standard deviations over the reference values.
        complete: let every parameter take part in every loss, with weight zero where it has no
            influence: joined processes wait for the gradient of each.

    """

    deviations: Float[Tensor, "F"]

    def __init__(
        self, model: nn.Module, problem: Problem, deviations: Float[Tensor, "F"], complete: bool
    ) -> None:
        super().__init__()
        self.model, self.problem, self.complete = model, problem, complete
        self.register_buffer("deviations", deviations)

    def forward(self, batch: Batch | None) -> Losses:
        """Losses of a batch; none stands for an empty share."""
        if batch is None:
            sit_out(self.model)  # its mates wait for that
            return Losses(self._nothing(), 0, 0, 0.0)
        output = self.model(batch)
        good = torch.nonzero(output.converged)[:, 0]
        total = self._nothing()
        if len(good):
            errors = relative_errors(self.problem, output.fields, batch, self.deviations)
            total = total + errors[good].sum()
        taken = newton_steps(output)
        steps = 0.0 if taken is None else float(taken.sum())
        return Losses(total, len(good), batch.size, steps)

    def _nothing(self) -> Tensor:
        zero = self.deviations.new_zeros(())
        if self.complete:
            for p in self.model.parameters():
                zero = zero + 0.0 * p.double().sum()
        return zero
