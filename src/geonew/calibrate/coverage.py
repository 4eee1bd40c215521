"""Do the bands hold? Coverage and familiarity on data that calibration has not seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from geonew.cache import Cache
from geonew.calibrate.calibration import Calibration
from geonew.calibrate.conformal import missed_share
from geonew.evaluate.figures import finite
from geonew.evaluate.predictions import predict_all
from geonew.evaluate.testset import read_test
from geonew.train.checkpoint import read_model


@dataclass(frozen=True)
class Coverage:
    """Coverage on one file.

    Args:
        file, split: of the data.
        samples: how many.
        share: field -> mean over samples of the part of the domain inside the band.
        whole: field -> part of the samples that lie inside the wide band everywhere.
        width: field -> mean radius of the band, over the field's deviation in training.
        outside: part of the samples whose geometry is called unfamiliar at 5 %.
        distances: of the samples from the training data.
        skipped: samples that were left out, and why.

    """

    file: str
    split: str
    samples: int
    share: dict[str, float]
    whole: dict[str, float]
    width: dict[str, float]
    outside: float
    distances: tuple[float, ...]
    skipped: tuple[str, ...] = ()

    @property
    def distance(self) -> float:
        """The median distance."""
        return float(np.median(self.distances))

    def to_plain(self) -> dict[str, Any]:
        """As JSON data."""
        return {
            "file": self.file,
            "split": self.split,
            "samples": self.samples,
            "share": {n: finite(v) for n, v in self.share.items()},
            "whole": {n: finite(v) for n, v in self.whole.items()},
            "width": {n: finite(v) for n, v in self.width.items()},
            "outside": self.outside,
            "distance": self.distance,
            "distances": list(self.distances),
            "skipped": list(self.skipped),
        }


def measure_coverage(
    path: str | Path,
    data: str | Path,
    *,
    name: str | None = None,
    batch: int = 8,
    cache: bool = True,
    notify: Callable[[int, int], None] | None = None,
) -> Coverage:
    """Coverage of a calibrated model on a file.

    Args:
        path: the model.
        data: samples with solutions.
        name: what to call them; by default the name of the file.
        batch: samples side by side.
        cache: keep features in the cache folder.
        notify: called with (done, all).

    """
    model, about = read_model(path)
    calibration = Calibration.from_file(about)
    store = Cache.default() if cache else None
    tested = read_test(data, about, name=name, cache=store, notify=notify)
    predictions = predict_all(model, tested.samples, batch, notify)
    names = [f.name for f in about.problem.fields]
    inside: dict[str, list[float]] = {n: [] for n in names}
    everywhere: dict[str, list[bool]] = {n: [] for n in names}
    width: dict[str, list[float]] = {n: [] for n in names}
    seen = []
    for sample, made in zip(tested.samples, predictions, strict=True):
        ratios = calibration.ratios(sample, made)
        bands = calibration.bands(sample)
        seen.append(calibration.familiarity(sample))
        for n in names:
            deviation = calibration.deviations[about.problem.offset(n)]
            inside[n].append(1 - missed_share(ratios[n], sample.mass, calibration.share[n]))
            everywhere[n].append(bool(ratios[n].max() <= calibration.whole[n]))
            width[n].append(float(np.average(bands[n], weights=sample.mass) / deviation))
    return Coverage(
        file=tested.name,
        split=tested.split,
        samples=len(tested.samples),
        share={n: float(np.mean(v)) for n, v in inside.items()},
        whole={n: float(np.mean(v)) for n, v in everywhere.items()},
        width={n: float(np.mean(v)) for n, v in width.items()},
        outside=float(np.mean([one.is_outside() for one in seen])),
        distances=tuple(float(one.distance) for one in seen),
        skipped=tested.skipped,
    )
