"""A model's calibration: bands around its fields, and a verdict on the geometry; stored with it.

    model, calibration split --predict--> errors over scales --conformal--> Calibration --> file

``calibrate`` adds it to the model's own file, in one stroke; ``Calibration.of(load_model(path))``
reads it back. Only a file of the split ``calibration`` is taken: data that a model was trained or
chosen by would make its errors look small.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray
from torch import nn

from geonew.cache import Cache
from geonew.calibrate.conformal import share_factor, whole_factor
from geonew.calibrate.scale import Scale, default_scale, read_scale
from geonew.errors import CheckpointError, DataError
from geonew.evaluate.predictions import Predicted, predict_all
from geonew.evaluate.testset import TestSet, read_test, split_of
from geonew.model.sample import Sample, to_lab
from geonew.problem import Problem
from geonew.train.checkpoint import ModelFile, about_model, add_extra, read_model
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


def calibrate(
    path: str | Path,
    data: str | Path,
    *,
    level: float = LEVEL,
    scale: Scale | None = None,
    batch: int = 8,
    cache: bool = True,
    notify: Callable[[int, int], None] | None = None,
) -> Calibration:
    """Calibrate a model and store the result in its file.

    Args:
        path: the model.
        data: file of the split ``calibration``.
        level: of the bands.
        scale: where errors are large; the default of :mod:`geonew.calibrate.scale`.
        batch: samples side by side.
        cache: keep features in the cache folder.
        notify: called with (done, all) while samples are prepared and predicted.

    """
    split = split_of(data)
    if split != "calibration":
        raise DataError(
            f"{data} holds the split {split!r}, not 'calibration'",
            "calibrate on data that played no part in training or choosing the model",
        )
    model, about = read_model(path)
    tested = read_test(data, about, cache=Cache.default() if cache else None, notify=notify)
    predictions = predict_all(model, tested.samples, batch, notify)
    made = fit(about, tested, predictions, level, scale)
    add_extra(path, KEY, made.to_plain())
    return made


def fit(
    about: ModelFile,
    tested: TestSet,
    predictions: tuple[Predicted, ...],
    level: float = LEVEL,
    scale: Scale | None = None,
) -> Calibration:
    """The calibration from given predictions; arguments as in :func:`calibrate`."""
    problem = about.problem
    reference = Reference.from_plain(about.ranges.get("geometry"))
    distances = np.sort([reference.distance(sample) for sample in tested.samples])
    exact = all(made.certificate is not None for made in predictions)
    scale = scale or default_scale(exact)
    nothing = dict.fromkeys((f.name for f in problem.fields), 0.0)
    empty = Calibration(
        problem, user_deviations(about), reference, scale, level, nothing, nothing, distances,
        exact, tested.digest,
    )  # fmt: skip
    rows = [empty.ratios(s, m) for s, m in zip(tested.samples, predictions, strict=True)]
    failed = sum(not np.isfinite(r).all() for row in rows for r in row.values())
    if failed:
        raise DataError(
            f"{failed} predictions on the calibration data are not finite",
            "a model that fails in distribution has no band: train it longer",
        )
    masses = [s.mass for s in tested.samples]
    share = {n: share_factor([row[n] for row in rows], masses, level) for n in nothing}
    whole = {n: whole_factor([row[n] for row in rows], level) for n in nothing}
    return Calibration(
        problem, empty.deviations, reference, scale, level, share, whole, distances, exact,
        tested.digest,
    )  # fmt: skip


def user_deviations(about: ModelFile) -> Float[ndarray, "F"]:
    """Training deviations in the user's units."""
    return about.deviations * np.array(about.problem.references)


def _met(calibration: Calibration, sample: Sample, name: str) -> Bool[ndarray, "N"]:
    """Nodes at which a field's whole value is prescribed and met exactly."""
    fixed = sample.fixed[:, calibration.problem.columns(name)]
    return np.asarray(fixed.all(axis=1)) & calibration.exact
