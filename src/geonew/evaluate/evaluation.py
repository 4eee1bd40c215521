"""One model on one file: everything that is measured, sample by sample.

    model, TestSet --predict_all--> predictions --errors, boundary, balances--> Evaluation

Errors are those of :mod:`geonew.train.metrics`, in the user's axes, derived fields (von Mises
stress) after the others; means are over samples, never pooled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray
from torch import nn

from geonew.evaluate.figures import Figures, figures, finite, groups_along
from geonew.evaluate.physics import boundary_errors, flow_balances, reaction_defects
from geonew.evaluate.predictions import Predicted, predict_all
from geonew.evaluate.runtime import Runtime, measure_runtime
from geonew.evaluate.testset import TestSet
from geonew.fem.derived import known_formula
from geonew.model.certificate import Certificate, physical_balance
from geonew.model.sample import Sample, to_lab
from geonew.problem import Problem
from geonew.train.checkpoint import ModelFile
from geonew.train.metrics import COMBINED, NEAR_ZERO, Errors, column_names, measure

Reactions = Mapping[str, Mapping[str, tuple[float, ...]]]
# Numbers of a certificate, and what to make of them over samples.
WORST_OF = ("residual", "antisymmetry", "balance_defect", "boundary_defect", "partition_defect")


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Results of n samples.

    Args:
        family, split, file: of the data.
        errors: relative, weighted and absolute error by sample and column.
        converged: which predictions are solved, or finite.
        boundary: field -> b_f of each sample (:mod:`geonew.evaluate.physics`).
        mass, divergence: velocity field -> balance of each sample.
        true_mass, true_divergence: the same of the truth.
        reaction, true_reaction: conserved field -> defect of its balance with the load.
        reactions, true_reactions: by sample, field -> group -> flux or force, as they are.
        certificates: of a model that solves; else empty.
        axes: axis of the distribution -> place of each sample.
        where: subsets that were asked for, by name.
        runtime: what a prediction costs, where measured.
        skipped: samples left out, and why.
        data_hash: SHA-256 of what was read.

    """

    family: str
    split: str
    file: str
    errors: Errors
    converged: Bool[ndarray, "n"]
    boundary: Mapping[str, Float[ndarray, "n"]]
    mass: Mapping[str, Float[ndarray, "n"]]
    divergence: Mapping[str, Float[ndarray, "n"]]
    true_mass: Mapping[str, Float[ndarray, "n"]]
    true_divergence: Mapping[str, Float[ndarray, "n"]]
    certificates: tuple[Certificate, ...]
    axes: Mapping[str, tuple[Any, ...]]
    where: Mapping[str, Bool[ndarray, "n"]]
    runtime: Runtime | None = None
    skipped: tuple[str, ...] = ()
    data_hash: str = ""
    reaction: Mapping[str, Float[ndarray, "n"]] = field(default_factory=dict)
    true_reaction: Mapping[str, Float[ndarray, "n"]] = field(default_factory=dict)
    reactions: tuple[Reactions, ...] = ()
    true_reactions: tuple[Reactions, ...] = ()

    @property
    def data(self) -> tuple[str, str, str]:
        """What tells its data from others; files of one name may differ."""
        return self.file, self.split, self.data_hash

    @property
    def samples(self) -> int:
        """How many."""
        return len(self.converged)

    @property
    def combined(self) -> float:
        """The figure of record: mean over samples of the combined relative error."""
        return self.errors.combined

    def column(
        self, name: str = COMBINED, which: Bool[ndarray, "n"] | None = None, weighted: bool = False
    ) -> Figures:
        """Figures of one column of the relative errors, over all samples or some."""
        table = self.errors.weighted if weighted else self.errors.relative
        values = table[:, self.errors.names.index(name)]
        return figures(values if which is None else values[which])

    def by_axis(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Axis -> place on it -> errors there; axes on which all samples lie in one place aside."""
        result = {}
        for axis, values in self.axes.items():
            groups = groups_along(values)
            if len(groups) > 1:
                result[axis] = {label: self.error_figures(which) for label, which in groups}
        return result

    def error_figures(self, which: Bool[ndarray, "n"] | None = None) -> dict[str, Any]:
        """Column -> figures of the plain and of the mass-weighted error, and the absolute one."""
        absolute = self.errors.absolute if which is None else self.errors.absolute[which]
        return {
            name: {
                "relative": self.column(name, which).to_plain(),
                "weighted": self.column(name, which, weighted=True).to_plain(),
                "absolute": finite(float(absolute[:, k].mean())) if len(absolute) else None,
            }
            for k, name in enumerate(self.errors.names)
        }

    def certificate_summary(self) -> dict[str, Any] | None:
        """Shares and extremes over the samples; none for a model that solves nothing."""
        if not self.certificates:
            return None
        count = len(self.certificates)
        margins = np.array([c.decisive_margin for c in self.certificates])
        kinds = [c.uniqueness for c in self.certificates]
        states = [c.status for c in self.certificates]
        steps = [c.steps for c in self.certificates]
        return {
            "converged": states.count("converged") / count,
            "status": {state: states.count(state) for state in sorted(set(states))},
            "unique": kinds.count("unique") / count,
            "local": kinds.count("local") / count,
            "reasons": sorted({c.reason for c in self.certificates}),
            "margin": figures(margins).to_plain() | {"least": finite(float(margins.min()))},
            "newton_steps": {"mean": float(np.mean(steps)), "most": int(max(steps))},
            **{
                f"worst_{name}": finite(max(float(getattr(c, name)) for c in self.certificates))
                for name in WORST_OF
            },
        }

    def to_plain(self, each: bool = True) -> dict[str, Any]:
        """All results as JSON data.

        Args:
            each: the figures of every single sample too.

        """
        document: dict[str, Any] = {
            "family": self.family,
            "split": self.split,
            "file": self.file,
            "samples": self.samples,
            "solved": float(self.converged.mean()),
            "error": self.error_figures(),
            "where": {name: self.error_figures(which) for name, which in self.where.items()},
            "by_axis": self.by_axis(),
            "boundary": _plain(self.boundary),
            "mass_defect": _plain(self.mass),
            "divergence": _plain(self.divergence),
            "reaction_defect": _plain(self.reaction),
            "truth": {
                "mass_defect": _plain(self.true_mass),
                "divergence": _plain(self.true_divergence),
                "reaction_defect": _plain(self.true_reaction),
            },
            "certificate": self.certificate_summary(),
            "runtime": None if self.runtime is None else asdict(self.runtime),
            "skipped": list(self.skipped),
            "data_hash": self.data_hash,
        }
        if each:
            document["each"] = {
                "error": {
                    name: [finite(float(v)) for v in self.errors.relative[:, k]]
                    for k, name in enumerate(self.errors.names)
                },
                "axes": {axis: list(values) for axis, values in self.axes.items()},
                "converged": self.converged.tolist(),
                "reaction": [_listed(one) for one in self.reactions],
                "true_reaction": [_listed(one) for one in self.true_reactions],
            }
        return document


def evaluate_set(
    model: nn.Module,
    about: ModelFile,
    tested: TestSet,
    *,
    batch: int = 8,
    where: Sequence[tuple[str, float]] = (),
    runtime: bool = False,
    notify: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Evaluate a model on prepared samples.

    Args:
        model: any trained model.
        about: what its file says.
        tested: the samples.
        batch: samples side by side.
        where: places (axis, value) whose samples get figures of their own.
        runtime: measure what a prediction costs.
        notify: called with (done, all) after each batch.

    """
    predictions = predict_all(model, tested.samples, batch, notify)
    deviations = about.deviations * np.array(about.problem.references)
    return summarise(
        about.problem,
        deviations,
        tested,
        predictions,
        {f"{axis}={value:g}": tested.at(axis, value) for axis, value in where},
        measure_runtime(model, tested, batch) if runtime else None,
    )


def summarise(
    problem: Problem,
    deviations: Float[ndarray, "F"],
    tested: TestSet,
    predictions: Sequence[Predicted],
    where: Mapping[str, Bool[ndarray, "n"]] | None = None,
    runtime: Runtime | None = None,
) -> Evaluation:
    """Results of given predictions.

    Args:
        problem: of the model.
        deviations: training standard deviations in the user's units.
        tested: the samples.
        predictions: one for each.
        where: subsets by name.
        runtime: what a prediction costs.

    """
    rows, boundary, flows, true_flows, forces, true_forces = [], [], [], [], [], []
    names = (*column_names(problem), *tested.derived)
    for k, (sample, made) in enumerate(zip(tested.samples, predictions, strict=True)):
        assert sample.target is not None
        truth = to_lab(sample, sample.target)
        row = measure(problem, deviations, truth, made.fields, sample.mass)
        derived = [_derived_error(problem, name, sample, values[k], made.fields)
                   for name, values in tested.derived.items()]  # fmt: skip
        rows.append(np.column_stack([row, *derived]))
        boundary.append(boundary_errors(sample, made.fields, deviations))
        true = physical_balance(sample, truth)
        flows.append(flow_balances(sample, made.physical, deviations))
        true_flows.append(flow_balances(sample, true, deviations))
        forces.append(reaction_defects(sample, truth, made.fields))
        true_forces.append(true.reaction)
    table = np.stack(rows, axis=1)
    return Evaluation(
        family=tested.family,
        split=tested.split,
        file=tested.name,
        errors=Errors(names, table[0], table[1], table[2]),
        converged=np.array([made.converged for made in predictions], dtype=bool),
        boundary=_by_name([dict(one.items()) for one in boundary]),
        mass=_by_name([{n: v[0] for n, v in one.items()} for one in flows]),
        divergence=_by_name([{n: v[1] for n, v in one.items()} for one in flows]),
        true_mass=_by_name([{n: v[0] for n, v in one.items()} for one in true_flows]),
        true_divergence=_by_name([{n: v[1] for n, v in one.items()} for one in true_flows]),
        certificates=tuple(m.certificate for m in predictions if m.certificate is not None),
        axes=tested.axes,
        where=where or {},
        runtime=runtime,
        skipped=tested.skipped,
        data_hash=tested.digest,
        reaction=_by_name([{n: v[0] for n, v in one.items()} for one in forces]),
        true_reaction=_by_name([{n: v[1] for n, v in one.items()} for one in forces]),
        reactions=tuple(made.physical.reaction for made in predictions),
        true_reactions=tuple(true_forces),
    )


def _derived_error(
    problem: Problem,
    name: str,
    sample: Sample,
    truth: Float[ndarray, "N"],
    fields: Float[ndarray, "N F"],
) -> Float[ndarray, "3"]:
    """Relative, weighted and absolute error of a derived field."""
    declared = next(d for d in problem.derived if d.name == name)
    inputs = [fields[:, problem.columns(n)] for n in declared.inputs]
    found = known_formula(declared.formula).evaluate(sample.mesh, inputs, declared.constants)
    defect = np.reshape(found, len(truth)) - truth
    if not np.isfinite(defect).all():
        return np.full(3, np.inf)
    size = np.sqrt(np.mean(truth**2))
    absolute = float(np.sqrt(np.mean(defect**2)))
    if size <= NEAR_ZERO * np.abs(truth).max(initial=0.0):
        return np.array([np.nan, np.nan, absolute])
    weighted = np.sqrt(sample.mass @ defect**2 / (sample.mass @ truth**2))
    return np.array([absolute / size, float(weighted), absolute])


def _by_name(rows: Sequence[Mapping[str, float]]) -> dict[str, Float[ndarray, "n"]]:
    """One array per name; NaN where a sample has none."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: np.array([row.get(name, np.nan) for row in rows], dtype=float) for name in names}


def _plain(table: Mapping[str, Float[ndarray, "n"]]) -> dict[str, Any]:
    return {name: figures(values).to_plain() for name, values in table.items()}


def _listed(reactions: Reactions) -> dict[str, dict[str, list[float | int | None]]]:
    return {
        name: {group: [finite(v) for v in values] for group, values in by_group.items()}
        for name, by_group in reactions.items()
    }
