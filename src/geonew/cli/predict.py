"""``geonew predict MODEL MESH``: fields on a mesh, with certificate, error bands and a summary.

``geonew predict ns2d-c++ channel.msh`` takes the family's own boundary values;
``--group inlet=2 --boundary inlet.velocity="4*y*(1-y),0"`` renames a group and gives its values;
``--compare`` solves the reference problem on the same mesh.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from geonew.cli.mesh import add_reading, read_labelled
from geonew.errors import InputError

if TYPE_CHECKING:
    from geonew.mesh import Mesh
    from geonew.model.geonew import GeoNeW

SUFFIXES = (".vtu", ".vtk")
NOT_CONVERGED = 1


def register(subparsers: argparse._SubParsersAction) -> None:
    """Add ``predict``."""
    command = subparsers.add_parser("predict", help="predict fields on a mesh")
    command.add_argument(
        "model", metavar="MODEL", help="name of a shipped model, or a checkpoint file"
    )
    add_reading(command)
    command.add_argument(
        "--group",
        action="append",
        default=[],
        metavar="NAME=GROUP",
        help="the mesh's GROUP (or several, 3,4) is the model's NAME (may be repeated)",
    )
    command.add_argument(
        "--boundary",
        action="append",
        default=[],
        metavar="GROUP.FIELD=VALUE",
        help="boundary values: numbers, formulas of x, y, z separated by commas, or a CSV file of "
        "coordinates and values (may be repeated)",
    )
    command.add_argument(
        "--flux",
        action="append",
        default=[],
        metavar="GROUP.FIELD=VALUE",
        help="flux or traction through a group (may be repeated)",
    )
    command.add_argument(
        "--parameter", action="append", default=[], metavar="NAME=VALUE", help="may be repeated"
    )
    command.add_argument(
        "--source", action="append", default=[], metavar="FIELD=VALUE", help="may be repeated"
    )
    sizes = command.add_mutually_exclusive_group()
    sizes.add_argument("--unit", help="unit of the mesh's coordinates (mm, cm, m, in, ...)")
    sizes.add_argument("--scale", type=float, help="factor to the model's lengths")
    command.add_argument(
        "--any-size", action="store_true", help="sizes far from all training sizes too"
    )
    command.add_argument(
        "--out", type=Path, metavar="FILE", help=".vtu or .vtk (default: MESH-prediction.vtu)"
    )
    command.add_argument("--png", type=Path, help="picture (default: OUT with .png)")
    command.add_argument("--no-png", action="store_true", help="no picture")
    command.add_argument("--json", type=Path, metavar="FILE", help="write the summary as JSON too")
    command.add_argument("--overwrite", action="store_true", help="replace existing files")
    command.add_argument(
        "--compare", action="store_true", help="solve the reference problem as well"
    )
    command.set_defaults(run=_predict, loads=("torch",))


def _predict(arguments: argparse.Namespace) -> int:
    from geonew import weights  # torch only when something is predicted
    from geonew.inference.answer import compare, predict
    from geonew.inference.words import boundary, named

    out, png = _outputs(arguments)
    model = weights.load(arguments.model)
    mesh = _mesh(arguments, model)
    problem = model.problem
    widths = {p.name: problem.dim if p.rank == "vector" else 1 for p in problem.parameters}
    sources = {name: problem.width(name) for name in problem.sources}
    answer = predict(
        model,
        mesh,
        boundary(arguments.boundary, problem, mesh),
        parameters=named(arguments.parameter, widths, mesh.dim, "--parameter"),
        source=named(arguments.source, sources, mesh.dim, "--source"),
        neumann=boundary(arguments.flux, problem, mesh, "--flux"),
        any_size=arguments.any_size,
    )
    answer.write(out, overwrite=arguments.overwrite)
    print(f"{problem.name} on {arguments.mesh}: {mesh.n_nodes} nodes, {answer.seconds:.2f} s")
    print(answer.summary())
    document = answer.to_dict()
    if arguments.compare:
        found = compare(answer)
        print(found)
        document["comparison"] = {
            "method": found.reference.method,
            "seconds": found.reference.seconds,
            "errors": dict(found.errors),
            "speed_up": found.speed_up,
        }
    if png is not None:
        answer.plot(png)
    if arguments.json is not None:
        _write_text(arguments.json, json.dumps(document, indent=2) + "\n")
    written = [str(path) for path in (out, png, arguments.json) if path is not None]
    print(f"wrote {', '.join(written)}")
    return 0 if answer.certificate.converged else NOT_CONVERGED


def _outputs(arguments: argparse.Namespace) -> tuple[Path, Path | None]:
    """Names of the files, all of which can be written."""
    from geonew.inference.words import check_writable

    out = arguments.out or Path(f"{arguments.mesh.stem}-prediction.vtu")
    if out.suffix.lower() not in SUFFIXES:
        raise InputError(f"--out {out} is no .vtu or .vtk file", "choose one of these extensions")
    png = None if arguments.no_png else arguments.png or out.with_suffix(".png")
    for path in (out, png, arguments.json):
        if path is not None:
            check_writable(path, arguments.overwrite)
    return out, png


def _mesh(arguments: argparse.Namespace, model: GeoNeW) -> Mesh:
    """The mesh in the model's unit of length, with its groups' names."""
    import numpy as np

    from geonew.data.families import FAMILIES
    from geonew.inference.ranges import unit_factor
    from geonew.inference.words import with_groups

    mesh = with_groups(read_labelled(arguments), arguments.group)
    factor = arguments.scale
    if arguments.unit is not None:
        known = FAMILIES.get(model.problem.name)
        factor = unit_factor(arguments.unit, "" if known is None else known.units["length"])
    if factor is None:
        return mesh
    if not 0 < factor < float("inf"):
        raise InputError(f"--scale is {factor}", "give a positive number")
    print(f"coordinates times {factor:g}: results, x, y and z are in the model's unit")
    return mesh.moved(np.eye(mesh.dim), np.zeros(mesh.dim), 1 / factor)


def _write_text(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"cannot write {path}: {error.strerror}", "check the folder, its rights and its space"
        ) from error
