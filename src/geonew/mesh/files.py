r"""Meshes from and to files: the only module that knows meshio.

``read_mesh`` reads Gmsh ``.msh`` (2.2, 4.1), ``.vtu``, ``.vtk``, ``.xdmf``, Abaqus ``.inp``,
Nastran ``.bdf`` and whatever else meshio reads; ``write_mesh`` writes ``.vtu``, ``.vtk`` and
``.msh``. What is written is read back bit for bit: coordinates, order of nodes and cells, groups
and their order.

Group names come, in this order, from named element sets (physical names, surfaces), arrays
``group:NAME`` (:mod:`geonew.mesh.vtu`), integer data on the facets (``group_<number>``; 0 and
negative numbers mean none), and node sets (a facet belongs to one when all its nodes do).

A file is never trusted: content is compared with the extension, announced counts with the size of
the file, and whatever a reader raises or prints becomes a :class:`MeshFileError` or a note.
"""

from __future__ import annotations

import io
import os
import re
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import meshio
import numpy as np
from numpy import ndarray
from scipy.spatial import KDTree

from geonew.errors import GroupError, MeshError, MeshFileError
from geonew.mesh.inp import read_inp
from geonew.mesh.labels import Rule, label, unlabelled
from geonew.mesh.mesh import Mesh
from geonew.mesh.msh import msh_bytes, read_msh
from geonew.mesh.repair import SAME_PLACE, RawMesh, clean
from geonew.mesh.split import DIMENSION, shape_of
from geonew.mesh.vtk import vtk_bytes
from geonew.mesh.vtu import GROUP_ARRAY, GROUP_PREFIX, vtu_bytes

WRITABLE = (".vtu", ".vtk", ".msh")
# A whole number in a mesh file counts or numbers something that the file holds. Numbering may be
# sparse, so small files may use large numbers, but not larger than this, nor than this per byte.
LARGEST_NUMBER = 10_000_000
LARGEST_NUMBER_PER_BYTE = 64
# How much of a binary file is searched for text that announces counts.
HEADER_BYTES = 4096
# Some of meshio's readers wait for a keyword and never look for the end of the file.
READS_AFTER_END = 1000
# Integer data on facets that mean groups, best first; other integer arrays come after these.
TAG_ARRAYS = ("gmsh:physical", "medit:ref", "nastran:ref", "tetgen:ref", "su2:tag", "cell_tags")
TAG_ARRAYS += ("CellEntityIds", GROUP_ARRAY, "physical", "boundary", "marker", "markers", "patch")
# Numbering without meaning for the boundary.
_NOT_TAGS = ("gmsh:geometrical", "vtkOriginalCellIds", "GlobalElementId", "vtkGhostType")
# meshio's text readers that take an open file: they get one that cannot be read for ever.
_TEXT = ("nastran", "obj", "avsucd", "netgen", "tecplot", "permas", "wkt")
# meshio's readers of these loop for ever on damaged files; they hold surfaces or are rare.
_REFUSED = (".node", ".ele", ".wkt", ".mdpa", ".ply", ".off", ".f3grid", ".svg")
_HDF5 = (".med", ".cgns", ".h5m", ".hmf", ".e", ".exo", ".ex2")
# Each family of files, how it is recognised, and the extensions it may have.
_SIGNATURES = (
    ("Gmsh", re.compile(rb"\$MeshFormat"), (".msh",)),
    ("VTK XML", re.compile(rb"<VTKFile"), (".vtu",)),
    ("legacy VTK", re.compile(rb"\A# vtk DataFile", re.IGNORECASE), (".vtk",)),
    ("XDMF", re.compile(rb"<Xdmf"), (".xdmf", ".xmf")),
    ("Abaqus", re.compile(rb"^\s*\*(?:NODE|HEADING)\b", re.I | re.M), (".inp",)),
    ("Nastran", re.compile(rb"^(?:BEGIN BULK|GRID[\s*,])", re.M), (".bdf", ".nas", ".fem")),
    ("HDF5", re.compile(rb"\A\x89HDF"), (".med", ".cgns", ".h5m", ".hmf", ".e", ".exo", ".ex2")),
    ("Fluent", re.compile(rb"\A\s*\(0 "), (".cas",)),
    ("Medit", re.compile(rb"^\s*MeshVersionFormatted", re.M), (".mesh",)),
)
_one_reader = threading.Lock()  # redirecting output and warnings concerns the whole process


def read_mesh(
    path: str | os.PathLike[str],
    labels: Mapping[str, Rule] | None = None,
    keep: str | None = None,
    rename: Mapping[str, str | None] | None = None,
    merge: str = "parts",
) -> Mesh:
    """Read, repair and label a mesh.

    Args:
        path: the file; its extension says the format.
        labels: rules that name boundary facets (:mod:`geonew.mesh.labels`), before its own groups.
        keep: ``"largest"`` keeps the largest of several unconnected parts.
        rename: ``{old: new}`` for groups; equal new names join groups, ``None`` drops one.
        merge: which coinciding nodes are merged (:mod:`geonew.mesh.repair`).

    """
    path = Path(path)
    with _one_reader, _naming(path), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        raw = _renamed(_read_raw(path), rename or {})
        mesh = clean(raw, keep, merge)
    with _naming(path):
        if labels:
            mesh = label(mesh, labels)
        if not mesh.groups:
            raise unlabelled(mesh, "the file")
    return mesh


def read_fields(path: str | os.PathLike[str], mesh: Mesh) -> dict[str, ndarray]:
    """Point data of a file on the nodes of the mesh that was read from it.

    Args:
        path: the file, such as ``.vtu`` or ``.msh``.
        mesh: what :func:`read_mesh` made of it; nodes are found by their place where repair has
            dropped or merged some.

    """
    path = Path(path)
    with _one_reader, _naming(path), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = _content(path)
        try:
            if path.suffix.lower() != ".msh":  # Gmsh's binary files hold any number
                _check_numbers(data)
            found, _ = _meshio_mesh(path, data)
            raw = {str(name): np.asarray(values) for name, values in found.point_data.items()}
            rows = _rows_of(mesh, np.asarray(found.points, dtype=float))
            return {name: values[rows] for name, values in raw.items()}
        except MeshError:
            raise
        except (Exception, SystemExit) as error:
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            raise MeshFileError(f"its data cannot be read: {reason}", _DAMAGED) from error


def _rows_of(mesh: Mesh, points: ndarray) -> ndarray:
    """For each node of the mesh, its row among the points of the file."""
    if points.ndim != 2 or points.shape[1] < mesh.dim:
        raise MeshFileError(f"the points form a table of shape {points.shape}", _DAMAGED)
    places = points[:, : mesh.dim]
    if np.array_equal(places, mesh.points):
        return np.arange(mesh.n_nodes)
    size = float(np.ptp(mesh.points, axis=0).max())
    if len(KDTree(mesh.points).query_pairs(SAME_PLACE * size)):
        raise MeshFileError(
            "some nodes coincide (the faces of a crack) and others were dropped, so data cannot "
            "be told apart",
            "export a mesh of triangles or tetrahedra without unused nodes",
        )
    finite = np.flatnonzero(np.isfinite(places).all(axis=1))
    distance, nearest = KDTree(places[finite]).query(mesh.points)
    if distance.max() > SAME_PLACE * size:
        raise MeshFileError("the mesh was not read from this file", "read it again")
    return finite[nearest]


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Put the name of the file before the message of every error."""
    try:
        yield
    except MeshError as error:
        if error.what.startswith(str(path)):
            raise
        raise type(error)(f"{path}: {error.what}", error.cure) from error


# -- reading -----------------------------------------------------------------------------------


def _read_raw(path: Path) -> RawMesh:
    data = _content(path)
    suffix = path.suffix.lower()
    try:
        if suffix == ".msh":
            return read_msh(data)
        if suffix == ".inp":
            return read_inp(data)
        _check_numbers(data)
        return _read_meshio(path, data)
    except MeshError:
        raise
    except MemoryError as error:
        raise MeshFileError("the file asks for more memory than there is", _DAMAGED) from error
    except (Exception, SystemExit) as error:  # meshio ends the program on bad input
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise MeshFileError(f"cannot be read as {suffix}: {reason}", _DAMAGED) from error


_DAMAGED = "the file is damaged, truncated or of a variant that is not supported; export it again"


def _content(path: Path) -> bytes:
    """The bytes of the file (the first ones of HDF5 files), after looking at what it is."""
    suffix = path.suffix.lower()
    known = sorted({*meshio.extension_to_filetypes} - {*_REFUSED})
    if not path.exists():
        raise MeshFileError("there is no such file", "check the path")
    if path.is_dir():
        raise MeshFileError("is a directory, not a mesh file", "give the file inside it")
    if not path.is_file():
        raise MeshFileError("is not a regular file", "copy the mesh to a file")
    if not any(path.name.lower().endswith(extension) for extension in known):
        raise MeshFileError(
            f"the extension {suffix!r} is not that of a mesh format that is read",
            f"convert it to one of {', '.join(known)}",
        )
    try:
        with path.open("rb") as stream:
            data = stream.read(HEADER_BYTES if suffix in _HDF5 else -1)
    except OSError as error:
        raise MeshFileError(f"cannot be opened: {error.strerror}", "check its rights") from error
    if not data.strip():
        raise MeshFileError("the file is empty", "export the mesh again")
    for family, signature, extensions in _SIGNATURES:
        if suffix in extensions and signature.search(data) is None:
            other = [
                f for f, s, e in _SIGNATURES if suffix not in e and s.search(data[:HEADER_BYTES])
            ]
            raise MeshFileError(
                f"does not look like a {family} file"
                + (f", but like a {other[0]} file" if other else ""),
                "give the file the extension of its format, or export it again",
            )
    return data


def _check_numbers(data: bytes) -> None:
    """Refuse files that announce more than they can hold, before a reader believes them."""
    text = data if b"\0" not in data else data[:HEADER_BYTES]
    most = max(LARGEST_NUMBER, LARGEST_NUMBER_PER_BYTE * len(data))
    for found in re.finditer(rb"(?<![\w.+-])\+?(\d{8,})(?![\w.])", text):
        if int(found[1][:30]) > most:
            raise MeshFileError(
                f"the file has {len(data)} bytes and announces or uses the number "
                f"{found[1][:30].decode()}",
                _DAMAGED,
            )
    grid = re.search(rb"^DIMENSIONS\s+(\d+)\s+(\d+)\s+(\d+)", text, re.M)
    if grid and np.prod([float(n) for n in grid.groups()]) > most:
        raise MeshFileError("announces a grid larger than the file could describe", _DAMAGED)


class _FiniteText(io.StringIO):
    """Text that ends: reading on and on after the end raises."""

    name = "mesh"
    reads_left = READS_AFTER_END

    def readline(self, size: int | None = -1, /) -> str:
        line = super().readline(-1 if size is None else size)
        self.reads_left -= not line
        if self.reads_left < 0:
            raise EOFError("the file ends too early")
        return line


def _read_meshio(path: Path, data: bytes) -> RawMesh:
    return _raw_of(*_meshio_mesh(path, data))


def _meshio_mesh(path: Path, data: bytes) -> tuple[meshio.Mesh, tuple[str, ...]]:
    """What meshio makes of a file, and what it says meanwhile."""
    formats = [
        name
        for extension, names in meshio.extension_to_filetypes.items()
        for name in names
        if path.name.lower().endswith(extension)
    ]
    if path.suffix.lower() == ".dat" and _SIGNATURES[5][1].search(data):
        formats = ["nastran"]
    if path.suffix.lower() == ".msh":  # whose extension Ansys has too
        formats = ["gmsh"]
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        if formats[0] in _TEXT and path.suffix.lower() != ".gz":
            text = data.decode("utf-8", "replace")
            text = _bulk(text) if formats[0] == "nastran" else text
            found = meshio.read(_FiniteText(text, newline=None), formats[0])
        else:
            found = meshio.read(path, formats[0])
    notes = tuple(
        f"meshio: {line.strip()}" for line in said.getvalue().splitlines() if line.strip()
    )
    return found, notes


def _bulk(text: str) -> str:
    """Nastran's bulk data with the marks at both ends that meshio waits for."""
    begun = re.search(r"^\s*BEGIN BULK", text, re.M)
    ended = re.search(r"^ENDDATA", text, re.M)
    if begun and not ended:
        raise MeshFileError("the bulk data have no ENDDATA", "the file is truncated; export again")
    return text if begun else f"BEGIN BULK\n{text}\n{'' if ended else 'ENDDATA'}\n"


# -- groups ------------------------------------------------------------------------------------


def _raw_of(found: meshio.Mesh, notes: tuple[str, ...]) -> RawMesh:
    points = np.asarray(found.points, dtype=float)
    if points.ndim != 2 or not 1 <= points.shape[1] <= 3:
        raise MeshFileError(f"the points form a table of shape {points.shape}", _DAMAGED)
    cells = [(block.type, np.asarray(block.data)) for block in found.cells]
    groups: dict[str, list[tuple[str, ndarray]]] = {}
    for name, members in found.cell_sets.items():
        if name.startswith("gmsh:"):
            continue
        for (kind, nodes), mine in zip(cells, members, strict=False):
            if mine is not None and np.size(mine):
                groups.setdefault(name, []).append((kind, nodes[np.asarray(mine)]))
    if not groups:
        data = {name: [np.asarray(a) for a in arrays] for name, arrays in found.cell_data.items()}
        groups = _groups_from_data(cells, data)
    node_groups = {name: np.asarray(nodes) for name, nodes in found.point_sets.items()}
    return RawMesh(points, cells, groups, node_groups, notes)


def _groups_from_data(
    cells: Sequence[tuple[str, ndarray]], cell_data: Mapping[str, Sequence[ndarray]]
) -> dict[str, list[tuple[str, ndarray]]]:
    """Groups from cell arrays: ``group:NAME`` indicators, else the best array of integers."""
    shapes = [shape_of(kind, nodes)[0] if len(nodes) else "vertex" for kind, nodes in cells]
    dim = max((DIMENSION[shape] for shape in shapes), default=0)
    facets = [k for k, shape in enumerate(shapes) if DIMENSION[shape] == dim - 1]
    facets = [k for k in facets if len(cells[k][1])]
    groups: dict[str, list[tuple[str, ndarray]]] = {}
    for name, arrays in cell_data.items():
        if not name.startswith(GROUP_PREFIX):
            continue
        for k in facets:
            mine = np.asarray(arrays[k]).ravel() == 1
            if mine.any():
                block = (cells[k][0], cells[k][1][mine])
                groups.setdefault(name[len(GROUP_PREFIX) :], []).append(block)
    if groups:
        return groups
    known = [name for name in TAG_ARRAYS if name in cell_data]
    known += [name for name in cell_data if name not in known and name not in _NOT_TAGS]
    for name in known:
        tags = [np.asarray(cell_data[name][k]) for k in facets]
        whole = all(t.ndim == 1 and t.dtype.kind in "iuf" and (t == np.rint(t)).all() for t in tags)
        named = name in TAG_ARRAYS or all(t.dtype.kind in "iu" for t in tags)
        if not (whole and named and any((t > 0).any() for t in tags)):
            continue
        for value in np.unique(np.concatenate(tags)):
            if value > 0:
                groups[f"group_{int(value)}"] = [
                    (cells[k][0], cells[k][1][t == value])
                    for k, t in zip(facets, tags, strict=True)
                ]
        return groups
    return groups


def _renamed(raw: RawMesh, names: Mapping[str, str | None]) -> RawMesh:
    """Groups under new names, before overlaps are looked at: dropping one may cure them."""
    known = [*raw.groups, *raw.node_groups]
    for old in names:
        if old not in known:
            raise GroupError(
                f"there is no group {old!r} to rename; there are {sorted(known)}",
                "use one of these names",
            )
    groups: dict[str, list[tuple[str, ndarray]]] = {}
    for name, blocks in raw.groups.items():
        if (new := names.get(name, name)) is not None:
            groups.setdefault(new, []).extend(blocks)
    node_groups: dict[str, ndarray] = {}
    for name, nodes in raw.node_groups.items():
        if (new := names.get(name, name)) is not None:
            node_groups[new] = np.concatenate([node_groups.get(new, nodes[:0]), nodes])
    return RawMesh(raw.points, raw.cells, groups, node_groups, raw.notes)


# -- writing -----------------------------------------------------------------------------------


def write_mesh(
    path: str | os.PathLike[str],
    mesh: Mesh,
    point_data: Mapping[str, ndarray] | None = None,
    cell_data: Mapping[str, ndarray] | None = None,
    field_data: Mapping[str, ndarray | float | int] | None = None,
    overwrite: bool = False,
) -> None:
    """Write a mesh with groups and data to ``.vtu``, ``.vtk`` or ``.msh``, at once or not at all.

    Args:
        path: the file; its extension says the format.
        mesh: what to write.
        point_data: name -> one row per node; plane vectors get a third component 0.
        cell_data: name -> one row per cell.
        field_data: name -> numbers that belong to the whole mesh (not ``.msh``).
        overwrite: whether an existing file may be replaced.

    """
    path = Path(path)
    with _naming(path):
        suffix = path.suffix.lower()
        if suffix not in WRITABLE:
            raise MeshFileError(
                f"the extension {suffix!r} cannot be written", f"use one of {', '.join(WRITABLE)}"
            )
        _check_names(mesh.groups, (), "boundary group")
        nodal = _table(point_data or {}, mesh.n_nodes, "point")
        cellular = _table(cell_data or {}, mesh.n_cells, "cell")
        whole = _table(field_data or {}, None, "field")
        if suffix == ".vtu":
            content = vtu_bytes(mesh, nodal, cellular, whole)
        elif suffix == ".vtk":
            content = vtk_bytes(mesh, nodal, cellular, whole)
        elif whole:
            raise MeshFileError(
                f".msh files hold no field data {sorted(whole)}", "write a .vtu file"
            )
        else:
            content = msh_bytes(mesh, nodal, cellular)
        _write_atomically(path, content, overwrite)


def _table(data: Mapping[str, object], rows: int | None, what: str) -> dict[str, ndarray]:
    table = {name: np.asarray(values) for name, values in data.items()}
    _check_names(table, (GROUP_ARRAY,), f"{what} array")
    for name, values in table.items():
        if values.dtype.kind not in "iufb":
            raise MeshFileError(
                f"{what} data {name!r} are of type {values.dtype}, not real numbers",
                "write real and imaginary parts, or numbers for words",
            )
        if rows is not None and (values.ndim == 0 or len(values) != rows):
            raise MeshFileError(
                f"{what} data {name!r} have shape {values.shape}; the mesh has {rows} {what}s",
                f"give one row per {what}",
            )
        if values.dtype.kind == "b":
            table[name] = values.astype(np.int8)
    return table


def _check_names(names: Mapping[str, object], taken: Sequence[str], what: str) -> None:
    for name in names:
        plain = name.strip() == name and name.isprintable() and '"' not in name and name
        if not plain or name in taken or (taken and name.startswith(GROUP_PREFIX)):
            raise MeshFileError(
                f"{name!r} cannot be the name of a {what} in a file",
                f"use a plain name, without quotes or outer spaces, other than {GROUP_ARRAY!r}",
            )


def _write_atomically(path: Path, content: bytes, overwrite: bool) -> None:
    """Write beside the target and move it there, so that no half-written file is ever seen."""
    if path.is_dir():
        raise MeshFileError("is a directory", "give the name of a file")
    if path.exists() and not overwrite:
        raise MeshFileError("the file exists", "choose another name, or ask for overwriting")
    partial = None
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as stream:
            partial = Path(stream.name)
            stream.write(content)
        mask = os.umask(0)
        os.umask(mask)
        partial.chmod(0o666 & ~mask)  # temporary files are private; results are not
        partial.replace(path)
    except OSError as error:
        if partial is not None:
            partial.unlink(missing_ok=True)
        raise MeshFileError(
            f"cannot be written: {error.strerror}", "check the folder, its rights and its space"
        ) from error
