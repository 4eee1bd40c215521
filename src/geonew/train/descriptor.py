r"""How far a sample lies from the training data: the distribution of a few numbers per geometry.

Descriptor of a sample: mean and standard deviation over the domain (by mass) of every token but
labels, the logarithm of its measure, and for every group
:math:`\log(1 + |\Gamma_g| / |\Omega|^{(d-1)/d})`. Tokens are invariant under motion and units, so
it is too, and refining a mesh changes it little (of labels it would: nodes on the boundary lose
mass).

Reference: the training samples' descriptors, each entry over its deviation, as a Gaussian with
principal directions v_k of variances :math:`\lambda_k` and one variance :math:`\bar\lambda` for all
other directions (probabilistic principal components). Distance of a descriptor z:

.. math:: s^2 = \frac1D \Big( \sum_k \frac{(v_k \cdot z)^2}{\lambda_k}
          + \frac{|z - \sum_k (v_k \cdot z) v_k|^2}{\bar\lambda} \Big),

about 1 in distribution. It is stored with every model; what is far is decided by calibration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from geonew.errors import CheckpointError
from geonew.fem.loads import group_normals
from geonew.model.sample import Sample

LABEL = "label:"
# Principal directions kept; hundreds of samples determine no more.
MOST_DIRECTIONS = 32
# An entry that hardly varies in training is measured in this part of its size instead.
STEADY = 0.02
# Least variance of the directions left out, over the mean of all: few samples make it too small.
LEAST_VARIANCE = 0.05
# The distance that nine of ten training samples stay below is the unit of "far".
NEAR = 0.9
_KEYS = ("mean", "scale", "directions", "variances", "rest", "near")


def describe(sample: Sample) -> Float[ndarray, "D"]:
    """The descriptor of a sample."""
    weight = sample.mass / sample.mass.sum()
    inside = [k for k, name in enumerate(sample.columns) if not name.startswith(LABEL)]
    tokens = sample.tokens[:, inside]
    mean = weight @ tokens
    spread = np.sqrt(np.maximum(weight @ (tokens - mean) ** 2, 0.0))
    mesh = sample.mesh
    size = mesh.volume ** (1 - 1 / mesh.dim)
    measures = [
        np.linalg.norm(group_normals(mesh, group), axis=1).sum() / size
        if group in mesh.groups
        else 0.0
        for group in sample.problem.groups
    ]
    return np.concatenate([mean, spread, [np.log(sample.mass.sum())], np.log1p(measures)])


@dataclass(frozen=True, eq=False)
class Reference:
    """The distribution of descriptors in training.

    Args:
        mean, scale: of each entry.
        directions, variances: principal ones of the scaled entries.
        rest: variance of all other directions.
        near: distance that most training samples stay below.

    """

    mean: Float[ndarray, "D"]
    scale: Float[ndarray, "D"]
    directions: Float[ndarray, "k D"]
    variances: Float[ndarray, "k"]
    rest: float
    near: float = 1.0

    @classmethod
    def fit(cls, samples: Sequence[Sample]) -> Reference:
        """The reference of training samples."""
        rows = np.stack([describe(sample) for sample in samples])
        mean, size = rows.mean(axis=0), np.sqrt(np.mean(rows**2, axis=0))
        scale = np.sqrt(rows.var(axis=0) + (STEADY * size) ** 2)
        scale[scale == 0] = 1.0
        z = (rows - mean) / scale
        count, entries = z.shape
        _, singular, directions = np.linalg.svd(z, full_matrices=False)
        kept = min(MOST_DIRECTIONS, count // 2, entries - 1)
        variances = singular**2 / max(count - 1, 1)
        total = max(float(variances.sum()) / entries, np.finfo(float).eps)
        rest = max(float(variances[kept:].sum()) / (entries - kept), LEAST_VARIANCE * total)
        made = cls(mean, scale, directions[:kept], np.maximum(variances[:kept], rest), rest)
        near = float(np.quantile([made._distance(row) for row in rows], NEAR))
        return cls(
            made.mean, made.scale, made.directions, made.variances, rest, max(near, 1e-6)
        )  # fmt: skip

    def distance(self, sample: Sample) -> float:
        """Distance of a sample in units of ``near``: 1 is at the edge of the training data."""
        row = describe(sample)
        if row.shape != self.mean.shape:
            raise CheckpointError(
                f"the sample has a descriptor of {len(row)} numbers, the reference of "
                f"{len(self.mean)}",
                "prepare the sample with the model's own features",
            )
        return self._distance(row) / self.near

    def _distance(self, row: Float[ndarray, "D"]) -> float:
        z = (row - self.mean) / self.scale
        along = self.directions @ z
        beside = float(z @ z - along @ along)
        inside = float(np.sum(along**2 / self.variances)) + max(beside, 0.0) / self.rest
        return float(np.sqrt(inside / len(z)))

    def to_plain(self) -> dict[str, Any]:
        """As JSON data."""
        return {
            "mean": self.mean.tolist(),
            "scale": self.scale.tolist(),
            "directions": self.directions.tolist(),
            "variances": self.variances.tolist(),
            "rest": self.rest,
            "near": self.near,
        }

    @classmethod
    def from_plain(cls, raw: object) -> Reference:
        """Inverse of :meth:`to_plain`; anything else raises a named error."""
        try:
            assert isinstance(raw, Mapping)
            mean, scale, directions, variances, rest, near = (
                np.array(raw[key], dtype=np.float64) for key in _KEYS
            )
            directions = directions.reshape(len(variances), len(mean))
            good = scale.shape == mean.shape and mean.ndim == variances.ndim == 1
            numbers = np.concatenate([mean, scale, directions.ravel(), variances, [rest, near]])
            positive = min(scale.min(), variances.min(initial=1.0), float(rest), float(near)) > 0
            assert good
            assert np.isfinite(numbers).all()
            assert positive
            return cls(mean, scale, directions, variances, float(rest), float(near))
        except (AssertionError, KeyError, TypeError, ValueError) as error:
            raise CheckpointError(
                "the model has no usable reference of its training geometries",
                "train it again with this version",
            ) from error
