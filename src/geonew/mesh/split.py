r"""Cells of every kind become triangles and tetrahedra that fit together.

Pulling triangulation: a cell with lowest vertex v is the union of the cones from v over its faces
that do not hold v, and a quadrilateral face is cut along the diagonal through its own lowest
vertex. The cut of a face depends on the face alone, so two neighbours always agree on it: the
result is conforming whatever the numbering (6 tetrahedra per hexahedron, 3 per wedge, 2 per
pyramid). In the plane no neighbour sees a diagonal; there the better one is taken.

Cells that a preprocessor has collapsed (a hexahedron with repeated nodes) lose the simplices with
a repeated vertex, and the rest is still conforming.
"""

from __future__ import annotations

import re

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from geonew.errors import MeshError

# Corners and dimension of each shape; nodes on sides, faces and inside come after the corners.
CORNERS = {
    "vertex": 1,
    "line": 2,
    "triangle": 3,
    "quad": 4,
    "tetra": 4,
    "pyramid": 5,
    "wedge": 6,
    "hexahedron": 8,
}
DIMENSION = {"vertex": 0, "line": 1, "triangle": 2, "quad": 2} | dict.fromkeys(
    ("tetra", "pyramid", "wedge", "hexahedron"), 3
)
# Faces seen from outside, counter-clockwise, in the numbering of VTK (wedges: of Gmsh).
FACES = {
    "tetra": [(0, 2, 1), (0, 1, 3), (1, 2, 3), (2, 0, 3)],
    "pyramid": [(0, 3, 2, 1), (0, 1, 4), (1, 2, 4), (2, 3, 4), (3, 0, 4)],
    "wedge": [(0, 2, 1), (3, 4, 5), (0, 1, 4, 3), (1, 2, 5, 4), (2, 0, 3, 5)],
    "hexahedron": [
        (0, 3, 2, 1),
        (4, 5, 6, 7),
        (0, 1, 5, 4),
        (1, 2, 6, 5),
        (2, 3, 7, 6),
        (3, 0, 4, 7),
    ],
}
_LAGRANGE = {
    "curve": "line",
    "triangle": "triangle",
    "quadrilateral": "quad",
    "tetrahedron": "tetra",
    "hexahedron": "hexahedron",
    "wedge": "wedge",
    "pyramid": "pyramid",
}
# Diagonals of a quadrilateral count as equally good within this relative difference of areas.
SAME_AREA = 1e-6


def shape_of(kind: str, nodes: ndarray) -> tuple[str, Int[ndarray, "C k"]]:
    """Basic shape and corner nodes of cells of a given kind (``triangle6`` -> ``triangle``)."""
    if nodes.ndim != 2 or nodes.dtype.kind not in "iu":
        raise MeshError(f"cells of kind {kind!r} have no regular table of node numbers")
    nodes = nodes.astype(np.int64)
    if kind == "pixel" and nodes.shape[1] == 4:  # VTK's pixel counts row by row, not around
        return "quad", nodes[:, [0, 1, 3, 2]]
    if kind == "polygon" and nodes.shape[1] in (3, 4):
        return ("triangle", "quad")[nodes.shape[1] - 3], nodes
    lagrange = re.fullmatch(r"VTK_(?:LAGRANGE|BEZIER)_(\w+)", kind)
    shape = _LAGRANGE.get(lagrange[1].lower(), kind) if lagrange else kind.rstrip("0123456789")
    if shape not in CORNERS or nodes.shape[1] < CORNERS[shape]:
        raise MeshError(
            f"{len(nodes)} cells are of kind {kind!r} with {nodes.shape[1]} nodes, "
            "which cannot be split into triangles or tetrahedra",
            f"export the mesh with cells among {sorted(CORNERS)}",
        )
    return shape, nodes[:, : CORNERS[shape]]


def split_faces(shape: str, faces: Int[ndarray, "F k"]) -> Int[ndarray, "_ j"]:
    """Facets as simplices: quadrilaterals cut through their lowest vertex."""
    if shape != "quad":
        return faces
    first = faces.argmin(axis=1)
    a, b, c, d = (faces[np.arange(len(faces)), (first + k) % 4] for k in range(4))
    parts = np.concatenate([np.stack([a, b, c], axis=1), np.stack([a, c, d], axis=1)])
    return parts[~_collapsed(parts)]


def split_cells(
    shape: str, cells: Int[ndarray, "C k"], points: Float[ndarray, "N d"]
) -> tuple[Int[ndarray, "S j"], Int[ndarray, "S"]]:
    """Simplices of all cells, in the order of the cells, and the cell each came from."""
    if shape in ("triangle", "tetra"):
        return cells, np.arange(len(cells))
    parts, parent = _split_quads(cells, points) if shape == "quad" else _pull(shape, cells)
    parts, parent = parts[~_collapsed(parts)], parent[~_collapsed(parts)]
    order = np.argsort(parent, kind="stable")
    return parts[order], parent[order]


def _split_quads(cells: ndarray, points: ndarray) -> tuple[ndarray, ndarray]:
    """Cut each plane quadrilateral along the diagonal whose smaller triangle is larger."""
    first = cells.argmin(axis=1)
    a, b, c, d = (cells[np.arange(len(cells)), (first + k) % 4] for k in range(4))
    lowest = [np.stack(t, axis=1) for t in ((a, b, c), (a, c, d))]
    other = [np.stack(t, axis=1) for t in ((a, b, d), (b, c, d))]
    area = [[_areas(points, t) for t in pair] for pair in (lowest, other)]
    turn = np.sign(area[0][0] + area[0][1])  # a quadrilateral may be listed clockwise
    worst_lowest, worst_other = (np.minimum(turn * s, turn * t) for s, t in area)
    whole = np.abs(area[0][0] + area[0][1])
    flip = (worst_other > worst_lowest + SAME_AREA * whole)[:, None]
    parts = np.concatenate([np.where(flip, o, n) for n, o in zip(lowest, other, strict=True)])
    return parts, np.tile(np.arange(len(cells)), 2)


def _areas(points: ndarray, triangles: ndarray) -> ndarray:
    corner = points[triangles]
    one, two = corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0]
    return (one[:, 0] * two[:, 1] - one[:, 1] * two[:, 0]) / 2


def _pull(shape: str, cells: ndarray) -> tuple[ndarray, ndarray]:
    lowest = cells.argmin(axis=1)
    parts, parent = [], []
    for k in range(CORNERS[shape]):
        mine = np.flatnonzero(lowest == k)
        for face in FACES[shape]:
            if k in face:
                continue
            kind = "quad" if len(face) == 4 else "triangle"
            nodes = cells[np.ix_(mine, face)]
            if kind == "quad":
                first = nodes.argmin(axis=1)
                nodes = nodes[np.arange(len(mine))[:, None], (first[:, None] + np.arange(4)) % 4]
                triangles = [nodes[:, [0, 1, 2]], nodes[:, [0, 2, 3]]]
            else:
                triangles = [nodes]
            for triangle in triangles:
                parts.append(np.column_stack([cells[mine, k], triangle]))
                parent.append(mine)
    return np.concatenate(parts), np.concatenate(parent)


def _collapsed(simplices: ndarray) -> ndarray:
    """Which simplices have a repeated vertex."""
    ordered = np.sort(simplices, axis=1)
    return (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
