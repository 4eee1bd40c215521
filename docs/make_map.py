"""Write docs/map.md: the tree of the package with the first line of every module's docstring.

Run ``python docs/make_map.py`` after adding or renaming a module; a test compares.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "geonew"
HEAD = """# Map of the code

The folders are the pipeline, in order; a module imports only from stages before its own
(`.importlinter` holds that). Start at a module's docstring: it has the equation, the identity it
keeps, and where and why it differs from the paper.

    Shape -> Mesh -> FineOperators -> MeshFeatures -> Sample -> Batch -> ReducedSpace
          -> balance law -> Newton -> Prediction (fields and certificate)

Tests mirror this tree under `tests/`; `tests/zoo.py` holds the meshes that tests of structure run
over. `examples/demo.py` walks through the whole pipeline, `benchmarks/` measures it.

*Written by `python docs/make_map.py` from the modules' docstrings.*
"""
# From first to last; anything new comes after.
ORDER = (
    "mesh",
    "shape",
    "fem",
    "problem",
    "features",
    "model",
    "baselines",
    "data",
    "train",
    "weights",
    "evaluate",
    "calibrate",
    "bench",
    "report",
    "inference",
    "serve",
    "plot",
    "cli",
)


def first_line(path: Path) -> str:
    """The first paragraph of a module's docstring, as Markdown."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    line = " ".join(text.split("\n\n")[0].split())
    return re.sub(r":\w+:`~?([^`]+)`|``([^`]+)``", lambda m: f"`{m[1] or m[2]}`", line)


def entry(path: Path) -> str:
    """One line of the map."""
    return f"- `{path.relative_to(PACKAGE.parent).as_posix()}`: {first_line(path)}"


def compose() -> str:
    """The whole map."""
    parts = [HEAD, "## geonew\n"]
    parts.append("\n".join(entry(p) for p in sorted(PACKAGE.glob("*.py"))) + "\n")
    stages = [p.name for p in PACKAGE.iterdir() if (p / "__init__.py").exists()]
    for stage in sorted(stages, key=lambda n: ORDER.index(n) if n in ORDER else len(ORDER)):
        folders = [PACKAGE / stage, *sorted(p for p in (PACKAGE / stage).rglob("*") if p.is_dir())]
        for folder in folders:
            modules = sorted(folder.glob("*.py"))
            if modules:
                parts.append(f"## {folder.relative_to(PACKAGE.parent).as_posix()}\n")
                parts.append("\n".join(entry(p) for p in modules) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    (ROOT / "docs" / "map.md").write_text(compose(), encoding="utf-8")
