"""The models that can be trained, by name, behind one interface.

    {"kind": "geonew", "width": 64, ...} -> ModelChoice --build_model--> a module

A model is made of (problem, feature spec, columns, settings), puts samples side by side with
``collate``, and returns fields in the frame over the reference values with a mark per sample that
says whether it is solved. Training, checkpoints and evaluation know nothing else about it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn

from geonew.baselines import BASELINES
from geonew.errors import ConfigError
from geonew.features import FeatureSpec
from geonew.model.batch import Batch
from geonew.model.config import ModelConfig
from geonew.model.geonew import GeoNeW, Output
from geonew.model.sample import Sample
from geonew.problem import Problem
from geonew.train.reading import build_plainly, nearest, plain


@runtime_checkable
class Fields(Protocol):
    """What a forward pass returns."""

    @property
    def fields(self) -> Tensor:
        """(B, N, F), in the frame, over the reference values."""
        ...

    @property
    def converged(self) -> Tensor:
        """(B,), which samples are solved."""
        ...


@runtime_checkable
class FieldModel(Protocol):
    """What training asks of a model, besides being a module."""

    problem: Problem
    spec: FeatureSpec
    columns: tuple[str, ...]

    def collate(
        self, samples: Sequence[Sample], draw: tuple[int, int, Sequence[int]] | None = None
    ) -> Batch:
        """A batch on the model's device; ``draw`` = (seed, epoch, sample numbers) in training."""
        ...

    def normalise_tokens(self, samples: Sequence[Sample]) -> None:
        """Shift and scale of the tokens from training samples."""
        ...


ModelBuilder = Callable[[Problem, FeatureSpec, tuple[str, ...], Any], nn.Module]


@dataclass(frozen=True)
class ModelKind:
    """One kind of model: the dataclass of its settings and what makes it of them."""

    settings: type
    make: ModelBuilder


MODELS: dict[str, ModelKind] = {
    "geonew": ModelKind(ModelConfig, GeoNeW),
    **{name: ModelKind(kind.config_type, kind) for name, kind in BASELINES.items()},
}


@dataclass(frozen=True)
class ModelChoice:
    """Which model, of which size.

    Args:
        kind: a name in ``MODELS``.
        settings: its own configuration.

    """

    kind: str = "geonew"
    settings: Any = field(default_factory=ModelConfig)

    def __post_init__(self) -> None:
        if not isinstance(self.settings, model_kind(self.kind).settings):
            raise ConfigError(
                f"settings of model {self.kind!r} are {type(self.settings).__name__}, "
                f"not {model_kind(self.kind).settings.__name__}"
            )

    @classmethod
    def from_plain(cls, raw: object, where: str) -> ModelChoice:
        """From a mapping in which ``kind`` stands beside the settings."""
        if not isinstance(raw, dict):
            raise ConfigError(f"{where} must be a mapping", "give a kind and its settings")
        rest = dict(raw)
        kind = str(rest.pop("kind", "geonew"))
        return cls(kind, build_plainly(model_kind(kind).settings, rest, where))

    def to_plain(self) -> dict[str, Any]:
        """Inverse of :meth:`from_plain`."""
        return {"kind": self.kind, **plain(self.settings)}


def model_kind(name: str) -> ModelKind:
    """The kind of that name."""
    if name not in MODELS:
        raise ConfigError(f"there is no model {name!r}", nearest(name, list(MODELS)))
    return MODELS[name]


def build_model(
    choice: ModelChoice, problem: Problem, spec: FeatureSpec, columns: tuple[str, ...]
) -> nn.Module:
    """A new model with random weights."""
    model = model_kind(choice.kind).make(problem, spec, columns, choice.settings)
    assert isinstance(model, FieldModel)
    return model


def newton_steps(output: Fields) -> Tensor | None:
    """Newton steps per sample; none for a model that solves nothing."""
    return output.solution.steps if isinstance(output, Output) else None


def sit_out(model: nn.Module) -> None:
    """Take part in a training step without samples, for a model that shares more than gradients."""
    if isinstance(model, GeoNeW):
        model.sit_out()
