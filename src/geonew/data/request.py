r"""What is asked of a generation, and the randomness of each of its samples.

Sample k of a split, at its a-th attempt, draws from

.. math:: \mathrm{SeedSequence}(\mathrm{seed}, \mathrm{spawn\_key} = (\mathrm{split}, k, a)),

and from nothing else. So a sample depends neither on how many others there are, nor on who computes
it or when; a larger request continues a smaller one; and the same seed with ``swap`` or on another
level gives the same geometries again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, get_args

import numpy as np

from geonew.data.record import Level, Split
from geonew.errors import DataError

SPLITS: tuple[Split, ...] = get_args(Split)
LEVELS: tuple[Level, ...] = get_args(Level)


@dataclass(frozen=True)
class Request:
    """How many samples of what.

    Args:
        family: name of the family.
        split: which split, and with it which distribution.
        samples: how many.
        seed: of all randomness.
        level: how fine.
        axis: one axis of the distribution and the values it takes in turn: a sweep.
        swap: whether labels are exchanged, e.g. the flow reversed.

    """

    family: str
    split: Split
    samples: int
    seed: int
    level: Level = "coarse"
    axis: tuple[str, tuple[float, ...]] | None = None
    swap: bool = False

    def __post_init__(self) -> None:
        if self.split not in SPLITS:
            raise DataError(f"the split is {self.split!r}", f"choose one of {list(SPLITS)}")
        if self.level not in LEVELS:
            raise DataError(f"the level is {self.level!r}", f"choose one of {list(LEVELS)}")
        if self.samples < 1:
            raise DataError(f"{self.samples} samples are asked for", "ask for one or more")
        if self.seed < 0:
            raise DataError(f"the seed is {self.seed}", "give a whole number, not negative")
        if self.axis is not None:
            name, values = self.axis
            if not values or not all(math.isfinite(value) for value in values):
                raise DataError(f"axis {name!r} has the values {values}", "give finite numbers")

    def generator(self, sample: int, attempt: int) -> np.random.Generator:
        """The randomness of one attempt at one sample."""
        key = (SPLITS.index(self.split), sample, attempt)
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=key))

    def axis_of(self, sample: int) -> tuple[str, float] | None:
        """What is fixed for one sample of a sweep."""
        if self.axis is None:
            return None
        name, values = self.axis
        return name, float(values[sample % len(values)])

    def to_dict(self) -> dict[str, Any]:
        """What identifies the samples: everything but their number."""
        described = asdict(self)
        del described["samples"]
        if self.axis is not None:
            described["axis"] = [self.axis[0], list(self.axis[1])]
        return {"kind": "generated", **described}

    def check_continues(self, origin: Mapping[str, Any], samples: int, where: str) -> None:
        """Refuse to continue a file that was asked for differently, or holds more."""
        mine = self.to_dict()
        other = {key: (origin.get(key), mine[key]) for key in mine if origin.get(key) != mine[key]}
        if other:
            what = ", ".join(f"{key} {a!r} there, {b!r} here" for key, (a, b) in other.items())
            raise DataError(
                f"{where}: the file holds samples of another request: {what}",
                "repeat the request it was made with, or choose another file",
            )
        if samples > self.samples:
            raise DataError(
                f"{where}: the file holds {samples} samples already, more than the {self.samples} "
                "asked for",
                "ask for as many or more, or choose another file",
            )

    def of(self, samples: int) -> Request:
        """The same request for another number of samples."""
        return replace(self, samples=samples)
