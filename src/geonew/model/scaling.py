r"""Tokens in units of training, and no further out than in training.

.. math:: y = \hat x + r \tanh\frac{x - \hat x}{r}, \qquad
          \hat x = \mathrm{clip}(x, \text{low}, \text{high}), \qquad x = (t - \mu) / \sigma

A feature may leave its training range by far on an unseen geometry: the torsion function of a
channel five times as long is 25 times as large. Networks extrapolate wildly there; a softmax that
saturates takes whole partitions with it. Within the range of training y = x exactly; beyond it y
goes on, with the same slope at the end, by at most r.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from geonew.model.sample import Sample

# Spread of a token below which it is constant, relative to its mean: float32 keeps no more of it.
STEADY = 1e-6
# How far a token goes beyond its training range, in standard deviations.
BEYOND = 0.1


class TokenScaling(nn.Module):
    """Shift, scale and range of each token; the identity until it is fitted.

    Args:
        columns: number C of token columns.

    """

    mean: Float[Tensor, "C"]
    scale: Float[Tensor, "C"]
    low: Float[Tensor, "C"]
    high: Float[Tensor, "C"]

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(columns))
        self.register_buffer("scale", torch.ones(columns))
        self.register_buffer("low", torch.full((columns,), -torch.inf))
        self.register_buffer("high", torch.full((columns,), torch.inf))

    def fit(self, samples: Sequence[Sample]) -> None:
        """Read shift, scale and range off the training samples.

        Columns that are constant but for round-off, which on slivers is large, keep scale 1.
        """
        tokens = np.concatenate([s.tokens for s in samples])
        mean, scale = tokens.mean(axis=0), tokens.std(axis=0)
        steady = scale <= STEADY * np.maximum(np.abs(mean), 1.0)
        scale = np.where(steady, 1.0, scale)
        self.mean.copy_(torch.from_numpy(mean))
        self.scale.copy_(torch.from_numpy(scale))
        self.low.copy_(torch.from_numpy((tokens.min(axis=0) - mean) / scale))
        self.high.copy_(torch.from_numpy((tokens.max(axis=0) - mean) / scale))

    def forward(self, tokens: Float[Tensor, "... C"]) -> Float[Tensor, "... C"]:
        """Tokens as networks read them."""
        slope = 1 / self.scale
        x = torch.addcmul(-self.mean * slope, tokens, slope)
        kept = torch.clamp(x, self.low, self.high)
        beyond = x - kept
        held = torch.add(kept, torch.tanh(beyond / BEYOND), alpha=BEYOND)
        return held + 0 * beyond  # an infinite token is no large one: it becomes NaN
