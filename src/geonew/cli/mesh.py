"""``geonew mesh``: look at meshes.

``geonew mesh info FILE`` says what a mesh is, what was repaired and how good its cells are;
``geonew mesh plot FILE --out PNG`` draws it; ``geonew mesh convert FILE OUT`` writes the repaired
and labelled mesh; ``geonew mesh make FILE --size H --out OUT`` meshes a geometry file. Further
subcommands are added to :data:`SUBCOMMANDS`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np

from geonew.errors import MeshError, MeshFileError
from geonew.mesh import Mesh, boundary_components, mesh_quality, read_mesh, write_mesh
from geonew.mesh.labels import SYNTAX, parse_rules

BAR = 40  # characters of the longest bar of the histogram


def register(subparsers: argparse._SubParsersAction) -> None:
    """Add ``mesh`` and its subcommands."""
    group = subparsers.add_parser("mesh", help="look at, draw and convert meshes")
    actions = group.add_subparsers(dest="action", required=True, metavar="ACTION")
    for add in SUBCOMMANDS:
        add(actions)


def _add_info(actions: argparse._SubParsersAction) -> None:
    info = actions.add_parser("info", help="sizes, groups, quality, repairs")
    add_reading(info)
    info.set_defaults(run=_info)


def _add_plot(actions: argparse._SubParsersAction) -> None:
    plot = actions.add_parser("plot", help="draw the mesh with its groups")
    add_reading(plot)
    plot.add_argument("--out", type=Path, required=True, help="picture to write (.png, .pdf, .svg)")
    plot.add_argument("--overwrite", action="store_true", help="replace an existing picture")
    plot.set_defaults(run=_plot)


def _add_convert(actions: argparse._SubParsersAction) -> None:
    convert = actions.add_parser("convert", help="write the repaired, labelled mesh")
    add_reading(convert)
    convert.add_argument("out", type=Path, metavar="OUT", help="mesh to write (.vtu or .msh)")
    convert.add_argument("--overwrite", action="store_true", help="replace an existing file")
    convert.set_defaults(run=_convert)


def _add_make(actions: argparse._SubParsersAction) -> None:
    make = actions.add_parser("make", help="mesh a geometry (.geo, .step, .brep, .stl)")
    make.add_argument("geometry", type=Path, metavar="FILE", help="geometry file")
    make.add_argument("--out", type=Path, required=True, help="mesh to write (.vtu or .msh)")
    make.add_argument("--size", type=float, help="largest cell size (default: as the file says)")
    make.add_argument("--dim", type=int, choices=[2, 3], help="default: 3 if there are volumes")
    make.add_argument(
        "--keep", choices=["largest"], help="of several unconnected parts keep the largest"
    )
    make.add_argument("--overwrite", action="store_true", help="replace an existing file")
    make.set_defaults(run=_make)


SUBCOMMANDS: list[Callable[[argparse._SubParsersAction], None]] = [
    _add_info,
    _add_plot,
    _add_convert,
    _add_make,
]


# -- reading, for every command that takes a mesh ----------------------------------------------


def add_reading(command: argparse.ArgumentParser) -> None:
    """Add the arguments of :func:`read_labelled`."""
    command.add_argument("mesh", type=Path, metavar="FILE", help="mesh file")
    command.add_argument(
        "--label", action="append", default=[], metavar="NAME=RULE", help=f"name facets; {SYNTAX}"
    )
    command.add_argument(
        "--rename", action="append", default=[], metavar="OLD=NEW", help="an empty NEW drops it"
    )
    command.add_argument(
        "--keep", choices=["largest"], help="of several unconnected parts keep the largest"
    )
    command.add_argument(
        "--merge",
        choices=["parts", "all", "none"],
        default="parts",
        help="which coinciding nodes are one: those joining unconnected parts, all (closes "
        "cracks), none (default: %(default)s)",
    )


def read_labelled(arguments: argparse.Namespace) -> Mesh:
    """The mesh that the arguments of :func:`add_reading` describe."""
    rename: dict[str, str | None] = {}
    for text in arguments.rename:
        old, equals, new = text.partition("=")
        if not equals or not old:
            raise MeshError(f"--rename {text!r} is not understood", "write OLD=NEW")
        rename[old] = new or None
    rules = parse_rules(arguments.label)
    return read_mesh(arguments.mesh, rules, arguments.keep, rename, arguments.merge)


# -- the subcommands ---------------------------------------------------------------------------


def _info(arguments: argparse.Namespace) -> int:
    print(describe(read_labelled(arguments), str(arguments.mesh)))
    return 0


def _plot(arguments: argparse.Namespace) -> int:
    from geonew.plot.mesh import plot_mesh  # matplotlib takes a while to import

    mesh = read_labelled(arguments)
    if arguments.out.exists() and not arguments.overwrite:
        raise MeshFileError(f"{arguments.out}: the file exists", "give --overwrite or another name")
    plot_mesh(mesh, arguments.out, title=arguments.mesh.name)
    print(f"wrote {arguments.out}")
    return 0


def _convert(arguments: argparse.Namespace) -> int:
    mesh = read_labelled(arguments)
    write_mesh(arguments.out, mesh, overwrite=arguments.overwrite)
    print(f"wrote {arguments.out}: {mesh}")
    return 0


def _make(arguments: argparse.Namespace) -> int:
    from geonew.shape import make_mesh

    mesh = make_mesh(arguments.geometry, arguments.size, arguments.dim, keep=arguments.keep)
    write_mesh(arguments.out, mesh, overwrite=arguments.overwrite)
    for note in mesh.notes:
        print(f"note: {note}")
    print(f"wrote {arguments.out}: {mesh}")
    return 0


def describe(mesh: Mesh, name: str = "mesh") -> str:
    """What ``geonew mesh info`` prints."""
    quality = mesh_quality(mesh)
    what, content = ("length", "area") if mesh.dim == 2 else ("area", "volume")
    lines = [
        f"{name}: {mesh.dim}D, {mesh.n_nodes} nodes, {mesh.n_cells} "
        + ("triangles" if mesh.dim == 2 else "tetrahedra"),
        f"  extent    {_box(mesh.points)}",
        f"  {content:<9} {mesh.volume:.6g}",
        f"  edges     {quality.shortest_edge:.4g} to {quality.longest_edge:.4g}, "
        f"mean {quality.mean_edge:.4g}",
        f"  boundary  {len(mesh.boundary_facets)} facets, "
        f"{len(boundary_components(mesh))} connected components",
        "  groups",
    ]
    measure = np.linalg.norm(mesh.boundary_normals, axis=1)
    width = max([len(group) for group in mesh.groups], default=0)
    for number, (group, facets) in enumerate(mesh.groups.items()):
        total = measure[mesh.group_index == number].sum()
        box = _box(mesh.points[np.unique(facets)])
        lines.append(f"    {group:<{width}}  {len(facets)} facets, {what} {total:.6g}, {box}")
    free = mesh.group_index < 0
    if free.any():
        lines.append(f"    (no group)  {int(free.sum())} facets, {what} {measure[free].sum():.6g}")
    lines.append(
        f"  quality   worst {quality.quality.min():.3g}, mean {quality.quality.mean():.3g}, "
        f"smallest angle {quality.smallest_angle.min():.3g} degrees"
    )
    for lower, upper, count in quality.histogram():
        bar = "#" * int(np.ceil(BAR * count / mesh.n_cells))
        lines.append(f"    {lower:.1f} to {upper:.1f} {count:>8} {bar}")
    lines.append("  repaired  " + ("nothing" if not mesh.notes else ""))
    lines += [f"    {note}" for note in mesh.notes]
    return "\n".join(line.rstrip() for line in lines)


def _box(points: np.ndarray) -> str:
    pairs = zip(points.min(axis=0), points.max(axis=0), strict=True)
    return " x ".join(f"[{low:.6g}, {high:.6g}]" for low, high in pairs)
