"""Pictures of partitions, fluxes and boundary rows, from arrays alone and from a prediction."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from matplotlib.collections import PathCollection, TriMesh
from matplotlib.patches import FancyArrowPatch

import problems
from geonew.errors import InputError
from geonew.features import FeatureSpec
from geonew.mesh import Mesh
from geonew.model.config import ModelConfig
from geonew.model.geonew import GeoNeW
from geonew.model.sample import prepare
from geonew.plot.fluxes import MOST_EDGES, fluxes_figure
from geonew.plot.model import boundary_rows_figure, lumped_mass, partitions_figure
from zoo import ZOO

P = 5


def example(mesh: Mesh, components: int = 2):
    """A partition of unity around random centres, and antisymmetric fluxes."""
    rng = np.random.default_rng(0)
    groups = tuple(mesh.groups)
    n = P + len(groups)
    lower, upper = mesh.points.min(axis=0), mesh.points.max(axis=0)
    centres = rng.uniform(lower, upper, (components, n, mesh.dim))
    away = ((mesh.points[:, None, None] - centres) ** 2).sum(axis=-1) / np.ptp(mesh.points) ** 2
    rows = np.exp(-10 * away)
    rows /= rows.sum(axis=-1, keepdims=True)
    fluxes = rng.standard_normal((components, n, n))
    names = tuple(f"u{k}" for k in range(components))
    coefficients = rng.standard_normal((components, P))
    return rows, coefficients, fluxes - fluxes.transpose(0, 2, 1), names, groups


@pytest.mark.parametrize("name", ["one_triangle", "slit", "needles", "l_brick"])
def test_awkward_meshes_are_drawn(name: str):
    mesh = ZOO[name]()
    rows, coefficients, fluxes, names, groups = example(mesh, 1)
    for figure in (
        partitions_figure(mesh, rows, names, groups),
        fluxes_figure(mesh, rows, coefficients, fluxes, names, groups),
        boundary_rows_figure(mesh, rows, names, groups),
    ):
        figure.set_dpi(30)
        figure.canvas.draw()


def test_basis_functions_are_shown_largest_first_each_over_its_maximum():
    mesh = ZOO["plate"]()
    rows, _, _, names, groups = example(mesh, 1)
    figure = partitions_figure(mesh, rows, names, groups)
    (tiles,) = [c for axes in figure.axes for c in axes.collections if isinstance(c, TriMesh)]
    order = np.argsort(-(lumped_mass(mesh) @ rows[:, 0, :P]))
    shown = rows[:, 0, order] / rows[:, 0, order].max(axis=0)
    np.testing.assert_array_equal(tiles.get_array(), shown.T.ravel())
    labels = [text.get_text() for text in figure.axes[1].texts]
    assert [int(label.split(":")[0]) for label in labels] == order.tolist()


def test_nodes_of_the_graph_stand_at_centroids_and_on_groups():
    mesh = ZOO["plate"]()
    rows, coefficients, fluxes, names, groups = example(mesh, 1)
    axes = fluxes_figure(mesh, rows, coefficients, fluxes, names, groups).axes[0]
    nodes, *squares = [c for c in axes.collections if isinstance(c, PathCollection)]
    # Exact integrals: the P1 mass matrix against x, cell by cell.
    corners, weights = mesh.points[mesh.cells], rows[:, 0, :P][mesh.cells]
    inner = (np.ones((3, 3)) + np.eye(3)) / 12
    moment = np.einsum("c,cai,ab,cbd->id", mesh.volumes, weights, inner, corners)
    mass = np.einsum("c,cai->i", mesh.volumes / 3, weights)
    reached = np.ptp(mesh.points, axis=0).max()
    np.testing.assert_allclose(nodes.get_offsets(), moment / mass[:, None], atol=0.02 * reached)
    np.testing.assert_array_equal(nodes.get_array(), coefficients[0])
    for square, group in zip(squares, groups, strict=True):
        middles = mesh.points[mesh.facets_of(group)].mean(axis=1)
        assert (middles == np.asarray(square.get_offsets())).all(axis=1).any()


def test_arrows_point_along_the_flux():
    mesh = ZOO["plate"]()
    rows, coefficients, fluxes, names, groups = example(mesh, 1)
    alone = np.zeros_like(fluxes)
    alone[0, 1, 3], alone[0, 3, 1] = -2.0, 2.0  # from 3 to 1
    axes = fluxes_figure(mesh, rows, coefficients, alone, names, groups).axes[0]
    nodes = next(c for c in axes.collections if isinstance(c, PathCollection)).get_offsets()
    (arrow,) = [p for p in axes.patches if isinstance(p, FancyArrowPatch)]
    tail, head = arrow._posA_posB  # pyright: ignore[reportAttributeAccessIssue]
    np.testing.assert_allclose(tail, np.asarray(nodes)[3])
    np.testing.assert_allclose(head, np.asarray(nodes)[1])
    assert "1 largest fluxes, 100 %" in axes.get_title()


def test_only_the_largest_fluxes_have_arrows_and_none_is_no_error():
    mesh = ZOO["plate"]()
    rows, coefficients, fluxes, names, groups = example(mesh, 1)
    axes = fluxes_figure(mesh, rows, coefficients, fluxes, names, groups).axes[0]
    arrows = [p for p in axes.patches if isinstance(p, FancyArrowPatch)]
    edges = fluxes.shape[1] * (fluxes.shape[1] - 1) // 2
    assert 0 < len(arrows) <= min(MOST_EDGES, edges)
    none = fluxes_figure(mesh, rows, coefficients, 0 * fluxes, names, groups)
    none.canvas.draw()
    assert "no flux" in none.axes[0].get_title()


def test_groups_without_data_are_said_to_have_none():
    mesh = ZOO["plate"]()
    rows, _, _, names, groups = example(mesh, 1)
    rows = rows.copy()
    rows[..., P] = 0
    figure = boundary_rows_figure(mesh, rows, names, groups)
    texts = [[t.get_text() for t in axes.texts] for axes in figure.axes[: 1 + len(groups)]]
    assert [bool(t) for t in texts] == [False, True] + [False] * (len(groups) - 1)
    cut_off = next(c for c in figure.axes[0].collections if isinstance(c, TriMesh))
    np.testing.assert_allclose(cut_off.get_array(), rows[:, 0, P:].sum(axis=1))


def test_arrays_that_do_not_belong_together_are_explained():
    mesh = ZOO["plate"]()
    rows, coefficients, fluxes, names, groups = example(mesh)
    with pytest.raises(InputError, match="rows have shape"):
        partitions_figure(mesh, rows[1:], names, groups)
    with pytest.raises(InputError, match="rows have shape"):
        boundary_rows_figure(mesh, rows[..., : len(groups)], names, groups)
    with pytest.raises(InputError, match="fluxes have shape"):
        fluxes_figure(mesh, rows, coefficients, fluxes[:, 1:], names, groups)
    with pytest.raises(InputError, match="coefficients have shape"):
        fluxes_figure(mesh, rows, coefficients[:, 1:], fluxes, names, groups)
    with pytest.raises(InputError, match="not finite"):
        partitions_figure(mesh, rows * np.nan, names, groups)


def test_a_prediction_draws_itself(tmp_path):
    mesh, problem = ZOO["square"](), problems.poisson()
    data = {"left": {"u": 1.0}, "bottom": {"u": 0.0}}
    torch.manual_seed(0)
    inputs = {"parameters": {"kappa": 1.0}, "source": {"u": 1.0}, "neumann": {"right": {"u": 0.5}}}
    sample = prepare(mesh, problem, data, spec=FeatureSpec(), **inputs)
    config = ModelConfig(width=16, depth=1, heads=2, anchors=8, partitions=4, hidden=16)
    model = GeoNeW(problem, FeatureSpec(), sample.columns, config)
    (prediction,) = model.predict_samples([sample])
    for draw in ("plot", "plot_partitions", "plot_fluxes", "plot_boundary_rows"):
        getattr(prediction, draw)(tmp_path / f"{draw}.png")
        assert (tmp_path / f"{draw}.png").stat().st_size > 5000
