r"""``naca``: transonic Euler flow over deformed NACA 0012 airfoils; Mach number of record.

Control points of a design element around the airfoil move vertically
(:mod:`geonew.data.euler.airfoil`): in distribution by at most 0.02 chord, out of it the largest by
0.02 to 0.04. The stream has Mach number 0.8 and no incidence, as in the Geo-FNO set; sweeps move
one of deformation, Mach number and incidence.

The mesh is a structured C-grid cut into triangles, nodes of the wake's two sides merged
(:mod:`geonew.data.euler.grid`). The truth is computed by finite volumes on the grid with twice the
cells in each direction (on the same one at level fine) and taken at the stored nodes, which are
nodes of that grid.

Mach number is prescribed on the group ``farfield``, the outer parabola, and natural on the airfoil
and on ``outflow``, where a wake leaves that has lost total pressure in the shocks. Computed 25
chords away, the far field still feels the airfoil's lift: it differs from the stream by a few
thousandths (kept as ``farfield_defect``). Stored there is what is prescribed, the stream's Mach
number, since nobody knows the lift beforehand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import cos, radians, sin
from time import perf_counter

import numpy as np

from geonew.data.euler.airfoil import Airfoil
from geonew.data.euler.grid import CGrid, c_grid
from geonew.data.families.sizing import check_axis, check_case, is_ood, refuse_swap
from geonew.data.record import Case, Level, Record, Split
from geonew.errors import InputError, SolverError
from geonew.problem import Dirichlet, Field, FrameRule, Parameter, Problem

MACH, ANGLE = 0.8, 0.0
DEFORMATION, DEFORMATION_OOD = 0.02, (0.02, 0.04)
AXES = {
    "deformation": (0.0, DEFORMATION_OOD[1]),
    "mach": (0.7, 0.84),
    "angle": (-2.0, 2.0),
}
# Cells of the stored grid and of the one solved on, as multiples of 110 x 25.
FACTOR: dict[Level, int] = {"coarse": 1, "medium": 2, "fine": 4}
TRUTH: dict[Level, int] = {"coarse": 2, "medium": 4, "fine": 4}
CONTROLS = tuple((a, b) for a in range(4) for b in range(2))
TRIES = 1000


def _name(a: int, b: int) -> str:
    """Name of a control point's displacement: from the leading edge, lower or upper."""
    return f"d_{a}{'lu'[b]}"


@dataclass(frozen=True)
class NacaEuler:
    """Deformed NACA 0012 in a transonic stream; see the module docstring."""

    name: str = "naca"

    @property
    def problem(self) -> Problem:
        """Mach number, with the vector of the stream as parameter."""
        return Problem(
            name=self.name,
            dim=2,
            fields=(Field("mach", reference=MACH),),
            groups=("farfield", "outflow", "airfoil"),
            dirichlet=(Dirichlet("mach", "farfield"),),
            parameters=(Parameter("stream", rank="vector", reference=MACH),),
            frame=(FrameRule("normal", "outflow"),),
            harmonic=(("farfield", "airfoil"),),
        )

    @property
    def ranges(self) -> Mapping[str, str]:
        """Drawn parameters."""
        low, high = DEFORMATION_OOD
        return {
            "d_0l ... d_3u": "vertical displacements of the 4 x 2 control points in chords (from "
            f"the leading edge, lower and upper): ID uniform in +-{DEFORMATION}; OOD uniform in "
            f"+-{high} with the largest beyond {low}; drawn again where less than a tenth of the "
            "thickness is left",
            "mach": f"{MACH}; sweep {AXES['mach'][0]} to {AXES['mach'][1]}",
            "angle": f"{ANGLE} degrees; sweep {AXES['angle'][0]} to {AXES['angle'][1]}",
        }

    @property
    def units(self) -> Mapping[str, str]:
        """Dimensionless: lengths over the chord, velocity over the stream's speed of sound."""
        stored = ("length", "mach", "density", "velocity", "pressure", "stream")
        drawn = (*(_name(a, b) for a, b in CONTROLS), "deformation", "tries")
        return {**dict.fromkeys((*stored, *drawn), "1"), "angle": "deg"}

    def draw(
        self,
        split: Split,
        generator: np.random.Generator,
        axis: tuple[str, float] | None = None,
        swap: bool = False,
    ) -> Case:
        """A random case; axes ``deformation`` (the largest displacement), ``mach``, ``angle``."""
        refuse_swap(self.name, swap)
        axis = check_axis(self.name, axis, AXES)
        flow = {"mach": MACH, "angle": ANGLE}
        if axis is not None and axis[0] in flow:
            flow[axis[0]] = axis[1]
        tries = 0
        while tries < TRIES:
            tries += 1
            d = generator.uniform(-1, 1, size=(4, 2))
            if axis is not None and axis[0] == "deformation":
                d *= axis[1] / np.abs(d).max()
            elif is_ood(split, axis):
                low, high = DEFORMATION_OOD
                d *= high
                if np.abs(d).max() <= low:
                    continue
            else:
                d *= DEFORMATION
            if Airfoil.is_thick_enough(d):
                break
        else:
            raise InputError(
                f"no airfoil of positive thickness in {TRIES} draws", "draw from another seed"
            )
        controls = {_name(a, b): float(d[a, b]) for a, b in CONTROLS}
        return Case(
            family=self.name,
            split=split,
            shape={"kind": "airfoil", **controls},
            parameters={**controls, **flow, "tries": tries},
            axes={"deformation": float(np.abs(d).max()), **flow},
        )

    def airfoil(self, case: Case) -> Airfoil:
        """The airfoil of a case."""
        d = [[float(case.shape[_name(a, b)]) for b in range(2)] for a in range(4)]
        return Airfoil(np.array(d))

    def solve(self, case: Case, level: Level, *, truth: int | None = None) -> Record:
        """Finite volumes on the grid of ``truth`` times the coarse one's cells, at stored nodes."""
        try:  # compiled kernels are loaded only by those who solve, not by those who read
            from geonew.data.euler.measures import forces, mach_number, mass_balance, nodal_state
            from geonew.data.euler.solver import FreeStream, solve_euler
        except ModuleNotFoundError as error:
            raise SolverError(
                f"the Euler solver needs {error.name}", "install it: pip install 'geonew[data]'"
            ) from error

        start = perf_counter()
        check_case(self.name, case)
        truth = truth or TRUTH[level]
        if truth % FACTOR[level]:
            raise InputError(
                f"a grid refined {truth} times does not hold the nodes of level {level!r}",
                f"give a multiple of {FACTOR[level]}",
            )
        mach, angle = float(case.parameters["mach"]), float(case.parameters["angle"])
        grids = nested(c_grid(self.airfoil(case), truth))
        solution = solve_euler(grids, FreeStream(mach, angle))
        stride = truth // FACTOR[level]
        stored = grids[-1].coarsened(stride)
        state = stored.merged(nodal_state(solution)[::stride, ::stride])
        mesh = stored.triangulated()
        values = mach_number(state)
        far = mesh.nodes_of("farfield")
        defect = float(np.abs(values[far] - mach).max())
        values[far] = mach
        force = forces(solution)
        return Record(
            mesh=mesh,
            fields={
                "mach": values,
                "density": state[:, 0].copy(),
                "velocity": state[:, 1:3].copy(),
                "pressure": state[:, 3].copy(),
            },
            boundary={"farfield": {"mach": np.full((len(far), 1), mach)}},
            parameters={
                "stream": mach * np.array([cos(radians(angle)), sin(radians(angle))]),
            },
            case=case,
            info={
                "residual": solution.fall,
                "seconds": perf_counter() - start,
                "truth_nodes": float(np.prod(grids[-1].nodes.shape[:2])),
                "newton_steps": float(solution.steps),
                "krylov_steps": float(solution.krylov),
                "lift": force.lift,
                "drag": force.drag,
                "mass_balance": mass_balance(solution),
                "farfield_defect": defect,
            },
        )


def nested(grid: CGrid) -> list[CGrid]:
    """The grid with those of half the cells, a quarter and so on, the coarsest first."""
    grids = [grid]
    while not any(n % 2 for n in (*grids[0].cells, grids[0].wake)):
        grids.insert(0, grids[0].coarsened())
    return grids
