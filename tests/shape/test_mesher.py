import builtins
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

from geonew.errors import ShapeError
from geonew.mesh import Mesh
from geonew.shape import (
    Arc,
    Ball,
    Box,
    Cylinder,
    Loop,
    Polyhedron,
    Segment,
    Shape,
    Solid,
    disc,
    polygon,
    rectangle,
    spline_loop,
    star,
    triangulate,
)
from geonew.shape.mesher import LEVELS, session

BLOB = [(2.2, 0.3), (2.6, 0.4), (2.5, 0.7), (2.3, 0.6)]
L_SHAPE = polygon([(0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2)], "wall")
ANNULUS = Shape(disc((0, 0), 1, "outer"), (disc((0.2, 0), 0.4, "inner"),))
UNIT_BOX = Box((0, 0, 0), (1, 1, 1))


def channel() -> Shape:
    return Shape(
        rectangle((0, 0), (3, 1), ("wall", "outlet", "wall", "inlet")),
        (
            disc((0.7, 0.5), 0.15, "circle"),
            rectangle((1.5, 0.3), (1.8, 0.6), "square"),
            spline_loop(BLOB, "blob"),
        ),
    )


def longest_edge(mesh: Mesh) -> float:
    return float(np.linalg.norm(np.diff(mesh.points[mesh.edges], axis=1), axis=2).max())


# -- geometry ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "area"),
    [
        (Shape(disc((3, -1), 0.5, "c")), np.pi / 4),
        (ANNULUS, np.pi * (1 - 0.16)),
        (
            Shape(Loop((Arc((0, 0), 1, 0, np.pi, "arc"), Segment((-1, 0), (1, 0), "flat")))),
            np.pi / 2,
        ),
        (Shape(spline_loop([(5 * x, 5 * y) for x, y in BLOB], "blob")), None),
    ],
)
def test_areas_converge_with_order_two(shape, area):
    exact = shape.area if area is None else area
    errors = [abs(triangulate(shape, 0.2, level=level).volume - exact) for level in LEVELS]
    assert errors[2] < 1.5e-3 * exact
    order = np.log2(errors[0] / errors[2]) / 2
    assert 1.8 < order < 2.2


def test_polygons_are_meshed_exactly():
    for loop in (L_SHAPE, star((0.3, 0.1), 1, 0.5, 5, "s")):
        assert triangulate(Shape(loop), 0.2).volume == pytest.approx(Shape(loop).area, rel=1e-13)


def test_nodes_lie_on_their_curves():
    for level in ("coarse", "medium"):
        mesh = triangulate(channel(), 0.2, level=level)
        on_circle = mesh.points[mesh.nodes_of("circle")] - (0.7, 0.5)
        np.testing.assert_allclose(np.hypot(*on_circle.T), 0.15, rtol=0, atol=1e-12)
        np.testing.assert_array_equal(mesh.points[mesh.nodes_of("inlet"), 0], 0)
        curve = spline_loop(BLOB, "blob").pieces[0].curve
        for point in mesh.points[mesh.nodes_of("blob")]:
            t = np.linspace(0, 1, 201)
            nearest = t[np.linalg.norm(curve(t) - point, axis=1).argmin()]
            for _ in range(4):  # Newton for the foot of the perpendicular
                miss, along = curve(nearest) - point, curve(nearest, 1)
                nearest -= miss @ along / (along @ along + miss @ curve(nearest, 2))
            assert np.linalg.norm(curve(nearest) - point) < 1e-10


def test_groups_are_the_names_of_the_pieces():
    mesh = triangulate(channel(), 0.15)
    assert list(mesh.groups) == ["wall", "outlet", "inlet", "circle", "square", "blob"]
    assert (mesh.group_index >= 0).all()
    lengths = {
        name: np.linalg.norm(np.diff(mesh.points[facets], axis=1), axis=2).sum()
        for name, facets in mesh.groups.items()
    }
    assert lengths["wall"] == pytest.approx(6)
    assert lengths["inlet"] == pytest.approx(1)
    assert lengths["outlet"] == pytest.approx(1)
    assert lengths["square"] == pytest.approx(1.2)
    assert lengths["circle"] == pytest.approx(0.3 * np.pi, rel=3e-3)
    np.testing.assert_array_equal(mesh.points[mesh.nodes_of("outlet"), 0], 3)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_units_do_not_matter(scale):
    mesh = triangulate(Shape(disc((0, 0), scale, "c")), 0.2 * scale)
    assert mesh.volume == pytest.approx(np.pi * scale**2, rel=0.02)
    far = triangulate(Shape(disc((1e4 * scale, 0), scale, "c")), 0.2 * scale)
    radii = np.hypot(*(far.points[far.nodes_of("c")] - (1e4 * scale, 0)).T)
    np.testing.assert_allclose(radii, scale, rtol=1e-11)


# -- size --------------------------------------------------------------------------------------


def test_levels_halve_the_size():
    meshes = [triangulate(channel(), 0.12, level=level) for level in LEVELS]
    counts = np.array([mesh.n_cells for mesh in meshes])
    ratio = counts[1:] / counts[:-1]
    assert (ratio > 3.3).all()
    assert (ratio < 4.5).all()
    sizes = np.array([longest_edge(mesh) for mesh in meshes])
    assert (sizes < 1.6 * 0.12 * np.array([1, 0.5, 0.25])).all()


def test_cells_shrink_towards_a_reentrant_corner():
    def edge_at_corner(refinement: float) -> float:
        mesh = triangulate(Shape(L_SHAPE), 0.2, corner_refinement=refinement)
        corner = int(np.linalg.norm(mesh.points - (1, 1), axis=1).argmin())
        at = mesh.points[mesh.edges[(mesh.edges == corner).any(axis=1)]]
        return float(np.linalg.norm(np.diff(at, axis=1), axis=2).mean())

    assert edge_at_corner(1) == pytest.approx(0.2, rel=0.3)
    assert edge_at_corner(4) == pytest.approx(0.05, rel=0.3)
    assert edge_at_corner(8) == pytest.approx(0.025, rel=0.3)


def test_curves_have_enough_nodes():
    shape = Shape(rectangle((0, 0), (4, 4)), (disc((2, 2), 0.1, "hole"),))
    for wanted in (12, 40):
        nodes = len(triangulate(shape, 0.5, curve_points=wanted).nodes_of("hole"))
        assert wanted <= nodes <= 1.3 * wanted


def test_narrow_gaps_get_several_cells():
    gap = 0.02
    shape = Shape(
        rectangle((0, 0), (3, 1)),
        (disc((1, 0.5), 0.3, "a"), disc((1.6 + gap, 0.5), 0.3, "b")),
    )

    def inside_gap(mesh: Mesh) -> int:
        near = np.abs(mesh.points - (1.3 + gap / 2, 0.5)).max(axis=1) < 2 * gap
        return int((near & ~np.isin(np.arange(mesh.n_nodes), mesh.boundary_nodes)).sum())

    plain, graded = triangulate(shape, 0.1, gap_cells=0), triangulate(shape, 0.1, gap_cells=3)
    assert inside_gap(plain) == 0
    assert inside_gap(graded) >= 6
    assert graded.n_cells < 4 * plain.n_cells
    wide = Shape(rectangle((0, 0), (3, 1)), (disc((1, 0.5), 0.2, "a"),))
    assert triangulate(wide, 0.1).digest == triangulate(wide, 0.1, gap_cells=0).digest


def test_gaps_that_are_all_but_closed_stay_affordable():
    bars = (rectangle((0.5, 0.5), (2.5, 0.6), "a"), rectangle((0.5, 0.60001), (2.5, 0.7), "b"))
    mesh = triangulate(Shape(rectangle((0, 0), (3, 1)), bars), 0.2)
    assert mesh.n_cells < 20_000
    assert mesh.volume == pytest.approx(3 - 0.2 - 2 * 0.09999, rel=1e-12)


def test_crossing_that_only_the_mesher_sees():
    half_chord = np.pi / 96  # the circles' polygons do not meet there, the circles do
    other = (1 + 0.5999 * np.cos(half_chord), 1 + 0.5999 * np.sin(half_chord))
    shape = Shape(rectangle((0, 0), (3, 3)), (disc((1, 1), 0.3, "a"), disc(other, 0.3, "b")))
    with pytest.raises(ShapeError, match="boundaries that"):
        triangulate(shape, 0.1)


def test_cells_are_well_shaped():
    mesh = triangulate(channel(), 0.1)
    corners = mesh.points[mesh.cells]
    sides = np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2)
    quality = 4 * np.sqrt(3) * mesh.volumes / (sides**2).sum(axis=1)  # 1: equilateral
    assert quality.min() > 0.5
    assert quality.mean() > 0.9


# -- reproducibility and the session -----------------------------------------------------------

SCRIPT = """
from geonew.shape import *
holes = (disc((0.7, 0.5), 0.15, "a"), star((1.4, 0.5), 0.3, 0.1, 5, "b"))
shape = Shape(rectangle((0, 0), (2, 1)), holes)
solid = Solid(Box((0, 0, 0), (1, 1, 1)), (Ball((0.5, 0.5, 0.5), 0.2, "c"),))
print(triangulate(shape, 0.1, seed=3).digest, triangulate(solid, 0.3, seed=3).digest)
"""


def test_same_mesh_in_every_process(capfd):
    runs = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    }
    shape = Shape(
        rectangle((0, 0), (2, 1)),
        (disc((0.7, 0.5), 0.15, "a"), star((1.4, 0.5), 0.3, 0.1, 5, "b")),
    )
    solid = Solid(UNIT_BOX, (Ball((0.5, 0.5, 0.5), 0.2, "c"),))
    triangulate(Shape(L_SHAPE), 0.3)  # what was meshed before does not matter
    here = f"{triangulate(shape, 0.1, seed=3).digest} {triangulate(solid, 0.3, seed=3).digest}\n"
    assert runs == {here}
    assert capfd.readouterr() == ("", "")  # and gmsh says nothing


def test_session_leaves_no_trace():
    import gmsh

    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(ZeroDivisionError), session("x", "y"):
        _ = 1 / (1 - gmsh.isInitialized())
    assert not gmsh.isInitialized()
    with pytest.raises(ShapeError, match=r"cannot mesh x: .*98.*\n.*cure"), session("x", "cure"):
        gmsh.model.occ.addLine(98, 99)
    assert not gmsh.isInitialized()
    assert signal.getsignal(signal.SIGINT) is handler
    assert triangulate(Shape(L_SHAPE), 0.5).volume == pytest.approx(3)


def test_an_open_gmsh_is_given_back():
    import gmsh

    gmsh.initialize(interruptible=False)
    try:
        gmsh.option.setNumber("General.Terminal", 0)
        gmsh.option.setNumber("Mesh.Algorithm", 5)
        gmsh.model.add("mine")
        gmsh.model.occ.addPoint(0, 0, 0)
        gmsh.model.occ.synchronize()
        borrowed = triangulate(Shape(L_SHAPE), 0.3)
        assert gmsh.model.getCurrent() == "mine"
        assert gmsh.model.getEntities() == [(0, 1)]
        assert gmsh.option.getNumber("Mesh.Algorithm") == 5
        assert set(gmsh.model.list()) == {"", "mine"}
    finally:
        gmsh.finalize()
    assert borrowed.digest == triangulate(Shape(L_SHAPE), 0.3).digest


def test_threads_wait_for_each_other():
    digests = []
    work = [
        threading.Thread(target=lambda: digests.append(triangulate(Shape(L_SHAPE), 0.1).digest))
        for _ in range(4)
    ]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    assert len(digests) == 4
    assert len(set(digests)) == 1


def test_missing_gmsh_names_the_extra(monkeypatch):
    real = builtins.__import__

    def without(name, *rest, **more):
        if name == "gmsh":
            raise ImportError("No module named 'gmsh'")
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ShapeError, match=r"pip install 'geonew\[data\]'"):
        triangulate(Shape(L_SHAPE), 0.3)


def test_importing_shapes_does_not_import_gmsh():
    heavy = ("gmsh", "torch", "skfem")
    code = f"import sys, geonew.shape; print([m for m in {heavy} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"size": 0}, "cell size is 0"),
        ({"size": float("nan")}, "cell size is nan"),
        ({"size": 0.1, "corner_refinement": 0.5}, "corner_refinement is 0.5"),
        ({"size": 0.1, "curve_points": -1}, "curve_points is -1"),
        ({"size": 0.1, "gap_cells": -1}, "gap_cells is -1"),
        ({"size": 0.1, "seed": -1}, "seed is -1"),
    ],
)
def test_bad_settings_are_refused(settings, text):
    with pytest.raises(ShapeError, match=text):
        triangulate(Shape(L_SHAPE), **settings)


# -- solids ------------------------------------------------------------------------------------


def test_box_with_cavities():
    tip = Polyhedron(((0.7, 0.7, 0.7), (0.9, 0.7, 0.7), (0.7, 0.9, 0.7), (0.7, 0.7, 0.9)), "tip")
    cavities = (
        Ball((0.5, 0.5, 0.5), 0.2, "ball"),
        Cylinder((0.2, 0.2, -0.1), (0, 0, 2), 0.1, "hole"),
        tip,
    )
    mesh = triangulate(Solid(UNIT_BOX, cavities), 0.2, curve_points=24)
    exact = 1 - 4 / 3 * np.pi * 0.2**3 - np.pi * 0.1**2 - 0.2**3 / 6
    assert mesh.volume == pytest.approx(exact, rel=2e-3)
    assert (mesh.group_index >= 0).all()
    assert set(mesh.groups) == {*UNIT_BOX.names, "ball", "hole", "tip"}
    np.testing.assert_allclose(mesh.points[mesh.nodes_of("y_max"), 1], 1, atol=1e-12)
    radii = np.linalg.norm(mesh.points[mesh.nodes_of("ball")] - 0.5, axis=1)
    np.testing.assert_allclose(radii, 0.2, atol=1e-12)
    radii = np.hypot(*(mesh.points[mesh.nodes_of("hole")][:, :2] - 0.2).T)
    np.testing.assert_allclose(radii, 0.1, atol=1e-12)
    area = np.linalg.norm(mesh.boundary_normals[mesh.group_index == 5], axis=1).sum()
    assert area == pytest.approx(1 - np.pi * 0.01, rel=1e-3)  # z_max without the hole's mouth


def test_ball_converges_with_order_two():
    ball = Solid(Ball((1, 2, 3), 1, "sphere"))
    exact = 4 / 3 * np.pi
    errors = [
        exact - triangulate(ball, 0.6, level=level, curve_points=0).volume for level in LEVELS
    ]
    assert errors[2] < 0.01 * exact
    assert 1.7 < np.log2(errors[0] / errors[2]) / 2 < 2.3


def test_notch_keeps_the_names_of_both_bodies():
    notch = Box((0.5, -1, 0.5), (2, 2, 2), "notch")
    mesh = triangulate(Solid(UNIT_BOX, (notch,)), 0.25)
    assert mesh.volume == pytest.approx(0.75, rel=1e-13)
    faces = mesh.points[mesh.nodes_of("notch")]
    assert (np.isclose(faces[:, 0], 0.5) | np.isclose(faces[:, 2], 0.5)).all()


@pytest.mark.parametrize(
    ("cavities", "text"),
    [
        ((Box((0.4, -1, -1), (0.6, 2, 2), "slit"),), "falls into 2 parts"),
        ((Ball((0.5, 0.5, 0.5), 0.3, "a"), Ball((0.5, 0.5, 0.5), 0.1, "b")), "cavity 1 .*no trace"),
    ],
)
def test_bad_cuts_are_refused(cavities, text):
    with pytest.raises(ShapeError, match=text):
        triangulate(Solid(UNIT_BOX, cavities), 0.3)
