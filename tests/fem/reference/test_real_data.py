"""Solutions that others computed and published; the folder is named by GEONEW_SHARED_DATA."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from geonew.fem.reference import solve_navier_stokes, solve_poisson
from geonew.mesh import Mesh
from zoo import build, grid

FOLDER = os.environ.get("GEONEW_SHARED_DATA", "")
pytestmark = pytest.mark.skipif(
    not FOLDER, reason="GEONEW_SHARED_DATA does not name the folder with the published data sets"
)


def load(name):
    return np.load(Path(FOLDER) / name, allow_pickle=False)


@pytest.mark.parametrize("sample", [0, 17, 60, 120])
def test_holed_poisson_is_reproduced(sample):
    """-0.1 Laplace(u) = 1 with P1 on their triangles: equal to the precision of their float32."""
    data = load("holed_poisson.npz")
    points = np.stack([data["x"][:, sample], data["y"][:, sample]], axis=1).astype(np.float64)
    mesh = build(points, data["triang"], {"wall": lambda x: np.ones(len(x), dtype=bool)})
    solution = solve_poisson(mesh, dirichlet={"wall": 0.0}, source=1.0, conductivity=0.1)
    assert np.abs(solution.values - data["u"][:, sample]).max() < 1e-6


# -- skewed cavity; see docs/data/skewed-cavity.md -------------------------------------------------

# Every tenth sample: chosen before any was solved, neither by angle nor by outcome.
SAMPLES = range(0, 100, 10)
# Lines of their 100 x 100 grid that carry our mesh: all near the walls, every third inside.
NEAR = [0, 1, 2, 3, 4, 6, 8, 10, 12, *range(15, 50, 3)]
LINES = np.array(NEAR + [99 - k for k in reversed(NEAR)])
# Cells from the walls to what is called the core.
CORE = 20
# A stored field whose momentum is out of balance by more than this in the core is not steady.
STEADY = 5e-3


class Stored:
    """A stored sample: parallelogram, viscosity, and nodal u, v, p by column and row."""

    def __init__(self, sample):
        data = load("skewed_cavity.npz")
        self.lx, self.ly, self.angle = data["train_params"][sample]
        self.height = self.ly * np.sin(self.angle)
        self.viscosity = max(self.lx, self.ly) / 400
        i, j = np.rint(99 * data["ref_xy"]).astype(int).T
        self.fields = np.empty((100, 100, 3))
        self.fields[i, j] = data["train_uvp"][sample]

    def place(self, reference):
        """Points of the parallelogram from those of the unit square."""
        x = self.lx * reference[..., 0] + self.ly * np.cos(self.angle) * reference[..., 1]
        return np.stack([x, self.height * reference[..., 1]], axis=-1)

    @property
    def nodes(self):
        i, j = np.mgrid[0:100, 0:100] / 99.0
        return self.place(np.stack([i, j], axis=-1))

    def solve(self, lines):
        reference, cells = grid([lines / 99.0] * 2)
        labels = {"lid": lambda m: m[:, 1] > self.height - 1e-9, "wall": lambda m: m[:, 1] > -1.0}
        mesh: Mesh = build(self.place(reference), cells, labels)

        def leak(x):
            """Nodal wall values, 1 at the lid and 0 at the next node, linear between."""
            ramp = np.maximum(0.0, 1 - 99 * (1 - x[:, 1] / self.height))
            return np.stack([ramp, 0 * ramp], axis=1)

        flow = solve_navier_stokes(
            mesh, viscosity=self.viscosity, velocity={"lid": (1.0, 0.0), "wall": leak}
        )
        u, p = flow.evaluate(self.nodes.reshape(-1, 2))
        return np.concatenate([u, p[:, None]], axis=1).reshape(100, 100, 3)

    def errors(self, ours):
        """Relative errors of u, v, and of p farther than 0.05 from the ends of the lid."""
        corners = self.place(np.array([[0.0, 1.0], [1.0, 1.0]]))
        distance = np.linalg.norm(self.nodes[:, :, None] - corners, axis=-1).min(axis=-1)
        far = distance > 0.05
        p, q = ours[far, 2], self.fields[far, 2]
        pairs = [(ours[..., k], self.fields[..., k]) for k in range(2)]
        pairs.append((p - p.mean(), q - q.mean()))
        return np.array([np.linalg.norm(a - b) / np.linalg.norm(b) for a, b in pairs])

    def imbalance(self, fields):
        """Steady momentum of nodal fields, tested with the bilinear hats of the core's nodes, over
        its convective part.
        """
        J = np.stack([self.place(np.eye(2)[k]) for k in range(2)], axis=1) / 99
        inverse, weight = np.linalg.inv(J), np.linalg.det(J) / 4
        convection, total = np.zeros((100, 100, 2)), np.zeros((100, 100, 2))
        corners = [(0, 0), (1, 0), (0, 1), (1, 1)]
        local = np.stack([fields[i : 99 + i, j : 99 + j] for i, j in corners], axis=2)
        for x, y in 0.5 + np.array(corners) / np.sqrt(3) - 0.5 / np.sqrt(3):  # Gauss points
            N = np.array([(1 - x) * (1 - y), x * (1 - y), (1 - x) * y, x * y])
            D = np.array([[y - 1, x - 1], [1 - y, -x], [-y, 1 - x], [y, x]]) @ inverse
            u, gradient = N @ local[..., :2], np.einsum("kb,ijka->ijab", D, local[..., :2])
            inertia = np.einsum("ijab,ijb->ija", gradient, u)
            p = local[..., 2] @ N
            for k, (i, j) in enumerate(corners):
                at = np.s_[i : 99 + i, j : 99 + j]
                convection[at] += weight * N[k] * inertia
                stress = self.viscosity * gradient @ D[k] - p[..., None] * D[k]
                total[at] += weight * (N[k] * inertia + stress)
        core = np.s_[CORE:-CORE, CORE:-CORE]
        return np.linalg.norm(total[core]) / np.linalg.norm(convection[core])

    def entering(self, cells):
        """What enters through the wall at the left end of the lid, by the stored velocity on the
        inner sides of the parallelogram of so many cells there, over half a cell's height.
        """
        below = np.trapezoid(self.fields[: cells + 1, 99 - cells, 1]) * self.lx / 99
        u, v = np.moveaxis(self.fields[cells, 99 - cells :, :2], -1, 0)
        beside = np.trapezoid(u * np.sin(self.angle) - v * np.cos(self.angle)) * self.ly / 99
        return (beside - below) / (0.5 * self.height / 99)


@pytest.mark.parametrize("sample", SAMPLES)
def test_fluid_leaks_in_under_the_lid_as_linear_wall_values_let_it(sample):
    """Half a cell, seen 20 and 40 cells away in the stored velocity: so the ramp in `leak`."""
    stored = Stored(sample)
    assert stored.entering(20) == pytest.approx(1.0, abs=0.02)
    assert stored.entering(40) == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("sample", SAMPLES)
def test_skewed_cavity_is_reproduced(sample):
    """Within 2 % where the stored field is steady; else, by more only as far as it is not."""
    stored = Stored(sample)
    errors, imbalance = stored.errors(stored.solve(LINES)), stored.imbalance(stored.fields)
    if imbalance < STEADY:
        assert (errors < 0.02).all()
    else:
        assert (errors < 0.02 + 3 * (imbalance - STEADY)).all()


def test_most_samples_are_steady():
    assert sum(Stored(k).imbalance(Stored(k).fields) < STEADY for k in SAMPLES) == 7


@pytest.mark.slow
def test_an_unsteady_sample_is_told_from_the_error_of_a_grid():
    """Sample 10: stored, 1.6 % out of balance; our flow on the same grid ten times less."""
    stored = Stored(10)
    assert stored.imbalance(stored.fields) > 0.015
    assert stored.imbalance(stored.solve(np.arange(100))) < 0.0015
