r"""What a data set contains, in a few numbers that can be committed and compared.

Three things: ``content``, a hash over the samples' own hashes in sorted order, so that neither
their order nor the file's layout matters; the number of nodes; the root mean square of every field,

.. math:: |u| = \Big( \sum_k \sum_i u_{k,i}^2 \Big/ \sum_k N_k \Big)^{1/2} .

Solutions, and sines and cosines of what was drawn, differ in their last bits between processors and
versions of BLAS. So equal content is best; as many nodes, with fields equal to round-off, are the
same data set.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import numpy as np

from geonew.data.columns import column_parts, content_digest
from geonew.data.store import DataSet
from geonew.errors import DataError

HASHES = "hashes.json"
# Fields of the same cases on the same meshes agree to this, on every machine.
ROUND_OFF = 1e-8

Verdict = Literal["identical", "equal to round-off", "different", "unknown"]


@dataclass(frozen=True)
class Fingerprint:
    """See the module docstring.

    Args:
        samples: how many.
        nodes: of all meshes together.
        content: hash over everything that a sample is.
        norms: field -> root mean square over all nodes.

    """

    samples: int
    nodes: int
    content: str
    norms: Mapping[str, float]

    def compare(self, known: Fingerprint | None) -> Verdict:
        """How this data set relates to a known one."""
        if known is None:
            return "unknown"
        if self.content == known.content:
            return "identical"
        same = (self.samples, self.nodes, set(self.norms)) == (
            known.samples, known.nodes, set(known.norms),
        )  # fmt: skip
        close = same and all(
            math.isclose(self.norms[name], known.norms[name], rel_tol=ROUND_OFF, abs_tol=1e-300)
            for name in self.norms
        )
        return "equal to round-off" if close else "different"


def fingerprint(dataset: DataSet) -> Fingerprint:
    """Read a data set through and describe what it holds."""
    contents, nodes = [], 0
    squares: dict[str, float] = {}
    for index in range(len(dataset)):
        columns = dataset.columns(index)
        contents.append(content_digest(columns))
        nodes += len(columns["points"])
        for name, values in columns.items():
            kind, *names = column_parts(name)
            if kind == "field":
                squares[names[0]] = squares.get(names[0], 0.0) + float(np.square(values).sum())
    norms = {name: math.sqrt(total / nodes) for name, total in sorted(squares.items())}
    return Fingerprint(len(dataset), nodes, _joint(contents), norms)


def hash_key(origin: Mapping[str, Any], samples: int) -> str:
    """Name of a generated file among the committed hashes; empty for an imported one."""
    if origin.get("kind") != "generated":
        return ""
    parts = [origin["family"], origin["split"], origin["level"], f"seed {origin['seed']}"]
    if origin["axis"] is not None:
        name, values = origin["axis"]
        parts.append(f"{name} {','.join(f'{value:g}' for value in values)}")
    parts += ["swapped"] if origin["swap"] else []
    return "/".join([*parts, f"{samples} samples"])


def known_fingerprints(path: Path | None = None) -> dict[str, Fingerprint]:
    """The committed fingerprints, or those of another file."""
    source = path or resources.files("geonew.data").joinpath(HASHES)
    try:
        raw = json.loads(source.read_text(encoding="utf-8"))
        return {key: Fingerprint(**entry) for key, entry in raw.items()}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise DataError(f"the file of hashes {source} cannot be read: {error}") from error


def record_fingerprints(path: Path, found: Mapping[str, Fingerprint]) -> None:
    """Add fingerprints to a file of hashes."""
    known = known_fingerprints(path) if path.exists() else {}
    raw = {key: asdict(entry) for key, entry in sorted({**known, **found}.items())}
    try:
        path.write_text(json.dumps(raw, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror}") from error


def _joint(digests: list[bytes]) -> str:
    return hashlib.sha256(b"".join(sorted(digests))).hexdigest()
