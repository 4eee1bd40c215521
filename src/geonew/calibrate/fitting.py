"""From calibration data to a calibration, stored with the model.

    model, calibration split --predict--> errors over scales --conformal--> Calibration --> file

``calibrate`` adds it to the model's own file, in one stroke. Only a file of the split
``calibration`` is taken: data that a model was trained or chosen by would make its errors look
small.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from geonew.cache import Cache
from geonew.calibrate.calibration import KEY, LEVEL, Calibration, user_deviations
from geonew.calibrate.conformal import share_factor, whole_factor
from geonew.calibrate.scale import Scale, default_scale
from geonew.errors import DataError
from geonew.evaluate.predictions import Predicted, predict_all
from geonew.evaluate.testset import TestSet, read_test, split_of
from geonew.train.checkpoint import ModelFile, add_extra, read_model
from geonew.train.descriptor import Reference


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
        tested.digest, tested.skipped,
    )  # fmt: skip
