"""Suites: the files that a benchmark needs, made in one go, under ``GEONEW_HOME/data``.

``cpu`` has 400 training, 100 validation, 100 calibration, 100 test and 200 out-of-distribution
samples of every family at the coarse level (1,000 for training ``ns2d-c++``). ``smoke`` has a few
samples of each, to see in a minute or two that everything runs; its errors mean nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from geonew.cache import default_folder
from geonew.data.fingerprint import Fingerprint, Verdict, fingerprint, hash_key, known_fingerprints
from geonew.data.generate import Pool, Progress, generate
from geonew.data.record import Family, Level, Split
from geonew.data.request import Request
from geonew.data.store import DataSet
from geonew.errors import DataError

SIZES: Mapping[Split, int] = {"train": 400, "val": 100, "calibration": 100, "test": 100, "ood": 200}
SEED = 0


@dataclass(frozen=True)
class Suite:
    """Which files there are.

    Args:
        name: of the suite, and of its folder.
        level: how fine.
        sizes: split -> samples.
        larger: (family, split) -> samples where they differ from ``sizes``.

    """

    name: str
    level: Level
    sizes: Mapping[Split, int]
    larger: Mapping[tuple[str, Split], int]

    def requests(self, family: str) -> Iterator[Request]:
        """The request of each file of a family."""
        for split, samples in self.sizes.items():
            count = self.larger.get((family, split), samples)
            yield Request(family, split, count, SEED, self.level)

    def path(self, family: str, split: Split, home: Path | None = None) -> Path:
        """Where a file is."""
        return (home or default_folder()) / "data" / self.name / family / f"{split}.h5"


FEW: Mapping[Split, int] = {"train": 4, "val": 2, "calibration": 2, "test": 2, "ood": 2}
SUITES = {
    "cpu": Suite("cpu", "coarse", SIZES, {("ns2d-c++", "train"): 1000}),
    "smoke": Suite("smoke", "coarse", FEW, {}),
}


@dataclass(frozen=True)
class Built:
    """One file of a suite: where it is, what it holds, and how it relates to the known hashes."""

    path: Path
    key: str
    fingerprint: Fingerprint
    verdict: Verdict
    progress: Progress


def suite(name: str) -> Suite:
    """A suite by name."""
    if name not in SUITES:
        raise DataError(f"there is no suite {name!r}", f"choose one of {sorted(SUITES)}")
    return SUITES[name]


def build(
    chosen: Suite,
    families: Sequence[Family],
    pool: Pool | None = None,
    home: Path | None = None,
    hashes: Path | None = None,
    on_progress: Callable[[Request, Progress], None] | None = None,
    splits: Sequence[Split] | None = None,
) -> Iterator[Built]:
    """Make the files of a suite that are missing or unfinished, one after another.

    Args:
        chosen: the suite.
        families: whose files.
        pool: who computes.
        home: instead of ``GEONEW_HOME``.
        hashes: instead of the committed hashes.
        on_progress: called after each sample.
        splits: which of their files; all by default.

    """
    known = known_fingerprints(hashes)
    for family in families:
        for request in chosen.requests(family.name):
            if splits is not None and request.split not in splits:
                continue
            path = chosen.path(family.name, request.split, home)

            def show(progress: Progress, request: Request = request) -> None:
                if on_progress:
                    on_progress(request, progress)

            progress = generate(family, request, path, pool, show)
            with DataSet(path, check=False) as dataset:
                found = fingerprint(dataset)
                key = hash_key(dataset.header.origin, len(dataset))
            yield Built(path, key, found, found.compare(known.get(key)), progress)
