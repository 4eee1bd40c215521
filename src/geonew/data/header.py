"""The header of a data file: what all its samples share."""

from __future__ import annotations

import importlib.metadata
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from geonew import __version__
from geonew.data.columns import from_json, to_json
from geonew.data.record import Split
from geonew.errors import DataError
from geonew.problem import Problem

FORMAT = "geonew-data"
SCHEMA = 1
_LIBRARIES = ("numpy", "scipy", "gmsh", "scikit-fem", "numba")


@dataclass(frozen=True)
class Header:
    """What all samples of a file share.

    Args:
        family: name of the family or of the imported set.
        split: which split.
        problem: what is asked for.
        units: what -> unit, such as ``{"length": "m", "velocity": "m/s"}``: ``length`` of all
            coordinates, then fields, sources, tractions and parameters by name, numbered ones as
            ``x_k``; ``"1"`` for numbers without a unit.
        origin: how the file came about: a generation's request or an import's recipe.
        versions: of geonew (the generator) and of the libraries it used.

    """

    family: str
    split: Split
    problem: Problem
    units: Mapping[str, str] = field(default_factory=dict)
    origin: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=lambda: current_versions())

    def unit(self, name: str) -> str:
        """Unit of a field or parameter; empty where it is not stated."""
        return self.units.get(name, self.units.get(re.sub(r"_\d+$", "_k", name), ""))

    def to_bytes(self) -> bytes:
        """The header as JSON."""
        return to_json(
            {
                "format": FORMAT,
                "schema": SCHEMA,
                "family": self.family,
                "split": self.split,
                "problem": self.problem.to_json(),
                "units": self.units,
                "origin": self.origin,
                "versions": self.versions,
            }
        )

    @classmethod
    def from_bytes(cls, text: bytes) -> Header:
        """Inverse of :meth:`to_bytes`; another format or schema is refused."""
        raw = from_json(text)
        if raw.pop("format", None) != FORMAT:
            raise DataError("the HDF5 file is not a data set of geonew")
        schema = raw.pop("schema", None)
        if schema != SCHEMA:
            raise DataError(
                f"the data set has schema {schema!r}; this version of geonew reads {SCHEMA}",
                "use the version of geonew that wrote it, or generate it again",
            )
        wanted = {"family", "split", "problem", "units", "origin", "versions"}
        if set(raw) != wanted or raw["split"] not in get_args(Split):
            raise DataError(f"the header has the entries {sorted(raw)}, not {sorted(wanted)}")
        texts = isinstance(raw["family"], str) and isinstance(raw["problem"], str)
        if not texts or not all(isinstance(raw[k], dict) for k in ("units", "origin", "versions")):
            raise DataError("the header has entries of a wrong type")
        return cls(**{**raw, "problem": Problem.from_json(raw["problem"])})


def current_versions() -> dict[str, str]:
    """Versions of geonew, Python and the libraries that decide the last bits of a sample."""
    versions = {"geonew": __version__, "python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions
