"""Requests to a running server: what they give, and how they fail."""

from __future__ import annotations

import httpx
import numpy as np
import pytest

from geonew.mesh import read_mesh, write_mesh
from geonew.mesh.files import read_fields
from geonew.serve.editors import EDITORS
from geonew.serve.meshes import SUFFIXES
from geonew.serve.wire import unpack
from mesh_samples import bdf, inp
from serve_runs import drawn
from zoo import square


def scene(client: httpx.Client, model: str = "ns2d-c++", seed: int = 1, **more) -> dict:
    draft = client.get(f"/api/models/{model}/draft", params={"seed": seed}).json()
    return {"model": model, **draft, **more}


def ok(response: httpx.Response) -> tuple[dict, dict[str, np.ndarray]]:
    assert response.status_code == 200, response.text[:300]
    return unpack(response.content)


def upload(client: httpx.Client, content: bytes, name: str = "mesh.msh") -> httpx.Response:
    return client.post("/api/meshes", params={"name": name}, content=content)


@pytest.fixture(scope="module")
def disc_file(tmp_path_factory) -> bytes:
    """A disc with a cut-out, its groups under other names."""
    mesh = drawn(EDITORS["poly-poisson"], 4).mesh
    path = tmp_path_factory.mktemp("upload") / "disc.msh"
    write_mesh(path, mesh.renamed({"circle": "outer rim", "cutout": "Hole"}))
    return path.read_bytes()


def test_the_page_and_its_files_are_there_and_nothing_else(client):
    page = client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert "http://" not in page.text
    assert "https://" not in page.text
    for name in ("main.js", "style.css", "icon.svg"):
        assert client.get(f"/static/{name}").status_code == 200
    for name in ("../app.py", "..%2fapp.py", "%2e%2e/app.py", "app.py", "/etc/passwd", ""):
        assert client.get(f"/static/{name}").status_code == 404


def test_the_list_of_models(client):
    models = client.get("/api/models").json()["models"]
    assert [m["key"] for m in models] == ["ns2d-c++", "poly-poisson"]
    assert [m["calibrated"] for m in models] == [True, False]
    assert models[0]["flow"] == "velocity"
    assert models[0]["fields"][1] == {"name": "pressure", "rank": "scalar", "unit": "Pa"}
    assert [c["name"] for c in models[0]["controls"]] == ["length", "angle", "start", "swap"]


def test_a_prediction_has_all_the_page_shows(client):
    head, arrays = ok(client.post("/api/predict", json=scene(client, partition=2)))
    n = head["nodes"]
    assert arrays["points"].shape == (n, 2)
    assert arrays["triangles"].max() == n - 1
    assert arrays["field:velocity"].shape == (n, 2)
    assert arrays["field:pressure"].shape == arrays["band:pressure"].shape == (n,)
    np.testing.assert_allclose(arrays["rows"].sum(axis=1), 1.0, atol=1e-6)
    titles = [s["title"] for s in head["statements"]]
    assert titles[0] == "Converged"
    assert "Boundary exact" in titles
    assert head["familiar"]["light"] in ("good", "fair", "bad")
    assert set(head["seconds"]) == {"mesh", "features", "solve"}


def test_a_model_without_calibration_says_so(client):
    head, arrays = ok(client.post("/api/predict", json=scene(client, "poly-poisson")))
    assert head["familiar"]["title"] == "Not calibrated"
    assert not any(name.startswith("band:") for name in arrays)
    assert head["statements"][1]["title"] == "Unique"


def test_a_moved_obstacle_moves_the_field(client):
    asked = scene(client)
    _, first = ok(client.post("/api/predict", json=asked))
    asked["geometry"]["obstacles"][0]["x"] += 0.02
    after, second = ok(client.post("/api/predict", json=asked))
    assert first["points"].shape != second["points"].shape or np.any(
        first["points"] != second["points"]
    )
    again, third = ok(client.post("/api/predict", json=asked))
    assert {k: v for k, v in again.items() if k != "seconds"} == {
        k: v for k, v in after.items() if k != "seconds"
    }
    np.testing.assert_array_equal(second["field:velocity"], third["field:velocity"])


def test_the_reference_is_on_the_same_nodes_and_the_error_is_theirs(client):
    asked = scene(client, "poly-poisson", seed=2)
    _, predicted = ok(client.post("/api/predict", json=asked))
    head, truth = ok(client.post("/api/reference", json=asked))
    p, t = predicted["field:u"].astype(float), truth["truth:u"].astype(float)
    error = np.linalg.norm(p - t) / np.linalg.norm(t)
    assert head["errors"]["u"] == pytest.approx(error, rel=1e-4)
    assert 0 < error < 2  # an untrained model
    assert head["seconds"]["reference"] > 0


def test_a_file_for_paraview(client, tmp_path):
    asked = scene(client)
    _, arrays = ok(client.post("/api/predict", json=asked))
    response = client.post("/api/export", json=asked)
    assert "attachment" in response.headers["content-disposition"]
    (tmp_path / "file.vtu").write_bytes(response.content)
    mesh = read_mesh(tmp_path / "file.vtu")
    fields = read_fields(tmp_path / "file.vtu", mesh)
    np.testing.assert_allclose(fields["pressure"], arrays["field:pressure"], rtol=1e-6)
    assert set(mesh.groups) == {"inlet", "outlet", "wall", "obstacle"}


def test_an_uploaded_mesh_with_other_names(client, disc_file):
    mesh = upload(client, disc_file, "C:\\my files\\../disc.MSH").json()
    assert set(mesh["groups"]) == {"outer rim", "Hole"}
    geometry = {"kind": "upload", "token": mesh["token"]}
    asked = {"model": "poly-poisson", "geometry": geometry}
    refused = client.post("/api/predict", json=asked)
    assert refused.status_code == 422
    assert "outer rim" in refused.json()["what"]
    geometry["rename"] = {"outer rim": "circle", "Hole": "cutout"}
    head, arrays = ok(client.post("/api/predict", json=asked))
    assert head["nodes"] == mesh["nodes"] == len(arrays["field:u"])
    errors = ok(client.post("/api/reference", json=asked))[0]["errors"]
    assert errors["u"] > 0
    assert client.post("/api/export", json=asked).status_code == 200


def test_uploads_in_every_format(client, tmp_path):
    write_mesh(tmp_path / "a.vtu", square())
    files = {
        "a.vtu": (tmp_path / "a.vtu").read_bytes(),
        "a.inp": inp(square()).encode(),
        "a.bdf": bdf(square()).encode(),
    }
    for name, content in files.items():
        mesh = upload(client, content, name).json()
        assert mesh["nodes"] == square().n_nodes, name


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.msh", b"", "empty"),
        ("a.msh", b"hello", "does not look like a Gmsh file"),
        ("a.vtu", b"<VTKFile><junk", "cannot be read"),
        ("a.xdmf", b"<Xdmf/>", "does not read files of this kind"),
        ("a.exe", b"MZ", "does not read files of this kind"),
        ("/etc/passwd", b"x", "does not read files of this kind"),
    ],
)
def test_bad_uploads_are_explained(client, name, content, words):
    response = upload(client, content, name)
    assert response.status_code == 422
    assert words in response.json()["what"]
    assert "/" not in response.json()["what"], "no path of the server is told"


def test_files_that_name_other_files_are_not_read():
    assert not {".xdmf", ".xmf", ".h5", ".med", ".cgns", ".geo", ".pvtu"} & set(SUFFIXES)


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"model": "none"}, 404),
        ({"geometry": {"kind": "upload", "token": "0" * 32}}, 404),
        ({"geometry": {"kind": "upload", "token": "../../etc/passwd"}}, 422),
        ({"geometry": {"kind": "channel", "obstacles": []}}, 422),
        ({"geometry": {"kind": "plain"}}, 422),
        ({"values": {"length": 99}}, 422),
        ({"values": {"nothing": 1}}, 422),
        ({"partition": 77}, 422),
        ({"more": 1}, 422),
    ],
)
def test_scenes_that_make_no_sense(client, changes, status):
    response = client.post("/api/predict", json=scene(client) | changes)
    assert response.status_code == status
    assert response.json()["what"]


def test_numbers_that_are_none(client):
    text = '{"model": "ns2d-c++", "geometry": {"kind": "channel", "obstacles": [{"x": %s}]}}'
    for number in ("NaN", "Infinity", "-Infinity", "1e999"):
        response = client.post(
            "/api/predict",
            content=text % number,
            headers={"content-type": "application/json"},
        )
        assert response.status_code == 422


def test_overlapping_obstacles_are_explained(client):
    asked = scene(client)
    asked["geometry"]["obstacles"] = [{"x": 0.5, "y": 0.5, "radius": 0.1}] * 2
    response = client.post("/api/predict", json=asked)
    assert response.status_code == 422
    assert "overlap" in response.json()["what"]
    assert "apart" in response.json()["cure"]


def test_large_requests_are_refused(client):
    assert client.post("/api/predict", content=bytes(10**6)).status_code == 413
    assert upload(client, bytes(17 * 2**20)).status_code == 413


def test_no_outside_host_in_any_file(client):
    for name in client.get("/").text.split('"'):
        if name.startswith("/static/"):
            text = client.get(name).text.replace("http://www.w3.org/2000/svg", "")
            assert "http:" not in text
            assert "https:" not in text
            assert "//cdn" not in text
