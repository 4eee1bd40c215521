"""A thousand random and hostile requests: no error of ours, nothing lost, nothing left behind."""

from __future__ import annotations

import math
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psutil
import pytest

from geonew.mesh import write_mesh
from serve_runs import Running, running
from training_runs import environment
from zoo import square_with_hole

pytestmark = pytest.mark.slow
CLIENTS, EACH = 50, 20
ODD = (0, -1, 1, 0.5, 1e-9, 1e9, -1e300, 1e308, math.pi, "x", None, [], {}, True, "\x00", "🙂" * 50)
NAMES = ("a.msh", "a.msh", "a.vtu", "a.inp", "../a.msh", "a.vtk", "a\x00.msh")
PATHS = ("/../../etc/passwd", "/static/../app.py", "/%00", "/api/models/x/draft", "/openapi.json")


@pytest.fixture(scope="module")
def own(checkpoints: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server of its own, whose temporary files are counted."""
    folder = tmp_path_factory.mktemp("hostile")
    with pytest.MonkeyPatch.context() as patch:
        (folder / "tmp").mkdir()
        patch.setenv("TMPDIR", str(folder / "tmp"))
        with running(folder, *checkpoints) as started:
            started.folder = folder / "tmp"  # type: ignore[attr-defined]
            yield started


def good(client: httpx.Client) -> dict:
    draft = client.get("/api/models/poly-poisson/draft").json()
    return {"model": "poly-poisson", **draft}


def answered(client: httpx.Client) -> bool:
    """Whether a good request is answered, after the flood has passed."""
    for _ in range(20):
        response = client.get("/api/models")
        if response.status_code == 200:
            break
        time.sleep(1)
    return client.post("/api/predict", json=good(client)).status_code == 200


def random_scene(rng: random.Random) -> object:
    """A scene that is nearly right, or not at all."""

    def number(low: float, high: float) -> object:
        return rng.choice(ODD) if rng.random() < 0.05 else rng.uniform(low, high)

    def corner() -> list[object]:
        return [number(-0.8, 0.8), number(-0.8, 0.8)]

    def around(count: int) -> list[list[object]]:  # simple as a rule
        return [
            [r * math.cos(2 * math.pi * k / count), r * math.sin(2 * math.pi * k / count)]
            for k in range(count)
            for r in [rng.uniform(0.1, 0.6)]
        ]

    many = rng.choice([1, 1, 2, rng.randint(0, 14)])
    obstacle = [
        {
            "x": number(0.1, 0.9), "y": number(0.1, 0.9), "radius": number(0.01, 0.15),
            "square": rng.random() < 0.5, "angle": number(-9, 9),
        }
        for _ in range(many)
    ]  # fmt: skip
    geometry = rng.choice(
        [
            {"kind": "channel", "obstacles": obstacle},
            {"kind": "channel", "obstacles": obstacle},
            {"kind": "polygon", "corners": [corner() for _ in range(rng.randint(2, 34))]},
            {"kind": "polygon", "corners": around(rng.randint(2, 34))},
            {"kind": "curve", "corners": [corner() for _ in range(5)]},
            {"kind": "drawn", "seed": rng.randint(-5, 2**33)},
            {"kind": "upload", "token": f"{rng.getrandbits(128):032x}", "rename": {"a": "b"}},
            {"kind": "plain"},
            rng.choice(ODD),
        ]
    )
    made: dict[str, object] = {
        "model": rng.choice(["ns2d-c++", "ns2d-c++", "poly-poisson", "poly-poisson", "../x"]),
        "geometry": geometry,
    }
    if isinstance(geometry, dict) and geometry.get("kind") == "polygon":
        made["model"] = "poly-poisson"
    elif rng.random() < 0.3:
        made["values"] = {rng.choice(["length", "angle", "start", "swap", "q"]): number(-1, 40)}
    if rng.random() < 0.2:
        made["partition"] = rng.choice([0, 1, 5, -1, 10**6])
    if rng.random() < 0.2:
        made[rng.choice(["cut", "session", "more"])] = rng.choice(ODD)
    return rng.choice(ODD) if rng.random() < 0.03 else made


def bad_upload(rng: random.Random, mesh: bytes) -> bytes:
    """A mesh file with damage, or no mesh file."""
    kind = rng.randrange(5)
    if kind == 0:
        return rng.randbytes(rng.randint(0, 4000))
    if kind == 1:
        return mesh[: rng.randrange(len(mesh))]
    if kind == 2:
        at = rng.randrange(len(mesh))
        return mesh[:at] + rng.randbytes(8) + mesh[at + 8 :]
    if kind == 3:
        return mesh.replace(b"\n96\n", b"\n999999999999\n")
    return mesh.replace(b" ", b" 9", rng.randint(1, 50))


def hostile(address: str, mesh: bytes, seed: int) -> Counter[int]:
    """What one client gets for its requests."""
    rng = random.Random(seed)
    seen: Counter[int] = Counter()
    with httpx.Client(base_url=address, timeout=120, trust_env=False) as client:
        for _ in range(EACH):
            draw = rng.random()
            if draw < 0.55:
                path = rng.choice(["/api/predict", "/api/predict", "/api/export", "/api/reference"])
                response = client.post(path, json=random_scene(rng))
            elif draw < 0.85:
                response = client.post(
                    "/api/meshes",
                    params={"name": rng.choice(NAMES)},
                    content=bad_upload(rng, mesh),
                )
            elif draw < 0.88:
                response = client.post(
                    "/api/meshes", params={"name": "a.msh"}, content=bytes(17 * 2**20)
                )
            elif draw < 0.94:
                response = client.post(
                    "/api/predict",
                    content=rng.randbytes(rng.randint(0, 3000)),
                    headers={"content-type": "application/json"},
                )
            else:
                method = rng.choice(["GET", "PUT", "DELETE"])
                response = client.request(method, rng.choice(PATHS))
            seen[response.status_code] += 1
            time.sleep(rng.random())
    return seen


def test_fifty_hostile_clients_at_once(own, tmp_path):
    path = tmp_path / "mesh.msh"
    write_mesh(path, square_with_hole())
    mesh = path.read_bytes()
    process = psutil.Process(own.process.pid)
    with httpx.Client(base_url=own.address, timeout=120, trust_env=False) as client:
        assert answered(client)
        before = (len(process.children()), process.num_fds(), process.memory_info().rss)
        with ThreadPoolExecutor(CLIENTS) as pool:
            results = list(pool.map(lambda k: hostile(own.address, mesh, k), range(CLIENTS)))
        seen = sum(results, Counter())
        assert seen.total() == 1000
        known = {200, 400, 404, 405, 408, 409, 413, 421, 422, 429, 503, 504}
        assert set(seen) <= known, seen
        assert seen[200] > 10, seen
        assert seen[422] > 100, seen
        assert answered(client)
        health = client.get("/api/health").json()
        assert health == {"workers": 3, "waiting": 0}
    after = (len(process.children()), process.num_fds(), process.memory_info().rss)
    assert after[0] == before[0]
    assert after[1] <= before[1] + 5
    assert after[2] <= before[2] + 150 * 2**20
    folders = list(own.folder.iterdir())  # one for each worker
    assert len(folders) == 3
    assert all(list(folder.iterdir()) == [] for folder in folders)


def test_requests_from_its_own_description(own, tmp_path):
    """Schemathesis: no 5xx, and every answer as the description says."""
    done = subprocess.run(
        [
            str(Path(sys.executable).with_name("schemathesis")), "run",
            f"{own.address}openapi.json",
            "--phases", "examples,coverage,fuzzing", "--max-examples", "80", "--seed", "7",
            "--checks", "not_a_server_error,status_code_conformance,content_type_conformance,"
            "response_schema_conformance",
            "--rate-limit", "30/s", "--request-timeout", "60", "--no-color",
        ],
        env=environment(tmp_path), cwd=tmp_path, capture_output=True, text=True, timeout=500,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
    with httpx.Client(base_url=own.address, timeout=120, trust_env=False) as client:
        assert answered(client)
        assert client.get("/api/health").json() == {"workers": 3, "waiting": 0}
