"""Import: users' simulations, published formats, clouds of points; recipes and hostile files."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import yaml
from numpy import ndarray

from geonew.data.cloud import triangulate_cloud
from geonew.data.geofno import unit_cell
from geonew.data.gnot import load_pickle
from geonew.data.importing import import_recipe
from geonew.data.store import DataSet
from geonew.errors import DataError, GeoNeWError
from geonew.fem.reference import solve_poisson
from geonew.mesh import Mesh, boundary_components, read_fields, read_mesh, write_mesh
from problems import flow, poisson
from zoo import ZOO

SHARED = os.environ.get("GEONEW_SHARED_DATA", "")
needs_shared = pytest.mark.skipif(
    not SHARED, reason="GEONEW_SHARED_DATA does not name the folder with the published data sets"
)


def recipe(place: Path, /, **content) -> Path:
    path = place / "recipe.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def imported(place: Path, /, **content) -> DataSet:
    import_recipe(recipe(place, **content), place / "out.h5", overwrite=True)
    return DataSet(place / "out.h5")


# -- point data of mesh files ----------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".vtu", ".msh"])
def test_fields_come_back_on_their_nodes(tmp_path, zoo_mesh: Mesh, suffix):
    path = tmp_path / f"m{suffix}"
    scalar, vector = zoo_mesh.points[:, 0] ** 2, 3 * zoo_mesh.points
    write_mesh(path, zoo_mesh, {"s": scalar, "v": vector})
    found = read_fields(path, read_mesh(path))
    np.testing.assert_array_equal(found["s"], scalar)
    np.testing.assert_array_equal(found["v"][:, : zoo_mesh.dim], vector)


def test_fields_follow_nodes_that_were_dropped(tmp_path):
    import meshio

    mesh = ZOO["square"]()
    points = np.concatenate([[[9.0, 9.0]], mesh.points])  # an unused node first
    space = np.column_stack([points, np.zeros(len(points))])
    data = {"s": np.concatenate([[np.nan], mesh.points[:, 1]])}
    cells = [("triangle", mesh.cells + 1), ("line", mesh.groups["left"] + 1)]
    tags = {"group": [np.zeros(mesh.n_cells, int), np.ones(len(cells[1][1]), int)]}
    meshio.Mesh(space, cells, data, tags).write(tmp_path / "m.vtu")
    read = read_mesh(tmp_path / "m.vtu")
    assert read.n_nodes == mesh.n_nodes
    np.testing.assert_array_equal(read_fields(tmp_path / "m.vtu", read)["s"], read.points[:, 1])
    with pytest.raises(GeoNeWError, match="was not read from this file"):
        read_fields(tmp_path / "m.vtu", read.moved(np.eye(2), np.array([3.0, 0.0])))


# -- simulations -----------------------------------------------------------------------------------


def simulated(folder: Path, count: int = 3) -> dict[str, Mesh]:
    """Poisson solutions of other people: their names for groups, arrays and parameters."""
    (folder / "runs").mkdir()
    poisson().save(folder / "problem.json")
    rows, meshes = ["file,Conductivity,size"], {}
    for k in range(count):
        square = ZOO["square"]()
        points = square.points * [1 + 0.1 * k, 1.0]
        mesh = Mesh(points, square.cells, square.groups)
        kappa = 1.0 + k
        solution = solve_poisson(
            mesh, dirichlet={"left": 2.0, "bottom": 2.0}, source=1.0, conductivity=0.5 * kappa
        )
        theirs = mesh.renamed({"left": "in", "bottom": "floor"})
        data = {"T": solution.values, "cond": np.full(mesh.n_nodes, kappa)}
        write_mesh(folder / "runs" / f"case_{k}.vtu", theirs, data)
        rows.append(f"case_{k}.vtu,{kappa},{1 + 0.1 * k}")
        meshes[f"case_{k}.vtu"] = mesh
    (folder / "cases.csv").write_text("\n".join(rows))
    return meshes


SIMULATIONS = {
    "kind": "simulations", "name": "theirs", "split": "test", "folder": "runs", "files": "*.vtu",
    "problem": "problem.json", "fields": {"u": "T"}, "groups": {"left": "in", "bottom": ["floor"]},
    "boundary": {"left": {"u": 2.0}}, "parameters": {"kappa": {"array": "cond"}},
    "table": "cases.csv", "axes": ["size"], "sources": {"u": 1.0}, "units": {"u": "K"},
}  # fmt: skip


def test_simulations_are_imported(tmp_path):
    meshes = simulated(tmp_path)
    with imported(tmp_path, **SIMULATIONS) as dataset:
        assert (len(dataset), dataset.header.family, dataset.header.split) == (3, "theirs", "test")
        assert dataset.header.units == {"u": "K"}
        assert dataset.axes["size"] == (1.0, 1.1, 1.2)
        for k, record in enumerate(dataset):
            mesh = meshes[f"case_{k}.vtu"]
            np.testing.assert_array_equal(record.mesh.points, mesh.points)
            assert set(record.mesh.groups) == set(mesh.groups)
            assert (record.fields["u"][record.mesh.nodes_of("bottom")] == 2.0).all()
            assert (record.boundary["bottom"]["u"] == 2.0).all()
            np.testing.assert_array_equal(record.parameters["kappa"], 1.0 + k)
            np.testing.assert_array_equal(record.sources["u"], 1.0)
            assert record.case.shape == {"file": f"case_{k}.vtu"}


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"feilds": {}}, "unknown key 'feilds'\n  What to do: did you mean 'fields'"),
        ({"kind": "simulation"}, "did you mean 'simulations'"),
        ({"fields": {"v": "T"}}, "unknown key 'v'"),
        ({"fields": {"u": "temperature"}}, r"sample 0 \(case_0.vtu\).*no point data 'temperature'"),
        ({"groups": {"left": "inn"}}, "no group 'inn'"),
        ({"boundary": {"left": {"u": 3.0}}}, "is 2 at node .* where 3 is prescribed"),
        ({"boundary": {"left": {"u": "three"}}}, "give 1 number"),
        ({"parameters": {}}, "parameters do not match"),
        ({"parameters": {"kappa": {"column": "Kond"}}}, "no column 'Kond'"),
        ({"table": "none.csv"}, "table cannot be read"),
        ({"files": "*.vtk"}, "no file in"),
        ({"files": "../*.vtu"}, "inside the folder"),
        ({"split": "all"}, "choose one of"),
        ({"samples": [0, 9]}, "but there are 3"),
        ({"problem": "none.json"}, "cannot read problem file"),
        ({"sources": {"u": True}}, "give numbers"),
    ],
)
def test_mistakes_in_recipes_are_explained(tmp_path, change, match):
    simulated(tmp_path, 3)
    with pytest.raises(GeoNeWError, match=f"(?s){match}"):
        imported(tmp_path, **{**SIMULATIONS, **change})
    assert not list(tmp_path.glob("out.h5*"))


@pytest.mark.parametrize(
    "text",
    ["", "[1, 2]", "kind: [", "a: 1", "!!python/object/apply:os.system ['touch evil']", "\x00"],
)
def test_no_recipe_is_trusted(tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipe.yaml").write_text(text)
    with pytest.raises(DataError, match=r"recipe\.yaml"):
        import_recipe(tmp_path / "recipe.yaml", tmp_path / "out.h5")
    assert not (tmp_path / "evil").exists()


# -- clouds and Geo-FNO ----------------------------------------------------------------------------


def cell_with_cavity(seed: int) -> Mesh:
    """A unit cell like those of the published set, from our own mesher."""
    from geonew.data.families import family

    cell = family("elasticity")
    record = cell.solve(cell.draw("train", np.random.default_rng(seed)), "coarse")
    return record.mesh


@pytest.mark.parametrize("seed", range(4))
def test_the_lost_triangles_of_a_unit_cell_are_found(seed):
    mesh = cell_with_cavity(seed)
    found = unit_cell(np.array(mesh.points, dtype=np.float32).astype(float))
    assert len(boundary_components(found)) == 2
    assert abs(found.volume - mesh.volume) < 2e-3 * mesh.volume
    cavity = set(found.nodes_of("cavity"))
    outer = boundary_components(mesh)[0].facets
    true = set(mesh.boundary_nodes) - set(mesh.boundary_facets[outer].ravel())
    assert len(cavity ^ true) <= 0.02 * len(true)


@pytest.mark.parametrize(
    ("name", "corners"), [("square", 0), ("square_with_hole", 4), ("l_shape", 1)]
)
def test_clouds_of_regular_meshes(name, corners):
    """Exact but for one triangle in each re-entrant corner, which points alone do not tell."""
    mesh = ZOO[name]()
    found = triangulate_cloud(np.array(mesh.points))
    assert len(boundary_components(found)) == len(boundary_components(mesh))
    excess = found.volume - mesh.volume
    assert -1e-12 < excess <= corners * mesh.volumes.max() + 1e-12


def test_clouds_that_fall_apart_are_refused():
    rng = np.random.default_rng(0)
    apart = np.concatenate([rng.uniform(size=(50, 2)), rng.uniform(size=(50, 2)) + 10])
    with pytest.raises(DataError, match=r"points have no triangle|are no mesh"):
        triangulate_cloud(apart)
    with pytest.raises(DataError, match="cannot be triangulated"):
        triangulate_cloud(np.zeros((5, 2)))
    with pytest.raises(DataError, match="not finite"):
        triangulate_cloud(np.full((5, 2), np.nan))


def test_geofno_elasticity(tmp_path):
    mesh = cell_with_cavity(1)
    points = np.stack([mesh.points, mesh.points[:, ::-1]], axis=-1)  # (N, 2, n)
    np.save(tmp_path / "Random_UnitCell_XY_10.npy", points.astype(np.float32))
    stress = np.stack([mesh.points[:, 0], mesh.points[:, 1]], axis=1) * 100
    np.save(tmp_path / "Random_UnitCell_sigma_10.npy", stress)
    np.save(tmp_path / "Random_UnitCell_rr_10.npy", np.full((42, 2), 0.3))
    with imported(tmp_path, kind="geofno-elasticity", folder=".") as dataset:
        first, second = dataset
        np.testing.assert_allclose(first.fields["sigma"], 100 * mesh.points[:, 0])
        assert set(first.mesh.groups) == {"bottom", "top", "side", "cavity"}
        assert first.mesh.points[first.mesh.nodes_of("bottom"), 1].max() < 1e-6
        assert second.mesh.points[second.mesh.nodes_of("top"), 1].min() > 1 - 1e-6
        assert first.case.parameters["r_41"] == 0.3
    with pytest.raises(DataError, match="samples is"):
        imported(tmp_path, kind="geofno-elasticity", folder=".", samples=[1, 5])
    np.save(tmp_path / "Random_UnitCell_sigma_10.npy", stress[:-1])
    with pytest.raises(DataError, match="stresses"):
        imported(tmp_path, kind="geofno-elasticity", folder=".")


def c_grid_of_a_circle(wake: int = 10, around: int = 40, out: int = 12) -> ndarray:
    """A C-grid: in along the wake, around a unit circle, and out again."""
    angle = np.linspace(0, -2 * np.pi, around + 1)
    radius = np.linspace(1, 4, out + 1)
    line = np.linspace(6, 1, wake, endpoint=False)
    grid = np.zeros((2 * wake + around + 1, out + 1, 2))
    for j, r in enumerate(radius):
        curve = np.stack([r * np.cos(angle), r * np.sin(angle)], axis=1)
        # beyond the circle's end the lines run straight back, below and above the cut
        lower = np.stack([line, np.full(wake, -(r - 1) * 0.8)], axis=1)
        body = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        push = (r - 1) * np.stack([np.minimum(np.cos(angle), 0), np.sign(np.sin(angle))], axis=1)
        push[[0, -1], 1] = [-(r - 1), (r - 1)]
        curve = body + 0.8 * push
        grid[:, j] = np.concatenate([lower, curve, lower[::-1] * [1, -1]])
    return grid


def test_geofno_naca(tmp_path):
    grid = c_grid_of_a_circle()
    x, y = (np.stack([grid[..., k], 2 * grid[..., k]]).astype(np.float32) for k in range(2))
    q = np.stack([x, x, x, x, 0.8 + 0.01 * x], axis=1)
    for name, values in {"X": x, "Y": y, "Q": q}.items():
        np.save(tmp_path / f"NACA_Cylinder_{name}.npy", values)
    with imported(tmp_path, kind="geofno-naca", folder=".") as dataset:
        record = dataset[0]
        assert record.mesh.n_nodes == grid[..., 0].size - 11  # the wake's 10 nodes and the tail
        assert len(boundary_components(record.mesh)) == 2
        body = record.mesh.points[record.mesh.nodes_of("airfoil")]
        np.testing.assert_allclose(np.linalg.norm(body, axis=1), 1, atol=1e-6)
        assert record.mesh.points[record.mesh.nodes_of("outflow"), 0].min() > 5.99
        expected = 0.8 + 0.01 * record.mesh.points[:, 0]
        np.testing.assert_allclose(record.fields["mach"], expected, atol=1e-6)


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("turned", [False, True])
def test_geofno_pipe(tmp_path, count, turned):
    x, y = np.meshgrid(np.linspace(0, 5, 17), np.linspace(0, 1, 9), indexing="ij")
    bent = y + 0.2 * np.sin(x)
    fields = np.stack([4 * y * (1 - y), 0 * y, 5 - x])[:count]
    if turned:  # the other index along the pipe, from its end
        x, bent, fields = (np.swapaxes(a, -1, -2)[..., ::-1] for a in (x, bent, fields))
    np.save(tmp_path / "Pipe_X.npy", x[None])
    np.save(tmp_path / "Pipe_Y.npy", bent[None])
    np.save(tmp_path / "Pipe_Q.npy", fields[None])
    with imported(tmp_path, kind="geofno-pipe", folder=".") as dataset:
        record = dataset[0]
        assert record.mesh.points[record.mesh.nodes_of("inlet"), 0].max() == 0
        assert record.mesh.points[record.mesh.nodes_of("outlet"), 0].min() == 5
        assert len(record.mesh.nodes_of("wall")) == 2 * 17
        name = "u" if count == 1 else "velocity"
        wall = record.boundary["wall"][name]
        np.testing.assert_array_equal(wall, np.zeros((34, min(count, 2))))
        if count == 3:
            np.testing.assert_allclose(record.fields["pressure"], 5 - record.mesh.points[:, 0])


def test_arrays_that_are_none_are_refused(tmp_path):
    for name in ("X", "Y"):
        np.save(tmp_path / f"Pipe_{name}.npy", np.zeros((1, 3, 3)))
    np.save(tmp_path / "Pipe_Q.npy", np.array([{"a": Evil(tmp_path)}]), allow_pickle=True)
    with pytest.raises(DataError, match="cannot be read as an array"):
        imported(tmp_path, kind="geofno-pipe", folder=".")
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (9999999999999,), }"
    (tmp_path / "Pipe_Q.npy").write_bytes(b"\x93NUMPY\x01\x00\x76\x00" + header.ljust(118))
    with pytest.raises(DataError, match="cannot be read as an array"):
        imported(tmp_path, kind="geofno-pipe", folder=".")
    assert not (tmp_path / "evil").exists()


# -- pickles ---------------------------------------------------------------------------------------


class Evil:
    """Unpickled by Python, it makes a file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self):
        return os.system, (f"touch {self.folder / 'evil'}",)


def gnot_sample(seed: int) -> list:
    mesh = ZOO["square"]()
    x, y = mesh.points.T
    values = np.stack([y, 0 * y, 1 - x], axis=1)
    return [np.array(mesh.points), values, np.array([100.0 + seed]), (np.zeros((3, 1)), None)]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_gnot(tmp_path, protocol):
    problem = flow(parameters=(), terms=(), sources=(), neumann=())
    problem.save(tmp_path / "problem.json")
    samples = [gnot_sample(k) for k in range(3)]
    (tmp_path / "set.pkl").write_bytes(pickle.dumps(samples, protocol))
    content = {
        "kind": "gnot", "file": "set.pkl", "problem": "problem.json",
        "fields": {"velocity": [0, 1], "pressure": 2},
        "labels": {"left": "box:0,0:0,1", "right": "box:1,0:1,1", "bottom": "normal:0,-1",
                   "top": "normal:0,1"},
    }  # fmt: skip
    with pytest.raises(DataError, match="on request only"):
        imported(tmp_path, **content)
    import_recipe(recipe(tmp_path, **content), tmp_path / "out.h5", allow_pickle=True)
    with DataSet(tmp_path / "out.h5") as dataset:
        assert len(dataset) == 3
        record = dataset[2]
        np.testing.assert_array_equal(record.fields["velocity"][:, 0], record.mesh.points[:, 1])
        np.testing.assert_array_equal(record.fields["pressure"], 1 - record.mesh.points[:, 0])


def payloads(folder: Path) -> dict[str, bytes]:
    evil = folder / "evil"
    command = f"touch {evil}".encode()
    text = b"\x8c" + bytes([len(command)]) + command
    array = pickle.dumps(np.zeros(3), 2)
    return {
        "reduce": pickle.dumps([Evil(folder)]),
        "inside a sample": pickle.dumps([[np.zeros((2, 2)), Evil(folder)]]),
        "object array": pickle.dumps([np.array([Evil(folder)], dtype=object)]),
        "object array of texts": pickle.dumps([np.array(["a"], dtype=object)]),
        "global": b"cos\nsystem\n(V" + command + b"\ntR.",
        "stack global": b"\x80\x04\x8c\x02os\x8c\x06system\x93" + text + b"\x85R.",
        "builtins": b"cbuiltins\neval\n(V__import__('os').system('touch x')\ntR.",
        "dotted": b"\x80\x04\x8c\x05numpy\x8c\x0edtype.__init__\x93.",
        "numpy's own reader": b"cnumpy\nload\n(V" + str(evil).encode() + b"\ntR.",
        "getattr": b"cbuiltins\ngetattr\n(cnumpy\nndarray\nVtofile\ntR.",
        "instance": b"(V" + command + b"\nios\nsystem\n.",
        "new object": b"\x80\x04\x8c\x05numpy\x8c\x07ndarray\x93K\x05\x85\x81.",
        "persistent": b"Pabc\n.",
        "changed function": b"\x80\x02cnumpy\ndtype\n}U\x05_callcnumpy\nndarray\nsb.",
        "huge shape": array.replace(b"K\x03\x85", b"\x8a\x06\xff\xff\xff\xff\xff\x00\x85"),
        "truncated": array[:-9],
        "nothing": b"",
        "nested": pickle.dumps([[[[[[[[[[np.zeros(2)]]]]]]]]]]),
        "structured": pickle.dumps(np.zeros(2, dtype=[("a", "O")])),
    }


@pytest.mark.parametrize("name", payloads(Path("x")))
def test_hostile_pickles_execute_nothing(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "set.pkl"
    path.write_bytes(payloads(tmp_path)[name])
    ran = []
    monkeypatch.setattr(os, "system", ran.append)
    with pytest.raises(DataError, match=r"set\.pkl"):
        load_pickle(path, True)
    assert not ran
    assert not (tmp_path / "evil").exists()


# -- the two real sets -----------------------------------------------------------------------------


@needs_shared
def test_holed_poisson_is_what_it_says(tmp_path):
    file = str(Path(SHARED) / "holed_poisson.npz")
    with imported(tmp_path, kind="holed-poisson", file=file) as dataset:
        assert len(dataset) == 121
        for number in (0, 60, 120):
            record = dataset[number]
            assert record.mesh.volume == pytest.approx(1 - 0.3**2, rel=1e-5)
            solution = solve_poisson(
                record.mesh, dirichlet={"wall": 0.0}, source=1.0, conductivity=0.1
            )
            assert np.abs(solution.values - record.fields["u"]).max() < 1e-6


@needs_shared
def test_skewed_cavity_is_what_it_says(tmp_path):
    file = str(Path(SHARED) / "skewed_cavity.npz")
    content = {"kind": "skewed-cavity", "file": file, "part": "validate", "samples": [3, 6]}
    with imported(tmp_path, **content) as dataset:
        record = dataset[0]
        lx, ly, theta = (record.case.parameters[name] for name in ("lx", "ly", "theta"))
        assert record.mesh.volume == pytest.approx(lx * ly * np.sin(theta), rel=1e-6)
        assert record.parameters["nu"] == pytest.approx(max(lx, ly) / 400)
        mesh = record.mesh
        mass = np.bincount(mesh.cells.ravel(), np.repeat(mesh.volumes, 3)) / 3
        assert abs(mass @ record.fields["pressure"]) < 1e-12
        lid = mesh.points[mesh.nodes_of("lid")]
        assert np.ptp(lid[:, 1]) < 1e-9
        assert np.ptp(lid[:, 0]) == pytest.approx(lx, rel=1e-6)
    with pytest.raises(DataError, match="cannot be read as a set of arrays"):
        imported(tmp_path, **{**content, "file": str(Path(SHARED) / "README.md")})
