r"""Where errors are large and where small, before any of them is known: the scale of a band.

.. math:: \sigma_f(x) = \sigma_f \; \frac{\eta + t}{1 + t} \; (1 + \log(1 + s)), \qquad
          t = \frac{d_f(x)}{\delta\, l},

sigma_f the field's deviation in training, d_f the distance to its Dirichlet part, l the size of the
domain, s the distance of the geometry from the training data
(:mod:`geonew.train.descriptor`). Errors grow away from prescribed values and with unfamiliar
shapes; by the logarithm, since a number that is constant in training has no unit of its own, and s
may be as large as it likes. At prescribed nodes the scale is eta times that inside; a model that
meets its data exactly has no error there, and no band. For one that does not, errors near the
boundary are as large as elsewhere: eta = 1.

A conformal band is valid for any scale that is fixed before calibration; a better one makes it
narrower where it can be. Anything from (sample, distance) to positive numbers on nodes and
components fits: the spread of an ensemble, or a head that predicts errors.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from geonew.errors import CheckpointError
from geonew.model.sample import Sample


@runtime_checkable
class Scale(Protocol):
    """The relative size of errors to be expected."""

    @property
    def name(self) -> str:
        """By which it is stored."""
        ...

    def __call__(
        self, sample: Sample, deviations: Float[ndarray, "F"], distance: float
    ) -> Float[ndarray, "N F"]:
        """Positive numbers for nodes and components, in the user's units."""
        ...

    def to_plain(self) -> dict[str, Any]:
        """Its numbers, as JSON data."""
        ...


@dataclass(frozen=True)
class BoundaryScale:
    """The scale of the module docstring.

    Args:
        floor: eta, the scale at prescribed nodes over that far inside.
        reach: delta, the distance over which it grows, in sizes of the domain.

    """

    floor: float = 0.1
    reach: float = 0.05

    @property
    def name(self) -> str:
        """By which it is stored."""
        return "boundary"

    def __call__(
        self, sample: Sample, deviations: Float[ndarray, "F"], distance: float
    ) -> Float[ndarray, "N F"]:
        """Sigma of every node and component."""
        # log(d/l) is -FAR on prescribed nodes and +FAR where nothing is prescribed.
        t = np.exp(np.clip(sample.log_distance, -50.0, 50.0)) / self.reach
        return deviations * (self.floor + t) / (1 + t) * (1 + np.log1p(distance))

    def to_plain(self) -> dict[str, Any]:
        """Its numbers."""
        return {"name": self.name, **asdict(self)}


def default_scale(exact: bool) -> BoundaryScale:
    """The scale of a model that meets prescribed values exactly, or of one that does not."""
    return BoundaryScale() if exact else BoundaryScale(floor=1.0)


SCALES: dict[str, type[BoundaryScale]] = {"boundary": BoundaryScale}


def read_scale(raw: object) -> Scale:
    """A scale from plain data."""
    try:
        assert isinstance(raw, dict)
        kind = SCALES[raw["name"]]
        numbers = {key: float(value) for key, value in raw.items() if key != "name"}
        made = kind(**numbers)
        assert all(np.isfinite(v) and v > 0 for v in numbers.values())
        return made
    except (AssertionError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"the calibration has no scale that is known: {raw!r}", "calibrate the model again"
        ) from error
