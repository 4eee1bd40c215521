"""Damaged mesh files of many formats: a mesh or a named error, never anything else.

Bytes are flipped, files cut, lines lost or doubled, numbers replaced by others that hurt. Each file
has a few seconds; a reader that hangs is a failure like any other. The seed is fixed.
"""

from __future__ import annotations

import random
import re
import signal
from pathlib import Path

import pytest

from geonew.errors import MeshError
from geonew.mesh import BoundaryComponent, Mesh, read_mesh, write_mesh
from mesh_samples import bdf, by_meshio, inp, msh4
from zoo import ZOO

SECONDS = 5
NUMBERS = (b"nan", b"inf", b"-inf", b"-1", b"0", b"1e308", b"-1e-308", b"1.5", b"", b"x")
NUMBERS += (
    b"3000000",
    b"999999999",
    b"2147483648",
    b"99999999999999999999",
    b"-9223372036854775808",
)


class TooLongError(BaseException):
    """Not an Exception: no handler may swallow it."""


def _too_long(*_):
    raise TooLongError


def originals(folder: Path) -> list[tuple[str, bytes]]:
    """Sound files, as pairs of extension and content."""
    files = []
    for name in ("two_triangles", "square_with_hole", "one_tetrahedron", "hollow_cube"):
        mesh = ZOO[name]()
        for suffix in (".vtu", ".msh"):
            write_mesh(folder / f"{name}{suffix}", mesh, {"u": mesh.points[:, 0]})
            files.append((suffix, (folder / f"{name}{suffix}").read_bytes()))
        files += [(".msh", msh4(mesh, binary)) for binary in (False, True)]
        files += [(".inp", inp(mesh).encode()), (".bdf", bdf(mesh).encode())]
        for k, (suffix, format_name, options) in enumerate(
            [
                (".msh", "gmsh22", {"binary": True}),
                (".vtu", "vtu", {"binary": True}),
                (".vtu", "vtu", {"binary": False}),
                (".vtk", "vtk", {"binary": True}),
                (".vtk", "vtk", {"binary": False}),
                (".xdmf", "xdmf", {"data_format": "XML"}),
                (".mesh", "medit", {}),
                (".vol", "netgen", {}),
                (".bdf", "nastran", {}),
            ]
        ):
            path = folder / f"{name}{k}{suffix}"
            by_meshio(mesh, path, format_name, "medit:ref", **options)
            files.append((suffix, path.read_bytes()))
    files.append((".obj", b"v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nf 1 2 3\nf 1 3 4\n"))
    return files


def damaged(data: bytes, rng: random.Random) -> bytes:
    how = rng.randrange(6)
    if how == 0:
        out = bytearray(data)
        for _ in range(rng.randint(1, 8)):
            out[rng.randrange(len(out))] = rng.randrange(256)
        return bytes(out)
    if how == 1:
        return data[: rng.randrange(len(data))]
    if how == 2:
        start = rng.randrange(len(data))
        return data[:start] + data[start + rng.randint(1, 80) :]
    if how == 3:
        lines = data.split(b"\n")
        k = rng.randrange(len(lines))
        lines[k : k + 1] = [lines[k]] * rng.choice((0, 2))
        return b"\n".join(lines)
    numbers = list(re.finditer(rb"-?\d[\d.eE+-]*", data))
    # The first numbers announce counts: half of the time it is one of them.
    pool = numbers[:12] if how == 4 else numbers
    found = rng.choice(pool)
    return data[: found.start()] + rng.choice(NUMBERS) + data[found.end() :]


def run(count: int, seed: int, folder: Path) -> dict[str, int]:
    rng = random.Random(seed)
    files = originals(folder)
    outcome = {"mesh": 0, "error": 0, "nameless": 0}
    before = signal.signal(signal.SIGALRM, _too_long)
    try:
        for number in range(count):
            suffix, data = files[number % len(files)]
            path = folder / f"damaged{suffix}"
            path.write_bytes(damaged(data, rng))
            signal.setitimer(signal.ITIMER_REAL, SECONDS)
            try:
                mesh = read_mesh(path)
                assert isinstance(mesh, Mesh)
                assert mesh.groups
                outcome["mesh"] += 1
            except MeshError as error:
                outcome["error" if str(path) in str(error) else "nameless"] += 1
            except BaseException as error:
                keep = folder / f"failure{number}{suffix}"
                path.rename(keep)
                pytest.fail(f"file {number} (seed {seed}) {keep}: {type(error).__name__}: {error}")
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.signal(signal.SIGALRM, before)
    return outcome


def test_sound_files_are_read(tmp_path):
    """Damage must be what the others fail on."""
    for number, (suffix, data) in enumerate(originals(tmp_path)):
        path = tmp_path / f"sound{number}{suffix}"
        path.write_bytes(data)
        # a rule, because some of these formats cannot hold names
        mesh = read_mesh(path, labels={"all": BoundaryComponent(0)})
        assert len(mesh.groups["all"]) >= 3


@pytest.mark.parametrize("seed", range(5))
def test_damaged_files(seed, tmp_path):
    """1,000 files in five runs of 200."""
    outcome = run(200, seed, tmp_path)
    assert outcome["mesh"] >= 10  # some damage is harmless: the files are not all rejected
    assert outcome["error"] >= 100
    assert outcome["nameless"] == 0
