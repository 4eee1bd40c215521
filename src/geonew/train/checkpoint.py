"""Models as files: everything a prediction needs, and what a run needs to go on.

    weights, settings, feature spec, columns, problem with its scales, training ranges, versions,
    hash of the data --save_model--> one file --load_model--> the model

The same file, with the state of optimiser, average and loop added, is what ``--resume`` reads.
A file is data from anywhere (:mod:`geonew.train.container`). Whatever kind of model a hostile one
describes, it exhausts nothing:

- every whole number among the settings is bounded, and what it makes a model tabulate (grids, flux
  graphs) is bounded where that is made, for training as well;
- building the model ends as soon as it has more weights than the file, and before any one tensor
  is made that is larger than all of them.
"""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.overrides import TorchFunctionMode

from geonew import __version__
from geonew.errors import CheckpointError, GeoNeWError
from geonew.features import FeatureSpec
from geonew.problem import Problem
from geonew.train.container import read_container, write_container
from geonew.train.models import ModelChoice, build_model
from geonew.train.reading import build

WEIGHTS = "weights/"
# Larger widths, depths, numbers of steps and so on are no honest model's.
LARGEST_SETTING = 2**16
# A tensor of so many entries is made whatever the file has: tables of small models are no weights.
HARMLESS_SIZE = 2**24
_ABOUT = "about_file"  # attribute of a loaded model
_LIBRARIES = ("torch", "numpy", "scipy", "scikit-fem", "pytorch_optimizer")


@dataclass(frozen=True, eq=False)
class ModelFile:
    """What a file says about its model.

    Args:
        choice: kind and settings.
        problem: with the reference values of training.
        spec: which features.
        columns: names of the tokens.
        deviations: training standard deviation of each component, over the reference values.
        ranges: what the training data cover.
        data_hash: SHA-256 of the training data.
        run: the configuration of the run.
        extra: more plain data: calibration, how good it is.
        versions: of geonew and the libraries.

    """

    choice: ModelChoice
    problem: Problem
    spec: FeatureSpec
    columns: tuple[str, ...]
    deviations: Float[ndarray, "F"]
    ranges: Mapping[str, Any] = field(default_factory=dict)
    data_hash: str = ""
    run: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=lambda: current_versions())

    def to_plain(self) -> dict[str, Any]:
        """As JSON data."""
        return {
            "model": self.choice.to_plain(),
            "problem": self.problem.to_json(),
            "features": self.spec.to_json(),
            "columns": list(self.columns),
            "deviations": self.deviations.tolist(),
            "ranges": dict(self.ranges),
            "data_hash": self.data_hash,
            "run": dict(self.run),
            "extra": dict(self.extra),
            "versions": dict(self.versions),
        }

    @classmethod
    def from_plain(cls, raw: Mapping[str, Any], path: str | Path) -> ModelFile:
        """Inverse of :meth:`to_plain`; a wrong description raises a named error."""
        try:
            return cls(
                choice=build(ModelChoice, raw["model"], "model"),
                problem=Problem.from_json(raw["problem"]),
                spec=FeatureSpec.from_json(raw["features"]),
                columns=tuple(str(name) for name in raw["columns"]),
                deviations=np.array(raw["deviations"], dtype=np.float64),
                ranges=dict(raw["ranges"]),
                data_hash=str(raw["data_hash"]),
                run=dict(raw["run"]),
                extra=dict(raw["extra"]),
                versions=dict(raw["versions"]),
            )
        except GeoNeWError as error:
            raise CheckpointError(f"{path}: {error.what}", error.cure) from error
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"{path}: the description of the model is incomplete: {error!r}",
                "give a file that geonew train wrote",
            ) from error


def save_model(
    path: str | Path,
    model: nn.Module,
    about: ModelFile,
    training: Mapping[str, Any] | None = None,
    more: Mapping[str, Tensor] | None = None,
) -> None:
    """Write a model, and the state of its training where given.

    Args:
        path: the file.
        model: its weights and buffers are stored.
        about: everything else a prediction needs.
        training: plain data of the state.
        more: its tensors.

    """
    tensors = {f"{WEIGHTS}{name}": t for name, t in model.state_dict().items()}
    document: dict[str, Any] = about.to_plain()
    if training is not None:
        document["training"] = dict(training)
    write_container(path, {**tensors, **(more or {})}, document)


def load_model(path: str | Path, device: str | torch.device = "cpu") -> nn.Module:
    """The model of a file, ready to predict; :func:`about_model` tells what the file says."""
    return read_model(path, device)[0]


def read_model(path: str | Path, device: str | torch.device = "cpu") -> tuple[nn.Module, ModelFile]:
    """The model of a file, and what the file says about it."""
    tensors, document = read_container(path)
    about = ModelFile.from_plain(document, path)
    weights = weights_of(tensors)
    model = _built(about, weights, path)
    dtypes = {t.dtype for t in weights.values() if t.is_floating_point()}
    model.to(next(iter(dtypes)) if len(dtypes) == 1 else torch.float32)
    model.load_state_dict(weights)
    setattr(model, _ABOUT, about)
    return model.to(device).eval(), about


def about_model(model: nn.Module) -> ModelFile:
    """What the file of a loaded model says: ranges of its training, calibration, versions."""
    about = getattr(model, _ABOUT, None)
    if not isinstance(about, ModelFile):
        raise CheckpointError("the model was not read from a file", "use load_model")
    return about


def add_extra(path: str | Path, name: str, value: Mapping[str, Any]) -> None:
    """Add plain data to what a file says about its model; nothing else in it changes."""
    tensors, document = read_container(path)
    ModelFile.from_plain(document, path)  # a file of something else is refused
    write_container(path, tensors, {**document, "extra": {**document["extra"], name: dict(value)}})


def weights_of(tensors: Mapping[str, Tensor], prefix: str = WEIGHTS) -> dict[str, Tensor]:
    """The tensors under a prefix, without it."""
    return {name[len(prefix) :]: t for name, t in tensors.items() if name.startswith(prefix)}


def check_shapes(model: nn.Module, weights: Mapping[str, Tensor], path: str | Path) -> None:
    """Refuse weights that are not those of the model; names the first that differ."""
    wanted = {name: tuple(t.shape) for name, t in model.state_dict().items()}
    found = {name: tuple(t.shape) for name, t in weights.items()}
    wrong = [
        f"{name} is {found.get(name, 'missing')} instead of {wanted.get(name, 'absent')}"
        for name in sorted(set(wanted) | set(found))
        if wanted.get(name) != found.get(name)
    ]
    if wrong:
        raise CheckpointError(
            f"{path}: {len(wrong)} weights do not fit the model: {'; '.join(wrong[:3])}",
            "use the settings of the model that the file was written for",
        )


def current_versions() -> dict[str, str]:
    """Versions of geonew, Python and the libraries that decide a model's last bits."""
    versions = {"geonew": __version__, "python": platform.python_version()}
    return versions | {name: importlib.metadata.version(name) for name in _LIBRARIES}


def _built(about: ModelFile, weights: Mapping[str, Tensor], path: str | Path) -> nn.Module:
    """The model that a file describes, if it is one of the file's weights."""
    _check_settings(about, path)
    available = sum(t.numel() for t in weights.values())

    def count(module: nn.Module, name: str, parameter: Tensor | None) -> None:
        nonlocal available
        available -= 0 if parameter is None else parameter.numel()
        if available < 0:
            raise CheckpointError(
                f"{path}: the model it describes has more weights than the file",
                "give a file that geonew train wrote",
            )

    handle = register_module_parameter_registration_hook(count)
    try:
        with _NoTensorAbove(max(available, HARMLESS_SIZE), path):
            model = build_model(about.choice, about.problem, about.spec, about.columns)
        check_shapes(model, weights, path)
        return model
    except CheckpointError:
        raise
    except GeoNeWError as error:
        raise CheckpointError(f"{path}: {error.what}", error.cure) from error
    except (RuntimeError, ValueError, TypeError, OverflowError, MemoryError) as error:
        raise CheckpointError(f"{path}: no model has these settings: {error}") from error
    finally:
        handle.remove()


class _NoTensorAbove(TorchFunctionMode):
    """Refuses a large tensor before it is made."""

    makers = (torch.empty, torch.zeros, torch.ones, torch.randn, torch.rand)

    def __init__(self, most: int, path: str | Path) -> None:
        super().__init__()
        self.most, self.path = most, path

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in self.makers:
            size = kwargs.get("size", args)
            size = size if not size or isinstance(size[0], int) else size[0]
            count = prod(size)
            if count > self.most:
                raise CheckpointError(
                    f"{self.path}: the model it describes has a tensor of {count:.2g} numbers, "
                    "more than the file",
                    "give a file that geonew train wrote",
                )
        return func(*args, **kwargs)


def _check_settings(about: ModelFile, path: str | Path) -> None:
    """Refuse settings that no honest model has, by name."""
    most = {"features.hks_times": len(about.columns)}  # each has a column of its own
    for name, value in (
        *_whole_numbers(about.choice.settings, "model"),
        *_whole_numbers(about.spec, "features"),
    ):
        if value > most.get(name, LARGEST_SETTING):
            raise CheckpointError(
                f"{path}: {name} is {value}, more than any model of this file can have",
                "give a file that geonew train wrote",
            )


def _whole_numbers(settings: Any, where: str) -> Iterator[tuple[str, int]]:
    """All whole numbers among settings, with their names."""
    for item in fields(settings):
        value, name = getattr(settings, item.name), f"{where}.{item.name}"
        if is_dataclass(value):
            yield from _whole_numbers(value, name)
        elif type(value) is int:
            yield name, value
