import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from geonew.errors import GeoNeWError, MeshError, ShapeError
from geonew.mesh.files import read_mesh, write_mesh
from geonew.mesh.labels import Rest
from geonew.shape import Arc, Loop, Segment, Shape, disc, make_mesh, polygon
from geonew.shape.mesher import session

TUTORIALS = Path(sys.prefix) / "share" / "doc" / "gmsh" / "tutorials"


# -- gmsh's own tutorials ----------------------------------------------------------------------


def t4_area() -> float:
    """Area of t4's outer loop, its hole being meshed too: the file's formulas, curves exact."""
    cm = 1e-2
    e1, e2, e3 = 4.5 * cm, 3 * cm, 2.5 * cm
    h1, h2, h5, R1, r = 5 * cm, 10 * cm, 4.5 * cm, 1 * cm, 1 * cm
    cos = (-h5 * R1 + e2 * np.hypot(h5, np.hypot(e2, R1))) / (h5**2 + e2**2)
    sin = np.sqrt(1 - cos**2)
    p14, p15 = np.array([R1 / sin, h5 + R1 * cos]), np.array([0, h5])
    radius, angle = float(np.hypot(*(p14 - p15))), float(np.arctan2(*(p14 - p15)[::-1]))
    right = [(e2, 0.0), (e1 + e2, 0.0), (e1 + e2, h1), (e3 + r, h1)]
    top = [(e3, h1 + r), (e3, h1 + h2), (-e3, h1 + h2), (-e3, h1 + r)]
    left = [(-e3 - r, h1), (-e1 - e2, h1), (-e1 - e2, 0.0), (-e2, 0.0), (-p14[0], p14[1])]

    def chain(points):
        return [
            Segment(tuple(map(float, a)), tuple(map(float, b)), "w") for a, b in pairwise(points)
        ]

    return Shape(
        Loop(
            (
                *chain([p14, *right]),
                Arc((e3 + r, h1 + r), r, -np.pi / 2, -np.pi / 2, "w"),
                *chain(top),
                Arc((-e3 - r, h1 + r), r, 0.0, -np.pi / 2, "w"),
                *chain(left),
                Arc((0.0, h5), radius, np.pi - angle, 2 * angle - np.pi, "w"),
            )
        )
    ).area


# t2: a quadrilateral with one corner turned by 45 degrees, 0.12 high.
T2_CORNERS = [(0, 0.3), (0.1, 0.3), (0.1, 0.35), (0.08 / 2**0.5, 0.3 + 0.12 / 2**0.5)]
# t3: a box; the box's top turned by 90 degrees in 7 straight steps; the same twisted along 0.2.
T3_VOLUME = 0.003 + 0.03 * 0.15 * 7 * np.sin(np.pi / 14) + 0.006
# t2's first volume, listed once; the second is its copy beside it.
T2_GROUPS = {f"surface_{k}" for k in (11, 119, 121, 123, 125, 127)}
T2_COPY = {f"surface_{k}" for k in (17, 138, 142, 146, 150, 151)}
TUTORIAL_CASES = {
    "t1": (2, 0.03, 1e-12, {"group_5"}),
    "t2": (3, 0.12 * Shape(polygon(T2_CORNERS, "w")).area, 1e-10, T2_GROUPS),
    "t3": (3, T3_VOLUME, 2e-3, {"My surface"}),
    "t4": (2, t4_area(), 2e-3, {f"curve_{k}" for k in range(1, 15)}),
    "t5": (3, 1 - 0.5**3, 1e-12, {f"surface_{k}" for k in range(23, 40, 2)}),
}


@pytest.mark.parametrize("name", TUTORIAL_CASES)
def test_tutorials(name, tmp_path):
    dim, volume, rtol, groups = TUTORIAL_CASES[name]
    keep = "largest" if name == "t2" else None  # t2's two volumes do not touch
    mesh = make_mesh(TUTORIALS / f"{name}.geo", keep=keep)
    assert mesh.dim == dim
    assert mesh.volume == pytest.approx(volume, rel=rtol)
    if name == "t2" and "surface_17" in mesh.groups:
        groups = T2_COPY  # the two are equally large up to round-off, and either may be kept
    assert set(mesh.groups) == groups
    assert ("each of its" in " ".join(mesh.notes)) == (name in ("t2", "t4", "t5"))
    for suffix in (".msh", ".vtu"):
        path = tmp_path / f"{name}{suffix}"
        write_mesh(path, mesh)
        again = read_mesh(path)
        np.testing.assert_allclose(again.points, mesh.points, rtol=1e-15)
        np.testing.assert_array_equal(again.cells, mesh.cells)
        assert set(again.groups) == groups
        for group in groups:
            np.testing.assert_array_equal(again.groups[group], mesh.groups[group])


@pytest.mark.parametrize("name", ["t1", "t3", "t4", "t5"])
def test_gmsh_files_of_the_tutorials_are_read(name, tmp_path):
    """What gmsh itself writes holds the same cells as what we take from its memory."""
    with session(name, "") as gmsh:
        gmsh.open(str(TUTORIALS / f"{name}.geo"))
        gmsh.model.mesh.generate(TUTORIAL_CASES[name][0])
        gmsh.write(str(tmp_path / "file.msh"))
    named = name in ("t1", "t3")  # the others name no boundary, and reading asks for a name
    from_file = read_mesh(tmp_path / "file.msh", None if named else {"wall": Rest()})
    mesh = make_mesh(TUTORIALS / f"{name}.geo")
    assert from_file.n_cells == mesh.n_cells
    assert from_file.volume == pytest.approx(mesh.volume, rel=1e-12)
    assert set(from_file.groups) == (set(mesh.groups) if named else {"wall"})


def test_two_parts_are_refused_unless_one_is_chosen():
    with pytest.raises(MeshError, match=r"t2\.geo: .*2 parts"):
        make_mesh(TUTORIALS / "t2.geo")


def test_interfaces_between_volumes_are_no_boundary():
    mesh = make_mesh(TUTORIALS / "t5.geo")
    balls = [np.array([0.166 * t, 0.75, 0.166 * t]) for t in range(1, 6)]
    for center in balls:  # the balls are filled: no boundary node on their spheres
        distance = np.linalg.norm(mesh.points[mesh.boundary_nodes] - center, axis=1)
        assert distance.min() > 0.0901


# -- other files -------------------------------------------------------------------------------


def written(tmp_path: Path, name: str) -> Path:
    """A box 1 x 2 x 3 with a ball of radius 0.3 cut out, written by gmsh."""
    path = tmp_path / name
    with session(name, "") as gmsh:
        gmsh.model.occ.cut(
            [(3, gmsh.model.occ.addBox(0, 0, 0, 1, 2, 3))],
            [(3, gmsh.model.occ.addSphere(0.5, 1, 1.5, 0.3))],
        )
        gmsh.model.occ.synchronize()
        if path.suffix == ".stl":
            gmsh.option.setNumber("Mesh.MeshSizeMax", 0.3)
            gmsh.option.setNumber("Mesh.MeshSizeFromCurvature", 24)
            gmsh.model.mesh.generate(2)
        gmsh.write(str(path))
    return path


@pytest.mark.parametrize("suffix", ["step", "stp", "brep", "stl", "STEP"])
def test_cad_files(suffix, tmp_path):
    file = written(tmp_path, f"body.{suffix.lower()}").rename(tmp_path / f"body.{suffix}")
    mesh = make_mesh(file, 0.3)
    unit = 1000.0 if np.ptp(mesh.points) > 100 else 1.0  # STEP may be in millimetres
    assert mesh.dim == 3
    assert mesh.volume == pytest.approx((6 - 4 / 3 * np.pi * 0.027) * unit**3, rel=1e-2)
    assert (mesh.group_index >= 0).all()
    assert len(mesh.groups) >= 7
    assert all(name.startswith("surface_") for name in mesh.groups)
    assert any("names no boundary" in note for note in mesh.notes)


def test_size_replaces_the_sizes_at_points():
    coarse, fine = (make_mesh(TUTORIALS / "t1.geo", size) for size in (0.05, 0.004))
    assert coarse.n_cells < 100 < 2000 < fine.n_cells


def test_quadratic_request_gives_straight_cells(tmp_path):
    path = tmp_path / "round.geo"
    path.write_text(
        'SetFactory("OpenCASCADE"); Disk(1) = {0, 0, 0, 1}; Mesh.ElementOrder = 2;\n'
        'Physical Curve("rim") = {1}; Physical Surface("disk") = {1};\n'
    )
    mesh = make_mesh(path, 0.1)
    assert mesh.volume == pytest.approx(Shape(disc((0, 0), 1)).area, rel=5e-3)
    assert list(mesh.groups) == ["rim"]
    assert any("straight" in note for note in mesh.notes)


def test_quadrilaterals_are_split(tmp_path):
    path = tmp_path / "quads.geo"
    path.write_text(
        'SetFactory("OpenCASCADE"); Rectangle(1) = {0, 0, 0, 2, 1};\n'
        "Transfinite Surface {1}; Transfinite Curve {1:4} = 5; Recombine Surface {1};\n"
    )
    mesh = make_mesh(path)
    assert mesh.n_cells == 32
    assert mesh.volume == pytest.approx(2, rel=1e-13)
    assert list(mesh.groups) == ["curve_1", "curve_2", "curve_3", "curve_4"]


# -- refusals ----------------------------------------------------------------------------------

EVIL = [
    ('SystemCall "touch {0}";', "starts another program"),
    ('System "touch {0}";', "starts another program"),
    ('NonBlockingSystemCall "touch {0}";', "starts another program"),
    ('Printf("\\"); System "touch {0}"; Printf("");', "starts another program"),
    ('/* " */ System "touch {0}"; // "', "starts another program"),
    ('Save "{0}";', "writes files"),
    ('Print "{0}";', "writes files"),
    ('Printf("x") > "{0}";', "writes files"),
    ("Point(1) = {{0, 0, 0}};\nExit;", "line 2 has 'Exit'"),
    ('Include "../other.geo";', "outside its own folder"),
    ('Merge StrCat("a", ".geo");', "computed file name"),
    ('Include "bad.geo";', "includes itself"),
]


@pytest.mark.parametrize(("text", "why"), EVIL)
def test_scripts_that_act_outside_are_refused(text, why, tmp_path):
    target = tmp_path / "touched"
    path = tmp_path / "bad.geo"
    path.write_text(text.format(target))
    with pytest.raises(ShapeError, match=why):
        make_mesh(path)
    assert not target.exists()


def test_included_and_option_files_are_checked_too(tmp_path):
    (tmp_path / "inner.geo").write_text('System "true";')
    outer = tmp_path / "outer.geo"
    outer.write_text('Include "inner.geo";')
    with pytest.raises(ShapeError, match=r"inner\.geo is refused"):
        make_mesh(outer)
    box = written(tmp_path, "box.brep")
    (tmp_path / "box.brep.opt").write_text('System "true";')
    with pytest.raises(ShapeError, match=r"box\.brep\.opt is refused"):
        make_mesh(box)


def test_words_in_texts_comments_and_options_are_harmless(tmp_path):
    path = tmp_path / "good.geo"
    path.write_text(
        '// SystemCall "x";\n/* Exit; */ Mesh.SaveAll = 1; Print.Width = 3; Printf("Exit; Save");\n'
        'SetFactory("OpenCASCADE"); Rectangle(1) = {0, 0, 0, 1, 1};\n'
    )
    assert make_mesh(path, 0.5).volume == pytest.approx(1)


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("a.geo", "Point(1) = {0, 0", "gmsh cannot mesh a.geo: .*a.geo"),
        ("a.geo", "Point(1) = {0, 0, 0};", "no surfaces"),
        ("a.step", "this is no step file", "a.step"),
        ("a.stl", "solid a\nendsolid a\n", "a.stl"),
        ("a.txt", "", "its ending is '.txt'"),
    ],
)
def test_bad_files_are_refused(name, content, text, tmp_path):
    (tmp_path / name).write_text(content)
    with pytest.raises(ShapeError, match=text):
        make_mesh(tmp_path / name)


def test_a_script_leaves_nothing_to_the_next_one(tmp_path):
    first, second = tmp_path / "first.geo", tmp_path / "second.geo"
    macro = "Macro corner\n  Point(9) = {9, 9, 9};\nReturn\nlc = 3;\n"
    first.write_text(macro + "Point(1) = {0, 0, missing}; Point(2) = {1, missing, 0}; Point(3) = {")
    second.write_text(macro + 'SetFactory("OpenCASCADE"); Rectangle(1) = {0, 0, 0, 1, 1};\n')
    for _ in range(2):
        with pytest.raises(ShapeError, match="Unknown variable 'missing'"):
            make_mesh(first)
        assert make_mesh(second, 0.5).volume == pytest.approx(1)
    first.write_text("Point(1) = {0, 0, lc};")
    with pytest.raises(ShapeError, match="Unknown variable 'lc'"):
        make_mesh(first)


def test_bad_requests_are_refused(tmp_path):
    with pytest.raises(ShapeError, match="no file"):
        make_mesh(tmp_path / "none.geo")
    with pytest.raises(ShapeError, match="cell size is -1"):
        make_mesh(TUTORIALS / "t1.geo", -1)
    with pytest.raises(ShapeError, match="dim is 4"):
        make_mesh(TUTORIALS / "t1.geo", dim=4)
    with pytest.raises(ShapeError, match="no volumes"):
        make_mesh(TUTORIALS / "t1.geo", dim=3)


def test_open_stl_surface_is_refused(tmp_path):
    path = tmp_path / "open.stl"
    path.write_text(
        "solid a\n"
        + "".join(
            "facet normal 0 0 0\nouter loop\n"
            + "".join(f"vertex {' '.join(map(str, v))}\n" for v in triangle)
            + "endloop\nendfacet\n"
            for triangle in [
                [(0, 0, 0), (0, 1, 0), (1, 0, 0)],
                [(0, 0, 0), (1, 0, 0), (0, 0, 1)],
                [(0, 0, 0), (0, 0, 1), (0, 1, 0)],
            ]
        )
        + "endsolid a\n"
    )
    with pytest.raises(GeoNeWError, match=r"open\.stl"):
        make_mesh(path, 0.3)
