"""Anchors: farthest points that no numbering changes, and draws that follow the mass."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare

from geonew.mesh import Mesh
from geonew.model.anchors import TIE, farthest_points, mass_weighted_draw
from geonew.model.sample import prepare
from model.cases import SPEC, scalar_problem
from zoo import ZOO


def renumbered(mesh: Mesh, order: np.ndarray) -> Mesh:
    """The mesh whose node k is node order[k] of the old one."""
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    groups = {name: place[mesh.facets_of(name)] for name in mesh.groups}
    return Mesh(mesh.points[order], place[mesh.cells], groups)


def sample_of(mesh: Mesh):
    problem = scalar_problem(mesh)
    data = {d.group: {"u": 0.7 - k} for k, d in enumerate(problem.dirichlet)}
    return prepare(mesh, problem, data, spec=SPEC, source={"u": 1.0})


def test_anchors_do_not_depend_on_numbering(zoo_mesh: Mesh) -> None:
    """The same nodes in the same order, on meshes full of ties and on both sides of a crack."""
    order = np.random.default_rng(0).permutation(zoo_mesh.n_nodes)
    one, two = sample_of(zoo_mesh), sample_of(renumbered(zoo_mesh, order))
    anchors = one.farthest(256)
    assert len(set(anchors.tolist())) == min(zoo_mesh.n_nodes, 256)
    assert np.array_equal(anchors, order[two.farthest(256)])
    assert np.array_equal(one.farthest(5), anchors[:5])
    assert np.array_equal(sample_of(zoo_mesh).farthest(5), anchors[:5])


def test_first_anchors_are_spread_out() -> None:
    """A model takes the first few of a sample's anchors: on a small mesh, too, the farthest."""
    mesh = ZOO["square"]()
    first = mesh.points[sample_of(mesh).farthest(5)]
    expected = [[0, 0], [0, 1], [0.5, 0.5], [1, 0], [1, 1]]
    assert sorted(first.round(9).tolist()) == expected


def test_control_plain_farthest_points_depend_on_numbering() -> None:
    """Without an invariant key the ties of a square are decided by numbers."""
    axis = np.linspace(0, 1, 9)
    points = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    order = np.random.default_rng(0).permutation(len(points))
    numbers = np.arange(len(points), dtype=float)[:, None]
    one = farthest_points(points, numbers, 20)
    two = farthest_points(points[order], numbers, 20)
    assert set(one.tolist()) != set(order[two].tolist())


@pytest.mark.parametrize("dim", [2, 3])
def test_each_anchor_is_farthest_from_those_before(dim: int) -> None:
    points = np.random.default_rng(1).random((150, dim))
    chosen = farthest_points(points, points, 30)
    assert len(set(chosen.tolist())) == 30
    middle = np.linalg.norm(points - points.mean(axis=0), axis=1)
    assert middle[chosen[0]] <= middle.min() + TIE * 2
    for k in range(1, 30):
        apart = np.linalg.norm(points[:, None] - points[chosen[:k]], axis=2).min(axis=1)
        assert apart[chosen[k]] >= apart.max() - 4 * TIE


def test_ties_go_to_the_first_key() -> None:
    points = np.array([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [0.0, 1.0 + 1e-9], [0.0, -1.0]])
    for first in range(1, 5):
        key = np.ones((5, 1))
        key[first] = 0.0
        assert farthest_points(points, key, 2).tolist() == [0, first]


def test_few_nodes_are_all_anchors() -> None:
    points = np.random.default_rng(0).random((5, 2))
    assert sorted(farthest_points(points, points, 8).tolist()) == [0, 1, 2, 3, 4]


# -- draws ---------------------------------------------------------------------------------------


def test_draws_follow_the_mass() -> None:
    mass = np.array([0.1, 0.2, 0.05, 0.4, 0.25]) * 3.0
    drawn = mass_weighted_draw(mass, 20_000, 1, (0, 0, 0))[:, 0]
    counts = np.bincount(drawn, minlength=5)
    assert chisquare(counts, 20_000 * mass / mass.sum()).pvalue > 1e-3
    assert chisquare(counts).pvalue < 1e-12  # control: a uniform draw would be noticed


def test_second_draws_follow_the_mass_that_is_left() -> None:
    """Without replacement: P(first a, then b) = m_a m_b / (1 - m_a), summed over both orders."""
    mass = np.array([0.1, 0.2, 0.3, 0.4])
    drawn = np.sort(mass_weighted_draw(mass, 20_000, 2, (1, 2, 3)), axis=1)
    pairs = [(a, b) for a in range(4) for b in range(a + 1, 4)]
    found = [int(((drawn == pair).all(axis=1)).sum()) for pair in pairs]
    chance = [mass[a] * mass[b] * (1 / (1 - mass[a]) + 1 / (1 - mass[b])) for a, b in pairs]
    assert chisquare(found, 20_000 * np.array(chance)).pvalue > 1e-3


def test_draws_are_fixed_by_their_key() -> None:
    mass = np.random.default_rng(0).random(50)
    one = mass_weighted_draw(mass, 3, 10, (5, 7, 11))
    assert np.array_equal(one, mass_weighted_draw(mass, 3, 10, (5, 7, 11)))
    for other in [(6, 7, 11), (5, 8, 11), (5, 7, 12), (7, 5, 11)]:
        assert not np.array_equal(one, mass_weighted_draw(mass, 3, 10, other))
    assert all(len(set(row)) == 10 for row in one.tolist())  # distinct nodes
    assert len({tuple(sorted(row)) for row in one.tolist()}) == 3  # anew for every block


def test_draws_of_more_than_there_is() -> None:
    drawn = mass_weighted_draw(np.ones(4), 2, 9, (0, 0, 0))
    assert drawn.shape == (2, 4)
    assert (np.sort(drawn, axis=1) == np.arange(4)).all()
