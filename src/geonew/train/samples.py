r"""From data files to samples ready for training, with the scales that the training data fix.

    DataSet --records--> references --prepare--> samples with targets --> deviations, ranges

Reference value of a field: the root mean square of its training data over nodes and components
(one for a vector), :math:`s_f = (\mathrm{mean}\, u_f^2)^{1/2}`, rounded to two digits: a scale
needs no more, and subsets of one data set then share their cached features. Standard deviation
likewise, about the mean.

Splits are kept apart: a file of another split is refused. A sample with a number that is not
finite is left out, by name, and counted; when all have one, training does not start.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import floor, log10
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from geonew.cache import Cache, default_folder
from geonew.data.columns import checksum
from geonew.data.record import Record, Split
from geonew.data.store import DataSet
from geonew.errors import ConfigError, DataError, GeoNeWError
from geonew.features import FeatureSpec
from geonew.model.sample import Sample, prepare
from geonew.problem import Problem
from geonew.train.descriptor import Reference
from geonew.train.metrics import without_means

# A field smaller than this part of its reference value vanishes in the whole training data.
VANISHING = 1e-12


@dataclass(frozen=True)
class DataConfig:
    """Which files; a name that is no path from here is looked up under ``GEONEW_HOME/data``.

    Args:
        train: file of the training split.
        validation: file of the validation split; without one the last weights are the best.
        train_limit, validation_limit: use the first so many samples only.
        references: reference values of the fields from the training data, or as the problem
            declares them.
        cache: keep features in the cache folder.

    """

    train: str
    validation: str | None = None
    train_limit: int | None = None
    validation_limit: int | None = None
    references: Literal["training", "declared"] = "training"
    cache: bool = True

    def __post_init__(self) -> None:
        for name in ("train_limit", "validation_limit"):
            limit = getattr(self, name)
            if limit is not None and limit < 1:
                raise ConfigError(f"data.{name} is {limit}; it must be at least 1")


@dataclass(frozen=True, eq=False)
class Records:
    """The sound records of one split.

    Args:
        problem: what all of them answer.
        records: in the order of the file.
        names: of each, for people: file and number.
        skipped: why others were left out.
        digest: SHA-256 over all that was read.

    """

    problem: Problem
    records: tuple[Record, ...]
    names: tuple[str, ...]
    skipped: tuple[str, ...]
    digest: str


def read_split(path: str | Path, split: Split, limit: int | None = None) -> Records:
    """The records of a file, those with numbers that are not finite left out."""
    path = locate(path)
    with DataSet(path, check=False) as data:
        if data.header.split != split:
            raise DataError(
                f"{path} holds the split {data.header.split!r}, not {split!r}",
                "splits are kept apart: give the file that was made for this purpose",
            )
        state = hashlib.sha256()
        sound: list[Record] = []
        names: list[str] = []
        skipped: list[str] = []
        for index in range(len(data) if limit is None else min(limit, len(data))):
            columns = data.columns(index)
            state.update(checksum(columns))
            bad = [
                name
                for name, values in columns.items()
                if values.dtype.kind == "f" and not np.isfinite(values).all()
            ]
            if bad:
                skipped.append(f"{Path(path).name}, sample {index}: not finite in {bad}")
                continue
            sound.append(data[index])
            names.append(f"{Path(path).name}, sample {index}")
        if not sound:
            raise DataError(
                f"{path}: none of {len(skipped)} samples is usable"
                + (f"; the first: {skipped[0]}" if skipped else ""),
                "generate the data again and look at the solver's report",
            )
        return Records(data.problem, tuple(sound), tuple(names), tuple(skipped), state.hexdigest())


def locate(path: str | Path) -> Path:
    """Where a data file is: at its path, or under ``GEONEW_HOME/data``."""
    stored = default_folder() / "data" / path
    for candidate in (Path(path), stored):
        if candidate.exists():
            return candidate
    raise DataError(
        f"there is no data file {path}, nor {stored}",
        "give the path of a file, or make it with geonew data generate or geonew data build",
    )


def components(problem: Problem, record: Record) -> Float[ndarray, "N F"]:
    """The solution of a record, columns in the order of the problem's components."""
    missing = [f.name for f in problem.fields if f.name not in record.fields]
    if missing:
        raise DataError(
            f"the record has no fields {missing}; it has {sorted(record.fields)}",
            f"problem {problem.name!r} asks for them: generate or import the data again",
        )
    columns = [
        np.reshape(record.fields[f.name], (record.mesh.n_nodes, problem.width(f.name)))
        for f in problem.fields
    ]
    return np.concatenate(columns, axis=1)


def training_references(problem: Problem, records: Sequence[Record]) -> dict[str, float]:
    """Reference value of each field from training data; as declared where it vanishes."""
    references = {}
    stacked = [components(problem, record) for record in records]
    for f in problem.fields:
        values = np.concatenate([c[:, problem.columns(f.name)] for c in stacked])
        if f.level == "gauge":
            values = values - values.mean(axis=0)
        size = float(np.sqrt(np.mean(values**2)))
        references[f.name] = _rounded(size) if size > VANISHING * f.reference else f.reference
    return references


def prepare_record(
    record: Record, problem: Problem, spec: FeatureSpec, cache: Cache | None = None
) -> Sample:
    """A sample with its target; a target whose level has no meaning gets the mean zero."""
    sample = prepare(
        record.mesh,
        problem,
        record.boundary,
        spec=spec,
        parameters=record.parameters,
        source=record.sources,
        neumann=record.neumann,
        cache=cache,
    )
    target = components(problem, record)
    return sample.with_target(without_means(problem, target, sample.mass))


def prepare_all(
    data: Records,
    problem: Problem,
    spec: FeatureSpec,
    cache: Cache | None = None,
    notify: Callable[[int, int], None] | None = None,
    order: Sequence[int] | None = None,
) -> tuple[Sample, ...]:
    """Samples of all records; a failure names the sample.

    Args:
        data: the records.
        problem: with the reference values to use.
        spec: which features.
        cache: where features are kept.
        notify: called with (done, all) after each.
        order: in which they are made; several processes begin with different ones.

    """
    made: dict[int, Sample] = {}
    for done, index in enumerate(range(len(data.records)) if order is None else order, 1):
        try:
            made[index] = prepare_record(data.records[index], problem, spec, cache)
        except GeoNeWError as error:
            raise DataError(f"{data.names[index]}: {error.what}", error.cure) from error
        if notify is not None:
            notify(done, len(data.records))
    columns = made[0].columns
    for index, sample in made.items():
        if sample.columns != columns:
            extra = sorted(set(sample.columns) ^ set(columns))
            raise DataError(
                f"{data.names[index]} has other features than {data.names[0]}: {extra}",
                "one of the two has no well-defined frame: change the problem's frame rules",
            )
    return tuple(made[index] for index in range(len(data.records)))


def training_deviations(problem: Problem, samples: Sequence[Sample]) -> Float[ndarray, "F"]:
    """Standard deviation of each component's field over the reference values; 1 where it vanishes.

    One number for all components of a vector, so that it does not turn with the axes.
    """
    targets = np.concatenate([s.target for s in samples if s.target is not None])
    result = np.ones(problem.n_components)
    for f in problem.fields:
        span = problem.columns(f.name)
        deviation = float(np.sqrt(np.mean((targets[:, span] - targets[:, span].mean(axis=0)) ** 2)))
        if deviation > VANISHING:
            result[span] = deviation
    return result


def sample_sizes(samples: Sequence[Sample]) -> Int[ndarray, "n"]:
    """Number of nodes of each sample."""
    return np.array([s.n_nodes for s in samples], dtype=np.int64)


def training_ranges(samples: Sequence[Sample]) -> dict[str, Any]:
    """What the training data cover, as plain data: a prediction outside is an extrapolation.

    Least and greatest value of size, extent and parameters, quantiles of every token column, and
    the distribution of the geometries' descriptors.
    """
    problem = samples[0].problem
    tokens = np.concatenate([s.tokens for s in samples])
    extents = np.stack([np.ptp(s.mesh.points, axis=0) for s in samples])
    boundary = [np.abs(s.values.value[s.fixed]).max(initial=0.0) for s in samples]

    def span(values: ndarray) -> list[float]:
        return [float(np.min(values)), float(np.max(values))]

    quantiles = np.quantile(tokens, (0.0, 0.01, 0.5, 0.99, 1.0), axis=0).T
    return {
        "samples": len(samples),
        "nodes": span(sample_sizes(samples)),
        "measure": span(np.array([s.mass.sum() for s in samples])),
        "extent": span(extents.max(axis=1) / problem.reference_length),
        "largest_boundary_value": span(np.array(boundary)),
        "load": span(np.array([np.abs(s.load.sum(axis=0)).max() for s in samples])),
        "parameters": [span(column) for column in np.stack([s.parameters for s in samples]).T],
        "tokens": dict(zip(samples[0].columns, quantiles.tolist(), strict=True)),
        "geometry": Reference.fit(samples).to_plain(),
    }


def _rounded(value: float) -> float:
    """To two digits."""
    return round(value, 1 - floor(log10(abs(value))))
