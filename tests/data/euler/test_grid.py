"""C-grids: nested to the last bit, positive, closed at the wake, conforming as triangles."""

from __future__ import annotations

import numpy as np
import pytest

from geonew.data.euler.airfoil import Airfoil
from geonew.data.euler.grid import CGrid, c_grid
from geonew.data.euler.topology import faces_of
from geonew.errors import ShapeError


def airfoils() -> list[Airfoil]:
    generator = np.random.default_rng(3)
    drawn = (generator.uniform(-d, d, (4, 2)) for d in (0.02, 0.02, 0.04, 0.04))
    return [Airfoil.naca0012(), *(Airfoil(d) for d in drawn)]


@pytest.mark.parametrize("airfoil", airfoils())
def test_levels_have_the_stated_sizes_and_are_nested(airfoil):
    fine = c_grid(airfoil, 4)
    assert fine.nodes.shape == (441, 101, 2)
    assert fine.coarsened().nodes.shape == (221, 51, 2)
    coarse = fine.coarsened(4)
    assert coarse.nodes.shape == (111, 26, 2)
    assert np.array_equal(coarse.nodes, fine.nodes[::4, ::4])
    assert np.abs(coarse.nodes - c_grid(airfoil, 1).nodes).max() < 1e-10


@pytest.mark.parametrize("airfoil", airfoils())
def test_grid_lies_on_the_airfoil_and_reaches_far(airfoil):
    grid = c_grid(airfoil)
    wall = grid.nodes[grid.wake : -grid.wake, 0]
    side = np.sign(np.linspace(-1, 1, len(wall)))
    assert np.abs(wall[:, 1] - airfoil.surface(wall[:, 0], side)).max() < 1e-8
    assert grid.areas.min() > 0
    outer = np.concatenate([grid.nodes[:, -1], grid.nodes[0], grid.nodes[-1]])
    assert np.hypot(outer[:, 0] - 0.5, outer[:, 1]).min() > 20


@pytest.mark.parametrize("airfoil", airfoils())
def test_triangles_conform_without_a_slit(airfoil):
    grid = c_grid(airfoil)
    mesh = grid.triangulated()  # a Mesh checks orientation, flat cells and manifold edges
    assert mesh.n_nodes == 111 * 26 - (grid.wake + 1)
    assert mesh.n_cells == 2 * 110 * 25
    assert mesh.n_nodes - len(mesh.edges) + mesh.n_cells == 0  # one hole: an annulus
    assert sum(map(len, mesh.groups.values())) == len(mesh.boundary_facets)
    assert mesh.volume == pytest.approx(grid.areas.sum(), rel=1e-12)
    assert len(mesh.nodes_of("airfoil")) == len(mesh.facets_of("airfoil"))  # a closed curve
    x = grid.merged(grid.nodes)
    assert np.array_equal(x, mesh.points)


@pytest.mark.parametrize("airfoil", airfoils())
def test_normals_of_every_cell_sum_to_zero(airfoil):
    faces = faces_of(c_grid(airfoil))
    total = np.zeros((len(faces.volumes), 2))
    np.add.at(total, faces.stencil[:, 1], faces.normals)
    np.add.at(total, faces.stencil[:, 2], -faces.normals)
    np.add.at(total, faces.wall_cells[:, 0], faces.wall_normals)
    np.add.at(total, faces.far_cells, faces.far_normals)
    assert np.abs(total).max() < 1e-12  # of faces up to 10 chords long


def test_every_cell_knows_its_faces():
    faces = faces_of(c_grid(Airfoil.naca0012()))
    for cell in (0, 24, 25 * 54, 25 * 110 - 1):
        owned = np.flatnonzero((faces.stencil[:, 1:3] == cell).any(axis=1))
        assert sorted(f for f in faces.neighbours[cell] if f >= 0) == owned.tolist()


def test_bad_grids_are_refused():
    grid = c_grid(Airfoil.naca0012())
    folded = grid.nodes.copy()
    folded[50, 1] = grid.nodes[50, 3]
    with pytest.raises(ShapeError, match="area"):
        CGrid(folded, grid.wake)
    torn = grid.nodes.copy()
    torn[1, 0] += 1e-9
    with pytest.raises(ShapeError, match="wake"):
        CGrid(torn, grid.wake)
    with pytest.raises(ShapeError, match="coarsened"):
        grid.coarsened()
    with pytest.raises(ShapeError, match="refinement"):
        c_grid(Airfoil.naca0012(), 0)
