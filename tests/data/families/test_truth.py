"""The mesh of the truth: nested, on its curves, graded; means at singular corners."""

from __future__ import annotations

import numpy as np
import pytest

from geonew.data.families import family
from geonew.data.families.sizing import mesh_of
from geonew.data.families.solids import DuctStokes
from geonew.data.families.truth import (
    CUT,
    KEPT_VOLUME,
    SplineCurve,
    corner_nodes,
    curves_of,
    finer,
)
from geonew.errors import ShapeError
from geonew.fem.reference import solve_poisson
from geonew.mesh.refine import refine
from geonew.shape import (
    Ball,
    Shape,
    Solid,
    Spline,
    disc,
    polygon,
    rectangle,
    regular_polygon,
    spline_loop,
    triangulate,
)

RING = Shape(disc((0.0, 0.0), 1.0, "outer"), (disc((0.1, 0.0), 0.4, "inner"),))
SQUARE_HOLE = Shape(
    rectangle((0.0, 0.0), (1.0, 1.0), "outer"),
    (regular_polygon((0.5, 0.5), 0.2, 4, "inner", 0.3),),
)


def test_vertices_are_kept_and_area_is_that_of_the_curve():
    mesh = triangulate(RING, 0.2)
    fine = finer(mesh, curves_of(RING))
    np.testing.assert_array_equal(fine.mesh.points[: mesh.n_nodes], mesh.points)
    # Simpson's rule: the area is right to fourth order, that of the stored mesh to second.
    assert abs(mesh.volume / RING.area - 1) > 4e-3
    assert abs(fine.mesh.volume / RING.area - 1) < 1e-4


def test_between_refinements_vertices_are_on_the_curve():
    mesh = triangulate(RING, 0.3)
    once, twice = finer(mesh, curves_of(RING)), finer(mesh, curves_of(RING), times=2)
    shared = twice.mesh.points[: once.mesh.n_nodes]
    rim = once.mesh.nodes_of("outer")
    assert np.abs(np.linalg.norm(shared[rim], axis=1) - 1).max() < 1e-12


def test_volume_of_a_ball():
    solid = Solid(Ball((0.0, 0.0, 0.0), 1.0, "sphere"))
    mesh = triangulate(solid, 0.5)
    fine, exact = finer(mesh, curves_of(solid)).mesh, 4 / 3 * np.pi
    assert abs(fine.volume / exact - 1) < 0.1 * abs(mesh.volume / exact - 1)


def test_spline_projection():
    angle = 2 * np.pi * np.arange(12) / 12
    radius = 0.3 + 0.05 * np.cos(3 * angle)
    loop = spline_loop(np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1), "rim")
    spline = loop.pieces[0]
    assert isinstance(spline, Spline)
    curve = SplineCurve(spline)
    t = np.linspace(0.013, 0.987, 57)
    on, along = spline.curve(t), spline.curve(t, 1)
    normal = np.stack([-along[:, 1], along[:, 0]], axis=1)
    off = on + 0.01 * normal / np.linalg.norm(normal, axis=1, keepdims=True)
    np.testing.assert_allclose(curve.nearest(off), on, atol=1e-10)
    assert curve.holds(on).all()
    assert not curve.holds(off).any()


@pytest.mark.parametrize("layers", [0, 1, 3])
def test_hats_are_the_stored_hat_functions(layers):
    """They sum to 1 and reproduce linear functions at every fine vertex of a polygon."""
    mesh = triangulate(SQUARE_HOLE, 0.15)
    corners = corner_nodes(mesh, SQUARE_HOLE.reentrant_corners)
    assert len(corners) == 4
    fine = finer(mesh, corners=corners, layers=layers)
    np.testing.assert_allclose(fine.hats @ np.ones(mesh.n_nodes), 1, atol=1e-14)
    np.testing.assert_allclose(fine.hats @ mesh.points, fine.mesh.points, atol=1e-14)
    assert fine.mesh.volume == pytest.approx(SQUARE_HOLE.area, rel=1e-12)
    # The smallest edge at a corner is 1/2 CUT^layers of the stored one.
    edges = fine.mesh.edges[(fine.mesh.edges == corners[0]).any(axis=1)]
    before = mesh.edges[(mesh.edges == corners[0]).any(axis=1)]

    def lengths(m, e):
        return np.sort(np.linalg.norm(m.points[e[:, 0]] - m.points[e[:, 1]], axis=1))

    np.testing.assert_allclose(
        lengths(fine.mesh, edges), lengths(mesh, before) / 2 * CUT**layers, rtol=1e-9
    )


def test_mean_is_the_lumped_projection():
    """Of a linear function on a symmetric patch the mean is its value; constants always."""
    mesh = triangulate(SQUARE_HOLE, 0.2)
    fine = finer(mesh, corners=corner_nodes(mesh, SQUARE_HOLE.reentrant_corners))
    nodes = np.arange(mesh.n_nodes)
    np.testing.assert_allclose(fine.mean(np.full(fine.mesh.n_nodes, 3.0), nodes), 3, rtol=1e-13)
    # Against the integral by cells: int x phi_c over the stored cells, exact for P1.
    mean = fine.mean(fine.mesh.points[:, 0].copy(), nodes)
    x = mesh.points[mesh.cells][:, :, 0]
    tested = (x + x.sum(axis=1, keepdims=True)) * mesh.volumes[:, None] / 12
    total, weight = np.zeros(mesh.n_nodes), np.zeros(mesh.n_nodes)
    np.add.at(total, mesh.cells, tested)
    np.add.at(weight, mesh.cells, np.repeat(mesh.volumes[:, None] / 3, 3, axis=1))
    np.testing.assert_allclose(mean, total / weight, rtol=1e-12)


def test_layers_remove_the_pollution_of_a_corner():
    """r^(2/3) sin(2/3 phi) in an L: layers bring the error far from the corner down tenfold."""
    corners = [(0, 0), (1, 0), (1, 1), (-1, 1), (-1, -1), (0, -1)]
    shape = Shape(polygon(corners, "wall"))

    def exact(x):
        phi = np.mod(np.arctan2(x[:, 1], x[:, 0]), 2 * np.pi)
        return np.hypot(*x.T) ** (2 / 3) * np.sin(2 / 3 * phi)

    mesh = triangulate(shape, 0.25, corner_refinement=1)
    at = corner_nodes(mesh, shape.reentrant_corners)
    errors = []
    for layers in (0, 3):
        fine = finer(mesh, corners=at, layers=layers).mesh
        truth = solve_poisson(fine, dirichlet={"wall": exact}, degree=2).values[: mesh.n_nodes]
        gap = truth - exact(mesh.points)
        errors.append(float(np.linalg.norm(gap) / np.linalg.norm(truth)))
    assert errors[1] < errors[0] / 8
    assert errors[1] < 2e-4


def test_mesh_with_wanted_nodes():
    for level, factor in (("coarse", 1), ("medium", 4)):
        mesh = mesh_of(RING, level, 800, RING.area, fewest=700, most=900)
        assert 0.7 * 800 * factor < mesh.n_nodes < 1.3 * 800 * factor
    with pytest.raises(ShapeError, match="10 to 12 nodes"):
        mesh_of(RING, "coarse", 11, RING.area, fewest=10, most=12)


def test_no_cell_is_turned_inside_out_by_the_curve():
    """A ball in a duct whose mesh has a tetrahedron with two faces on it."""
    made = family("duct-stokes")
    assert isinstance(made, DuctStokes)
    case = made.draw("train", np.random.default_rng([6, 99]))
    mesh, curves = made.mesh(case, "coarse"), curves_of(Solid.from_dict(case.shape))
    fine = finer(mesh, curves).mesh
    parts = refine(mesh).volumes
    # Without the retreat six cells had a negative volume here.
    assert (fine.volumes / parts).min() >= KEPT_VOLUME
    # Nearly all new vertices of the ball go 4/3 of the way nevertheless, beyond the sphere.
    new = fine.nodes_of("obstacle")[fine.nodes_of("obstacle") >= mesh.n_nodes]
    center = [case.parameters[axis] for axis in "xyz"]
    distance = np.linalg.norm(fine.points[new] - center, axis=1)
    assert 0.95 < (distance > case.parameters["radius"]).mean() < 1.0
