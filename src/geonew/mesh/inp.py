r"""The mesh in an Abaqus ``.inp`` file: nodes, elements, node and element sets, surfaces.

Read by hand because surfaces, the usual way to name a boundary there, are faces of elements
(``elset, S2``), which meshio does not read. Groups come from surfaces, from element sets whose
elements are facets, and from node sets. One part only: a second ``*NODE`` block that defines a
node again means several parts, which is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
from numpy import ndarray

from geonew.errors import MeshFileError
from geonew.mesh.repair import RawMesh

_SOLID = {4: "tetra", 10: "tetra", 5: "pyramid", 13: "pyramid", 6: "wedge", 15: "wedge"}
_SOLID |= {8: "hexahedron", 20: "hexahedron", 27: "hexahedron"}
_FLAT = {3: "triangle", 6: "triangle", 7: "triangle", 4: "quad", 8: "quad", 9: "quad"}
_SOLID_NAME = re.compile(r"(?:DC|AC|Q)?C?3D(\d+)")
_FLAT_NAME = re.compile(
    r"(?:CPEG|CPS|CPE|CGAX|CAX|DCAX|ACAX|DC2D|AC2D|WARP2D|SFM3D|M3D|R3D|STRI|SC|S|DS)(\d)"
)
_LINE_NAME = re.compile(r"(?:T[23]D|R2D|RAX|SAX|MAX|DC1D|AC1D|F2D|B[23])(\d)")
# Abaqus numbers the faces of an element S1, S2, ...: corner positions of each.
_FACES = {
    "triangle": [(0, 1), (1, 2), (2, 0)],
    "quad": [(0, 1), (1, 2), (2, 3), (3, 0)],
    "tetra": [(0, 1, 2), (0, 3, 1), (1, 3, 2), (2, 3, 0)],
    "pyramid": [(0, 1, 2, 3), (0, 4, 1), (1, 4, 2), (2, 4, 3), (3, 4, 0)],
    "wedge": [(0, 1, 2), (3, 5, 4), (0, 3, 4, 1), (1, 4, 5, 2), (2, 5, 3, 0)],
    "hexahedron": [
        (0, 1, 2, 3),
        (4, 7, 6, 5),
        (0, 4, 5, 1),
        (1, 5, 6, 2),
        (2, 6, 7, 3),
        (3, 7, 4, 0),
    ],
}
_FACE_KIND = {2: "line", 3: "triangle", 4: "quad"}


class _Deck:
    """Everything gathered while walking through the keyword blocks."""

    def __init__(self) -> None:
        self.nodes: dict[int, int] = {}
        self.points: list[list[float]] = []
        self.shape: dict[int, str] = {}  # of each element
        self.corners: dict[int, list[int]] = {}
        self.node_sets: dict[str, list[int]] = {}
        self.element_sets: dict[str, list[int]] = {}
        self.surfaces: dict[str, list[tuple[str, str]]] = {}
        self.names: dict[str, str] = {}  # Abaqus ignores case; people do not


def read_inp(data: bytes) -> RawMesh:
    """What an ``.inp`` file holds; damaged content raises MeshFileError, ValueError or KeyError."""
    deck = _Deck()
    for keyword, parameters, rows in _blocks(data.decode("utf-8", "replace")):
        if keyword == "NODE":
            _add_nodes(deck, parameters, rows)
        elif keyword == "ELEMENT":
            _add_elements(deck, parameters, rows)
        elif keyword in ("NSET", "ELSET"):
            sets = deck.node_sets if keyword == "NSET" else deck.element_sets
            known = deck.nodes if keyword == "NSET" else deck.shape
            key = _key(deck, parameters.get(keyword, ""))
            sets.setdefault(key, []).extend(_members(rows, parameters, sets, known))
        elif keyword == "SURFACE" and parameters.get("TYPE", "ELEMENT").upper() == "ELEMENT":
            key = _key(deck, parameters.get("NAME", ""))
            faces = [(row[0], row[1].upper() if len(row) > 1 else "") for row in rows if row]
            deck.surfaces.setdefault(key, []).extend(faces)
        elif keyword == "INCLUDE":
            raise MeshFileError(
                "the .inp file includes another file (*INCLUDE)",
                "put the mesh into one file",
            )
    return _raw(deck)


def _blocks(text: str) -> Iterator[tuple[str, dict[str, str], list[list[str]]]]:
    """Keyword, parameters and comma-separated data rows of each block."""
    keyword, parameters, rows = "", {}, []
    for line in text.splitlines():
        line = line.strip()
        if not line or line.startswith("**"):
            continue
        if not line.startswith("*"):
            rows.append([word.strip() for word in line.split(",")])
            continue
        if keyword:
            yield keyword, parameters, rows
        first, *others = (word.strip() for word in line[1:].split(","))
        keyword, rows = first.upper(), []
        parts = [word.partition("=") for word in others]
        parameters = {key.strip().upper(): value.strip().strip('"') for key, _, value in parts}
    if keyword:
        yield keyword, parameters, rows


def _key(deck: _Deck, name: str) -> str:
    if not name:
        raise MeshFileError("a set or surface of the .inp file has no name", "name it")
    deck.names.setdefault(name.upper(), name)
    return name.upper()


def _add_nodes(deck: _Deck, parameters: dict[str, str], rows: list[list[str]]) -> None:
    numbers = []
    for row in rows:
        number = int(row[0])
        if number in deck.nodes:
            raise MeshFileError(
                f"the .inp file defines node {number} twice",
                "it may hold several parts; export one part as one mesh",
            )
        deck.nodes[number] = len(deck.points)
        coordinates = [float(word or 0) for word in row[1:4]]
        deck.points.append(coordinates + [0.0] * (3 - len(coordinates)))
        numbers.append(number)
    if "NSET" in parameters:
        deck.node_sets.setdefault(_key(deck, parameters["NSET"]), []).extend(numbers)


def _add_elements(deck: _Deck, parameters: dict[str, str], rows: list[list[str]]) -> None:
    kind = parameters.get("TYPE", "").upper()
    if match := _SOLID_NAME.match(kind):
        shape, width = _SOLID.get(int(match[1]), ""), int(match[1])
    elif match := _LINE_NAME.match(kind):  # before the flat ones: SAX1 is not a shell S...
        # The digit counts nodes in trusses (T3D2), and is the order in beams and shells (B32).
        curved = kind[:3] in ("B22", "B32", "SAX", "MAX") and match[1] == "2"
        shape, width = "line", 3 if curved or (match[1] == "3" and kind[0] != "B") else 2
    elif match := _FLAT_NAME.match(kind):
        shape, width = _FLAT.get(int(match[1]), ""), int(match[1])
    else:
        shape, width = "", 0
    if not shape:
        raise MeshFileError(
            f"the .inp file has elements of type {kind!r}, which is not read",
            "export plane or solid elements with 3 to 27 nodes",
        )
    words = [word for row in rows for word in row if word]
    if len(words) % (width + 1):
        raise MeshFileError(
            f"elements of type {kind} have {len(words)} numbers, not a multiple of {width + 1}",
            "the .inp file is truncated or damaged; export it again",
        )
    numbers = []
    corners = _corner_count(shape)
    for start in range(0, len(words), width + 1):
        number, *nodes = (int(word) for word in words[start : start + 1 + corners])
        deck.shape[number] = shape
        deck.corners[number] = [deck.nodes[node] for node in nodes]
        numbers.append(number)
    if "ELSET" in parameters:
        deck.element_sets.setdefault(_key(deck, parameters["ELSET"]), []).extend(numbers)


def _corner_count(shape: str) -> int:
    return 2 if shape == "line" else 1 + max(max(face) for face in _FACES[shape])


def _members(
    rows: list[list[str]],
    parameters: dict[str, str],
    sets: dict[str, list[int]],
    known: dict[int, int] | dict[int, str],
) -> list[int]:
    """Numbers in a set: listed, generated, or those of other sets named in it."""
    members: list[int] = []
    for row in rows:
        words = [word for word in row if word]
        if "GENERATE" in parameters:
            first, last, *step = (int(word) for word in words)
            wanted = range(first, last + 1, step[0] if step else 1)
            # Walk through what exists, not through what a damaged file may announce.
            members += [n for n in known if n in wanted] if len(wanted) > len(known) else wanted
        else:
            for word in words:
                members += sets.get(word.upper(), []) if not word.isdigit() else [int(word)]
    return members


def _raw(deck: _Deck) -> RawMesh:
    def table(numbers: list[int]) -> list[tuple[str, ndarray]]:
        rows: dict[str, list[list[int]]] = {}
        for number in numbers:
            if number in deck.shape:
                rows.setdefault(deck.shape[number], []).append(deck.corners[number])
        return [(shape, np.array(nodes)) for shape, nodes in rows.items()]

    groups = {deck.names[key]: table(n) for key, n in deck.element_sets.items()}
    for key, faces in deck.surfaces.items():
        groups[deck.names[key]] = _surface(deck, faces)
    node_groups = {
        deck.names[key]: np.array([deck.nodes[n] for n in numbers if n in deck.nodes], dtype=int)
        for key, numbers in deck.node_sets.items()
    }
    points = np.array(deck.points, dtype=float).reshape(-1, 3)
    return RawMesh(points, table(list(deck.shape)), groups, node_groups)


def _surface(deck: _Deck, faces: list[tuple[str, str]]) -> list[tuple[str, ndarray]]:
    rows: dict[str, list[list[int]]] = {}
    for owner, face in faces:
        numbers = [int(owner)] if owner.isdigit() else deck.element_sets.get(owner.upper(), [])
        for number in numbers:
            shape, corners = deck.shape[number], deck.corners[number]
            if face in ("SPOS", "SNEG"):  # a shell is itself the facet
                rows.setdefault(shape, []).append(corners)
                continue
            wanted = _FACES[shape] if not face else [_FACES[shape][int(face.lstrip("SE")) - 1]]
            for positions in wanted:
                kind = _FACE_KIND[len(positions)]
                rows.setdefault(kind, []).append([corners[k] for k in positions])
    return [(kind, np.array(nodes)) for kind, nodes in rows.items()]
