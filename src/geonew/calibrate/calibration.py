"""A model's calibration: bands around its fields, and a verdict on the geometry; stored with it.

    file --> Calibration --sample--> bands, distance from the training data

:mod:`geonew.calibrate.fitting` makes it and adds it to the model's own file;
``Calibration.of(load_model(path))`` reads it back. Reading needs neither data files nor training
code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray
from torch import nn

from geonew.calibrate.scale import Scale, read_scale
from geonew.errors import CheckpointError
from geonew.evaluate.predictions import Predicted
from geonew.model.sample import Sample, to_lab
from geonew.problem import Problem
from geonew.train.checkpoint import ModelFile, about_model
from geonew.train.descriptor import Reference
from geonew.train.metrics import without_means

KEY = "calibration"
LEVEL = 0.9


@dataclass(frozen=True)
class Familiarity:
    """How familiar a geometry is.

    Args:
        distance: from the training data; 1 is at their edge.
        p_value: part of calibration samples that are at least as far, the sample itself counted.

    """

    distance: float
    p_value: float

    def is_outside(self, level: float = 0.05) -> bool:
        """Whether so far a sample of the training distribution is as rare as that."""
        return self.p_value <= level


@dataclass(frozen=True, eq=False)
class Calibration:
    """Factors of the bands, and distances of the calibration samples.

    Args:
        problem: of the model.
        deviations: of training, in the user's units.
        reference: of the training geometries.
        scale: where errors are large.
        level: 1 - alpha.
        share, whole: field -> factor (:mod:`geonew.calibrate.conformal`).
        distances: of the calibration samples, sorted.
        exact: whether prescribed values are met exactly, so that there is no band.
        data_hash: of the calibration data.
        skipped: calibration samples that were left out, and why.

    """

    problem: Problem
    deviations: Float[ndarray, "F"]
    reference: Reference
    scale: Scale
    level: float
    share: Mapping[str, float]
    whole: Mapping[str, float]
    distances: Float[ndarray, "n"]
    exact: bool
    data_hash: str = ""
    skipped: tuple[str, ...] = ()

    @classmethod
    def of(cls, model: nn.Module) -> Calibration:
        """The calibration of a model that was read from a file."""
        return cls.from_file(about_model(model))

    @classmethod
    def from_file(cls, about: ModelFile) -> Calibration:
        """The calibration that a model's file holds."""
        raw = about.extra.get(KEY)
        if raw is None:
            raise CheckpointError(
                "the model is not calibrated", "run geonew calibrate MODEL --data CALIBRATION.h5"
            )
        try:
            names = {f.name for f in about.problem.fields}
            share, whole = ({str(k): float(v) for k, v in raw[n].items()} for n in _FACTORS)
            distances = np.sort(np.array(raw["distances"], dtype=np.float64))
            numbers = [*share.values(), *whole.values(), *distances]
            if share.keys() | whole.keys() != names or distances.ndim != 1 or not len(distances):
                raise ValueError("fields or distances")
            if not np.isfinite(numbers).all() or min(numbers) < 0:
                raise ValueError("numbers")
            return cls(
                about.problem,
                user_deviations(about),
                Reference.from_plain(about.ranges.get("geometry")),
                read_scale(raw["scale"]),
                float(raw["level"]),
                share,
                whole,
                distances,
                bool(raw["exact"]),
                str(raw["data_hash"]),
                tuple(str(reason) for reason in raw.get("skipped", ())),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"the model's calibration cannot be read: {error}", "calibrate it again"
            ) from error

    def to_plain(self) -> dict[str, Any]:
        """As JSON data; problem, deviations and reference are the model's."""
        return {
            "level": self.level,
            "share": dict(self.share),
            "whole": dict(self.whole),
            "distances": self.distances.tolist(),
            "scale": self.scale.to_plain(),
            "exact": self.exact,
            "samples": len(self.distances),
            "data_hash": self.data_hash,
            "skipped": list(self.skipped),
        }

    def familiarity(self, sample: Sample) -> Familiarity:
        """How familiar a sample's geometry is."""
        distance = self.reference.distance(sample)
        farther = int(np.sum(self.distances >= distance))
        return Familiarity(distance, (farther + 1) / (len(self.distances) + 1))

    def bands(self, sample: Sample, *, whole: bool = False) -> dict[str, Float[ndarray, "N"]]:
        """Radius of the band around every field, in the user's units.

        Args:
            sample: prepared with the model's features.
            whole: the band that holds everywhere at once, not on the expected share of the domain.

        """
        factors = self.whole if whole else self.share
        distance = self.reference.distance(sample)
        scales = self.scale(sample, self.deviations, distance)
        result = {}
        for f in self.problem.fields:
            radius = factors[f.name] * scales[:, self.problem.columns(f.name)].max(axis=1)
            result[f.name] = np.where(_met(self, sample, f.name), 0.0, radius)
        return result

    def ratios(self, sample: Sample, made: Predicted) -> dict[str, Float[ndarray, "N"]]:
        """Error over scale at every node, by field; 0 where values are met exactly."""
        scales = self.scale(sample, self.deviations, self.reference.distance(sample))
        assert sample.target is not None
        fields = without_means(self.problem, made.fields, sample.mass)
        error = fields - without_means(self.problem, to_lab(sample, sample.target), sample.mass)
        result = {}
        for f in self.problem.fields:
            span = self.problem.columns(f.name)
            size = np.linalg.norm(error[:, span], axis=1)  # of a vector its length
            ratio = size / scales[:, span].max(axis=1)
            ratio = np.where(np.isfinite(ratio), ratio, np.inf)
            result[f.name] = np.where(_met(self, sample, f.name), 0.0, ratio)
        return result


_FACTORS = ("share", "whole")


def user_deviations(about: ModelFile) -> Float[ndarray, "F"]:
    """Training deviations in the user's units."""
    return about.deviations * np.array(about.problem.references)


def _met(calibration: Calibration, sample: Sample, name: str) -> Bool[ndarray, "N"]:
    """Nodes at which a field's whole value is prescribed and met exactly."""
    fixed = sample.fixed[:, calibration.problem.columns(name)]
    return np.asarray(fixed.all(axis=1)) & calibration.exact
