"""``geonew features``: look at what a model sees of a mesh.

``geonew features list FILE`` names the columns with their ranges, the frame and the notes;
``geonew features plot FILE --columns 'hks:*' sdf --out PNG`` draws them. Without ``--problem`` a
generic one is made from the mesh's groups; facets without a group then form the group ``rest``.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from geonew.cli.mesh import add_reading, read_labelled
from geonew.errors import BoundaryDataError, FeatureError
from geonew.mesh import Mesh

if TYPE_CHECKING:
    from geonew.features import MeshFeatures

# What a person wants to see first: the scalars, without their gradients.
DEFAULT_PATTERNS = ("sdf", "harmonic:*", "torsion:*", "data:*", "|data:*", "hks:*")


def register(subparsers: argparse._SubParsersAction) -> None:
    """Add ``features`` and its subcommands."""
    group = subparsers.add_parser("features", help="what a model sees of a mesh")
    actions = group.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="names and ranges of the columns, frame, notes")
    _add_common(listing)
    listing.set_defaults(run=_list)
    plot = actions.add_parser("plot", help="draw columns, one panel each")
    _add_common(plot)
    plot.add_argument(
        "--columns",
        nargs="+",
        metavar="PATTERN",
        help="columns by name or shell pattern, e.g. sdf 'hks:*' (default: all but gradients)",
    )
    plot.add_argument("--out", type=Path, required=True, help="picture to write (.png, .pdf, .svg)")
    plot.add_argument("--overwrite", action="store_true", help="replace an existing picture")
    plot.set_defaults(run=_plot)


def _add_common(command: argparse.ArgumentParser) -> None:
    add_reading(command)
    command.add_argument("--problem", type=Path, metavar="JSON", help="problem declaration")
    command.add_argument(
        "--boundary",
        type=Path,
        metavar="JSON",
        help='boundary data, constants only: {"inlet": {"velocity": [1, 0]}}',
    )
    command.add_argument("--spec", type=Path, metavar="JSON", help="feature settings")


def _list(arguments: argparse.Namespace) -> int:
    print(describe(_features(arguments), str(arguments.mesh)))
    return 0


def _plot(arguments: argparse.Namespace) -> int:
    from geonew.plot.features import plot_features, select_columns

    if arguments.out.exists() and not arguments.overwrite:
        raise FeatureError(f"{arguments.out}: the file exists", "give --overwrite or another name")
    features = _features(arguments)
    if arguments.columns:
        columns = select_columns(features.columns, arguments.columns)
    else:
        known = [p for p in DEFAULT_PATTERNS if _matches(features.columns, p)]
        columns = select_columns(features.columns, known)
    plot_features(features, columns, arguments.out, title=arguments.mesh.name)
    for note in features.notes:
        print(f"note: {note}")
    print(f"wrote {arguments.out}: {len(columns)} panels")
    return 0


def describe(features: MeshFeatures, name: str = "mesh") -> str:
    """What ``geonew features list`` prints."""
    mesh, frame = features.operators.mesh, features.frame
    lines = [f"{name}: {mesh.n_nodes} nodes, {len(features.columns)} features"]
    origin = ", ".join(f"{x:.6g}" for x in frame.origin)
    lines.append(f"  origin ({origin}), reference length {frame.length:.6g}")
    if frame.canonical:
        for number, axis in enumerate(frame.rotation, 1):
            lines.append(f"  axis {number} ({', '.join(f'{x:.6f}' for x in axis)})")
    lines += [f"  note: {note}" for note in features.notes]
    width = max([len(column) for column in features.columns], default=0)
    lines.append(f"  {'column':<{width}}  {'least':>11} {'mean':>11} {'greatest':>11}")
    weight = features.operators.lumped / features.operators.lumped.sum()
    for column, values in zip(features.columns, features.tokens.T, strict=True):
        figures = (values.min(), weight @ values, values.max())
        lines.append(f"  {column:<{width}}  " + " ".join(f"{x:>11.4g}" for x in figures))
    return "\n".join(lines)


def _features(arguments: argparse.Namespace) -> MeshFeatures:
    from dataclasses import replace

    from geonew.features import FeatureSpec, featurise, generic_problem
    from geonew.problem import Problem

    mesh = read_labelled(arguments)
    spec = FeatureSpec()
    if arguments.spec:
        spec = FeatureSpec.from_json(_read(arguments.spec))
    if arguments.problem:
        problem = Problem.load(arguments.problem)
    else:
        mesh = _fully_labelled(mesh)
        problem = generic_problem(mesh, arguments.mesh.stem)
    boundary = _boundary(arguments.boundary) if arguments.boundary else None
    if boundary is None:
        spec = replace(spec, data=False)
    return featurise(mesh, problem, spec, boundary)


def _fully_labelled(mesh: Mesh) -> Mesh:
    free = mesh.boundary_facets[mesh.group_index < 0]
    if len(free) == 0:
        return mesh
    name = "rest"
    while name in mesh.groups:
        name += "_"
    return mesh.with_groups({**mesh.groups, name: free})


def _boundary(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(_read(path))
    except json.JSONDecodeError as error:
        raise BoundaryDataError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(data, dict) or not all(isinstance(v, dict) for v in data.values()):
        raise BoundaryDataError(
            f"{path} is not a mapping group -> field -> value",
            'write for example {"inlet": {"velocity": [1, 0]}, "outlet": {"pressure": 0}}',
        )
    return {
        group: {name: np.asarray(v) if isinstance(v, list) else v for name, v in fields.items()}
        for group, fields in data.items()
    }


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FeatureError(f"cannot read {path}: {error}") from error


def _matches(columns: tuple[str, ...], pattern: str) -> bool:
    from fnmatch import fnmatchcase

    return any(fnmatchcase(column, pattern) for column in columns)
