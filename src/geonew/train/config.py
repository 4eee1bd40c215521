"""The configuration of a run: frozen, nested, read from YAML, saved with every checkpoint.

    output: runs/poly-poisson
    data: {train: data/poly-poisson/train.h5, validation: data/poly-poisson/val.h5}
    features: {torsion: false}
    model: {kind: geonew, width: 64, depth: 2}
    optimiser: {name: soap, learning_rate: 3e-3}
    budget: {cpu_minutes: 15}

Each part stands beside what it configures; what concerns several of them is checked here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from geonew.errors import ConfigError
from geonew.features import FeatureSpec
from geonew.train.budget import Budget
from geonew.train.log import LogConfig
from geonew.train.models import ModelChoice
from geonew.train.optimiser import OptimiserConfig
from geonew.train.reading import build, differences, plain, read_yaml, with_settings
from geonew.train.samples import DataConfig

# What may change when a run is resumed: how long, how it is reported, where it computes.
MAY_CHANGE = ("budget", "log", "device", "output")


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides a run.

    Args:
        output: folder of checkpoints and logs.
        data: training and validation files.
        features: what the model sees of a mesh.
        model: which model, and its sizes.
        optimiser: by which its weights move.
        budget: how long to train.
        batch: samples per step, over all processes.
        least_converged: a batch with a smaller part of solved samples is skipped.
        validate_every: steps between validations; none means once per epoch.
        checkpoint_every: steps between checkpoints.
        seed: of weights, batches and anchors.
        device: ``"cpu"``, ``"cuda"``, or ``"auto"`` for a GPU where there is one.
        precision: of the encoder; ``"mixed"`` is bfloat16 where that is faster, on a GPU.
        log: what is written beside the checkpoints.

    """

    output: str
    data: DataConfig
    budget: Budget
    features: FeatureSpec = field(default_factory=FeatureSpec)
    model: ModelChoice = field(default_factory=ModelChoice)
    optimiser: OptimiserConfig = field(default_factory=OptimiserConfig)
    batch: int = 8
    least_converged: float = 0.8
    validate_every: int | None = None
    checkpoint_every: int = 200
    seed: int = 0
    device: str = "auto"
    precision: Literal["float32", "float64", "mixed"] = "float32"
    log: LogConfig = field(default_factory=LogConfig)

    def __post_init__(self) -> None:
        self.check()

    def check(self) -> None:
        """What the parts cannot see alone."""
        for name in ("batch", "checkpoint_every", "validate_every"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} is {value}; it must be at least 1")
        if not 0 <= self.least_converged <= 1:
            raise ConfigError(f"least_converged is {self.least_converged}; it is a part of 1")
        if self.seed < 0:
            raise ConfigError(f"seed is {self.seed}; it must not be negative")
        if not self.output:
            raise ConfigError("output is empty", "name a folder for the run")
        self.check_device(self.device)
        if self.budget.steps is not None and self.optimiser.warm_up > self.budget.steps:
            raise ConfigError(
                f"the warm-up of {self.optimiser.warm_up} steps is longer than the run of "
                f"{self.budget.steps}",
                "shorten optimiser.warm_up",
            )
        if self.data.validation is None and self.validate_every is not None:
            raise ConfigError("validate_every is given without data.validation")
        if self.data.validation is not None and self.data.validation == self.data.train:
            raise ConfigError(
                "data.train and data.validation are the same file", "splits are kept apart"
            )

    def check_device(self, device: str) -> None:
        """What depends on the device; what ``auto`` stands for is known only where a run begins."""
        if self.precision == "mixed" and device == "cpu":
            raise ConfigError(
                "precision 'mixed' is for a GPU; on a processor it is slower", "use float32"
            )

    def to_plain(self) -> dict[str, Any]:
        """As plain data."""
        return {name: plain(getattr(self, name)) for name in self.__dataclass_fields__}

    def changed(self, before: dict[str, Any]) -> list[str]:
        """Settings that differ from those of a run to be resumed and must not.

        A setting that an earlier version did not have counts with its default.
        """
        mine, theirs = self.to_plain(), read_config(dict(before)).to_plain()
        for name in MAY_CHANGE:
            mine.pop(name, None)
            theirs.pop(name, None)
        return differences(mine, theirs)


def load_config(path: str | Path, settings: Sequence[str] = ()) -> RunConfig:
    """A configuration file, with single settings replaced: ``optimiser.learning_rate=1e-3``."""
    return read_config(with_settings(read_yaml(path), settings))


def read_config(raw: dict[str, Any]) -> RunConfig:
    """A configuration from plain data."""
    return build(RunConfig, raw, "")
