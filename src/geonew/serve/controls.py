"""What the page can change of a model's situation: controls, drafts, and who understands them.

    geometry, values --Editor.situation--> Situation <--Editor.on_mesh-- uploaded mesh, values

An editor belongs to one family of problems. It says which handles the page draws (``kind``), which
numbers it offers (``controls``), and turns them into a mesh with its data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from geonew.errors import InputError
from geonew.mesh import Mesh
from geonew.serve.scene import Geometry
from geonew.serve.situation import Situation


@dataclass(frozen=True)
class Control:
    """A number that can be changed.

    Args:
        name: in ``Scene.values``.
        label: for people.
        low, high: its range.
        value: to begin with.
        unit: of the number; empty for none.
        familiar: range in the training data, where it is narrower.
        toggle: it is 0 or 1.
        logarithmic: people think of it in factors.
        on_meshes: it has a meaning for an uploaded mesh too.

    """

    name: str
    label: str
    low: float
    high: float
    value: float
    unit: str = ""
    familiar: tuple[float, float] | None = None
    toggle: bool = False
    logarithmic: bool = False
    on_meshes: bool = False

    def to_plain(self) -> dict[str, Any]:
        """As JSON data."""
        return asdict(self)


@dataclass(frozen=True)
class Draft:
    """A geometry with values, to be changed further."""

    geometry: Geometry
    values: Mapping[str, float] = field(default_factory=dict)

    def to_plain(self) -> dict[str, Any]:
        """As JSON data."""
        return {"geometry": self.geometry.model_dump(mode="json"), "values": dict(self.values)}


@runtime_checkable
class Editor(Protocol):
    """See the module docstring."""

    @property
    def kind(self) -> str:
        """Of the geometry it understands."""
        ...

    @property
    def controls(self) -> tuple[Control, ...]:
        """Numbers that can be changed."""
        ...

    @property
    def units(self) -> Mapping[str, str]:
        """Units of lengths and fields, by name."""
        ...

    def draw(self, generator: np.random.Generator, outside: bool) -> Draft:
        """A random draft, in or out of the training distribution."""
        ...

    def situation(self, geometry: Geometry, values: Mapping[str, float]) -> Situation:
        """The mesh and its data."""
        ...

    def on_mesh(self, mesh: Mesh, values: Mapping[str, float]) -> Situation:
        """The data on a mesh from elsewhere."""
        ...


def settled(controls: tuple[Control, ...], values: Mapping[str, float]) -> dict[str, float]:
    """All values, those not given at their defaults; unknown names and ranges are refused."""
    known = {control.name: control for control in controls}
    for name, value in values.items():
        if name not in known:
            raise InputError(
                f"there is no value {name!r} to set", f"the values are {sorted(known) or 'none'}"
            )
        if not known[name].low <= value <= known[name].high:
            raise InputError(
                f"{known[name].label} is {value:g}",
                f"its range is {known[name].low:g} to {known[name].high:g}",
            )
    return {name: float(values.get(name, control.value)) for name, control in known.items()}


def not_mine(kind: str, geometry: Geometry) -> InputError:
    """The error for a geometry of another kind."""
    return InputError(
        f"this model takes geometries of the kind {kind!r}, not {geometry.kind!r}",
        "choose the shape after the model",
    )
