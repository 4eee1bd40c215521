"""Errors of a model on samples with known solutions, over one process or several."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import nn

from geonew.model.sample import Sample, to_lab
from geonew.problem import Problem
from geonew.train.distributed import Team
from geonew.train.metrics import Errors, column_names, measure
from geonew.train.models import FieldModel
from geonew.train.samples import sample_sizes


@torch.no_grad()
def validate(
    model: nn.Module,
    problem: Problem,
    samples: Sequence[Sample],
    deviations: Float[ndarray, "F"],
    team: Team,
    batch: int,
) -> tuple[Errors, float]:
    """Errors of all samples, and the part of them that is solved.

    Args:
        model: deterministic here, whatever mode it is in.
        problem: its problem.
        samples: with targets.
        deviations: of training, in the user's units.
        team: each process takes a share.
        batch: samples side by side.

    """
    assert isinstance(model, FieldModel)
    was_training = model.training
    model.eval()
    order = np.argsort(sample_sizes(samples), kind="stable")[team.rank :: team.size]
    table = torch.zeros(4, len(samples), len(column_names(problem)), dtype=torch.float64)
    for first in range(0, len(order), batch):
        mine = order[first : first + batch]
        together = model.collate([samples[k] for k in mine])
        output = model(together)
        fields = output.fields.double().cpu().numpy()
        for row, k in enumerate(mine):
            sample = samples[k]
            assert sample.target is not None
            prediction = to_lab(sample, fields[row, : sample.n_nodes])
            truth = to_lab(sample, sample.target)
            figures = measure(problem, deviations, truth, prediction, sample.mass)
            table[:3, k] = torch.from_numpy(figures)
            table[3, k] = float(output.converged[row])
    model.train(was_training)
    relative, weighted, absolute, solved = team.sum_tensor(table).numpy()
    errors = Errors(column_names(problem), relative, weighted, absolute)
    return errors, float(solved[:, 0].mean()) if len(samples) else 1.0
