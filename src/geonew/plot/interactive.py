"""Meshes and fields as PyVista grids, to turn, cut and probe by hand; needs the extra ``viz``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from geonew.errors import GeoNeWError
from geonew.mesh import Mesh

_VTK_TRIANGLE, _VTK_TETRA = 5, 10


def to_pyvista(mesh: Mesh, fields: Mapping[str, Float[ndarray, "N *d"]] | None = None) -> Any:
    """The mesh as a ``pyvista.UnstructuredGrid`` with nodal fields; plane ones lie at z = 0.

    ``to_pyvista(prediction.mesh, prediction.fields).plot()`` opens a window.
    """
    try:
        import pyvista
    except ImportError as error:
        raise GeoNeWError(
            "PyVista is not installed", "install it with: pip install 'geonew[viz]'"
        ) from error
    size = mesh.dim + 1
    cells = np.column_stack([np.full(mesh.n_cells, size), mesh.cells]).ravel()
    kinds = np.full(mesh.n_cells, _VTK_TRIANGLE if mesh.dim == 2 else _VTK_TETRA, dtype=np.uint8)
    grid = pyvista.UnstructuredGrid(cells, kinds, _in_space(mesh.points))
    for name, values in (fields or {}).items():
        vector = values.ndim == 2 and values.shape[1] == mesh.dim
        grid.point_data[name] = _in_space(values) if vector else values
    return grid


def _in_space(vectors: Float[ndarray, "N d"]) -> Float[ndarray, "N 3"]:
    return np.pad(vectors, ((0, 0), (0, 3 - vectors.shape[1])))
