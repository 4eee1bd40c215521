"""The step from our mesh to scikit-fem's: the same vertex numbers, arrays of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import skfem

from geonew.mesh import Mesh


def skfem_mesh(mesh: Mesh) -> Any:
    """The mesh as scikit-fem sees it; it may sort the vertices of a cell, never renumber them."""
    kind = skfem.MeshTri if mesh.dim == 2 else skfem.MeshTet
    return kind(np.ascontiguousarray(mesh.points.T), np.ascontiguousarray(mesh.cells.T))


def p1_element(mesh: Mesh) -> Any:
    """The element of the hat functions."""
    return skfem.ElementTriP1() if mesh.dim == 2 else skfem.ElementTetP1()
