"""Harmonic coordinates, indicators, extensions and torsion against closed forms."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from geonew.features.harmonic import data_extension, group_indicators, harmonic_coordinate
from geonew.features.torsion import torsion_function
from geonew.fem import SolverPool, assemble
from structured import annulus, box, disc, order
from zoo import ZOO


def pool_of(mesh):
    return SolverPool(assemble(mesh).stiffness)


def test_annulus_coordinate_is_the_logarithm():
    errors = []
    for n in (4, 8, 16):
        mesh = annulus(n)
        got = harmonic_coordinate(mesh, pool_of(mesh), "inner", "outer")
        radius = np.linalg.norm(mesh.points, axis=1)
        errors.append(np.abs(got - np.log(radius) / np.log(0.4)).max())
    assert 1.8 < order(errors) < 2.3
    assert errors[-1] < 4e-4


def test_square_coordinate_is_linear_between_opposite_sides():
    mesh = ZOO["square"]()
    got = harmonic_coordinate(mesh, pool_of(mesh), "right", "left")
    assert np.abs(got - mesh.points[:, 0]).max() < 1e-13


def test_pairs_are_complementary_even_where_groups_touch(zoo_mesh):
    pool, names = pool_of(zoo_mesh), list(zoo_mesh.groups)
    for a, b in pairwise(names):
        there, back = (harmonic_coordinate(zoo_mesh, pool, *pair) for pair in ((a, b), (b, a)))
        solver = pool.fixing(np.union1d(zoo_mesh.nodes_of(a), zoo_mesh.nodes_of(b)))
        condition = np.linalg.cond(solver.matrix.toarray()) if solver.free.size else 1.0
        assert np.abs(there + back - 1).max() < 1e-14 * condition


def test_a_missing_group_has_no_coordinate():
    mesh = ZOO["square"]()
    assert harmonic_coordinate(mesh, pool_of(mesh), "left", "absent") is None


def test_indicators_are_a_partition_of_unity(zoo_mesh):
    owner = np.full(zoo_mesh.n_nodes, -1)
    for number, group in reversed(list(enumerate(zoo_mesh.groups))):
        owner[zoo_mesh.nodes_of(group)] = number
    h = group_indicators(pool_of(zoo_mesh), owner, len(zoo_mesh.groups) + 1)
    assert h.min() >= 0
    assert np.abs(h.sum(axis=1) - 1).max() < 1e-14
    assert (h[:, -1] == 0).all()
    fixed = owner >= 0
    assert (h[fixed, owner[fixed]] == 1).all()


def test_the_maximum_principle_needs_the_clamp_on_obtuse_meshes():
    mesh = ZOO["obtuse"]()
    owner = np.full(mesh.n_nodes, -1)
    owner[mesh.boundary_nodes] = 1
    owner[mesh.boundary_nodes[0]] = 0
    pool = pool_of(mesh)
    raw = pool.fixing(mesh.boundary_nodes).extend((owner[mesh.boundary_nodes] == 0).astype(float))
    assert raw.min() < -1e-6
    assert group_indicators(pool, owner, 2).min() >= 0


def test_data_extensions_add_up_and_reproduce_linear_data(zoo_mesh):
    owner = np.full(zoo_mesh.n_nodes, -1)
    for number, group in enumerate(zoo_mesh.groups):
        owner[zoo_mesh.nodes_of(group)] = number
    linear = zoo_mesh.points @ np.arange(1.0, zoo_mesh.dim + 1)
    parts = data_extension(pool_of(zoo_mesh), owner, linear, len(zoo_mesh.groups))
    assert np.abs(parts.sum(axis=1) - linear).max() < 1e-10 * np.abs(linear).max()


@pytest.mark.parametrize(("make", "sizes"), [(disc, (6, 12, 24)), (None, (8, 16, 32))])
def test_torsion_converges_at_order_two(make, sizes):
    errors = []
    for n in sizes:
        mesh = make(n) if make else box(n, 2)
        ops = assemble(mesh)
        got = torsion_function(SolverPool(ops.stiffness), ops.lumped, mesh.boundary_nodes)
        if make:
            exact = (1 - (mesh.points**2).sum(axis=1)) / 4
        else:
            x, y = mesh.points.T
            k = np.arange(1, 200, 2)[:, None]
            profile = np.cosh(k * np.pi * (y - 0.5)) / np.cosh(k * np.pi / 2)
            series = (np.sin(k * np.pi * x) / k**3 * profile).sum(axis=0)
            exact = x * (1 - x) / 2 - 4 / np.pi**3 * series
        errors.append(np.sqrt(ops.lumped @ (got - exact) ** 2 / (ops.lumped @ exact**2)))
    assert 1.8 < order(errors) < 2.4
    assert errors[-1] < 5e-3
