"""Predictions of any model, ours or a baseline, in one form.

    samples --collate, forward--> fields in the user's axes and units, certificates where there are

Deterministic: the model is in evaluation mode, anchors are the samples' farthest points, domains of
similar measure go together, and a sample's fields do not depend on its batch mates. Our model
predicts as it does for a user, prescribed values written last; a baseline's fields are what its
network gives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from torch import nn

from geonew.model.certificate import Certificate, PhysicalBalance, physical_balance
from geonew.model.geonew import GeoNeW
from geonew.model.sample import Sample, to_lab
from geonew.train.models import FieldModel


@dataclass(frozen=True, eq=False)
class Predicted:
    """One prediction.

    Args:
        fields: all components on the nodes, in the user's axes and units.
        converged: whether it is solved, or finite.
        physical: balances of the fields.
        certificate: of a model that solves.

    """

    fields: Float[ndarray, "N F"]
    converged: bool
    physical: PhysicalBalance
    certificate: Certificate | None = None


def by_measure(samples: Sequence[Sample]) -> Int[ndarray, "n"]:
    """Numbers of the samples, the smallest domain first."""
    return np.argsort([float(s.mass.sum()) for s in samples], kind="stable")


@torch.no_grad()
def predict_all(
    model: nn.Module,
    samples: Sequence[Sample],
    batch: int = 8,
    notify: Callable[[int, int], None] | None = None,
) -> tuple[Predicted, ...]:
    """Predictions of all samples, in their order.

    Args:
        model: any trained model.
        samples: prepared with its features.
        batch: samples side by side.
        notify: called with (done, all) after each batch.

    """
    assert isinstance(model, FieldModel)
    was_training = model.training
    model.eval()
    made: dict[int, Predicted] = {}
    try:
        order = by_measure(samples)
        for first in range(0, len(order), batch):
            mine = order[first : first + batch]
            made |= dict(
                zip(mine.tolist(), _predict(model, [samples[k] for k in mine]), strict=True)
            )
            if notify is not None:
                notify(len(made), len(samples))
    finally:
        model.train(was_training)
    return tuple(made[k] for k in range(len(samples)))


def _predict(model: FieldModel, samples: list[Sample]) -> list[Predicted]:
    if isinstance(model, GeoNeW):
        return [
            Predicted(
                fields=one.components,
                converged=one.certificate.converged,
                physical=one.certificate.physical,
                certificate=one.certificate,
            )
            for one in model.predict_samples(samples)
        ]
    assert isinstance(model, nn.Module)
    output = model(model.collate(samples))
    values = output.fields.double().cpu().numpy()
    result = []
    for row, sample in enumerate(samples):
        fields = to_lab(sample, values[row, : sample.n_nodes])
        solved = bool(output.converged[row])
        physical = physical_balance(sample, fields) if solved else PhysicalBalance()
        result.append(Predicted(fields, solved, physical))
    return result
