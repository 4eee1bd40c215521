"""The wheel: installed into an empty environment without gmsh, it predicts with shipped weights."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from geonew import predict, weights
from geonew.data.families import family
from geonew.mesh import read_fields, read_mesh, write_mesh

ROOT = Path(__file__).resolve().parents[1]
SHIPPED = "ns2d-c++"
UNREACHABLE = ("Temporary failure in name resolution", "Network is unreachable",
               "Connection refused", "Max retries exceeded", "ConnectTimeoutError")  # fmt: skip
# What prediction must do without.
ABSENT = ("gmsh", "h5py", "numba", "pytorch_optimizer", "tensorboard", "pyvista", "fastapi")


def run(*command: object, timeout: float = 900) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=timeout,
        check=False, env=environment | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The wheel of this tree."""
    folder = tmp_path_factory.mktemp("wheel")
    tree = folder / "tree"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src", tree / "src", ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    built = run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation",
                "--wheel-dir", folder, tree)  # fmt: skip
    assert built.returncode == 0, built.stdout + built.stderr
    (path,) = folder.glob("geonew-*.whl")
    return path


@pytest.mark.slow
def test_weights_and_cards_are_in_the_wheel(wheel):
    held = zipfile.ZipFile(wheel).namelist()
    assert SHIPPED in weights.names()
    for name in weights.names():
        assert f"geonew/weights/{name}.safetensors" in held
        assert f"geonew/weights/{name}.md" in held
    assert "geonew/data/hashes.json" in held
    assert not [name for name in held if name.startswith("tests") or "__pycache__" in name]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_an_empty_environment_predicts(wheel, tmp_path):
    place = tmp_path / "env"
    made = run(sys.executable, "-m", "venv", place)
    assert made.returncode == 0, made.stderr
    python = place / ("Scripts" if os.name == "nt" else "bin") / "python"
    installed = run(python, "-m", "pip", "install", "-c", ROOT / "constraints.txt", wheel,
                    timeout=1500)  # fmt: skip
    if installed.returncode and any(word in installed.stderr for word in UNREACHABLE):
        pytest.skip("no package index can be reached")
    assert installed.returncode == 0, installed.stderr
    found = run(python, "-c", "import importlib.util as u, sys; "
                "print([m for m in sys.argv[1:] if u.find_spec(m)])", *ABSENT)  # fmt: skip
    assert found.stdout.strip() == "[]", "the environment is not empty"
    source = family(SHIPPED)
    mesh = source.mesh(source.draw("test", np.random.default_rng(2)), "coarse")
    write_mesh(tmp_path / "part.msh", mesh)
    out = tmp_path / "part.vtu"
    command = place / python.parent.name / "geonew"
    predicted = run(command, "predict", SHIPPED, tmp_path / "part.msh", "--out", out)
    assert predicted.returncode == 0, predicted.stdout + predicted.stderr
    assert "converged     yes" in predicted.stdout
    assert out.with_suffix(".png").exists()
    here = predict(SHIPPED, mesh)["velocity"]
    there = read_fields(out, read_mesh(out))["velocity"][:, :2]
    np.testing.assert_allclose(there, here, atol=1e-5 * np.abs(here).max())
    listed = run(python, "-c", "import geonew; print(geonew.model_names())")
    assert SHIPPED in listed.stdout
