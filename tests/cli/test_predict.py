"""``geonew predict``: files equal to the API's values, and every mistake a new user makes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import meshio
import numpy as np
import pytest

from geonew import weights
from geonew.cli import main
from geonew.data.families import family
from geonew.errors import MeshError
from geonew.inference import ranges
from geonew.inference.answer import predict
from geonew.mesh import Mesh, read_mesh, write_mesh
from zoo import ZOO


@pytest.fixture(scope="module")
def meshes(tmp_path_factory) -> Path:
    """A mesh file of either family."""
    folder = tmp_path_factory.mktemp("meshes")
    for name in ("poly-poisson", "ns2d-c++"):
        source = family(name)
        mesh = source.mesh(source.draw("test", np.random.default_rng(11)), "coarse")
        write_mesh(folder / f"{name}.msh", mesh)
    return folder


@pytest.fixture
def run(trained, meshes, tmp_path, monkeypatch, capsys):
    """Run the command in an empty folder; (exit code, output, errors)."""
    monkeypatch.chdir(tmp_path)

    def call(*words, name="poly-poisson", mesh=None):
        model = trained / f"{name}.safetensors"
        mesh = meshes / f"{name}.msh" if mesh is None else mesh
        code = main(["predict", str(model), str(mesh), *map(str, words)])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return call


def read_vtk(path: Path) -> tuple[dict, dict]:
    """Point data and field data, by ParaView's own readers."""
    from vtkmodules.util.numpy_support import vtk_to_numpy
    from vtkmodules.vtkIOLegacy import vtkUnstructuredGridReader
    from vtkmodules.vtkIOXML import vtkXMLUnstructuredGridReader

    reader = (
        vtkXMLUnstructuredGridReader() if path.suffix == ".vtu" else vtkUnstructuredGridReader()
    )
    reader.SetFileName(str(path))
    reader.Update()
    grid = reader.GetOutput()

    def arrays(data) -> dict:
        names = [data.GetArrayName(k) for k in range(data.GetNumberOfArrays())]
        return {name: vtk_to_numpy(data.GetArray(name)) for name in names}

    return arrays(grid.GetPointData()), arrays(grid.GetFieldData())


@pytest.mark.parametrize("suffix", [".vtu", ".vtk"])
@pytest.mark.parametrize("name", ["poly-poisson", "ns2d-c++"])
def test_files_hold_what_the_api_returns(run, trained, meshes, tmp_path, name, suffix):
    out = tmp_path / f"fields{suffix}"
    code, text, _ = run("--out", out, "--json", tmp_path / "s.json", name=name)
    assert code == 0
    answer = predict(trained / f"{name}.safetensors", read_mesh(meshes / f"{name}.msh"))
    nodal, numbers = read_vtk(out)
    for field, values in answer.fields.items():
        stored = nodal[field][:, : answer.mesh.dim] if values.ndim == 2 else nodal[field]
        np.testing.assert_array_equal(stored, values)
        np.testing.assert_array_equal(nodal[f"band_{field}"], answer.bands[field])
    names = answer.prediction.problem.component_names
    for k, component in enumerate(names):
        np.testing.assert_array_equal(
            nodal[f"partition_{component}"], answer.prediction.partition[:, k]
        )
        np.testing.assert_array_equal(numbers[f"fluxes_{component}"], answer.prediction.fluxes[k])
    certificate = answer.certificate
    assert numbers["certificate_residual"] == [certificate.residual]
    assert numbers["certificate_margin"] == [certificate.margin]
    assert numbers["certificate_converged"] == [1]
    assert numbers["familiarity_distance"] == [answer.distance]
    assert (tmp_path / "fields.png").stat().st_size > 10_000
    for word in ("converged     yes", "unique ", "conserved     yes", "boundary      exact on",
                 "range  ", "training range", "90 % band", "assumed "):  # fmt: skip
        assert word in text
    document = json.loads((tmp_path / "s.json").read_text())
    assert document["inside"] == answer.inside
    assert document["certificate"]["steps"] == certificate.steps


def test_the_written_mesh_is_the_given_one(run, meshes, tmp_path):
    run("--out", tmp_path / "a.vtu", "--no-png")
    assert read_mesh(tmp_path / "a.vtu").digest == read_mesh(meshes / "poly-poisson.msh").digest
    assert not (tmp_path / "a.png").exists()


def test_compare(run, tmp_path):
    code, text, _ = run("--compare", "--no-png", "--json", "s.json", name="ns2d-c++")
    assert code == 0
    assert "Navier-Stokes, P2/P1" in text
    found = json.loads((tmp_path / "s.json").read_text())["comparison"]
    assert 0 < found["errors"]["velocity"] < 1
    assert found["speed_up"] > 0
    assert (tmp_path / "ns2d-c++-prediction.vtu").exists()  # the default name, in this folder


def test_values_from_numbers_formulas_and_tables(run, trained, meshes, tmp_path):
    mesh = read_mesh(meshes / "poly-poisson.msh")
    circle = mesh.points[mesh.nodes_of("circle")]
    order = np.argsort(np.arctan2(circle[:, 1], circle[:, 0]))
    rows = circle[order]
    table = "\n".join(["x,y,u", *(f"{x!r},{y!r},{x + 2 * y!r}" for x, y in rows.tolist())])
    (tmp_path / "circle.csv").write_text(table)
    outs = []
    for k, value in enumerate(["x + 2*y", "circle.csv"]):
        out = tmp_path / f"{k}.vtu"
        code, text, _ = run("--boundary", f"circle.u={value}", "--boundary", "cutout.u=-0.5",
                            "--source", "u=x*y", "--out", out, "--no-png")  # fmt: skip
        assert code == 0
        assert "assumed" not in text
        outs.append(read_vtk(out)[0]["u"])
    np.testing.assert_allclose(outs[0][mesh.nodes_of("circle")], circle @ [1, 2], atol=1e-15)
    assert (outs[0][mesh.nodes_of("cutout")] == -0.5).all()
    np.testing.assert_allclose(outs[0], outs[1], atol=1e-6)
    data = {"circle": {"u": circle @ [1, 2]}, "cutout": {"u": -0.5}}
    same = predict(trained / "poly-poisson.safetensors", mesh, data,
                   source={"u": mesh.points.prod(axis=1)})  # fmt: skip
    np.testing.assert_allclose(outs[0], same["u"], atol=1e-6)


def test_groups_are_renamed_and_joined(run, meshes, tmp_path):
    mesh = read_mesh(meshes / "ns2d-c++.msh")
    facets = mesh.groups["wall"]
    half = len(facets) // 2
    groups = {"1": mesh.groups["inlet"], "2": facets[:half], "group_3": facets[half:],
              "4": mesh.groups["outlet"], "5": mesh.groups["obstacle"]}  # fmt: skip
    write_mesh(tmp_path / "numbers.msh", mesh.with_groups(groups))
    words = ["--group", "inlet=1", "--group", "wall=2,3", "--group", "outlet=4"]
    code, _, errors = run(*words, mesh=tmp_path / "numbers.msh", name="ns2d-c++")
    assert code == 1
    assert "missing ['obstacle'], unknown ['5']" in errors
    assert "--group" in errors
    code, _, _ = run(*words, "--group", "obstacle=5", "--out", "n.vtu", "--no-png",
                        mesh=tmp_path / "numbers.msh", name="ns2d-c++")  # fmt: skip
    assert code == 0
    run("--out", "o.vtu", "--no-png", name="ns2d-c++")
    a, b = (read_vtk(tmp_path / f)[0]["velocity"] for f in ("n.vtu", "o.vtu"))
    np.testing.assert_allclose(a, b, atol=1e-10)


def test_units(run, meshes, tmp_path):
    mesh = read_mesh(meshes / "ns2d-c++.msh")
    big = Mesh(1000 * mesh.points, mesh.cells, mesh.groups)
    write_mesh(tmp_path / "mm.msh", big)
    code, _, errors = run(mesh=tmp_path / "mm.msh", name="ns2d-c++")
    assert code == 1
    assert "extends over 1000, but the model was trained on domains of 1 to 1" in errors
    assert "--unit mm" in errors
    words = ("--out", "a.vtu", "--no-png")
    code, text, _ = run(*words, "--unit", "mm", mesh=tmp_path / "mm.msh", name="ns2d-c++")
    assert code == 0
    assert "coordinates times 0.001" in text
    run("--out", "b.vtu", "--no-png", name="ns2d-c++")
    a, b = (read_vtk(tmp_path / f)[0]["pressure"] for f in ("a.vtu", "b.vtu"))
    np.testing.assert_allclose(a, b, atol=1e-6 * np.abs(b).max())
    assert run("--unit", "parsec", name="ns2d-c++")[0] == 1
    code, _, errors = run("--unit", "mm")
    assert code == 1
    assert "dimensionless" in errors
    assert "--scale" in errors


def test_an_unfamiliar_geometry_is_called_so(run, tmp_path):
    source = family("ns2d-c++")
    case = source.draw("test", np.random.default_rng(0), axis=("length", 4.0))
    write_mesh(tmp_path / "long.msh", source.mesh(case, "coarse"))
    code, text, _ = run("--no-png", mesh=tmp_path / "long.msh", name="ns2d-c++")
    assert code in (0, 1)
    assert "OUTSIDE the training range" in text
    assert "its extent is 4, in training 1 to 1" in text


# -- mistakes -----------------------------------------------------------------------------------


def refused(result, *words, code=1):
    """One paragraph with these words, a cure, and no traceback."""
    found, out, errors = result
    assert found == code, out + errors
    assert errors.startswith("geonew: ")
    assert "What to do:" in errors
    assert "Traceback" not in errors
    for word in words:
        assert word in errors, errors
    return errors


def test_unknown_model(run, trained, meshes, capsys, monkeypatch):
    monkeypatch.setattr(weights, "_FOLDER", trained)
    code = main(["predict", "poly-poison", str(meshes / "poly-poisson.msh")])
    refused((code, "", capsys.readouterr().err), "no model 'poly-poison'",
            "did you mean 'poly-poisson'?", "ns2d-c++, poly-poisson")  # fmt: skip


def test_a_file_that_is_no_model(meshes, capsys, tmp_path):
    (tmp_path / "a.safetensors").write_bytes(b"not a model")
    code = main(["predict", str(tmp_path / "a.safetensors"), str(meshes / "poly-poisson.msh")])
    assert code == 1
    assert "cannot read" in capsys.readouterr().err


def test_wrong_group_names(run, meshes):
    mesh = meshes / "ns2d-c++.msh"
    errors = refused(run(mesh=mesh), "do not match")
    assert "['cutout', 'circle']" in errors
    assert "'inlet'" in errors
    refused(run("--group", "cutout=9"), "no group '9'", "circle, cutout")
    refused(run("--group", "cutout"), "not understood", "NAME=GROUP")
    refused(run("--boundary", "cut.u=1"), "no group 'cut'", "cutout, circle")
    refused(run("--boundary", "cutout.v=1"), "no field 'v'")
    refused(run("--boundary", "cutout=1"), "write GROUP.FIELD=VALUE")
    refused(run("--boundary", "cutout.u=q"), "'q' in the formula 'q' is not known")
    refused(run("--boundary", "cutout.u=1,2"), "give 1 number")
    refused(run("--parameter", "re=1"), "'re' is not known", "none")


def test_missing_boundary_values(run, trained, meshes, tmp_path):
    """On a bent inlet the family has no profile."""
    mesh = read_mesh(meshes / "ns2d-c++.msh")
    turned = mesh.renamed({"inlet": "obstacle", "obstacle": "inlet"})
    write_mesh(tmp_path / "bent.msh", turned)
    refused(run(mesh=tmp_path / "bent.msh", name="ns2d-c++"), "missing for inlet.velocity",
            "--boundary inlet.velocity=0,0", "straight inlets")  # fmt: skip


def test_a_solid_mesh_for_a_plane_model(run, tmp_path):
    write_mesh(tmp_path / "cube.msh", ZOO["cube"]())
    refused(run(mesh=tmp_path / "cube.msh"), "is 2D, the mesh is 3D")


def test_an_unlabelled_mesh(run, tmp_path):
    mesh = ZOO["square_with_hole"]()
    bare = Mesh(mesh.points, mesh.cells)
    write_mesh(tmp_path / "bare.vtu", bare)
    refused(run(mesh=tmp_path / "bare.vtu"), "names no boundary group", "--label")
    code, text, _ = run(
        "--label", "circle=component:0", "--label", "cutout=rest", "--any-size", "--no-png",
        mesh=tmp_path / "bare.vtu",
    )  # fmt: skip
    assert code == 0
    assert "converged     yes" in text


def test_quadratic_elements_are_read_and_said(run, meshes, tmp_path):
    """Cells of higher order become straight, with a note; the corner values are the same."""
    mesh = read_mesh(meshes / "poly-poisson.msh")
    edges = np.sort(mesh.cells[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
    unique, inverse = np.unique(edges, axis=0, return_inverse=True)
    middle = mesh.points[unique].mean(axis=1)
    number = mesh.n_nodes + inverse.reshape(-1, 3)
    points = np.column_stack(
        [np.vstack([mesh.points, middle]), np.zeros(mesh.n_nodes + len(unique))]
    )

    lines = np.concatenate(list(mesh.groups.values()))
    tags = np.repeat(np.arange(1, 3), [len(f) for f in mesh.groups.values()])
    cells = [("triangle6", np.hstack([mesh.cells, number])), ("line", lines)]
    data = {"gmsh:physical": [np.full(mesh.n_cells, 9), tags],
            "gmsh:geometrical": [np.full(mesh.n_cells, 9), tags]}  # fmt: skip
    names = {name: np.array([k, 1]) for k, name in enumerate(mesh.groups, 1)}
    meshio.write(tmp_path / "q.msh", meshio.Mesh(points, cells, cell_data=data, field_data=names),
                 "gmsh22", binary=False)  # fmt: skip
    code, text, _ = run("--no-png", mesh=tmp_path / "q.msh")
    assert code == 0
    assert "cells of higher order became straight" in text


def test_an_empty_group(run, meshes, tmp_path):
    """Named in the file, but without facets: the message lists both sides and says so."""
    text = (meshes / "poly-poisson.msh").read_text()
    assert '"cutout"' in text
    spoiled = text.replace('"cutout"', '"inner"').replace(
        "$EndPhysicalNames", '1 77 "cutout"\n$EndPhysicalNames'
    )
    (tmp_path / "named.msh").write_text(spoiled)
    refused(run(mesh=tmp_path / "named.msh"), "missing ['cutout'], unknown ['inner']",
            "names the groups ['cutout'], but no element has them")  # fmt: skip
    code, out, _ = run("--group", "cutout=inner", "--no-png", mesh=tmp_path / "named.msh")
    assert code == 0
    assert "no element has them" in out
    refused(run("--label", "probe=box:90,90:91,91"), "probe")


def test_a_mesh_too_large_for_the_memory(run, monkeypatch):
    monkeypatch.setattr(ranges, "available_memory", lambda: 0.61e9)
    refused(run(), "GB of memory", "coarser mesh")
    monkeypatch.setattr(ranges, "available_memory", lambda: None)
    assert run("--no-png")[0] == 0


def test_two_million_nodes_need_more_than_most_machines_have(monkeypatch):
    """The number alone decides, before any work: no such mesh is built here."""
    mesh = ZOO["square"]()
    monkeypatch.setattr(Mesh, "n_nodes", property(lambda self: 2_000_000))
    monkeypatch.setattr(ranges, "available_memory", lambda: 16e9)
    with pytest.raises(MeshError, match=r"2,000,000 nodes; a prediction needs about 30\.6 GB"):
        ranges.check_memory(mesh)


def test_outputs_that_cannot_be_written(run, tmp_path):
    refused(run("--out", "no/such/a.vtu"), "no folder")
    refused(run("--out", "a.stl"), ".vtu or .vtk")
    (tmp_path / "taken.vtu").write_text("mine")
    refused(run("--out", "taken.vtu"), "the file exists", "--overwrite")
    assert (tmp_path / "taken.vtu").read_text() == "mine"
    (tmp_path / "folder.vtu").mkdir()
    refused(run("--out", "folder.vtu"), "is a directory")
    assert run("--out", "taken.vtu", "--overwrite", "--no-png")[0] == 0


def test_a_folder_without_rights(run, tmp_path, monkeypatch):
    """As an ordinary user meets it; root may write everywhere."""
    locked = tmp_path / "locked"
    locked.mkdir()
    touch = Path.touch

    def refuse(path, *arguments, **options):
        if path.parent.name == "locked":
            raise PermissionError(13, "Permission denied")
        touch(path, *arguments, **options)

    monkeypatch.setattr(Path, "touch", refuse)
    refused(run("--out", "locked/a.vtu"), "cannot be written: Permission denied", "rights")
    assert not list(locked.iterdir())


def test_a_full_disk_is_an_error_of_its_own(run):
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    refused(run("--out", "a.vtu", "--no-png", "--json", "/dev/full", "--overwrite"), "cannot write")


def test_missing_and_foreign_meshes(run, tmp_path):
    refused(run(mesh=tmp_path / "no.msh"), "no such file")
    (tmp_path / "a.msh").write_text("hello")
    refused(run(mesh=tmp_path / "a.msh"), "does not look like")


def test_wrong_usage_is_2(run, capsys):
    assert main(["predict"]) == 2
    assert run("--unit", "mm", "--scale", "2")[0] == 2
    assert run("--nonsense")[0] == 2
    refused(run("--scale", "-1"), "positive")


def test_mistakes_of_ours_show_no_traceback(run, monkeypatch):
    from geonew.inference import answer

    def broken(*_, **__):
        raise ZeroDivisionError("inside")

    monkeypatch.setattr(answer, "predict", broken)
    errors = refused(run(), "unexpected ZeroDivisionError: inside", "--debug", code=70)
    assert errors.count("\n") <= 3


def test_debug_shows_the_traceback(meshes, monkeypatch, tmp_path):
    from geonew.errors import CheckpointError

    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointError):
        main(["--debug", "predict", "nothing", str(meshes / "poly-poisson.msh")])


def test_interruption_leaves_nothing_behind(trained, meshes, tmp_path):
    """SIGINT while the model is loaded: one line, exit code 130, no file."""
    code = "import sys, geonew.cli; print('READY', flush=True); sys.exit(geonew.cli.main())"
    command = [sys.executable, "-c", code, "predict", str(trained / "ns2d-c++.safetensors"),
               str(meshes / "ns2d-c++.msh"), "--compare"]  # fmt: skip

    def ordinary() -> None:  # a test run in the background has children that ignore SIGINT
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=ordinary,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "READY\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=300)
    assert process.returncode == 130
    assert errors.strip().endswith("geonew: interrupted")
    assert "Traceback" not in errors
    assert not list(tmp_path.iterdir())


def test_a_cold_start_imports_no_training_code(trained, meshes, tmp_path):
    code = (
        "import sys\nfrom geonew.cli import main\ncode = main(sys.argv[1:])\n"
        "print('MODULES ' + ' '.join(sys.modules))\nraise SystemExit(code)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, "predict", str(trained / "ns2d-c++.safetensors"),
         str(meshes / "ns2d-c++.msh"), "--out", str(tmp_path / "a.vtu")],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    loaded = set(run.stdout.splitlines()[-1].split())
    names = ("loop", "optimiser", "setup", "state", "samples", "objective", "distributed")
    forbidden = {f"geonew.train.{m}" for m in names}
    forbidden |= {"gmsh", "h5py", "numba", "pytorch_optimizer", "tensorboard", "sympy"}
    assert not loaded & forbidden
