"""The import contracts hold, and each of them breaks when it is violated."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# One violation for every contract, by its name.
VIOLATIONS = {
    "Each stage imports only from earlier ones": ("errors.py", "from geonew import mesh"),
    "Everything after meshing knows meshes, not shapes": ("fem/bridge.py", "import geonew.shape"),
    "gmsh is known in one module": ("shape/cad.py", "import gmsh"),
    "meshio is known in one module": ("mesh/vtu.py", "import meshio"),
    "scikit-fem is known in one package": ("problem/values.py", "import skfem"),
    "torch begins with the model": ("features/frame.py", "import torch"),
    "matplotlib is known in one package": ("mesh/quality.py", "import matplotlib"),
}


def lint(folder: Path) -> dict[str, str]:
    """Contract name -> KEPT or BROKEN, for the copy of the project in a folder."""
    environment = os.environ | {
        "PYTHONPATH": str(folder / "src"),
        "NO_COLOR": "1",
        "COLUMNS": "200",
    }
    run = subprocess.run(
        [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    verdicts = dict(re.findall(r"^(.+?)\s+(KEPT|BROKEN)\b", run.stdout, re.MULTILINE))
    assert verdicts, run.stdout + run.stderr
    assert (run.returncode == 0) == ("BROKEN" not in verdicts.values())
    return verdicts


def copy(folder: Path) -> Path:
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src" / "geonew", folder / "src" / "geonew", ignore=ignore)
    shutil.copy(ROOT / ".importlinter", folder)
    return folder


def test_the_contracts_hold(tmp_path):
    assert lint(copy(tmp_path)) == dict.fromkeys(VIOLATIONS, "KEPT")


def test_every_contract_breaks_when_it_is_violated(tmp_path):
    folder = copy(tmp_path)
    for name, line in VIOLATIONS.values():
        with (folder / "src" / "geonew" / name).open("a") as file:
            file.write(f"\n{line}\n")
    assert lint(folder) == dict.fromkeys(VIOLATIONS, "BROKEN")
