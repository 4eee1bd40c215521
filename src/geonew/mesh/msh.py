r"""Gmsh's ``.msh`` files: versions 2.2 and 4.1, text and binary, read; 2.2 text, written.

Read by hand rather than through meshio, which cannot read 4.1 files with elements outside of all
physical groups, keeps one physical group per entity only, and believes every count it finds: here
each count is checked against the bytes that are left, so that a damaged file is an error at once.

Physical groups become groups by name; a physical number without a name becomes ``group_<number>``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy import ndarray

from geonew.errors import MeshFileError
from geonew.mesh.mesh import Mesh
from geonew.mesh.repair import RawMesh
from geonew.mesh.split import CORNERS, DIMENSION

# Gmsh's number of each element type: shape and number of nodes. Corners always come first.
_TYPES = {
    1: ("line", 2), 2: ("triangle", 3), 3: ("quad", 4), 4: ("tetra", 4), 5: ("hexahedron", 8),
    6: ("wedge", 6), 7: ("pyramid", 5), 8: ("line", 3), 9: ("triangle", 6), 10: ("quad", 9),
    11: ("tetra", 10), 12: ("hexahedron", 27), 13: ("wedge", 18), 14: ("pyramid", 14),
    15: ("vertex", 1), 16: ("quad", 8), 17: ("hexahedron", 20), 18: ("wedge", 15),
    19: ("pyramid", 13), 20: ("triangle", 9), 21: ("triangle", 10), 22: ("triangle", 12),
    23: ("triangle", 15), 25: ("triangle", 21), 26: ("line", 4), 27: ("line", 5), 28: ("line", 6),
    29: ("tetra", 20), 30: ("tetra", 35), 31: ("tetra", 56), 36: ("quad", 16), 37: ("quad", 25),
    38: ("quad", 36), 92: ("hexahedron", 64), 93: ("hexahedron", 125),
}  # fmt: skip
# Elements of a text file that are looked at together; and more words than any element has.
RUN = 4096
LONGEST_ROW = 1000
_NUMBER = {("line", 2): 1, ("triangle", 3): 2, ("tetra", 4): 4}


def read_msh(data: bytes) -> RawMesh:
    """What a ``.msh`` file holds; damaged content raises :class:`MeshFileError` or ValueError."""
    sections = _sections(data)
    version, binary, size, swap = _format(sections)
    if "ParametricNodes" in sections:
        raise MeshFileError(
            "the .msh file has parametric nodes in version 2.2, which are not read",
            "export again with Mesh.SaveParametric = 0, or in version 4.1",
        )
    if "Nodes" not in sections or "Elements" not in sections:
        raise MeshFileError(
            "the .msh file has no section $Nodes or no section $Elements",
            "it may be truncated; export it again",
        )
    names = _physical_names(sections.get("PhysicalNames", b""))
    if version.startswith("2"):
        tags, points = _nodes_2(_Stream(sections["Nodes"], binary, 4, swap))
        blocks = _elements_2(_Stream(sections["Elements"], binary, 4, swap))
    elif version in ("4", "4.1"):
        entities = _entities_4(_Stream(sections.get("Entities", b""), binary, size, swap))
        tags, points = _nodes_4(_Stream(sections["Nodes"], binary, size, swap))
        blocks = _elements_4(_Stream(sections["Elements"], binary, size, swap), entities)
    else:
        raise MeshFileError(
            f"the .msh file has version {version}; 2.2 and 4.1 are read",
            "export again with Mesh.MshFileVersion = 4.1 or 2.2",
        )
    order = np.argsort(tags, kind="stable")
    ordered = tags[order]
    cells, groups = [], {}
    for shape, nodes, physical in blocks:
        position = np.minimum(np.searchsorted(ordered, nodes), len(tags) - 1)
        known = ordered[position] == nodes
        if not known.all():
            raise MeshFileError(
                f"{int((~known).sum())} references to nodes that the .msh file does not define",
                "the file is damaged or incomplete; export it again",
            )
        block = (f"{shape}{nodes.shape[1]}", order[position])
        cells.append(block)
        for number in physical:
            if number:  # 0: no physical group
                groups.setdefault((DIMENSION[shape], abs(number)), []).append(block)
    named: dict[str, list] = {}
    for key in sorted(groups):
        named.setdefault(names.get(key, f"group_{key[1]}"), []).extend(groups[key])
    empty = sorted(names[key] for key in names if key not in groups)
    notes = (f"the file names the groups {empty}, but no element has them",) if empty else ()
    return RawMesh(points, cells, named, notes=notes)


# -- sections ----------------------------------------------------------------------------------


@dataclass
class _Stream:
    """Numbers of one section, from text or bytes; asking for more than there are is an error."""

    data: bytes
    binary: bool
    size: int  # bytes of a size_t
    swap: bool
    position: int = 0

    def __post_init__(self) -> None:
        self.words = None if self.binary else self.data.split()

    def take(self, count: int, kind: str) -> ndarray:
        """Next ``count`` numbers: kind i (int), s (size_t) or d (double)."""
        width = {"i": 4, "s": self.size, "d": 8}[kind] if self.words is None else 1
        left = (len(self.data) if self.words is None else len(self.words)) - self.position
        _check_count(count, left // width)
        start, self.position = self.position, self.position + count * width
        if self.words is not None:
            return np.array(self.words[start : self.position], dtype=float if kind == "d" else int)
        dtype = np.dtype({"i": "i4", "s": f"i{self.size}", "d": "f8"}[kind])
        values = np.frombuffer(
            self.data, dtype.newbyteorder(">" if self.swap else "<"), count, start
        )
        return values.astype(float if kind == "d" else np.int64)

    def count(self, kind: str = "s") -> int:
        """Next number."""
        return int(self.take(1, kind)[0])

    def line(self) -> bytes:
        """Next line of text in a binary section."""
        end = self.data.find(b"\n", self.position)
        if end < 0:
            raise MeshFileError("the .msh file ends too early", "export it again")
        start, self.position = self.position, end + 1
        return self.data[start:end]


def _check_count(count: int, left: int) -> None:
    if not 0 <= count <= left:
        raise MeshFileError(
            f"the .msh file announces {count} numbers where {left} are left",
            "it is truncated or damaged; export it again",
        )


def _sections(data: bytes) -> dict[str, bytes]:
    """Content between each ``$Name`` and ``$EndName``."""
    sections: dict[str, bytes] = {}
    position = 0
    start = re.compile(rb"^[ \t]*\$([A-Za-z]+)[ \t\r]*\n", re.MULTILINE)
    while found := start.search(data, position):
        name = found[1].decode()
        end = data.find(b"$End" + found[1], found.end())
        if end < 0:
            raise MeshFileError(
                f"section ${name} of the .msh file is not closed by $End{name}",
                "the file is truncated; export it again",
            )
        sections.setdefault(name, data[found.end() : end])
        position = end + 4 + len(found[1])
    return sections


def _format(sections: Mapping[str, bytes]) -> tuple[str, bool, int, bool]:
    """Version, whether binary, size of size_t, whether bytes are in the other order."""
    first, _, rest = sections.get("MeshFormat", b"").partition(b"\n")
    words = first.decode("ascii", "replace").split()
    if len(words) != 3 or words[1] not in ("0", "1") or words[2] not in ("4", "8"):
        raise MeshFileError(
            f"the .msh file has the format line {' '.join(words)[:40]!r}",
            "expected 'version file-type data-size' after $MeshFormat; export it again",
        )
    binary = words[1] == "1"
    return words[0], binary, int(words[2]), binary and rest[:4] == b"\0\0\0\1"


def _physical_names(data: bytes) -> dict[tuple[int, int], str]:
    pattern = re.compile(r'^\s*(\d)\s+(-?\d{1,10})\s+"(.*)"\s*$', re.MULTILINE)
    text = data.decode("utf-8", "replace")
    return {(int(dim), int(number)): name.strip() for dim, number, name in pattern.findall(text)}


def _kind(number: int) -> tuple[str, int]:
    if number not in _TYPES:
        raise MeshFileError(
            f"the .msh file has elements of Gmsh's type {number}, which is not read",
            "export elements of order 1 or 2",
        )
    return _TYPES[number]


# -- version 2.2 -------------------------------------------------------------------------------


def _nodes_2(stream: _Stream) -> tuple[ndarray, ndarray]:
    if stream.binary:
        count = int(stream.line())
        dtype = np.dtype([("tag", "i4"), ("x", "f8", 3)]).newbyteorder(">" if stream.swap else "<")
        _check_count(count, (len(stream.data) - stream.position) // dtype.itemsize)
        table = np.frombuffer(stream.data, dtype, count, stream.position)
        return table["tag"].astype(np.int64), table["x"].astype(float)
    count = stream.count()
    table = stream.take(4 * count, "d").reshape(count, 4)
    return table[:, 0].astype(np.int64), table[:, 1:]


def _elements_2(stream: _Stream) -> list[tuple[str, ndarray, tuple[int, ...]]]:
    rows: dict[tuple[int, int], list[ndarray]] = {}
    if stream.binary:
        left = int(stream.line())
        while left > 0:
            number, count, n_tags = stream.take(3, "i").tolist()
            width = 1 + n_tags + _kind(number)[1]
            table = stream.take(max(count, 1) * width, "i").reshape(-1, width)
            left -= max(count, 1)
            physical = table[:, 1] if n_tags else np.zeros(len(table), dtype=np.int64)
            for value in _in_order(physical):
                rows.setdefault((number, value), []).append(table[physical == value, 1 + n_tags :])
    else:
        left = stream.count()
        while left > 0:
            table = _run(stream, left)
            left -= len(table)
            number, n_tags = table[0, 1:3].tolist()
            physical = table[:, 3] if n_tags else np.zeros(len(table), dtype=np.int64)
            for value in _in_order(physical):
                rows.setdefault((number, value), []).append(table[physical == value, 3 + n_tags :])
    return [(_kind(n)[0], np.concatenate(parts), (p,)) for (n, p), parts in rows.items()]


def _run(stream: _Stream, most: int) -> ndarray:
    """The next elements of one type and number of tags, as rows: number, type, tags, nodes."""
    start = stream.position
    _, number, n_tags = stream.take(3, "i").tolist()
    _check_count(n_tags, most * LONGEST_ROW)
    width = 3 + n_tags + _kind(number)[1]
    assert stream.words is not None
    stream.position = start
    available = (len(stream.words) - start) // width
    table = stream.take(width * max(min(most, available, RUN), 1), "i").reshape(-1, width)
    # A row begins where the one before it ends, so all rows before the first other one are good.
    other = np.flatnonzero((table[:, 1] != number) | (table[:, 2] != n_tags))
    rows = int(other[0]) if other.size else len(table)
    stream.position = start + rows * width
    return table[:rows]


def _in_order(values: ndarray) -> list[int]:
    """Distinct values in the order in which they first appear."""
    return list(dict.fromkeys(values.tolist()))


# -- version 4.1 -------------------------------------------------------------------------------


def _entities_4(stream: _Stream) -> dict[tuple[int, int], tuple[int, ...]]:
    """Physical numbers of each geometric entity (dimension, tag)."""
    physical: dict[tuple[int, int], tuple[int, ...]] = {}
    if not stream.data.strip():
        return physical
    for dim, count in enumerate(stream.take(4, "s").tolist()):
        for _ in range(count):
            tag = stream.count("i")
            stream.take(3 if dim == 0 else 6, "d")
            physical[dim, tag] = tuple(stream.take(stream.count(), "i").tolist())
            if dim:
                stream.take(stream.count(), "i")
    return physical


def _nodes_4(stream: _Stream) -> tuple[ndarray, ndarray]:
    n_blocks, *_ = stream.take(4, "s").tolist()
    tags, points = [np.zeros(0, dtype=np.int64)], [np.zeros((0, 3))]
    for _ in range(n_blocks):
        dim, _, parametric = stream.take(3, "i").tolist()
        count = stream.count()
        tags.append(stream.take(count, "s"))
        width = 3 + (dim if parametric else 0)
        points.append(stream.take(width * count, "d").reshape(count, width)[:, :3])
    return np.concatenate(tags), np.concatenate(points)


def _elements_4(
    stream: _Stream, entities: Mapping[tuple[int, int], tuple[int, ...]]
) -> list[tuple[str, ndarray, tuple[int, ...]]]:
    n_blocks, *_ = stream.take(4, "s").tolist()
    blocks = []
    for _ in range(n_blocks):
        dim, tag, number = stream.take(3, "i").tolist()
        count = stream.count()
        shape, width = _kind(number)
        nodes = stream.take(count * (1 + width), "s").reshape(count, 1 + width)[:, 1:]
        blocks.append((shape, nodes, entities.get((dim, tag), ())))
    return blocks


# -- writing -----------------------------------------------------------------------------------


def msh_bytes(
    mesh: Mesh, point_data: Mapping[str, ndarray], cell_data: Mapping[str, ndarray]
) -> bytes:
    """The mesh as a ``.msh`` file, version 2.2, text: 17 digits, which float64 survives exactly."""
    points = np.zeros((mesh.n_nodes, 3))
    points[:, : mesh.dim] = mesh.points
    lines = [
        "$MeshFormat",
        "2.2 0 8",
        "$EndMeshFormat",
        "$PhysicalNames",
        f"{len(mesh.groups) + 1}",
    ]
    for number, name in enumerate(mesh.groups, 1):
        lines.append(f'{mesh.dim - 1} {number} "{name}"')
    domain = len(mesh.groups) + 1
    lines += [f'{mesh.dim} {domain} "domain"', "$EndPhysicalNames", "$Nodes", f"{mesh.n_nodes}"]
    lines += [f"{k} {x:.17g} {y:.17g} {z:.17g}" for k, (x, y, z) in enumerate(points.tolist(), 1)]
    facet, cell = ("line", "triangle") if mesh.dim == 2 else ("triangle", "tetra")
    tables = [(facet, number, f) for number, f in enumerate(mesh.groups.values(), 1)]
    total = sum(len(table) for _, _, table in tables) + mesh.n_cells
    lines += ["$EndNodes", "$Elements", f"{total}"]
    element = 0
    for shape, physical, table in [*tables, (cell, domain, mesh.cells)]:
        head = f"{_NUMBER[shape, CORNERS[shape]]} 2 {physical} {physical}"
        for nodes in (table + 1).tolist():
            element += 1
            lines.append(f"{element} {head} {' '.join(map(str, nodes))}")
    lines.append("$EndElements")
    for name, values in point_data.items():
        lines += _data_lines("NodeData", name, values, 1)
    for name, values in cell_data.items():
        lines += _data_lines("ElementData", name, values, total - mesh.n_cells + 1)
    return ("\n".join(lines) + "\n").encode()


def _data_lines(section: str, name: str, values: ndarray, first: int) -> list[str]:
    table = values.reshape(len(values), -1)
    # Gmsh knows scalars, vectors and tensors only.
    width = next((w for w in (1, 3, 9) if w >= table.shape[1]), table.shape[1])
    padded = np.zeros((len(table), width))
    padded[:, : table.shape[1]] = table
    rows = [
        f"{k} {' '.join(format(value, '.17g') for value in row)}"
        for k, row in enumerate(padded.tolist(), first)
    ]
    head = [f"${section}", "1", f'"{name}"', "1", "0", "3", "0", f"{width}", f"{len(table)}"]
    return [*head, *rows, f"$End{section}"]
