import pytest

from geonew.cli import main
from geonew.mesh import read_mesh

SQUARE = """
SetFactory("OpenCASCADE"); Rectangle(1) = {0, 0, 0, 2, 1};
Physical Curve("wall") = {1, 3}; Physical Curve("inlet") = {4}; Physical Surface("fluid") = {1};
"""


@pytest.fixture
def square(tmp_path):
    path = tmp_path / "square.geo"
    path.write_text(SQUARE)
    return path


def test_make(square, tmp_path, capsys):
    out = tmp_path / "square.vtu"
    assert main(["mesh", "make", str(square), "--size", "0.2", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert f"wrote {out}: Mesh(2D" in printed
    assert "note: 5 of 30 boundary facets have no group" in printed
    mesh = read_mesh(out)
    assert set(mesh.groups) == {"wall", "inlet"}
    assert mesh.volume == pytest.approx(2)


def test_existing_files_are_kept(square, tmp_path, capsys):
    out = tmp_path / "square.msh"
    out.write_text("mine")
    command = ["mesh", "make", str(square), "--size", "0.5", "--out", str(out)]
    assert main(command) == 1
    assert out.read_text() == "mine"
    assert "the file exists" in capsys.readouterr().err
    assert main([*command, "--overwrite"]) == 0
    assert read_mesh(out).volume == pytest.approx(2)


def test_errors_are_one_paragraph(tmp_path, capsys):
    bad = tmp_path / "bad.geo"
    bad.write_text('System "true";')
    assert main(["mesh", "make", str(bad), "--out", str(tmp_path / "a.vtu")]) == 1
    error = capsys.readouterr().err
    assert error.startswith("geonew: bad.geo is refused: line 1 has 'System'")
    assert "Traceback" not in error
