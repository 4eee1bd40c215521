r"""Writing ``.vtk``, the legacy format that every visualisation program reads, groups kept.

The same content as in :mod:`geonew.mesh.vtu`: cells first, then the facets of all groups as cells
of their own, named by the cell arrays ``group`` and ``group:NAME``. Binary (the format's byte order
is big-endian), in float64 and int32, so nothing is rounded. Names may hold no white space here:
VTK writes it as ``%20`` and so do we.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

import numpy as np
from numpy import ndarray

from geonew.mesh.mesh import Mesh
from geonew.mesh.vtu import VTK_TYPE, group_arrays, in_space

_TYPE_NAME = {"f8": "double", "i4": "int"}


def vtk_bytes(
    mesh: Mesh,
    point_data: Mapping[str, ndarray],
    cell_data: Mapping[str, ndarray],
    field_data: Mapping[str, ndarray],
) -> bytes:
    """The mesh, its groups and data as the content of a ``.vtk`` file."""
    tables = [mesh.cells, *mesh.groups.values()]
    rows = [np.column_stack([np.full(len(t), t.shape[1]), t]).ravel() for t in tables]
    kinds = np.concatenate([np.full(len(t), VTK_TYPE[t.shape[1]]) for t in tables])
    points = np.zeros((mesh.n_nodes, 3))
    points[:, : mesh.dim] = mesh.points
    cells = np.concatenate(rows)
    parts = [b"# vtk DataFile Version 3.0\nGeo-NeW\nBINARY\nDATASET UNSTRUCTURED_GRID\n"]
    if field_data:
        parts += _field({name: np.atleast_1d(v) for name, v in field_data.items()})
    parts += [f"POINTS {mesh.n_nodes} double\n".encode(), _raw(points)]
    parts += [f"CELLS {len(kinds)} {len(cells)}\n".encode(), _raw(cells)]
    parts += [f"CELL_TYPES {len(kinds)}\n".encode(), _raw(kinds)]
    if point_data:
        parts.append(f"POINT_DATA {mesh.n_nodes}\n".encode())
        parts += _field({name: in_space(values) for name, values in point_data.items()})
    named = group_arrays(mesh, cell_data)
    if named:
        parts.append(f"CELL_DATA {len(kinds)}\n".encode())
        parts += _field(named)
    return b"".join(parts)


def _field(arrays: Mapping[str, ndarray]) -> list[bytes]:
    """A FIELD section: arrays of any number of components by name."""
    parts = [f"FIELD FieldData {len(arrays)}\n".encode()]
    for name, values in arrays.items():
        width = int(np.prod(values.shape[1:]))
        kind = _TYPE_NAME[_kind(values)]
        head = f"{quote(name, safe=_SAFE)} {width} {values.shape[0]} {kind}\n"
        parts += [head.encode(), _raw(values)]
    return parts


_SAFE = "!#$&'()*+,/:;=?@[]^{|}~<>.-_"


def _kind(values: ndarray) -> str:
    return "f8" if values.dtype.kind == "f" else "i4"


def _raw(values: ndarray) -> bytes:
    return np.ascontiguousarray(values).astype(f">{_kind(values)}").tobytes() + b"\n"
