r"""Writing ``.vtu``, the XML format of ParaView, with boundary groups kept.

The cells of the mesh come first, then the facets of all groups as cells of their own. Two kinds of
cell arrays hold the groups, so that every reader can use one of them: ``group`` numbers them (1, 2,
... in their order; 0 on the cells), and one array ``group:NAME`` per group is 1 on its facets.
Numbers are stored as raw float64 and int64 in base64, so nothing is rounded.

Written by hand because meshio keeps neither field data nor the names of groups in this format.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from xml.etree import ElementTree

import numpy as np
from numpy import ndarray

from geonew.mesh.mesh import Mesh

GROUP_ARRAY = "group"
GROUP_PREFIX = "group:"
VTK_TYPE = {2: 3, 3: 5, 4: 10}  # nodes of a simplex -> VTK's number of its cell type
_TYPE_NAME = {"f8": "Float64", "f4": "Float32", "i8": "Int64", "i4": "Int32", "i1": "Int8"}
_TYPE_NAME |= {"u1": "UInt8"}


def vtu_bytes(
    mesh: Mesh,
    point_data: Mapping[str, ndarray],
    cell_data: Mapping[str, ndarray],
    field_data: Mapping[str, ndarray],
) -> bytes:
    """The mesh, its groups and data as the content of a ``.vtu`` file."""
    facets = list(mesh.groups.values())
    tables = [mesh.cells, *facets]
    sizes = np.concatenate([np.full(len(t), t.shape[1], dtype=np.int64) for t in tables])
    types = np.concatenate([np.full(len(t), VTK_TYPE[t.shape[1]], dtype=np.uint8) for t in tables])
    points = np.zeros((mesh.n_nodes, 3))
    points[:, : mesh.dim] = mesh.points

    root = ElementTree.Element(
        "VTKFile",
        type="UnstructuredGrid",
        version="1.0",
        byte_order="LittleEndian",
        header_type="UInt64",
    )
    grid = ElementTree.SubElement(root, "UnstructuredGrid")
    if field_data:
        section = ElementTree.SubElement(grid, "FieldData")
        for name, values in field_data.items():
            array = _append(section, name, np.atleast_1d(values))
            array.set("NumberOfTuples", str(np.atleast_1d(values).shape[0]))
    piece = ElementTree.SubElement(
        grid, "Piece", NumberOfPoints=str(mesh.n_nodes), NumberOfCells=str(len(sizes))
    )
    _append(ElementTree.SubElement(piece, "Points"), "Points", points)
    section = ElementTree.SubElement(piece, "Cells")
    _append(section, "connectivity", np.concatenate([t.ravel() for t in tables]))
    _append(section, "offsets", np.cumsum(sizes))
    _append(section, "types", types)
    section = ElementTree.SubElement(piece, "PointData")
    for name, values in point_data.items():
        _append(section, name, in_space(values))
    section = ElementTree.SubElement(piece, "CellData")
    for name, values in group_arrays(mesh, cell_data).items():
        _append(section, name, values)
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)


def group_arrays(mesh: Mesh, cell_data: Mapping[str, ndarray]) -> dict[str, ndarray]:
    """Arrays over the cells and, after them, the facets of all groups: the groups, and the data."""
    counts = [len(facets) for facets in mesh.groups.values()]
    number = np.repeat(np.arange(len(counts) + 1, dtype=np.int32), [mesh.n_cells, *counts])
    arrays: dict[str, ndarray] = {GROUP_ARRAY: number} if mesh.groups else {}
    for k, name in enumerate(mesh.groups, 1):
        arrays[GROUP_PREFIX + name] = (number == k).astype(np.int8)
    for name, values in cell_data.items():
        values = in_space(values)
        # Data of cells have no value on facets: NaN says so, where the type has one.
        blank = np.nan if values.dtype.kind == "f" else 0
        rest = np.full((sum(counts), *values.shape[1:]), blank, dtype=values.dtype)
        arrays[name] = np.concatenate([values, rest])
    return arrays


def in_space(values: ndarray) -> ndarray:
    """Plane vectors get a third component 0, without which ParaView draws no arrows."""
    if values.ndim == 2 and values.shape[1] == 2:
        return np.column_stack([values, np.zeros(len(values), dtype=values.dtype)])
    return values


def _append(parent: ElementTree.Element, name: str, values: ndarray) -> ElementTree.Element:
    kind = f"{values.dtype.kind}{values.dtype.itemsize}"
    if kind not in _TYPE_NAME:
        values = values.astype(np.float64 if values.dtype.kind == "f" else np.int64)
        kind = f"{values.dtype.kind}{values.dtype.itemsize}"
    raw = np.ascontiguousarray(values).astype(f"<{kind}").tobytes()
    array = ElementTree.SubElement(
        parent, "DataArray", type=_TYPE_NAME[kind], Name=name, format="binary"
    )
    if values.ndim > 1:
        array.set("NumberOfComponents", str(int(np.prod(values.shape[1:]))))
    head = np.array([len(raw)], dtype="<u8").tobytes()
    array.text = base64.b64encode(head + raw).decode()
    return array
