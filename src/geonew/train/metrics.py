r"""How far predictions are from the truth: the metric of record, and its mass-weighted sister.

Per sample, over the nodes n of its mesh with lumped masses m,

.. math:: e = \frac{(\sum_n |u'_n - u_n|^2)^{1/2}}{(\sum_n |u_n|^2)^{1/2}}, \qquad
          e_m = \frac{(\sum_n m_n |u'_n - u_n|^2)^{1/2}}{(\sum_n m_n |u_n|^2)^{1/2}},

then the mean over samples (never pooled over a batch): the first is the paper's. Vectors count as
vectors, and their components in the user's axes as well; ``combined`` takes all fields, each
divided by its standard deviation in the training data (one for all components of a vector). Fields
with a gauge are compared after removing their means. Where a sample's field all but vanishes, a
relative error means nothing: it is left out there, and the absolute one is reported.

Identity kept: every number is invariant under a change of units and, components aside, under
rotation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from geonew.problem import Problem

# A field whose root mean square is below this part of its training deviation counts as vanishing.
NEAR_ZERO = 1e-3
COMBINED = "combined"


@dataclass(frozen=True, eq=False)
class Errors:
    """Errors of n samples in k columns: combined, every field, every component of vectors.

    Args:
        names: of the columns.
        relative: |u' - u| / |u| over nodes; NaN where the field all but vanishes.
        weighted: the same, weighted by mass.
        absolute: root mean square of u' - u over nodes, in the user's units (for ``combined`` in
            training deviations).

    """

    names: tuple[str, ...]
    relative: Float[ndarray, "n k"]
    weighted: Float[ndarray, "n k"]
    absolute: Float[ndarray, "n k"]

    @property
    def combined(self) -> float:
        """Mean combined relative error, by which models are chosen; inf where there is none."""
        value = self.mean()[COMBINED]
        return value if np.isfinite(value) else float("inf")

    def mean(self, weighted: bool = False) -> dict[str, float]:
        """Mean over samples of the relative error, by column; NaN where every sample vanishes."""
        table = self.weighted if weighted else self.relative
        count = np.sum(~np.isnan(table), axis=0)
        total = np.nansum(table, axis=0)
        means = np.where(count > 0, total / np.maximum(count, 1), np.nan)
        return dict(zip(self.names, means.tolist(), strict=True))

    def mean_absolute(self) -> dict[str, float]:
        """Mean over samples of the absolute error, by column."""
        count = max(len(self.absolute), 1)
        return dict(zip(self.names, (self.absolute.sum(axis=0) / count).tolist(), strict=True))


def column_names(problem: Problem) -> tuple[str, ...]:
    """``combined``, the fields, and the components of vectors."""
    fields = [f.name for f in problem.fields]
    parts = [
        label
        for label, owner in zip(problem.component_names, problem.component_fields, strict=True)
        if owner.rank == "vector"
    ]
    return (COMBINED, *fields, *parts)


def measure(
    problem: Problem,
    deviations: Float[ndarray, "F"],
    truth: Float[ndarray, "N F"],
    prediction: Float[ndarray, "N F"],
    mass: Float[ndarray, "N"],
) -> Float[ndarray, "3 k"]:
    """Relative, mass-weighted and absolute error of one sample, by column.

    Args:
        problem: fields and how they transform.
        deviations: training standard deviation of every component, in the user's units.
        truth: the solution, in the user's axes and units.
        prediction: likewise.
        mass: lumped mass, in any unit.

    """
    truth = without_means(problem, truth, mass)
    prediction = without_means(problem, prediction, mass)
    squares = (truth / deviations) ** 2
    defects = ((prediction - truth) / deviations) ** 2
    groups: list[list[int]] = [list(range(problem.n_components))]
    groups += [
        [k for k, owner in enumerate(problem.component_fields) if owner == f]
        for f in problem.fields
    ]
    groups += [[k] for k, f in enumerate(problem.component_fields) if f.rank == "vector"]
    result = np.empty((3, len(groups)))
    for column, members in enumerate(groups):
        size, defect = squares[:, members].sum(axis=1), defects[:, members].sum(axis=1)
        unit = 1.0 if column == 0 else deviations[members[0]]
        result[2, column] = unit * np.sqrt(defect.mean())
        if not np.isfinite(result[2, column]):  # a prediction that failed is no good one
            result[:, column] = np.inf
            continue
        if size.mean() < NEAR_ZERO**2 * len(members):
            result[:2, column] = np.nan
            continue
        result[0, column] = np.sqrt(defect.sum() / size.sum())
        result[1, column] = np.sqrt(mass @ defect / (mass @ size))
    return result


def gather(problem: Problem, rows: Sequence[Float[ndarray, "3 k"]]) -> Errors:
    """The errors of several samples as one table."""
    names = column_names(problem)
    table = np.stack(rows, axis=1) if len(rows) else np.empty((3, 0, len(names)))
    return Errors(names, table[0], table[1], table[2])


def without_means(
    problem: Problem, fields: Float[ndarray, "N F"], mass: Float[ndarray, "N"]
) -> Float[ndarray, "N F"]:
    """Fields whose level has no meaning, minus their mean over the domain; the others as given."""
    result = np.array(fields, dtype=np.float64)
    for column, owner in enumerate(problem.component_fields):
        if owner.level == "gauge":
            result[:, column] -= np.average(result[:, column], weights=mass)
    return result
