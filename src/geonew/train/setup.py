"""From a configuration to everything the loop needs: samples, scales, model, optimiser.

    RunConfig --load_data--> TrainingData --assemble--> Run

With ``init`` the model starts from given weights: it keeps that model's scales and token
normalisation, since the weights are made for them, and is refused where problem or features differ
(:mod:`geonew.train.compatibility`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import nn
from torch.optim.swa_utils import AveragedModel

from geonew.cache import Cache
from geonew.errors import CheckpointError, DataError
from geonew.features import FeatureSpec
from geonew.model.sample import Sample
from geonew.problem import Problem
from geonew.train.checkpoint import ModelFile, check_shapes, read_model
from geonew.train.compatibility import check_compatible, check_start, with_scales_of
from geonew.train.config import RunConfig
from geonew.train.distributed import Team
from geonew.train.models import FieldModel, build_model
from geonew.train.objective import Objective
from geonew.train.optimiser import averaged, build_optimiser
from geonew.train.reading import differences
from geonew.train.samples import (
    DataConfig,
    Records,
    prepare_all,
    read_split,
    training_deviations,
    training_ranges,
    training_references,
)

Notify = Callable[[str, Mapping[str, Any]], None]


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Prepared samples and what they fix.

    Args:
        problem: with its reference values.
        train, validation: the samples.
        deviations: standard deviation of each component, over the reference values.
        skipped: samples left out, and why.
        digest: SHA-256 of the training data.
        notes: what the data declare otherwise than the model that is trained further.

    """

    problem: Problem
    train: tuple[Sample, ...]
    validation: tuple[Sample, ...]
    deviations: Float[ndarray, "F"]
    skipped: tuple[str, ...] = ()
    digest: str = ""
    notes: tuple[str, ...] = ()

    @property
    def user_deviations(self) -> Float[ndarray, "F"]:
        """The same in the user's units."""
        return self.deviations * np.array(self.problem.references)


@dataclass(eq=False)
class Run:
    """A model in training.

    Args:
        config: what decides the run.
        team: its processes.
        data: its samples.
        model: the model itself.
        objective: batch -> loss, joined over the processes.
        optimiser: moves the weights.
        average: a slowly following copy of the model, where asked for.
        about: what is stored with the weights.

    """

    config: RunConfig
    team: Team
    data: TrainingData
    model: nn.Module
    objective: nn.Module
    optimiser: torch.optim.Optimizer
    average: AveragedModel | None
    about: ModelFile

    @property
    def evaluated(self) -> nn.Module:
        """The model that is validated and kept: the average, where there is one."""
        return self.model if self.average is None else self.average.module

    @property
    def fields(self) -> FieldModel:
        """The model as training sees it."""
        assert isinstance(self.model, FieldModel)
        return self.model


def load_data(
    config: DataConfig,
    spec: FeatureSpec,
    team: Team,
    start: ModelFile | None = None,
    tell: Notify | None = None,
) -> TrainingData:
    """Read and prepare all samples of a run.

    Args:
        config: which files.
        spec: which features.
        team: its processes share the work through the cache.
        start: a model to go on from; its scales are kept.
        tell: is told how far it is.

    """
    train = read_split(config.train, "train", config.train_limit)
    validation = None
    if config.validation is not None:
        validation = read_split(config.validation, "val", config.validation_limit)
        if validation.problem != train.problem:
            raise DataError(
                f"{config.validation} is of another problem than {config.train}",
                "generate both splits of one family",
            )
    problem, notes = train.problem, ()
    if start is not None:
        notes = check_start(start.problem, problem)
        problem = with_scales_of(start.problem, problem)
    elif config.references == "training":
        problem = problem.with_references(training_references(problem, train.records))
    cache = Cache.default() if config.cache else None
    samples = _prepared(train, problem, spec, cache, team, "training", tell)
    checked: tuple[Sample, ...] = ()
    if validation is not None:
        checked = _prepared(validation, problem, spec, cache, team, "validation", tell)
    skipped = train.skipped + (validation.skipped if validation is not None else ())
    deviations = training_deviations(problem, samples)
    return TrainingData(problem, samples, checked, deviations, skipped, train.digest, notes)


def assemble(
    config: RunConfig, data: TrainingData, team: Team, start: tuple[nn.Module, ModelFile] | None
) -> Run:
    """Model, loss and optimiser of a run; ``start`` is a model to go on from."""
    columns = data.train[0].columns
    torch.manual_seed(config.seed)
    model = build_model(config.model, data.problem, config.features, columns)
    assert isinstance(model, FieldModel)
    if start is None:
        model.normalise_tokens(data.train)
    else:
        given, about = start
        check_compatible(about, data.problem, columns)
        unlike = differences(config.model.to_plain(), about.choice.to_plain())
        try:
            check_shapes(model, given.state_dict(), "the given model")
        except CheckpointError as error:
            raise CheckpointError(
                f"{error.what}; settings that differ: {unlike}",
                "give the same settings under 'model' as the given model has",
            ) from error
        model.load_state_dict(given.state_dict())
    model.to(torch.float64 if config.precision == "float64" else torch.float32)
    model.to(team.device).train()
    deviations = torch.from_numpy(data.deviations).to(team.device)
    objective = Objective(model, data.problem, deviations, complete=team.size > 1)
    average = config.optimiser.average
    about = ModelFile(
        choice=config.model,
        problem=data.problem,
        spec=config.features,
        columns=columns,
        deviations=data.deviations,
        ranges=training_ranges(data.train),
        data_hash=data.digest,
        run=config.to_plain(),
    )
    return Run(
        config=config,
        team=team,
        data=data,
        model=model,
        objective=team.joined(objective),
        optimiser=build_optimiser(config.optimiser, model.parameters()),
        average=None if average is None else averaged(model, average),
        about=about,
    )


def read_start(path: str | Path, config: RunConfig) -> tuple[nn.Module, ModelFile]:
    """The model to go on from."""
    model, about = read_model(path)
    unlike = differences(
        {"features": _plain_spec(config.features)}, {"features": _plain_spec(about.spec)}
    )
    if unlike:
        raise CheckpointError(
            f"{path} was trained with other features: {', '.join(unlike)} differ",
            "give the same settings under 'features' as the model was trained with",
        )
    return model, about


def _prepared(
    records: Records,
    problem: Problem,
    spec: FeatureSpec,
    cache: Cache | None,
    team: Team,
    what: str,
    tell: Notify | None,
) -> tuple[Sample, ...]:
    """All samples in every process; each makes its own share first, the cache brings the rest."""

    def notify(done: int, total: int) -> None:
        if tell is not None:
            tell("prepare", {"split": what, "done": done, "total": total})

    count = len(records.records)
    order = [k for first in range(team.size) for k in _share(team.rank + first, team.size, count)]
    return prepare_all(records, problem, spec, cache, notify, order)


def _share(rank: int, size: int, count: int) -> range:
    return range(rank % size, count, size)


def _plain_spec(spec: FeatureSpec) -> dict[str, Any]:
    return {name: getattr(spec, name) for name in spec.__dataclass_fields__}
