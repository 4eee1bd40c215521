"""Meshes and fields as PyVista grids."""

import numpy as np
import pytest

from geonew.errors import GeoNeWError
from geonew.mesh import Mesh
from geonew.plot.interactive import to_pyvista


def test_grid_has_the_mesh_and_its_fields(zoo_mesh: Mesh) -> None:
    rng = np.random.default_rng(0)
    scalar, vector = rng.normal(size=zoo_mesh.n_nodes), rng.normal(size=zoo_mesh.points.shape)
    grid = to_pyvista(zoo_mesh, {"p": scalar, "u": vector})
    assert grid.n_cells == zoo_mesh.n_cells
    assert np.array_equal(grid.points[:, : zoo_mesh.dim], zoo_mesh.points)
    assert np.array_equal(grid.point_data["p"], scalar)
    assert np.array_equal(grid.point_data["u"][:, : zoo_mesh.dim], vector)
    measure = "Area" if zoo_mesh.dim == 2 else "Volume"
    assert np.isclose(grid.compute_cell_sizes()[measure].sum(), zoo_mesh.volume, rtol=1e-6)


def test_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, zoo_mesh: Mesh) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyvista", None)
    with pytest.raises(GeoNeWError, match=r"geonew\[viz\]"):
        to_pyvista(zoo_mesh)
