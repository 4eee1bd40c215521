"""Structured meshes are recognised by their edges; everything else is refused."""

from __future__ import annotations

import numpy as np
import pytest

from geonew.data.euler.airfoil import Airfoil
from geonew.data.euler.grid import c_grid as around_airfoil
from geonew.data.families.pipe import grid_mesh
from geonew.errors import ConfigError, MeshError
from geonew.mesh import Mesh
from geonew.mesh.grid import Grid
from structured import everywhere
from zoo import ZOO, build, grid


def rectangle(rows: int, cols: int) -> Mesh:
    axes = [np.linspace(0, 1, rows), np.linspace(0, 2, cols)]
    return build(*grid(axes), {"wall": everywhere})


def c_grid(rows: int, cols: int, cut: int) -> tuple[Mesh, np.ndarray]:
    """A C-grid by the square root mapping, its wake's two sides merged; and the node numbers."""
    s = np.linspace(-1, 1, rows)
    xi, eta = np.meshgrid(2 * s, np.linspace(0, 1.5, cols), indexing="ij")
    body = np.abs(s) < np.abs(s[cut - 1]) - 1e-9
    z = (xi + 1j * (eta + 0.2 * body[:, None])) ** 2
    numbers = np.arange(rows * cols).reshape(rows, cols)
    for i in range(cut):
        numbers[rows - 1 - i, 0] = numbers[i, 0]
    used, flat = np.unique(numbers, return_inverse=True)
    numbers = flat.reshape(rows, cols)
    points = np.stack([z.real.ravel(), z.imag.ravel()], axis=1)[used]
    a, b = numbers[:-1, :-1].ravel(), numbers[1:, :-1].ravel()
    c, d = numbers[1:, 1:].ravel(), numbers[:-1, 1:].ravel()
    cells = np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)])
    return build(points, cells, {"wall": everywhere}), numbers


@pytest.mark.parametrize(("rows", "cols"), [(65, 33), (9, 9), (2, 5), (7, 2)])
def test_rectangles_are_grids_of_their_shape(rows: int, cols: int):
    shape, mesh = Grid(rows, cols), rectangle(rows, cols)
    assert shape.n_nodes == mesh.n_nodes
    shape.check(mesh)
    shape.check(mesh)  # from memory


def test_either_diagonal_will_do():
    mesh = rectangle(3, 3)
    numbers = Grid(3, 3).numbers
    a, b, c, d = numbers[0, 0], numbers[1, 0], numbers[1, 1], numbers[0, 1]
    first = {frozenset(map(int, cell)) for cell in mesh.cells}
    corner = [cell for cell in mesh.cells if set(cell) <= {a, b, c, d}]
    assert len(corner) == 2
    kept = [cell for cell in mesh.cells if not set(cell) <= {a, b, c, d}]
    uses_ac = frozenset(map(int, (a, b, c))) in first
    new = [[a, b, d], [b, c, d]] if uses_ac else [[a, b, c], [a, c, d]]
    flipped = build(mesh.points, np.array([*kept, *new]), {"wall": everywhere})
    Grid(3, 3).check(flipped)


def test_a_c_grid_has_a_cut():
    mesh, numbers = c_grid(21, 6, cut=5)
    shape = Grid(21, 6, cut=5)
    assert np.array_equal(shape.numbers, numbers)
    shape.check(mesh)
    assert Grid(111, 26, cut=19).n_nodes == 111 * 26 - 19
    with pytest.raises(MeshError, match=r"is no 21 x 6 grid, which has 126 nodes"):
        Grid(21, 6).check(mesh)


def test_the_structured_families_are_grids():
    Grid(65, 33).check(grid_mesh(64, 32))
    airfoil = around_airfoil(Airfoil(np.zeros((4, 2))))
    shape = Grid(111, 26, cut=19)
    shape.check(airfoil.triangulated())
    assert np.array_equal(shape.numbers, airfoil.numbers)


@pytest.mark.parametrize("name", ["square_with_hole", "random_delaunay", "disc", "cube"])
def test_other_meshes_are_refused(name: str):
    mesh = ZOO[name]()
    with pytest.raises(MeshError, match=r"is no 9 x 9 grid") as caught:
        Grid(9, 9).check(mesh)
    assert "unstructured" in caught.value.cure


def test_the_right_number_of_nodes_is_not_enough():
    mesh = rectangle(6, 9)
    with pytest.raises(MeshError, match=r"has the 54 nodes of a 9 x 6 grid, but not its edges"):
        Grid(9, 6).check(mesh)
    order = np.random.default_rng(0).permutation(mesh.n_nodes)
    place = np.argsort(order)
    shuffled = Mesh(
        mesh.points[order], place[mesh.cells], {g: place[f] for g, f in mesh.groups.items()}
    )
    with pytest.raises(MeshError, match="numbered row by row"):
        Grid(6, 9).check(shuffled)


@pytest.mark.parametrize(("rows", "cols", "cut"), [(1, 5, 0), (5, 1, 0), (6, 5, 4), (6, 5, -1)])
def test_impossible_shapes_are_refused(rows: int, cols: int, cut: int):
    with pytest.raises(ConfigError, match="is no grid"):
        Grid(rows, cols, cut)


@pytest.mark.parametrize("shape", [Grid(5, 4), Grid(9, 3, cut=2), Grid(111, 26, cut=19)])
def test_the_mirror_image_reverses_the_rows_and_is_its_own_inverse(shape: Grid):
    image, numbers = shape.mirrored, shape.numbers
    assert np.array_equal(image[numbers], numbers[::-1])
    assert np.array_equal(image[image], np.arange(shape.n_nodes))
