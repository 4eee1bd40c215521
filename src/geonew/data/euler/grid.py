r"""Structured C-grids around airfoils, by the square root mapping.

With a singular point z_0 inside the nose, half its radius behind the leading edge,
:math:`w = \sqrt{z - z_0}` opens the airfoil and the wake into one nearly straight line
:math:`w = \xi + i S(\xi)`; lines of constant :math:`\xi` above it give the grid

.. math:: z(s, t) = z_0 + \bigl[ \xi(s) + i\,((1 - t) S(s) + \eta(t)) \bigr]^2,

s in [-1, 1] from the wake below along the airfoil to the wake above, t in [0, 1] outwards. Far out
it is the orthogonal grid of parabolas. The mapping is one to one above the line, so all cells have
positive area (checked all the same). Both sides of the wake have the same points, w and -w.

Identity kept: the grids of all levels sample one mapping at (s, t), hence are nested exactly in
exact arithmetic; here coarser grids are taken from finer ones, every second node, to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.optimize import brentq

from geonew.data.euler.airfoil import Airfoil
from geonew.errors import ShapeError
from geonew.mesh import Mesh

# Cells of the coarse grid, 111 x 26 nodes: on each side of the wake, around the airfoil, outwards.
WAKE_CELLS, AIRFOIL_CELLS, NORMAL_CELLS = 18, 74, 25
# Far field: the wake's length behind the trailing edge, and distance ahead of the nose, in chords.
FAR = 25.0
# Stations on the airfoil x = (1 - cos(a s)) / (1 - cos a): fine at the nose, and, for a near pi, at
# the trailing edge too; at 0.8 pi it has cells half as long as those of mid-chord.
CLUSTERING = 0.8 * np.pi
# Height eta of the first cell of the coarse grid: about 1.5 times that in chords at mid-chord.
FIRST_HEIGHT = 0.016
# Length over which the wake line, leaving along the bisector of the trailing edge, turns level.
WAKE_TURN = 0.5
# Diagonals as long as each other up to round-off count as equal.
TIE = 1 + 1e-9


@dataclass(frozen=True, eq=False)
class CGrid:
    """A structured grid around an airfoil.

    Args:
        nodes: coordinates; the first index runs from the wake below around the nose to the wake
            above, the second outwards.
        wake: cells along each side of the wake.

    """

    nodes: Float[ndarray, "I J 2"]
    wake: int

    def __post_init__(self) -> None:
        self.nodes.setflags(write=False)
        n = self.wake + 1
        if not np.array_equal(self.nodes[:n, 0], self.nodes[::-1, 0][:n]):
            raise ShapeError("the two sides of the wake have different nodes")
        if self.areas.min() <= 0:
            bad = np.unravel_index(self.areas.argmin(), self.areas.shape)
            raise ShapeError(
                f"cell {tuple(map(int, bad))} of the C-grid has area {self.areas.min():.3g}",
                "the airfoil is deformed too much for this kind of grid; use smaller displacements",
            )

    @property
    def cells(self) -> tuple[int, int]:
        """Number of cells along and outwards."""
        return self.nodes.shape[0] - 1, self.nodes.shape[1] - 1

    @cached_property
    def areas(self) -> Float[ndarray, "m n"]:
        """Areas of the cells, by their diagonals."""
        p = self.nodes
        a, b = p[1:, 1:] - p[:-1, :-1], p[:-1, 1:] - p[1:, :-1]
        return (a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]) / 2

    def coarsened(self, factor: int = 2) -> CGrid:
        """Every ``factor``-th node."""
        m, n = self.cells
        if m % factor or n % factor or self.wake % factor:
            raise ShapeError(f"a grid of {m} x {n} cells cannot be coarsened {factor} times")
        return CGrid(self.nodes[::factor, ::factor].copy(), self.wake // factor)

    # -- triangles -----------------------------------------------------------------------------

    @cached_property
    def numbers(self) -> ndarray:
        """Number of each node in the merged mesh, (I, J): the wake's coincident nodes have one."""
        count_i, count_j = self.nodes.shape[:2]
        numbers = np.arange(count_i * count_j).reshape(count_i, count_j)
        n = self.wake + 1
        numbers[::-1, 0][:n] = numbers[:n, 0]
        _, flat = np.unique(numbers, return_inverse=True)
        return flat.reshape(count_i, count_j)

    def merged(self, values: Float[ndarray, "I J *d"]) -> Float[ndarray, "N *d"]:
        """Values on the grid at the nodes of :meth:`triangulated`, averaged at the cut."""
        n = self.wake + 1
        values = values.copy()
        values[:n, 0] = (values[:n, 0] + values[::-1, 0][:n]) / 2
        _, first = np.unique(self.numbers, return_index=True)
        return values.reshape(-1, *values.shape[2:])[first]

    def triangulated(self) -> Mesh:
        """The grid's triangles, no slit at the wake; groups farfield, outflow and airfoil.

        Quadrilaterals are cut along their shorter diagonals, equal ones along the first.
        """
        number = self.numbers
        corner = [number[:-1, :-1], number[1:, :-1], number[1:, 1:], number[:-1, 1:]]
        a, b, c, d = (k.ravel() for k in corner)
        points = self.merged(self.nodes)
        short = np.linalg.norm(points[a] - points[c], axis=1) <= TIE * np.linalg.norm(
            points[b] - points[d], axis=1
        )
        first = np.where(short[:, None], np.stack([a, b, c], 1), np.stack([a, b, d], 1))
        second = np.where(short[:, None], np.stack([a, c, d], 1), np.stack([b, c, d], 1))
        wall = number[self.wake : len(number) - self.wake, 0]
        lines = {
            "farfield": [number[:, -1]],
            "outflow": [number[0], number[-1]],
            "airfoil": [wall],
        }
        groups = {
            name: np.concatenate([np.stack([k[:-1], k[1:]], axis=1) for k in parts])
            for name, parts in lines.items()
        }
        return Mesh(points, np.concatenate([first, second]), groups)


def c_grid(airfoil: Airfoil, refinement: int = 1) -> CGrid:
    """The C-grid with ``refinement`` times the cells of the coarse grid in each direction.

    Args:
        airfoil: what it surrounds.
        refinement: 1 for 111 x 26 nodes, 2 for 221 x 51, 4 for 441 x 101, and so on.

    """
    if refinement < 1:
        raise ShapeError(f"refinement {refinement} of a C-grid", "give 1 or more")
    z0 = complex(
        airfoil.nose_radius / 2, float(airfoil.camber(np.array([airfoil.nose_radius / 2]))[0])
    )
    wake, around = WAKE_CELLS * refinement, AIRFOIL_CELLS * refinement
    wall = _airfoil_points(airfoil, around)
    behind = _wake_points(airfoil, wake)
    # angle of z - z0, followed from the trailing edge below (2 pi) around the nose to the one above
    angle = np.unwrap(np.angle(wall - z0)[::-1])[::-1]
    w_wall = np.sqrt(np.abs(wall - z0)) * np.exp(0.5j * angle)
    w_wake = np.sqrt(behind - z0)
    line = np.concatenate([-w_wake[::-1], w_wall, w_wake])
    along, above = np.real(line), np.imag(line)
    if not (np.diff(along) > 0).all():
        raise ShapeError(
            "the airfoil folds over in the square root mapping",
            "it is deformed too much for this kind of grid; use smaller displacements",
        )
    t = np.linspace(0, 1, NORMAL_CELLS * refinement + 1)
    height = _stretched(t, FIRST_HEIGHT * NORMAL_CELLS, np.sqrt(FAR))
    w = along[:, None] + 1j * (above[:, None] * (1 - t) + height)
    z = z0 + w**2
    z[:, 0] = np.concatenate([behind[::-1], wall, behind])  # free of the round-off of the mapping
    nodes = np.stack([np.real(z), np.imag(z)], axis=-1)
    return CGrid(nodes, wake)


def _airfoil_points(airfoil: Airfoil, cells: int) -> ndarray:
    """Points from the trailing edge below to the one above, as complex numbers."""
    s = np.linspace(-1, 1, cells + 1)
    x = (1 - np.cos(CLUSTERING * s)) / (1 - np.cos(CLUSTERING))
    x[[0, -1]] = 1.0
    y = airfoil.surface(x, np.sign(s))
    y[[0, -1]] = airfoil.trailing_edge[0]
    return x + 1j * y


def _wake_points(airfoil: Airfoil, cells: int) -> ndarray:
    """Points behind the trailing edge, without it; spacing continues that of the airfoil."""
    at_edge = CLUSTERING * np.sin(CLUSTERING) / (1 - np.cos(CLUSTERING))
    first = at_edge * WAKE_CELLS / (AIRFOIL_CELLS / 2)  # dx/dt at the trailing edge
    behind = _stretched(np.linspace(0, 1, cells + 1)[1:], first, FAR)
    height, slope = airfoil.trailing_edge
    y = height + slope * WAKE_TURN * (1 - np.exp(-behind / WAKE_TURN))
    return 1 + behind + 1j * y


def _stretched(t: ndarray, slope: float, length: float) -> ndarray:
    """f(t) = length (e^(bt) - 1) / (e^b - 1) with f'(0) = slope."""
    b = float(brentq(lambda b: b / np.expm1(b) - slope / length, 1e-6, 50.0))  # pyright: ignore[reportArgumentType]
    return length * np.expm1(b * t) / np.expm1(b)
