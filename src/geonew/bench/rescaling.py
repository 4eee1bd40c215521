r"""Coordinates squeezed to the lengths of the training data: what a reader of coordinates may hope.

A model that reads coordinates has seen those of its training domains alone. On a longer domain they
leave that range; squeezed along each axis,

.. math:: x_k \mapsto s_k x_k, \qquad s_k = \min(1, w_k / (\max x_k - \min x_k)),

:math:`w_k` the width of the training data, they do not, but the geometry they tell of is another
one. The paper shows both; all other tokens stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from geonew.errors import FeatureError
from geonew.evaluate.testset import TestSet
from geonew.train.checkpoint import ModelFile


def rescaled(tested: TestSet, about: ModelFile) -> TestSet:
    """The same samples with squeezed coordinates."""
    quantiles = about.ranges.get("tokens", {})
    widths = coordinate_widths(about.columns, quantiles, about.problem.dim)
    samples = [replace(s, tokens=squeezed(s.tokens, widths)) for s in tested.samples]
    return replace(tested, samples=tuple(samples))


def coordinate_widths(
    columns: Sequence[str], quantiles: Mapping[str, Sequence[float]], dim: int
) -> dict[int, float]:
    """Column of each coordinate -> width of what the training data have of it.

    Args:
        columns: of the tokens.
        quantiles: of each column over the training data, least and greatest at the ends.
        dim: of the space.

    """
    names = [f"x{axis + 1}" for axis in range(dim)]
    found = {
        columns.index(name): float(quantiles[name][-1]) - float(quantiles[name][0])
        for name in names
        if name in columns and name in quantiles
    }
    if not found:
        raise FeatureError(
            "the model reads no coordinates, so there is nothing to rescale",
            "train it with features.coordinates=true on a problem with a frame",
        )
    return found


def squeezed(tokens: Float[ndarray, "N C"], widths: Mapping[int, float]) -> Float[ndarray, "N C"]:
    """Tokens with the columns of coordinates no wider than given."""
    result = np.array(tokens)
    for column, width in widths.items():
        result[:, column] *= min(1.0, width / float(np.ptp(result[:, column])))
    return result
