r"""``ns2d-re``: channels as in ``ns2d-c++``, Reynolds number and inlet profile drawn.

Dimensionless, :math:`Re\, (u \cdot \nabla) u - \Delta u + \nabla p = 0`: p is in units of the
viscous stress :math:`\mu U / H`, so that it stays of one size from Re = 1 to 100.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from geonew.data.families.channel import (
    OBSTACLES,
    RADIUS,
    UNITS_OBSTACLES,
    Channel,
    channel_mesh,
    inflow_through,
    numbers_of,
    solve_channel,
)
from geonew.data.families.flow import Fluid, flow_problem
from geonew.data.families.placing import place
from geonew.data.families.sizing import check_axis, check_case, is_ood
from geonew.data.record import Case, Level, Record, Split
from geonew.mesh import Mesh
from geonew.problem import Problem
from geonew.shape import Shape

REYNOLDS, REYNOLDS_OOD = (1.0, 100.0), (100.0, 200.0)
SKEW, SKEW_OOD = 0.5, (0.5, 0.9)
FLATNESS = 0.5
AXES_RE = {"reynolds": (1.0, 200.0), "skew": (-0.9, 0.9), "flatness": (-0.5, 0.5)}
# Of p in units of the viscous stress, and of the Reynolds number.
PRESSURE_RE, REFERENCE_RE = 100.0, 10.0


@dataclass(frozen=True)
class ChannelReynolds:
    """``ns2d-re``: Reynolds number and inlet profile drawn, shapes as in ``ns2d-c++``."""

    name: str = "ns2d-re"

    @property
    def problem(self) -> Problem:
        """The Navier-Stokes equations, convection times the parameter ``reynolds``."""
        return flow_problem(
            self.name,
            Fluid(1.0, 1.0),
            speed=1.0,
            pressure=PRESSURE_RE,
            convection=True,
            reynolds=REFERENCE_RE,
        )

    @property
    def ranges(self) -> Mapping[str, str]:
        """Drawn parameters."""
        return {
            "reynolds": f"U H / nu: ID log-uniform in {REYNOLDS}, OOD uniform in "
            f"({REYNOLDS_OOD[0]:g}, {REYNOLDS_OOD[1]:g}]",
            "skew": f"a of the inlet profile: ID uniform in +-{SKEW}, OOD of either sign with size "
            f"in ({SKEW_OOD[0]}, {SKEW_OOD[1]}]",
            "flatness": f"b of the inlet profile: uniform in +-{FLATNESS}, times 1 - |a| OOD",
            "obstacles, radius_k, x_k, y_k": "as ns2d-c++ in distribution",
            "swap": "flow reversed: only on request",
        }

    @property
    def units(self) -> Mapping[str, str]:
        """Dimensionless; pressure over the viscous stress."""
        ones = ("length", "velocity", "pressure", "reynolds", "skew", "flatness")
        return {**dict.fromkeys((*ones, "x_k", "y_k", "radius_k"), "1"), **UNITS_OBSTACLES}

    def draw(
        self,
        split: Split,
        generator: np.random.Generator,
        axis: tuple[str, float] | None = None,
        swap: bool = False,
    ) -> Case:
        """A random case; axes ``reynolds``, ``skew``, ``flatness``."""
        axis = check_axis(self.name, axis, AXES_RE)
        ood = is_ood(split, axis)
        fixed = {} if axis is None else {axis[0]: axis[1]}
        part, sign = 1 - generator.random(), float(generator.choice([-1.0, 1.0]))
        size, flat = 1 - generator.random(), float(generator.uniform(-FLATNESS, FLATNESS))
        if ood:
            reynolds = REYNOLDS_OOD[0] + (REYNOLDS_OOD[1] - REYNOLDS_OOD[0]) * part
            skew = sign * (SKEW_OOD[0] + (SKEW_OOD[1] - SKEW_OOD[0]) * size)
            flat *= (1 - abs(skew)) / FLATNESS
        else:
            reynolds, skew = REYNOLDS[0] * (REYNOLDS[1] / REYNOLDS[0]) ** part, sign * SKEW * size
        chosen = {
            "reynolds": float(fixed.get("reynolds", reynolds)),
            "skew": float(fixed.get("skew", skew)),
            "flatness": float(fixed.get("flatness", flat)),
        }
        count = int(generator.integers(OBSTACLES[0], OBSTACLES[1] + 1))
        channel = Channel()
        obstacles, tries = place(generator, [False] * count, RADIUS, channel.walls, channel.length)
        return Case(
            family=self.name,
            split=split,
            shape=channel.shape(obstacles, swap).to_dict(),
            parameters={**chosen, **numbers_of(obstacles), "swap": int(swap), "tries": tries},
            axes=dict(chosen),
        )

    def mesh(self, case: Case, level: Level) -> Mesh:
        """The mesh that is stored."""
        return channel_mesh(Shape.from_dict(case.shape), level)

    def solve(self, case: Case, level: Level, *, times: int = 1) -> Record:
        """P2/P1 on the mesh refined ``times``, restricted to the stored vertices."""
        check_case(self.name, case)
        data = case.parameters
        inflow = inflow_through(
            Shape.from_dict(case.shape), 1.0, float(data["skew"]), float(data["flatness"])
        )
        reynolds = float(data["reynolds"])
        # Velocity and length 1, stress mu U / H = 1: density Re, kinematic viscosity 1 / Re.
        fluid = Fluid(viscosity=1 / reynolds, density=reynolds)
        return solve_channel(case, level, fluid, inflow, times, {"reynolds": reynolds})
