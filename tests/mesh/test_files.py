"""Reading and writing: round trips bit for bit, foreign formats, and every refusal."""

from __future__ import annotations

import os
from pathlib import Path

import meshio
import numpy as np
import pytest

from geonew.errors import GroupError, MeshError, MeshFileError
from geonew.mesh import BoundaryComponent, Box, Rest, read_mesh, write_mesh
from mesh_samples import bdf, by_meshio, inp, msh4
from zoo import ZOO, cube, hollow_cube, square, square_with_hole


def same(mesh, want):
    assert list(mesh.groups) == list(want.groups)
    assert mesh.points.tobytes() == want.points.tobytes()
    np.testing.assert_array_equal(mesh.cells, want.cells)
    assert mesh.digest == want.digest


# -- round trips -------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".vtu", ".vtk", ".msh"])
def test_round_trip_is_exact(zoo_mesh, tmp_path, suffix):
    path = tmp_path / f"mesh{suffix}"
    write_mesh(path, zoo_mesh, {"u": zoo_mesh.points[:, 0]}, {"volume": zoo_mesh.volumes})
    same(read_mesh(path), zoo_mesh)
    assert os.listdir(tmp_path) == [path.name]  # no temporary file is left


@pytest.mark.parametrize("name", ["square_with_hole", "hollow_cube", "slivers"])
def test_writing_is_reproducible_and_read_by_others(name, tmp_path):
    mesh = ZOO[name]()
    for suffix, format_name in ((".vtu", "vtu"), (".vtk", "vtk"), (".msh", "gmsh")):
        one, two = tmp_path / f"one{suffix}", tmp_path / f"two{suffix}"
        write_mesh(one, mesh)
        write_mesh(two, mesh)
        assert one.read_bytes() == two.read_bytes()
        other = meshio.read(one, format_name)
        np.testing.assert_array_equal(other.points[:, : mesh.dim], mesh.points)
        kind = "triangle" if mesh.dim == 2 else "tetra"
        np.testing.assert_array_equal(other.get_cells_type(kind), mesh.cells)


@pytest.mark.parametrize("suffix", [".vtu", ".vtk"])
@pytest.mark.parametrize("name", ["plate", "cube"])
def test_vtk_reads_the_same_values(name, suffix, tmp_path):
    from vtkmodules.util.numpy_support import vtk_to_numpy
    from vtkmodules.vtkIOLegacy import vtkUnstructuredGridReader
    from vtkmodules.vtkIOXML import vtkXMLUnstructuredGridReader

    mesh = ZOO[name]()
    rng = np.random.default_rng(0)
    u, v = rng.normal(size=mesh.n_nodes), rng.normal(size=(mesh.n_nodes, mesh.dim))
    q = rng.normal(size=mesh.n_cells)
    path = tmp_path / f"mesh{suffix}"
    write_mesh(path, mesh, {"u": u, "v": v}, {"q": q}, {"margin": 0.25, "steps": np.array([3, 4])})
    xml = suffix == ".vtu"
    reader = vtkXMLUnstructuredGridReader() if xml else vtkUnstructuredGridReader()
    reader.SetFileName(str(path))
    reader.Update()
    grid = reader.GetOutput()
    points = vtk_to_numpy(grid.GetPoints().GetData())
    np.testing.assert_array_equal(points[:, : mesh.dim], mesh.points)
    nodal, cellular, whole = grid.GetPointData(), grid.GetCellData(), grid.GetFieldData()
    np.testing.assert_array_equal(vtk_to_numpy(nodal.GetArray("u")), u)
    vector = vtk_to_numpy(nodal.GetArray("v"))
    assert vector.shape == (mesh.n_nodes, 3)
    np.testing.assert_array_equal(vector[:, : mesh.dim], v)
    on_cells = vtk_to_numpy(cellular.GetArray("q"))
    np.testing.assert_array_equal(on_cells[: mesh.n_cells], q)
    assert np.isnan(on_cells[mesh.n_cells :]).all()
    assert vtk_to_numpy(whole.GetArray("margin")).tolist() == [0.25]
    assert vtk_to_numpy(whole.GetArray("steps")).tolist() == [3, 4]
    numbers = vtk_to_numpy(cellular.GetArray("group"))
    assert (numbers[: mesh.n_cells] == 0).all()
    for k, (group, facets) in enumerate(mesh.groups.items(), 1):
        assert (numbers == k).sum() == len(facets)
        flags = vtk_to_numpy(cellular.GetArray(f"group:{group}"))
        np.testing.assert_array_equal(flags == 1, numbers == k)
        for cell, facet in zip(np.flatnonzero(numbers == k), facets, strict=True):
            ids = grid.GetCell(int(cell)).GetPointIds()
            assert [ids.GetId(i) for i in range(ids.GetNumberOfIds())] == facet.tolist()


# -- other formats -----------------------------------------------------------------------------


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("loose", [False, True])
@pytest.mark.parametrize("name", ["square_with_hole", "hollow_cube"])
def test_gmsh_4(name, binary, loose, tmp_path):
    path = tmp_path / "mesh.msh"
    path.write_bytes(msh4(ZOO[name](), binary, loose))
    same(read_mesh(path), ZOO[name]())


@pytest.mark.parametrize("binary", [False, True])
def test_gmsh_2_without_names(binary, tmp_path):
    mesh, path = hollow_cube(), tmp_path / "mesh.msh"
    by_meshio(mesh, path, "gmsh22", binary=binary)
    numbers = {name: f"group_{k}" for k, name in enumerate(mesh.groups, 1)}
    same(read_mesh(path), mesh.renamed(numbers))


@pytest.mark.parametrize(
    ("suffix", "format_name", "array", "options"),
    [
        (".vtu", "vtu", "CellEntityIds", {"binary": True}),
        (".vtu", "vtu", "anything", {"binary": False}),
        (".vtk", "vtk", "group", {"binary": True}),
        (".vtk", "vtk", "group", {"binary": False}),
        (".xdmf", "xdmf", "boundary", {"data_format": "XML"}),
        (".xdmf", "xdmf", "boundary", {"data_format": "HDF"}),
        (".mesh", "medit", "medit:ref", {}),
        (".bdf", "nastran", "nastran:ref", {}),
    ],
)
def test_integer_data_on_facets_are_groups(suffix, format_name, array, options, tmp_path):
    mesh, path = square_with_hole(), tmp_path / f"mesh{suffix}"
    by_meshio(mesh, path, format_name, array, **options)
    again = read_mesh(path)
    assert list(again.groups) == [f"group_{k}" for k in range(1, 6)]
    # meshio writes text with 16 digits or fewer in some of these formats
    np.testing.assert_allclose(again.points, mesh.points, rtol=0, atol=1e-11)
    for one, two in zip(again.groups.values(), mesh.groups.values(), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("name", ["square_with_hole", "cube"])
def test_abaqus_surfaces_node_sets_and_element_sets(name, tmp_path):
    mesh, path = ZOO[name](), tmp_path / "part.inp"
    path.write_text(inp(mesh))
    again = read_mesh(path)
    assert set(again.groups) == set(mesh.groups)
    same(again.with_groups({n: again.groups[n] for n in mesh.groups}), mesh)
    assert "node set 'Nall' holds every node and was dropped" in again.notes


def test_abaqus_hexahedra_generated_sets_and_faces(tmp_path):
    path = tmp_path / "block.inp"
    path.write_text(
        "*Node\n1,0,0,0\n2,1,0,0\n3,1,1,0\n4,0,1,0\n5,0,0,1\n6,1,0,1\n7,1,1,1\n8,0,1,1\n"
        "9,0,0,2\n10,1,0,2\n11,1,1,2\n12,0,1,2\n"
        "*Element, type=C3D8R\n1, 1,2,3,4,\n5,6,7,8\n2, 5,6,7,8,9,10,11,12\n"
        "*Elset, elset=Both, generate\n1, 2, 1\n*Nset, nset=Floor, generate\n1, 4, 1\n"
        "*Surface, type=ELEMENT, name=front\nboth, S3\n*Surface, name=top\n2, S2\n"
        "*Surface, name=left\nBOTH, S6\n"
    )
    mesh = read_mesh(path)
    assert mesh.n_cells == 12
    want = {"front": (1, 0.0, 4), "top": (2, 2.0, 2), "left": (0, 0.0, 4), "Floor": (2, 0.0, 2)}
    assert set(mesh.groups) == set(want)
    for name, (axis, value, count) in want.items():
        assert len(mesh.groups[name]) == count
        assert (mesh.points[mesh.nodes_of(name)][:, axis] == value).all()


@pytest.mark.parametrize("name", ["square", "cube"])
def test_nastran_bulk_data(name, tmp_path):
    mesh, path = ZOO[name](), tmp_path / "mesh.bdf"
    path.write_text(bdf(mesh))
    numbers = {group: f"group_{k}" for k, group in enumerate(mesh.groups, 1)}
    same(read_mesh(path), mesh.renamed(numbers))


def test_a_plane_obj_is_a_mesh(tmp_path):
    path = tmp_path / "mesh.obj"
    path.write_text("v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nf 1 2 3\nf 1 3 4\n")
    mesh = read_mesh(path, labels={"wall": Rest()})
    assert mesh.n_cells == 2
    assert len(mesh.groups["wall"]) == 4


# -- groups ------------------------------------------------------------------------------------


def test_a_mesh_without_groups_lists_its_components(tmp_path):
    path = tmp_path / "mesh.vtu"
    write_mesh(path, square_with_hole().with_groups({}))
    with pytest.raises(GroupError) as caught:
        read_mesh(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: the file names no boundary group")
    assert "component 0: [0, 1] x [0, 1], length 4, 36 facets" in text
    assert "component 1: [0.333333, 0.666667] x [0.333333, 0.666667], length 1.33333" in text
    assert "--label wall=rest" in text
    mesh = read_mesh(path, labels={"hole": BoundaryComponent(1), "wall": Rest()})
    assert {name: len(f) for name, f in mesh.groups.items()} == {"hole": 12, "wall": 36}


def test_groups_are_renamed_joined_dropped_and_labelled(tmp_path):
    path = tmp_path / "mesh.msh"
    write_mesh(path, square())
    mesh = read_mesh(path, rename={"left": "in", "right": "side", "top": "side", "bottom": None})
    assert {name: len(f) for name, f in mesh.groups.items()} == {"in": 8, "side": 16}
    assert mesh.notes == ("8 of 32 boundary facets have no group",)
    mesh = read_mesh(path, labels={"inlet": Box((0, 0), (0, 0.5))})
    assert len(mesh.groups["inlet"]) == len(mesh.groups["left"]) == 4
    with pytest.raises(GroupError, match=r"no group 'wall' to rename; there are \['bottom'"):
        read_mesh(path, rename={"wall": "x"})


def test_overlapping_groups_are_refused_and_cured_by_dropping_one(tmp_path):
    path = tmp_path / "mesh.msh"
    write_mesh(path, square())
    text = path.read_text().replace("$EndPhysicalNames", '1 9 "all"\n$EndPhysicalNames')
    lines = text.splitlines()
    start = lines.index("$Elements") + 2
    extra = lines[start].split()
    lines[start - 1] = str(int(lines[start - 1]) + 1)
    lines.insert(start, " ".join(["999", *extra[1:3], "9", "9", *extra[5:]]))
    path.write_text("\n".join(lines))
    with pytest.raises(
        GroupError, match=r"mesh.msh: boundary groups \['all', 'left'\] overlap in 1"
    ):
        read_mesh(path)
    same(read_mesh(path, rename={"all": None}), square())


# -- refusals ----------------------------------------------------------------------------------


def refused(path, message, **options):
    with pytest.raises(MeshFileError, match=message) as caught:
        read_mesh(path, **options)
    assert str(path) in str(caught.value)
    assert "What to do" in str(caught.value)


def test_what_is_no_mesh_file(tmp_path):
    refused(tmp_path / "none.msh", "there is no such file")
    refused(tmp_path, "is a directory")
    (tmp_path / "mesh.docx").write_text("x")
    refused(tmp_path / "mesh.docx", "extension '.docx' is not that of a mesh format")
    (tmp_path / "mesh.ply").write_text("ply\n")
    refused(tmp_path / "mesh.ply", "'.ply' is not that of a mesh format that is read")
    (tmp_path / "empty.vtu").write_text(" \n")
    refused(tmp_path / "empty.vtu", "the file is empty")
    os.mkfifo(tmp_path / "pipe.msh")
    refused(tmp_path / "pipe.msh", "not a regular file")


def test_unreadable_file(tmp_path, monkeypatch):
    path = tmp_path / "mesh.msh"
    write_mesh(path, square())

    def denied(*_, **__):  # taking the rights away does not stop a superuser
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", denied)
    refused(path, "cannot be opened: Permission denied")


@pytest.mark.parametrize(
    ("suffix", "looks"),
    [
        (".vtk", "legacy VTK file, but like a VTK XML"),
        (".msh", "Gmsh file, but like a VTK XML"),
        (".inp", "Abaqus file, but like a VTK XML"),
        (".xdmf", "XDMF file"),
        (".bdf", "Nastran file"),
        (".mesh", "Medit file"),
    ],
)
def test_content_that_contradicts_the_extension(suffix, looks, tmp_path):
    write_mesh(tmp_path / "mesh.vtu", square())
    path = (tmp_path / "mesh.vtu").rename(tmp_path / f"mesh{suffix}")
    refused(path, f"does not look like a {looks}")


@pytest.mark.parametrize("suffix", [".vtu", ".msh"])
@pytest.mark.parametrize("part", [0.3, 0.6, 0.9])
def test_truncated_files(suffix, part, tmp_path):
    path = tmp_path / f"mesh{suffix}"
    write_mesh(path, cube())
    data = path.read_bytes()
    path.write_bytes(data[: int(part * len(data))])
    refused(path, "not closed by|cannot be read as .vtu")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("2.2 0 8", "9.9 0 8", "version 9.9; 2.2 and 4.1 are read"),
        ("2.2 0 8", "2.2 7", "has the format line '2.2 7'"),
        ("$Nodes\n81", "$Nodes\n99999999999", "announces 399999999996 numbers where"),
        ("$Elements\n160", "$Elements\n161", "announces 3 numbers where 0 are left"),
        ("1 1 2 1 1 1 2", "1 77 2 1 1 1 2", "elements of Gmsh's type 77"),
        ("1 1 2 1 1 1 2", "1 1 2 1 1 1 4444", "1 references to nodes that"),
        ("$Elements", "$Lost", "no section \\$Nodes or no section \\$Elements"),
        ("1 0 0 0\n", "1 zero 0 0\n", "could not convert string"),
    ],
)
def test_damaged_msh_files(old, new, message, tmp_path):
    path = tmp_path / "mesh.msh"
    write_mesh(path, square())
    text = path.read_text()
    assert old in text
    text = text.replace(old, new, 1)
    path.write_text(text.replace("$EndElements", "$EndLost") if new == "$Lost" else text)
    refused(path, message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("*NODE\n1,0,0\n1,0,0\n", "defines node 1 twice"),
        ("*NODE\n1,0,0\n*ELEMENT, TYPE=XYZ\n1,1\n", "elements of type 'XYZ'"),
        ("*NODE\n1,0,0\n*ELEMENT, TYPE=CPS3\n1,1\n", "2 numbers, not a multiple of 4"),
        ("*NODE\n1,0,0\n*ELEMENT, TYPE=CPS3\n1,1,2,3\n", "cannot be read as .inp: 2"),
        ("*NODE\n1,0,0\n*INCLUDE, INPUT=x.inp\n", "includes another file"),
        ("*NODE\n1,0,0\n*NSET\n1\n", "has no name"),
        ("*NODE\n1,a,0\n", "could not convert"),
    ],
)
def test_damaged_inp_files(text, message, tmp_path):
    path = tmp_path / "mesh.inp"
    path.write_text(text)
    refused(path, message)


def test_announced_sizes_are_not_believed(tmp_path):
    path = tmp_path / "mesh.vtk"
    by_meshio(square(), path, "vtk", binary=False)
    path.write_text(path.read_text().replace("POINTS 81", "POINTS 3000000000"))
    refused(path, "announces or uses the number 3000000000")
    path.write_text("# vtk DataFile Version 3.0\nx\nASCII\nDATASET STRUCTURED_POINTS\n")
    with path.open("a") as stream:
        stream.write("DIMENSIONS 9000 9000 9000\nORIGIN 0 0 0\nSPACING 1 1 1\n")
    refused(path, "announces a grid larger than")
    path = tmp_path / "mesh.bdf"
    path.write_text("BEGIN BULK\nGRID,1,,0.,0.,0.\n")
    refused(path, "have no ENDDATA")


def test_messages_of_the_mesh_name_the_file(tmp_path):
    path = tmp_path / "mesh.msh"
    write_mesh(path, square())
    path.write_text(path.read_text().replace("\n1 0 0 0\n", "\n1 nan 0 0\n"))
    with pytest.raises(MeshError, match=r"mesh.msh: 1 of 81 nodes have non-finite coordinates"):
        read_mesh(path)
    surface = tmp_path / "surface.obj"
    surface.write_text("v 0 0 0\nv 1 0 0\nv 1 1 1\nv 0 1 0\nf 1 2 3\nf 1 3 4\n")
    with pytest.raises(MeshError, match=r"surface.obj: the cells form a surface in space"):
        read_mesh(surface)


def test_reading_prints_nothing(tmp_path, capfd):
    path = tmp_path / "mesh.vtu"
    path.write_text("<VTKFile type='Poly'>\n</VTKFile>")
    refused(path, "cannot be read as .vtu")
    assert capfd.readouterr() == ("", "")


# -- writing -----------------------------------------------------------------------------------


def test_nothing_is_overwritten_unless_asked(tmp_path):
    path = tmp_path / "mesh.vtu"
    path.write_text("mine")
    with pytest.raises(MeshFileError, match="the file exists"):
        write_mesh(path, square())
    assert path.read_text() == "mine"
    write_mesh(path, square(), overwrite=True)
    same(read_mesh(path), square())


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("mesh.stl", {}, "extension '.stl' cannot be written"),
        ("no/mesh.vtu", {}, "cannot be written: No such file"),
        ("mesh.vtu", {"point_data": {"u": np.zeros(3)}}, r"'u' have shape \(3,\); the mesh has 81"),
        ("mesh.vtu", {"cell_data": {"u": np.zeros(3)}}, "the mesh has 128 cells"),
        ("mesh.vtu", {"point_data": {"u": np.zeros(81, complex)}}, "complex128, not real numbers"),
        ("mesh.vtu", {"point_data": {"group": np.zeros(81)}}, "'group' cannot be the name"),
        ("mesh.vtu", {"cell_data": {"group:x": np.zeros(128)}}, "'group:x' cannot be the name"),
        ("mesh.msh", {"field_data": {"x": 1.0}}, r"hold no field data \['x'\]"),
    ],
)
def test_what_cannot_be_written(name, options, message, tmp_path):
    with pytest.raises(MeshFileError, match=message):
        write_mesh(tmp_path / name, square(), **options)
    assert os.listdir(tmp_path) == []


def test_group_names_that_files_cannot_hold(tmp_path):
    mesh = square().renamed({"left": 'le"ft'})
    with pytest.raises(MeshFileError, match="cannot be the name of a boundary group"):
        write_mesh(tmp_path / "mesh.msh", mesh)
    for suffix in (".msh", ".vtu"):
        path = tmp_path / f"mesh{suffix}"
        mesh = square().renamed({"left": "Einlaß <1> & ähnl. group:x"})
        write_mesh(path, mesh)
        same(read_mesh(path), mesh)
