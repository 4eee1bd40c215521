"""A small family for the tests of storage and generation: Poisson in a randomly stretched square.

Importable by workers, which start in fresh processes. Real meshes and the real solver; some draws
fail on purpose, with a named error, and others can kill their worker or hide a mistake.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from geonew.data.record import Case, Level, Record, Split
from geonew.errors import SolverError
from geonew.fem.reference import solve_poisson
from geonew.problem import Dirichlet, Field, Neumann, Parameter, Problem, Term
from zoo import build, grid

NODES = {"coarse": 6, "medium": 11, "fine": 21}


@dataclass(frozen=True)
class Square:
    """-div(k grad u) = f in [0, a] x [0, 1], u = g on the left, a flux on the right.

    Args:
        failing: part of the draws that fail with a named error.
        mistake_at: sample whose solve has a mistake (by the number stored in the case).
        deadly: a file; while it does not exist, one worker makes it and dies.
        pause: seconds per solve.

    """

    failing: float = 0.0
    mistake: bool = False
    deadly: str = ""
    pause: float = 0.0
    name: str = "square"
    units: Mapping[str, str] = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        object.__setattr__(self, "units", {"length": "m", "u": "K"})

    @property
    def problem(self) -> Problem:
        return Problem(
            name="square",
            dim=2,
            fields=(Field("u"),),
            groups=("left", "right", "wall"),
            dirichlet=(Dirichlet("u", "left"),),
            neumann=(Neumann("u", "right"),),
            sources=("u",),
            parameters=(Parameter("k"),),
            terms=(Term("diffusion", ("u",), 1.0, {"k": 1.0}),),
        )

    @property
    def ranges(self) -> Mapping[str, str]:
        return {"width": "1 to 2, ood 2 to 4", "k": "0.5 to 2", "f": "0 to 1"}

    def draw(
        self,
        split: Split,
        generator: np.random.Generator,
        axis: tuple[str, float] | None = None,
        swap: bool = False,
    ) -> Case:
        width = generator.uniform(2, 4) if split == "ood" else generator.uniform(1, 2)
        if axis is not None:
            assert axis[0] == "width"
            width = axis[1]
        k, f, luck = generator.uniform(0.5, 2), generator.uniform(), generator.uniform()
        return Case(
            "square",
            split,
            {"width": width, "swap": swap},
            {"width": width, "k": k, "f": f, "luck": luck},
            {"width": width, "side": "left"},
        )

    def solve(self, case: Case, level: Level) -> Record:
        time.sleep(self.pause)
        if self.deadly and not Path(self.deadly).exists():
            Path(self.deadly).touch()
            os.kill(os.getpid(), 9)
        if self.mistake:
            raise TypeError("a mistake")
        if case.parameters["luck"] < self.failing:
            raise SolverError(f"luck {case.parameters['luck']:.3f} ran out")
        n, width = NODES[level], case.parameters["width"]
        points, cells = grid([np.linspace(0, width, n + int(2 * width)), np.linspace(0, 1, n)])
        labels = {
            "left": lambda x: x[:, 0] < 1e-9,
            "right": lambda x: x[:, 0] > width - 1e-9,
            "wall": lambda x: x[:, 0] > -1,
        }
        mesh = build(points, cells, labels)
        k, f = case.parameters["k"], case.parameters["f"]
        value = -1.0 if case.shape["swap"] else 1.0
        solution = solve_poisson(
            mesh, dirichlet={"left": value}, neumann={"right": 0.3}, source=f, conductivity=k
        )
        count = {group: len(mesh.nodes_of(group)) for group in mesh.groups}
        return Record(
            mesh=mesh,
            fields={"u": solution.values},
            boundary={"left": {"u": np.full((count["left"], 1), value)}},
            case=case,
            parameters={"k": k},
            sources={"u": np.full(mesh.n_nodes, f)},
            neumann={"right": {"u": np.full((count["right"], 1), 0.3)}},
            info={"residual": solution.residual},
        )
