"""Mesh files of many formats, made from a mesh, for the tests of reading."""

from __future__ import annotations

import contextlib
import io
import struct
import warnings
from pathlib import Path

import meshio
import numpy as np

from geonew.mesh import Mesh

KIND = {2: ("line", "triangle"), 3: ("triangle", "tetra")}


def msh4(mesh: Mesh, binary: bool, loose: bool = False) -> bytes:
    """Version 4.1 as Gmsh writes it, tags sparse; ``loose``: the cells are in no physical group."""
    out = io.BytesIO()

    def ints(*values):
        out.write(struct.pack(f"<{len(values)}i", *values) if binary else text(values))

    def sizes(*values):
        out.write(struct.pack(f"<{len(values)}Q", *values) if binary else text(values))

    def doubles(*values):
        out.write(struct.pack(f"<{len(values)}d", *values) if binary else text(values))

    def text(values):
        return (" ".join(repr(v) for v in values) + " ").encode()

    def line(words):
        out.write(words.encode() + b"\n")

    def close(words):
        line("\n" + words)

    d, names = mesh.dim, list(mesh.groups)
    line(f"$MeshFormat\n4.1 {int(binary)} 8")
    if binary:
        out.write(struct.pack("<i", 1) + b"\n")
    line("$EndMeshFormat\n$PhysicalNames")
    line(f"{len(names) + 1}")
    for k, name in enumerate(names, 1):
        line(f'{d - 1} {k} "{name}"')
    line(f'{d} 1 "fluid"\n$EndPhysicalNames\n$Entities')
    sizes(*[len(names) if dim == d - 1 else 1 if dim == d else 0 for dim in range(4)])
    for k in range(1, len(names) + 1):
        ints(10 * k)
        doubles(*[0.0] * 6)
        sizes(1)
        ints(k)
        sizes(0)
    ints(7)
    doubles(*[0.0] * 6)
    sizes(0 if loose else 1)
    if not loose:
        ints(1)
    sizes(0)
    close("$EndEntities\n$Nodes")
    half = mesh.n_nodes // 2  # two blocks; tags 5, 8, 11, ...
    tags = [5 + 3 * k for k in range(mesh.n_nodes)]
    sizes(2, mesh.n_nodes, tags[0], tags[-1])
    for start, end in ((0, half), (half, mesh.n_nodes)):
        ints(d, 7, 0)
        sizes(end - start)
        sizes(*tags[start:end])
        for point in mesh.points[start:end].tolist():
            doubles(*point, *[0.0] * (3 - d))
    close("$EndNodes\n$Elements")
    total = mesh.n_cells + sum(map(len, mesh.groups.values()))
    sizes(len(names) + 1, total, 1, total)
    number = 0
    facets = [(d - 1, 10 * k, f) for k, f in enumerate(mesh.groups.values(), 1)]
    for dim, tag, table in [*facets, (d, 7, mesh.cells)]:
        ints(dim, tag, {1: 1, 2: 2, 3: 4}[dim])
        sizes(len(table))
        for row in table.tolist():
            number += 1
            sizes(number, *[tags[node] for node in row])
    close("$EndElements")
    return out.getvalue()


def by_meshio(mesh: Mesh, path: Path, file_format: str, data: str = "tags", **options) -> None:
    """The mesh in one of meshio's formats, groups as integer data on the facets."""
    tables = list(mesh.groups.values())
    tags = np.repeat(np.arange(1, len(tables) + 1), [len(t) for t in tables]).astype(np.int32)
    facet, cell = KIND[mesh.dim]
    points = np.zeros((mesh.n_nodes, 3))
    points[:, : mesh.dim] = mesh.points
    cells: list = [(facet, np.concatenate(tables)), (cell, mesh.cells)]
    arrays = [tags, np.full(mesh.n_cells, len(tables) + 1, dtype=np.int32)]
    cell_data: dict = {data: arrays}
    if file_format == "gmsh22":
        cell_data = {"gmsh:physical": arrays, "gmsh:geometrical": arrays}
    with contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        meshio.Mesh(points, cells, cell_data=cell_data).write(path, file_format, **options)


def inp(mesh: Mesh) -> str:
    """Abaqus: one surface of element faces, one node set, the rest facet elements."""
    kind = {2: "CPS3", 3: "C3D4"}[mesh.dim]
    faces = {2: [(0, 1), (1, 2), (2, 0)], 3: [(0, 1, 2), (0, 3, 1), (1, 3, 2), (2, 3, 0)]}[mesh.dim]
    lines = ["*HEADING", "a part", "** comment", "*NODE, NSET=Nall"]
    lines += [
        f"{10 * k + 1}, " + ", ".join(repr(x) for x in p)
        for k, p in enumerate(mesh.points.tolist())
    ]
    lines.append(f"*Element, type={kind}, elset=Eall")
    for k, cell in enumerate(mesh.cells.tolist(), 1):
        lines.append(", ".join(map(str, [k, *(10 * n + 1 for n in cell)])))
    names = list(mesh.groups)
    lines.append(f"*SURFACE, TYPE=ELEMENT, NAME={names[0]}")
    wanted = {tuple(sorted(f)) for f in mesh.groups[names[0]].tolist()}
    for k, cell in enumerate(mesh.cells.tolist(), 1):
        for s, face in enumerate(faces, 1):
            if tuple(sorted(cell[c] for c in face)) in wanted:
                lines.append(f"{k}, S{s}")
    lines.append(f"*NSET, NSET={names[1]}")
    lines += [f"{10 * n + 1}," for n in mesh.nodes_of(names[1]).tolist()]
    number = mesh.n_cells
    for name in names[2:]:
        lines.append(f"*ELEMENT, TYPE={'T2D2' if mesh.dim == 2 else 'S3'}, ELSET={name}")
        for facet in mesh.groups[name].tolist():
            number += 1
            lines.append(", ".join(map(str, [number, *(10 * n + 1 for n in facet)])))
    return "\n".join([*lines, "*STEP", "*END STEP", ""])


def bdf(mesh: Mesh) -> str:
    """Nastran, free of marks at both ends; groups by property number."""
    lines = ["$ bulk data only"]
    for k, point in enumerate(mesh.points.tolist(), 1):
        x = [*point, 0.0][:3]
        lines.append(f"GRID    {k:8d}{'':8}" + "".join(f"{v:8.5f}" for v in x))
    number = 0
    kinds = ("CROD", "CTRIA3") if mesh.dim == 2 else ("CTRIA3", "CTETRA")
    tables = [(kinds[0], k, t) for k, t in enumerate(mesh.groups.values(), 1)]
    for kind, prop, table in [*tables, (kinds[1], 99, mesh.cells)]:
        for row in table.tolist():
            number += 1
            lines.append(f"{kind:8}{number:8d}{prop:8d}" + "".join(f"{n + 1:8d}" for n in row))
    return "\n".join(lines) + "\n"
