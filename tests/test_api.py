"""The names of the package itself: lazy, documented, each where it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import geonew

ROOT = Path(__file__).resolve().parents[1]
NAMES = [name for name in geonew.__all__ if name != "__version__"]


def test_a_dozen_names_resolve_and_are_documented():
    assert len(NAMES) == 12
    page = (ROOT / "docs" / "api.md").read_text()
    headings = re.findall(r"^## (.*)$", page, re.M)
    for name in NAMES:
        thing = getattr(geonew, name)
        assert callable(thing)
        assert thing.__doc__
        assert any(f"`{name}`" in heading for heading in headings), name
        assert re.search(rf"^from geonew import .*\b{name}\b", page, re.M), name
        assert name in dir(geonew)


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="no attribute 'prdict'"):
        geonew.prdict  # noqa: B018


def test_asking_for_one_name_loads_no_more_than_it_needs():
    code = "import sys, geonew; geonew.read_mesh; print('torch' in sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True
    )
    assert run.stdout.strip() == "False"
