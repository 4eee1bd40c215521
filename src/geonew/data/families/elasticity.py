r"""``elasticity``: a unit cell with a random cavity, clamped below and pulled above.

.. math:: -\nabla \cdot \sigma(u) = 0, \quad \sigma = \lambda\, \mathrm{tr}\,\varepsilon\, I
          + 2 \mu \varepsilon, \qquad u = 0 \text{ below}, \quad \sigma n = (0, 1) \text{ above},

the rest free of traction; plane strain, E = 1, nu = 0.3. The problem is linear: other E and loads
scale it. The cavity is centred, with radius

.. math:: r(\varphi) = 0.2 + 0.2 / (1 + e^{-g(\varphi)}), \qquad
          g = a \sum_{k=1}^{5} k^{-1} (\xi_k \cos k \varphi + \eta_k \sin k \varphi)

with normal :math:`\xi, \eta`: between 0.2 and 0.4, rougher for larger a. The boundary is the closed
cubic spline through 48 of its points.

The von Mises stress is ``derived``: that of the stress of the fine solution, projected into P1. It
is infinite in the two clamped corners, where its mean over the stored hat function is stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from geonew.data.families.sizing import check_axis, check_case, is_ood, mesh_of, refuse_swap
from geonew.data.families.truth import corner_nodes, curves_of, finer
from geonew.data.record import Case, Level, Record, Split
from geonew.fem.reference import Material, solve_elasticity
from geonew.mesh import Mesh
from geonew.problem import (
    Derived,
    Dirichlet,
    Field,
    FrameRule,
    Neumann,
    Problem,
    elasticity_terms,
)
from geonew.shape import Shape, rectangle, spline_loop

YOUNG, POISSON = 1.0, 0.3
PULL = 1.0
# Displacement of the top is 1 without a cavity and 2 to 4 with one.
DISPLACEMENT = 2.0
RADII = (0.2, 0.4)
MODES = 5
KNOTS = 48
ROUGHNESS, ROUGHNESS_OOD = (0.3, 1.5), (1.5, 2.5)
CORNERS = ((0.0, 0.0), (1.0, 0.0))
NODES = 950
CURVE_POINTS = 40


@dataclass(frozen=True)
class Elasticity:
    """Unit cell with a cavity; see the module docstring."""

    name: str = "elasticity"

    @property
    def problem(self) -> Problem:
        """Elasticity known, von Mises stress derived."""
        constants = {"young": YOUNG, "poisson": POISSON}
        return Problem(
            name=self.name,
            dim=2,
            fields=(Field("displacement", "vector", reference=DISPLACEMENT),),
            groups=("bottom", "top", "side", "cavity"),
            dirichlet=(Dirichlet("displacement", "bottom"),),
            neumann=(Neumann("displacement", "top"),),
            terms=elasticity_terms("displacement", YOUNG, POISSON),
            derived=(Derived("von_mises", "von_mises", ("displacement",), constants),),
            frame=(FrameRule("normal", "bottom"),),
            harmonic=(("top", "bottom"),),
        )

    @property
    def ranges(self) -> Mapping[str, str]:
        """Drawn parameters."""
        return {
            "roughness": f"a: ID uniform in {ROUGHNESS}, OOD uniform in ({ROUGHNESS_OOD[0]}, "
            f"{ROUGHNESS_OOD[1]}]",
            "xi_k, eta_k": f"standard normal, k = 1 to {MODES}",
        }

    @property
    def units(self) -> Mapping[str, str]:
        """Dimensionless: stress and traction over Young's modulus, displacement over the cell."""
        stored = ("length", "displacement", "von_mises", "traction")
        return dict.fromkeys((*stored, "roughness", "xi_k", "eta_k"), "1")

    def draw(
        self,
        split: Split,
        generator: np.random.Generator,
        axis: tuple[str, float] | None = None,
        swap: bool = False,
    ) -> Case:
        """A random case; the axis ``roughness`` sets a."""
        refuse_swap(self.name, swap)
        axis = check_axis(self.name, axis, {"roughness": (0.0, ROUGHNESS_OOD[1])})
        low, high = ROUGHNESS_OOD if is_ood(split, axis) else ROUGHNESS
        drawn = high - (high - low) * float(generator.random())  # in (low, high]
        roughness = drawn if axis is None else axis[1]
        waves = generator.standard_normal((2, MODES))
        phi = 2 * np.pi * np.arange(KNOTS) / KNOTS
        k = np.arange(1, MODES + 1)[:, None]
        g = roughness * (waves / k.T) @ np.stack([np.cos(k * phi), np.sin(k * phi)])
        radius = RADII[0] + (RADII[1] - RADII[0]) / (1 + np.exp(-(g[0, 0] + g[1, 1])))
        rim = 0.5 + radius[:, None] * np.stack([np.cos(phi), np.sin(phi)], axis=1)
        cell = rectangle((0.0, 0.0), (1.0, 1.0), ("bottom", "side", "top", "side"))
        named = {f"xi_{n + 1}": float(waves[0, n]) for n in range(MODES)}
        named |= {f"eta_{n + 1}": float(waves[1, n]) for n in range(MODES)}
        return Case(
            family=self.name,
            split=split,
            shape=Shape(cell, (spline_loop(rim, "cavity"),)).to_dict(),
            parameters={"roughness": roughness, **named},
            axes={"roughness": roughness},
        )

    def mesh(self, case: Case, level: Level) -> Mesh:
        """The mesh that is stored."""
        return self._meshed(Shape.from_dict(case.shape), level)

    def _meshed(self, shape: Shape, level: Level) -> Mesh:
        return mesh_of(
            shape,
            level,
            NODES,
            shape.area,
            extra=250.0,
            per_cell=1.2,
            curve_points=CURVE_POINTS,
        )

    def solve(self, case: Case, level: Level, *, times: int = 1) -> Record:
        """P2 on the mesh refined ``times``, restricted to the stored vertices."""
        start = perf_counter()
        check_case(self.name, case)
        shape = Shape.from_dict(case.shape)
        mesh = self._meshed(shape, level)
        corners = corner_nodes(mesh, CORNERS)
        fine = finer(mesh, curves_of(shape), corners, times=times)
        truth = solve_elasticity(
            fine.mesh,
            Material.from_young(YOUNG, POISSON),
            dirichlet={"bottom": (0.0, 0.0)},
            traction={"top": (0.0, PULL)},
            degree=2,
        )
        von_mises = truth.von_mises[: mesh.n_nodes].copy()
        von_mises[corners] = fine.mean(truth.von_mises, corners)
        above, below = len(mesh.nodes_of("top")), len(mesh.nodes_of("bottom"))
        return Record(
            mesh=mesh,
            fields={
                "displacement": truth.displacement[: mesh.n_nodes].copy(),
                "von_mises": von_mises,
            },
            boundary={"bottom": {"displacement": np.zeros((below, 2))}},
            neumann={"top": {"displacement": np.tile([0.0, PULL], (above, 1))}},
            case=case,
            info={
                "residual": float(truth.residual),
                "seconds": perf_counter() - start,
                "truth_nodes": float(fine.mesh.n_nodes),
            },
        )
