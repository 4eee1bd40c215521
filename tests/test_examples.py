"""The demo runs from end to end, says how far it is from the truth, and writes what it promises."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DEMO = ROOT / "examples" / "demo.py"


@pytest.mark.slow
def test_the_demo_writes_what_its_docstring_lists(tmp_path):
    run = subprocess.run(
        [sys.executable, "-W", "error", str(DEMO), "--out", str(tmp_path), "--size", "0.06"],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "OUTSIDE the training range" in run.stdout
    (error,) = re.findall(r"combined ([\d.]+) %", run.stdout)
    assert float(error) < 10
    promised = set(re.findall(r"``([\w]+\.\w+)``", DEMO.read_text().split('"""')[1]))
    assert promised == {path.name for path in tmp_path.iterdir()}
    certificate = json.loads((tmp_path / "certificate.json").read_text())
    assert certificate["uniqueness"] == "local"  # convection is a known term
    assert certificate["partition_defect"] < 1e-14
    assert certificate["balance_defect"] < 1e-7
    assert certificate["boundary_defect"] == 0
