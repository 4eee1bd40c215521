"""What a model is evaluated on: the samples of a file, prepared as the model was trained.

    file --read_split--> records --prepare with the model's problem and features--> TestSet

The model's own reference values are used, and its problem must be that of the file: another
dimension, other fields, groups or conditions are refused by name. Any split may be evaluated; which
one it was is part of every result. So are the samples that had to be left out, and the hash of what
was read, which tells files of one name apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from geonew.cache import Cache
from geonew.data.record import Number, Record, Split
from geonew.data.store import DataSet
from geonew.errors import DataError
from geonew.model.sample import Sample
from geonew.problem import Problem
from geonew.train.checkpoint import ModelFile
from geonew.train.compatibility import check_compatible
from geonew.train.samples import Records, locate, prepare_all, read_split

Axes = Mapping[str, tuple[Number | str | None, ...]]
# So many samples that were left out are named in a line; the JSON has all of them.
NAMED = 3


@dataclass(frozen=True, eq=False)
class TestSet:
    """Prepared samples with what is known about them.

    Args:
        name: of the file, with as much of its path as tells it from others.
        family: what they are samples of.
        split: which split.
        records: as stored.
        samples: with their solutions.
        axes: axis of the distribution -> place of each sample.
        derived: derived field -> its true values in each sample; empty where none are stored.
        skipped: samples left out, and why.
        digest: SHA-256 of what was read.

    """

    __test__ = False  # no test, whatever pytest thinks of its name

    name: str
    family: str
    split: Split
    records: tuple[Record, ...]
    samples: tuple[Sample, ...]
    axes: Axes
    derived: Mapping[str, tuple[Float[ndarray, "_"], ...]]
    skipped: tuple[str, ...] = ()
    digest: str = ""

    def at(self, axis: str, value: float) -> Bool[ndarray, "n"]:
        """Which samples lie at a place on an axis."""
        if axis not in self.axes:
            raise DataError(
                f"{self.name} has no axis {axis!r}", f"its axes are {', '.join(self.axes)}"
            )
        return np.array(
            [isinstance(v, int | float) and abs(v - value) < 1e-9 for v in self.axes[axis]],
            dtype=bool,
        )


def split_of(path: str | Path) -> Split:
    """The split that a file holds."""
    with DataSet(locate(path), check=False) as data:
        return data.header.split


def read_test(
    path: str | Path,
    about: ModelFile,
    *,
    name: str | None = None,
    limit: int | None = None,
    cache: Cache | None = None,
    notify: Callable[[int, int], None] | None = None,
) -> TestSet:
    """The samples of a file for a model.

    Args:
        path: the file, or its name under ``GEONEW_HOME/data``.
        about: the model.
        name: what to call it; the last part of its path by default (:func:`distinct_names`).
        limit: use the first so many samples only.
        cache: where features are kept.
        notify: called with (done, all) after each sample.

    """
    with DataSet(locate(path), check=False) as data:
        family, split = data.header.family, data.header.split
    records = read_split(path, split, limit)
    return prepare_records(records, about, family, split, name or Path(path).name, cache, notify)


def distinct_names(files: Sequence[str | Path]) -> dict[str, str]:
    """File -> the shortest end of its path that no other one has."""
    parts = {str(file): Path(file).parts for file in files}
    result = {}
    for file, mine in parts.items():
        others = [other for other in parts.values() if other != mine]
        lengths = range(1, len(mine) + 1)
        alone = (n for n in lengths if all(other[-n:] != mine[-n:] for other in others))
        result[file] = str(Path(*mine[-next(alone, len(mine)) :]))
    return result


def skipped_line(name: str, skipped: Sequence[str]) -> str:
    """How many samples of a file were left out, and the first of them."""
    more = [f"and {len(skipped) - NAMED} more"] if len(skipped) > NAMED else []
    count = f"{len(skipped)} sample{'s' if len(skipped) > 1 else ''}"
    return f"{name}: {count} left out: {'; '.join([*skipped[:NAMED], *more])}"


def prepare_records(
    records: Records,
    about: ModelFile,
    family: str,
    split: Split,
    name: str,
    cache: Cache | None = None,
    notify: Callable[[int, int], None] | None = None,
) -> TestSet:
    """Records that are in memory already, for a model."""
    problem = about.problem
    check_compatible(about, replace(records.problem, name=problem.name), about.columns)
    samples = prepare_all(records, problem, about.spec, cache, notify)
    check_compatible(about, records.problem, samples[0].columns)
    cases = [record.case for record in records.records]
    names = dict.fromkeys(axis for case in cases for axis in case.axes)
    return TestSet(
        name=name,
        family=family,
        split=split,
        records=records.records,
        samples=samples,
        axes={axis: tuple(case.axes.get(axis) for case in cases) for axis in names},
        derived=_derived(problem, records.records),
        skipped=records.skipped,
        digest=records.digest,
    )


def _derived(
    problem: Problem, records: tuple[Record, ...]
) -> dict[str, tuple[Float[ndarray, "_"], ...]]:
    """Stored derived fields; one that a sample lacks is left out altogether."""
    return {
        d.name: tuple(np.asarray(r.fields[d.name], dtype=np.float64) for r in records)
        for d in problem.derived
        if all(d.name in r.fields for r in records)
    }
