"""``geonew features`` from a mesh file to a table or a picture."""

from __future__ import annotations

import json

import pytest

from geonew.cli import main
from geonew.features import generic_problem
from geonew.mesh import write_mesh
from zoo import ZOO


@pytest.fixture
def mesh_file(tmp_path):
    path = tmp_path / "l_shape.vtu"
    write_mesh(path, ZOO["l_shape"]())
    return path


def test_list_names_columns_and_ranges(mesh_file, capsys):
    assert main(["features", "list", str(mesh_file)]) == 0
    out = capsys.readouterr().out
    for word in ("label:left", "sdf", "harmonic:left-right", "torsion:", "hks:7", "axis 1"):
        assert word in out


def test_plot_writes_a_picture_and_never_over_another(mesh_file, tmp_path, capsys):
    out = tmp_path / "features.png"
    command = ["features", "plot", str(mesh_file), "--columns", "s?f", "hks:0", "--out", str(out)]
    assert main(command) == 0
    assert "2 panels" in capsys.readouterr().out
    assert out.stat().st_size > 1000
    assert main(command) == 1
    assert "exists" in capsys.readouterr().err
    assert main([*command, "--overwrite"]) == 0


def test_plot_draws_all_scalars_by_default(mesh_file, tmp_path, capsys):
    (tmp_path / "spec.json").write_text('{"hks_times": 1, "eigenpairs": 8, "harmonic": false}')
    options = [f"--spec={tmp_path / 'spec.json'}", f"--out={tmp_path / 'a.png'}"]
    assert main(["features", "plot", str(mesh_file), *options]) == 0
    assert "3 panels" in capsys.readouterr().out  # distance, torsion, one time


def test_problem_boundary_and_settings_come_from_files(mesh_file, tmp_path, capsys):
    mesh = ZOO["l_shape"]()
    generic_problem(mesh).save(tmp_path / "problem.json")
    data = {group: {"u": 1.0} for group in mesh.groups}
    (tmp_path / "boundary.json").write_text(json.dumps(data))
    (tmp_path / "spec.json").write_text('{"hks_times": 2, "eigenpairs": 8}')
    options = [f"--{name}={tmp_path / name}.json" for name in ("problem", "boundary", "spec")]
    assert main(["features", "list", str(mesh_file), *options]) == 0
    out = capsys.readouterr().out
    assert "data:u" in out
    assert "hks:1" in out
    assert "hks:2" not in out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--spec=missing.json"], "cannot read"),
        (["--boundary=missing.json"], "cannot read"),
        (["--problem=missing.json"], "cannot read"),
    ],
)
def test_missing_files_are_explained(mesh_file, capsys, options, message):
    assert main(["features", "list", str(mesh_file), *options]) == 1
    assert message in capsys.readouterr().err


def test_wrong_patterns_and_wrong_data_are_explained(mesh_file, tmp_path, capsys):
    out = str(tmp_path / "a.png")
    assert main(["features", "plot", str(mesh_file), "--columns", "nope", "--out", out]) == 1
    assert "no feature matches" in capsys.readouterr().err
    wrong = tmp_path / "wrong.json"
    for text in ("[1]", "{", '{"left": 3}'):
        wrong.write_text(text)
        assert main(["features", "list", str(mesh_file), f"--boundary={wrong}"]) == 1
        assert str(wrong) in capsys.readouterr().err


def test_unlabelled_facets_become_a_group(tmp_path, capsys):
    mesh = ZOO["l_shape"]()
    path = tmp_path / "bare.vtu"
    write_mesh(path, mesh.with_groups({"left": mesh.facets_of("left")}))
    assert main(["features", "list", str(path)]) == 0
    assert "label:rest" in capsys.readouterr().out
