"""``geonew mesh``: what it prints, draws and writes, and how it fails."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from matplotlib.image import imread

from geonew.cli import main
from geonew.errors import MeshFileError
from geonew.mesh import read_mesh, write_mesh
from geonew.plot.mesh import COLOURS, mesh_figure
from zoo import ZOO, hollow_cube, square, square_with_hole


@pytest.fixture
def path(tmp_path):
    """A square with a hole in a file."""
    write_mesh(tmp_path / "mesh.vtu", square_with_hole())
    return tmp_path / "mesh.vtu"


def test_info(path, capsys):
    assert main(["mesh", "info", str(path)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert f"{path}: 2D, 96 nodes, 144 triangles" in out
    assert "extent    [0, 1] x [0, 1]" in out
    assert "area      0.888889" in out
    assert "edges     0.1111 to 0.1571, mean" in out
    assert "boundary  48 facets, 2 connected components" in out
    assert "left    9 facets, length 1, [0, 0] x [0, 1]" in out
    assert "hole    12 facets, length 1.33333, [0.333333, 0.666667] x" in out
    assert "smallest angle 45 degrees" in out
    assert "0.8 to 0.9      144 " + "#" * 40 in out
    assert "repaired  nothing" in out


def test_info_says_what_was_repaired(tmp_path, capsys):
    write_mesh(tmp_path / "mesh.msh", ZOO["slit"]())
    assert main(["mesh", "info", str(tmp_path / "mesh.msh"), "--rename", "top="]) == 0
    out = capsys.readouterr().out
    assert "3 pairs of coinciding nodes were kept apart" in out
    assert "8 of 40 boundary facets have no group" in out
    assert "(no group)  8 facets, length 1" in out


def test_info_of_a_solid(tmp_path, capsys):
    write_mesh(tmp_path / "mesh.vtu", hollow_cube())
    assert main(["mesh", "info", str(tmp_path / "mesh.vtu")]) == 0
    out = capsys.readouterr().out
    assert "3D, 64 nodes, 156 tetrahedra" in out
    assert "volume    0.962963" in out
    assert "cavity  12 facets, area 0.666667" in out


def test_labels_renames_and_conversion(path, tmp_path, capsys):
    out = tmp_path / "new.msh"
    labels = ["--label", "inlet=box:0,0:0,0.5", "--label", "round=component:1"]
    command = ["mesh", "convert", str(path), str(out), *labels, "--rename", "right=outlet"]
    assert main(command) == 0
    assert f"wrote {out}: Mesh(2D" in capsys.readouterr().out
    mesh = read_mesh(out)
    sizes = {name: len(facets) for name, facets in mesh.groups.items()}
    assert sizes == {"left": 5, "outlet": 9, "bottom": 9, "top": 9, "inlet": 4, "round": 12}
    assert main(command) == 1
    assert "the file exists" in capsys.readouterr().err
    assert main([*command, "--overwrite"]) == 0


@pytest.mark.parametrize("name", ["plate", "hollow_cube"])
def test_plot(name, tmp_path, capsys):
    mesh, picture = ZOO[name](), tmp_path / "mesh.png"
    write_mesh(tmp_path / "mesh.vtu", mesh)
    command = ["mesh", "plot", str(tmp_path / "mesh.vtu"), "--out", str(picture)]
    assert main(command) == 0
    image = imread(picture)[..., :3]
    wanted = [int(COLOURS[k][i : i + 2], 16) / 255 for k in range(4) for i in (1, 3, 5)]
    for colour in np.reshape(wanted, (4, 3)):  # each group's colour is in the picture
        assert (np.abs(image - colour).max(axis=-1) < 0.02).sum() > 50
    assert main(command) == 1
    assert "the file exists" in capsys.readouterr().err
    texts = [text.get_text() for text in mesh_figure(mesh).legends[0].get_texts()]
    assert texts == [f"{group} ({len(facets)})" for group, facets in mesh.groups.items()]


def test_facets_without_group_are_drawn(tmp_path):
    figure = mesh_figure(square().with_groups({}))
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["no group (32)"]


def test_pictures_need_a_known_extension(path, tmp_path, capsys):
    assert main(["mesh", "plot", str(path), "--out", str(tmp_path / "mesh.doc")]) == 1
    assert "the picture cannot be written" in capsys.readouterr().err


def test_errors_are_one_paragraph(tmp_path, capsys):
    assert main(["mesh", "info", str(tmp_path / "none.msh")]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        f"geonew: {tmp_path / 'none.msh'}: there is no such file\n  What to do: check the path\n"
    )


def test_debug_shows_the_traceback(tmp_path):
    with pytest.raises(MeshFileError):
        main(["--debug", "mesh", "info", str(tmp_path / "none.msh")])


@pytest.mark.parametrize("command", [[], ["mesh"], ["mesh", "info"], ["bake"]])
def test_wrong_usage(command, capsys):
    assert main(command) == 2
    assert "usage: geonew" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--label", "a=sphere:1"], "'a=sphere:1' is not understood"),
        (["--rename", "left"], "--rename 'left' is not understood"),
        (["--rename", "none=x"], "no group 'none' to rename"),
    ],
)
def test_wrong_options_are_explained(option, message, path, capsys):
    assert main(["mesh", "info", str(path), *option]) == 1
    assert message in capsys.readouterr().err


def test_help_and_version(capsys):
    assert main(["--version"]) == 0
    assert main(["mesh", "info", "--help"]) == 0
    assert "NAME=box:x,y:x,y" in " ".join(capsys.readouterr().out.split())


def test_interruption(path, monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("geonew.cli.mesh.read_labelled", interrupted)
    assert main(["mesh", "info", str(path)]) == 130
    assert capsys.readouterr().err == "geonew: interrupted\n"


def test_a_closed_pipe_is_no_error(path):
    """The reader leaves before anything is written; nothing may be said about it."""
    run = subprocess.Popen(
        [sys.executable, "-m", "geonew.cli", "mesh", "info", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert run.stdout is not None
    run.stdout.close()
    assert run.stderr is not None
    assert run.stderr.read() == b""
    run.stderr.close()
    assert run.wait(60) == 1
