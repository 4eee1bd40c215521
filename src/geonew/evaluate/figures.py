"""Numbers about numbers: mean, median and spread over samples; groups of samples along an axis."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import isfinite

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from geonew.data.record import Number

# An axis with more values than this is cut into quarters of the samples.
MOST_VALUES = 8
PARTS = 4


@dataclass(frozen=True)
class Figures:
    """One column over some samples.

    Args:
        mean: inf where a prediction failed; NaN where there is no sample.
        median, deviation: the middle, and the standard deviation over samples.
        low, high: tenth and ninetieth percentile.
        worst: the largest.
        count: samples that the figures are of; those whose field vanishes are left out.

    """

    mean: float
    median: float
    deviation: float
    low: float
    high: float
    worst: float
    count: int

    def to_plain(self) -> dict[str, float | int | None]:
        """As JSON data, which has neither NaN nor infinity."""
        return {name: finite(value) for name, value in asdict(self).items()}


def figures(values: Float[ndarray, "n"]) -> Figures:
    """Figures of the values that are not NaN."""
    given = values[~np.isnan(values)]
    if not len(given):
        nan = float("nan")
        return Figures(nan, nan, nan, nan, nan, nan, 0)
    sound = np.isfinite(given).all()
    # Between a number and infinity nothing can be interpolated.
    method = "linear" if sound else "inverted_cdf"
    low, median, high = np.quantile(given, (0.1, 0.5, 0.9), method=method)
    return Figures(
        mean=float(given.mean()),
        median=float(median),
        deviation=float(given.std(ddof=1)) if sound and len(given) > 1 else float("nan"),
        low=float(low),
        high=float(high),
        worst=float(given.max()),
        count=len(given),
    )


def groups_along(
    values: tuple[Number | str | None, ...],
) -> list[tuple[str, Bool[ndarray, "n"]]]:
    """Samples grouped by their place on an axis: each value, or quarters of the samples."""
    distinct = {value for value in values if value is not None}
    table = np.array([np.nan if not isinstance(v, int | float) else float(v) for v in values])
    numeric = not any(isinstance(value, str) for value in distinct)
    if len(distinct) <= MOST_VALUES or not numeric:
        ordered = sorted(distinct, key=lambda v: (isinstance(v, str), v if numeric else str(v)))
        return [
            (
                f"{value:.6g}" if isinstance(value, int | float) else value,
                np.array([other == value for other in values], dtype=bool),
            )
            for value in ordered
        ]
    edges = np.nanquantile(table, np.linspace(0, 1, PARTS + 1))
    result = []
    for k in range(PARTS):
        below = table < edges[k + 1] if k < PARTS - 1 else table <= edges[k + 1]
        result.append((f"{edges[k]:.3g} to {edges[k + 1]:.3g}", (table >= edges[k]) & below))
    return result


def finite(value: float | int) -> float | int | None:
    """The value, or none where it is no number that JSON can hold."""
    return value if isfinite(value) else None
