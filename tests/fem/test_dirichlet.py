"""Dirichlet problems: exactness, refusal, sharing."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import block_diag, csr_array

from geonew.errors import SolverError
from geonew.fem import DirichletSolver, SolverPool, assemble
from geonew.fem.dirichlet import has_positive_couplings
from zoo import ZOO


def test_linear_functions_are_their_own_extension(zoo_mesh):
    ops = assemble(zoo_mesh)
    solver = DirichletSolver(ops.stiffness, zoo_mesh.boundary_nodes)
    linear = zoo_mesh.points @ np.arange(1.0, zoo_mesh.dim + 1)
    both = np.stack([linear, np.ones_like(linear)], axis=1)
    extended = solver.extend(both[solver.fixed])
    assert np.abs(extended - both).max() < 1e-10 * np.abs(both).max()


def test_solve_meets_the_load_and_the_boundary(zoo_mesh):
    ops = assemble(zoo_mesh)
    solver = DirichletSolver(ops.stiffness, zoo_mesh.nodes_of(next(iter(zoo_mesh.groups))))
    solution = solver.solve(ops.lumped)
    assert (solution[solver.fixed] == 0).all()
    residual = (ops.stiffness @ solution - ops.lumped)[solver.free]
    scale = np.abs(ops.stiffness).max() * np.abs(solution).max() + ops.lumped.max()
    assert np.abs(residual).max(initial=0.0) < 1e-12 * scale


def test_a_pool_makes_one_solver_per_set():
    ops = assemble(ZOO["square"]())
    pool = SolverPool(ops.stiffness)
    first = pool.fixing(np.array([3, 1, 2]))
    assert pool.fixing(np.array([1, 2, 3, 3])) is first
    assert pool.fixing(np.array([1, 2])) is not first
    assert len(pool) == 2


def test_no_fixed_node_is_refused():
    ops = assemble(ZOO["square"]())
    with pytest.raises(SolverError, match="81 of 81 nodes"):
        DirichletSolver(ops.stiffness, np.array([], dtype=np.int64))


def test_a_floating_part_is_refused():
    one = assemble(ZOO["square"]()).stiffness
    two = csr_array(block_diag([one, one]))
    with pytest.raises(SolverError, match="81 of 162 nodes"):
        DirichletSolver(two, np.array([0, 1]))


def test_node_numbers_out_of_range_are_refused():
    with pytest.raises(SolverError, match="only 81 nodes"):
        DirichletSolver(assemble(ZOO["square"]()).stiffness, np.array([81]))


@pytest.mark.parametrize(
    ("name", "expected"), [("square", False), ("obtuse", True), ("ball", True)]
)
def test_positive_couplings(name, expected):
    assert has_positive_couplings(assemble(ZOO[name]()).stiffness) is expected
