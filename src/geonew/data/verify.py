"""Verification: every sample read, compared with its checksum, its problem and the known hashes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from geonew.data.check import check_record
from geonew.data.fingerprint import (
    Fingerprint,
    Verdict,
    fingerprint,
    hash_key,
    known_fingerprints,
)
from geonew.data.store import DataSet
from geonew.errors import GeoNeWError


@dataclass(frozen=True)
class Verification:
    """What was found.

    Args:
        samples: how many were looked at.
        problems: sample -> what is wrong with it.
        fingerprint: of the whole; none where a sample cannot be read.
        key: its name among the known hashes.
        verdict: how it relates to them; ``"unknown"`` where there is no entry.

    """

    samples: int
    problems: dict[int, str]
    fingerprint: Fingerprint | None
    key: str
    verdict: Verdict

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong; an unknown hash is not wrong."""
        return not self.problems and self.verdict != "different"


def verify(
    path: Path, hashes: Path | None = None, on_sample: Callable[[int, int], None] | None = None
) -> Verification:
    """Look at everything in a file.

    Args:
        path: the data file.
        hashes: another file of known hashes than the committed one.
        on_sample: called with the number of samples done and of all.

    """
    known = known_fingerprints(hashes)
    problems: dict[int, str] = {}
    with DataSet(path, check=False) as dataset:
        for index in range(len(dataset)):
            try:
                check_record(dataset.problem, dataset[index])
            except GeoNeWError as error:
                problems[index] = error.what
            if on_sample:
                on_sample(index + 1, len(dataset))
        key = hash_key(dataset.header.origin, len(dataset))
        found = None
        if not problems and len(dataset):
            found = fingerprint(dataset)
        verdict: Verdict = found.compare(known.get(key)) if found else "unknown"
        return Verification(len(dataset), problems, found, key, verdict)
