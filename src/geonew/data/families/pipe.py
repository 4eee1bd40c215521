r"""``pipe``: flow through a bent pipe on a structured grid; u of record.

The centre line is a polynomial of degree 5 with level ends, :math:`\xi = x / L`, L = 10:

.. math:: y_c = b_1\, \xi^2 (3 - 2 \xi)
          + b_2\, 16\, \xi^2 (1 - \xi)^2 + b_3\, 56\, \xi^2 (1 - \xi)^2 (2 \xi - 1),

three shapes of height about 1. The pipe has width 1 along the normals of the centre line, and the
grid is the image of a rectangle: 65 points along, 33 across, cut into triangles so that a diagonal
starts in every corner (a triangle with two sides on the wall would lock). Refined meshes are images
of finer rectangles: no geometric error is left at their vertices.

In distribution the largest of \|b_k\| is at most 1, out of it more. Dimensionless Navier-Stokes
with U = 1 at the middle of the inlet, rho = 1, nu = 1/50: Re = 50 by the width.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.sparse import csr_matrix, identity

from geonew.data.families.flow import Fluid, flow_problem, solve_flow
from geonew.data.families.sizing import check_axis, check_case, is_ood
from geonew.data.families.truth import FineMesh
from geonew.data.record import Case, Level, Record, Split
from geonew.errors import ShapeError
from geonew.mesh import Mesh
from geonew.mesh.refine import refine
from geonew.problem import Problem

LENGTH = 10.0
CELLS = (64, 32)
FACTOR: dict[Level, int] = {"coarse": 1, "medium": 2, "fine": 4}
FLUID = Fluid(viscosity=0.02, density=1.0)
PRESSURE = 1.0
AMPLITUDE, AMPLITUDE_OOD = 1.0, (1.0, 1.5)
# The centre line bends with a radius of at least this: the inner wall is at 1/2.
TIGHTEST = 0.8
TRIES = 1000


@dataclass(frozen=True)
class CentreLine:
    """The polynomial of the module docstring, by its three coefficients."""

    b: tuple[float, float, float]

    def polynomial(self) -> np.polynomial.Polynomial:
        """y_c as a polynomial in x / L."""
        xi = np.polynomial.Polynomial([0.0, 1.0])
        hill = xi**2 * (1 - xi) ** 2
        return (
            self.b[0] * xi**2 * (3 - 2 * xi)
            + 16 * self.b[1] * hill
            + 56 * self.b[2] * hill * (2 * xi - 1)
        )

    def tightest(self) -> float:
        """Smallest radius of curvature, on a fine sample."""
        xi, y = np.linspace(0, 1, 1001), self.polynomial()
        slope, bend = y.deriv()(xi) / LENGTH, y.deriv(2)(xi) / LENGTH**2
        return float(1 / np.abs(bend / (1 + slope**2) ** 1.5).max(initial=1e-12))

    def straight_flow(self, grid: Float[ndarray, "n 2"]) -> Float[ndarray, "n 2"]:
        """Velocity at the image of such points if the pipe were straight, turned along it."""
        xi, across = grid.T
        slope = self.polynomial().deriv()(xi) / LENGTH
        along = np.stack([np.ones_like(slope), slope], axis=1) / np.hypot(1, slope)[:, None]
        return (1 - 4 * across**2)[:, None] * along

    def image(self, grid: Float[ndarray, "n 2"]) -> Float[ndarray, "n 2"]:
        """Points (along, across) of [0, 1] x [-1/2, 1/2] in the pipe."""
        xi, across = grid.T
        y = self.polynomial()
        slope = y.deriv()(xi) / LENGTH
        normal = np.stack([-slope, np.ones_like(slope)], axis=1) / np.hypot(1, slope)[:, None]
        return np.stack([LENGTH * xi, y(xi)], axis=1) + across[:, None] * normal


def grid_mesh(columns: int, rows: int) -> Mesh:
    """The rectangle [0, 1] x [-1/2, 1/2] in triangles, diagonals towards its middle."""
    x, y = np.linspace(0, 1, columns + 1), np.linspace(-0.5, 0.5, rows + 1)
    points = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1).reshape(-1, 2)
    number = np.arange(len(points)).reshape(columns + 1, rows + 1)
    a, b, c, d = (
        q.ravel() for q in (number[:-1, :-1], number[1:, :-1], number[1:, 1:], number[:-1, 1:])
    )
    left, low = np.meshgrid(
        np.arange(columns) < columns // 2, np.arange(rows) < rows // 2, indexing="ij"
    )
    rising = (left == low).ravel()[:, None]  # the diagonal from a to c, else from b to d
    first = np.where(rising, np.stack([a, b, c], axis=1), np.stack([a, b, d], axis=1))
    second = np.where(rising, np.stack([a, c, d], axis=1), np.stack([b, c, d], axis=1))
    groups = {
        "inlet": np.stack([number[0, :-1], number[0, 1:]], axis=1),
        "wall": np.concatenate(
            [np.stack([number[:-1, k], number[1:, k]], axis=1) for k in (0, rows)]
        ),
        "outlet": np.stack([number[-1, :-1], number[-1, 1:]], axis=1),
    }
    return Mesh(points, np.concatenate([first, second]), groups)


@dataclass(frozen=True)
class Pipe:
    """Bent pipes; see the module docstring."""

    name: str = "pipe"

    @property
    def problem(self) -> Problem:
        """The Navier-Stokes equations, all terms known."""
        return flow_problem(
            self.name, FLUID, speed=1.0, pressure=PRESSURE, convection=True, walls=("wall",)
        )

    @property
    def ranges(self) -> Mapping[str, str]:
        """Drawn parameters."""
        return {
            "b_1, b_2, b_3": f"ID uniform in +-{AMPLITUDE}; OOD uniform in +-{AMPLITUDE_OOD[1]} "
            f"with the largest beyond {AMPLITUDE_OOD[0]}; drawn again where the centre line bends "
            f"with a radius below {TIGHTEST}",
            "swap": "flow reversed: only on request",
        }

    @property
    def units(self) -> Mapping[str, str]:
        """Dimensionless: lengths over the width, velocity over U, pressure over rho U^2."""
        drawn = ("b_k", "amplitude", "swap", "tries")
        return dict.fromkeys(("length", "velocity", "pressure", *drawn), "1")

    def draw(
        self,
        split: Split,
        generator: np.random.Generator,
        axis: tuple[str, float] | None = None,
        swap: bool = False,
    ) -> Case:
        """A random case; the axis ``amplitude`` sets the largest of the coefficients."""
        axis = check_axis(self.name, axis, {"amplitude": (0.0, AMPLITUDE_OOD[1])})
        ood = is_ood(split, axis)
        tries = 0
        while tries < TRIES:
            tries += 1
            b = generator.uniform(-1, 1, size=3)
            if axis is not None:
                b = b * axis[1] / np.abs(b).max()
            elif ood:
                b = b * AMPLITUDE_OOD[1]
            line = CentreLine((float(b[0]), float(b[1]), float(b[2])))
            beyond = np.abs(b).max() > AMPLITUDE_OOD[0]
            if line.tightest() >= TIGHTEST and (beyond or not ood):
                break
        else:
            raise ShapeError(
                f"no centre line with radii of at least {TIGHTEST} in {TRIES} draws",
                "draw from another seed, or with a smaller amplitude",
            )
        coefficients = {f"b_{k + 1}": value for k, value in enumerate(line.b)}
        return Case(
            family=self.name,
            split=split,
            shape={"kind": "pipe", **coefficients, "swap": int(swap)},
            parameters={**coefficients, "swap": int(swap), "tries": tries},
            axes={"amplitude": float(np.abs(line.b).max())},
        )

    def mesh(self, case: Case, level: Level) -> Mesh:
        """The mesh that is stored."""
        columns, rows = (FACTOR[level] * n for n in CELLS)
        return self._bent(grid_mesh(columns, rows), case)

    def _bent(self, rectangle: Mesh, case: Case) -> Mesh:
        groups = dict(rectangle.groups)
        if case.shape["swap"]:
            groups["inlet"], groups["outlet"] = groups["outlet"], groups["inlet"]
        return Mesh(_line(case).image(rectangle.points), rectangle.cells, groups)

    def solve(self, case: Case, level: Level, *, times: int = 1) -> Record:
        """P2/P1 on the grid refined ``times``, restricted to the stored vertices."""
        start = perf_counter()
        check_case(self.name, case)
        mesh = self.mesh(case, level)
        columns, rows = (FACTOR[level] * n for n in CELLS)
        rectangle = refine(grid_mesh(columns, rows), times)
        fine = self._bent(rectangle, case)
        hats = csr_matrix(identity(fine.n_nodes))[:, : mesh.n_nodes]
        swap, end = bool(case.shape["swap"]), float(case.shape["b_1"])

        def inflow(x: ndarray) -> ndarray:
            s = np.clip(x[:, 1] - (end if swap else 0.0), -0.5, 0.5)  # the ends are level
            profile = (-1.0 if swap else 1.0) * (1 - 4 * s**2)
            return np.stack([profile, np.zeros_like(profile)], axis=1)

        # Newton's method starts so near the solution that one factorisation is enough.
        return solve_flow(
            mesh,
            FineMesh(fine, csr_matrix(hats)),
            FLUID,
            inflow,
            case,
            start,
            singular=np.empty(0, dtype=np.int64),
            guess=(-1.0 if swap else 1.0) * _line(case).straight_flow(rectangle.points),
        )


def _line(case: Case) -> CentreLine:
    b_1, b_2, b_3 = (float(case.shape[f"b_{k}"]) for k in (1, 2, 3))
    return CentreLine((b_1, b_2, b_3))
