"""How the package is laid out: light imports, one version, no pickle, every module on the map."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import geonew

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted((ROOT / "src" / "geonew").rglob("*.py"))
HEAVY = ("torch", "gmsh", "skfem", "matplotlib", "meshio", "scipy.optimize")
# Each reads code or objects out of data, or runs what a string says.
DANGEROUS_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
DANGEROUS_CALLS = {"eval", "exec", "compile", "__import__"}


def loaded_by(statement: str) -> set[str]:
    """Modules in memory after a statement in a fresh interpreter."""
    code = f"import sys; {statement}; print('\\n'.join(sys.modules))"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    return set(run.stdout.split())


def dangers(tree: ast.AST) -> list[str]:
    """Imports and calls that a reader of data must not make."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            names = []
        found += [name for name in names if name.split(".")[0] in DANGEROUS_MODULES]
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        if called in DANGEROUS_CALLS:
            found.append(called)
        keywords = {k.arg: ast.unparse(k.value) for k in node.keywords}
        if called == "torch.load" and keywords.get("weights_only") != "True":
            found.append("torch.load without weights_only")
        if called.endswith("load") and keywords.get("allow_pickle") == "True":
            found.append("allow_pickle")
    return found


@pytest.mark.parametrize("module", ["geonew.mesh", "geonew.errors", "geonew.cache"])
def test_early_stages_do_not_load_late_libraries(module: str):
    assert not {name for name in HEAVY[:4] if name in loaded_by(f"import {module}")}


def test_features_and_problems_do_not_load_torch_gmsh_or_matplotlib():
    loaded = loaded_by("import geonew.features, geonew.problem")
    assert not loaded & {"torch", "gmsh", "matplotlib"}


def test_the_package_itself_is_light():
    loaded = loaded_by("import geonew")
    assert not loaded & {"numpy", *HEAVY}


def test_help_is_quick_to_load():
    assert not loaded_by("import geonew.cli") & {"torch", "gmsh", "matplotlib"}


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.relative_to(ROOT / "src").as_posix())
def test_nothing_is_unpickled_or_evaluated(path: Path):
    found = dangers(ast.parse(path.read_text()))
    # The reader of GNOT's files is the one exception: arrays only, on request only.
    allowed = ["pickle"] if path.name == "gnot.py" else []
    assert [danger for danger in found if danger not in allowed] == []


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "from joblib import load",
        "eval('1')",
        "torch.load(path)",
        "np.load(path, allow_pickle=True)",
    ],
)
def test_the_check_above_can_fail(code: str):
    assert dangers(ast.parse(code))


def test_versions_agree():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert geonew.__version__ == declared == version("geonew")
    assert f"## [{declared}]" in (ROOT / "CHANGELOG.md").read_text()


def test_every_module_is_on_the_map_and_nothing_else():
    text = (ROOT / "docs" / "map.md").read_text()
    listed = re.findall(r"^- `(geonew/[\w./]*\.py)`: \S", text, re.MULTILINE)
    existing = {p.relative_to(ROOT / "src").as_posix() for p in SOURCES}
    missing, gone = sorted(existing - set(listed)), sorted(set(listed) - existing)
    assert not missing, "run `python docs/make_map.py`"
    assert not gone, "run `python docs/make_map.py`"
    assert len(listed) == len(set(listed))


def test_the_page_of_settings_says_what_the_code_does():
    made = subprocess.run(
        [sys.executable, "-c", "import make_settings; print(make_settings.compose(), end='')"],
        cwd=ROOT / "docs", capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert made.count("\n## ") > 10
    assert made == (ROOT / "docs" / "settings.md").read_text(), "run `python docs/make_settings.py`"
