"""General-geometry neural Whitney forms (Geo-NeW).

The names below are the library as a user needs it; ``docs/api.md`` shows each at work. They are
loaded when first asked for, so that ``import geonew`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from geonew.inference.answer import compare, predict
    from geonew.inference.folder import train_on_folder
    from geonew.inference.quantities import drop_between, flux_through, value_at
    from geonew.inference.sensitivity import sensitivity
    from geonew.mesh import read_mesh
    from geonew.plot.interactive import to_pyvista
    from geonew.weights import card as model_card
    from geonew.weights import load as load_model
    from geonew.weights import names as model_names

__version__ = "0.1.0"
__all__ = [
    "__version__",
    "compare",
    "drop_between",
    "flux_through",
    "load_model",
    "model_card",
    "model_names",
    "predict",
    "read_mesh",
    "sensitivity",
    "to_pyvista",
    "train_on_folder",
    "value_at",
]

_PLACES = {
    "read_mesh": ("geonew.mesh", "read_mesh"),
    "model_names": ("geonew.weights", "names"),
    "model_card": ("geonew.weights", "card"),
    "load_model": ("geonew.weights", "load"),
    "predict": ("geonew.inference.answer", "predict"),
    "compare": ("geonew.inference.answer", "compare"),
    "sensitivity": ("geonew.inference.sensitivity", "sensitivity"),
    "flux_through": ("geonew.inference.quantities", "flux_through"),
    "drop_between": ("geonew.inference.quantities", "drop_between"),
    "value_at": ("geonew.inference.quantities", "value_at"),
    "to_pyvista": ("geonew.plot.interactive", "to_pyvista"),
    "train_on_folder": ("geonew.inference.folder", "train_on_folder"),
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'geonew' has no attribute {name!r}")
    module, attribute = _PLACES[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})
