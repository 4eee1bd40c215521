"""The weights that come with the package, by name, each with its model card.

    name --file beside this module--> model, card        path of a checkpoint --> model

``NAME.safetensors`` is a checkpoint as ``geonew train`` writes it, ``NAME.md`` says what it was
trained on, how good it is and where it ends. Whatever pairs of files lie here are known; nothing
else has to be registered. No optimiser and no training loop is imported to predict.
"""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from geonew.errors import CheckpointError

if TYPE_CHECKING:
    import torch

    from geonew.model.geonew import GeoNeW

SUFFIX = ".safetensors"
# Of a folder that a training run wrote, the weights with the least validation error.
BEST = f"best{SUFFIX}"
_FOLDER = Path(__file__).parent


def names() -> tuple[str, ...]:
    """Names of the models that come with the package."""
    return tuple(sorted(file.name.removesuffix(SUFFIX) for file in _FOLDER.glob(f"*{SUFFIX}")))


def locate(name_or_path: str | Path) -> Path:
    """The file of a shipped model, of a checkpoint, or of a run's folder."""
    if str(name_or_path) in names():
        return _FOLDER / f"{name_or_path}{SUFFIX}"
    path = Path(name_or_path)
    if (path / BEST).is_file():
        return path / BEST
    if path.is_file():
        return path
    raise CheckpointError(
        f"there is no model {str(name_or_path)!r}, neither a shipped one nor a file of that name",
        _advice(str(name_or_path)),
    )


def load(name_or_path: str | Path, device: str | torch.device = "cpu") -> GeoNeW:
    """A model ready to predict.

    Args:
        name_or_path: one of :func:`names`, a checkpoint, or the folder of a training run.
        device: where it computes.

    """
    from geonew.model.geonew import GeoNeW
    from geonew.train.checkpoint import read_model

    path = locate(name_or_path)
    model, about = read_model(path, device)
    if not isinstance(model, GeoNeW):
        raise CheckpointError(
            f"{path} holds the baseline {about.choice.kind!r}, which solves no balance law and has "
            "no certificate",
            "give a model of kind 'geonew'; geonew evaluate measures baselines",
        )
    return model


def card(name: str) -> str:
    """The model card of a shipped model, as Markdown."""
    if name not in names():
        raise CheckpointError(f"there is no shipped model {name!r}", _advice(name))
    file = _FOLDER / f"{name}.md"
    if not file.is_file():
        raise CheckpointError(f"the shipped model {name!r} has no card", f"write {file.name}")
    return file.read_text(encoding="utf-8")


def _advice(name: str) -> str:
    known = names()
    if not known:
        return "no models are shipped with this version: give the path of a checkpoint"
    close = get_close_matches(name, known, n=1, cutoff=0.5)
    listed = f"the shipped models are {', '.join(known)}; or give the path of a checkpoint"
    return f"did you mean {close[0]!r}? {listed}" if close else listed
