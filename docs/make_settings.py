"""Write docs/settings.md: every key of a training configuration, its default and what it means.

Run ``python docs/make_settings.py`` after changing a setting; a test compares. The words are those
of the dataclasses' docstrings, which stand beside what they configure.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from typing import get_type_hints

import yaml

from geonew.mesh.grid import Grid
from geonew.model.config import ModelConfig
from geonew.train.config import RunConfig
from geonew.train.models import MODELS, ModelChoice
from geonew.train.reading import plain

ROOT = Path(__file__).resolve().parents[1]
HEAD = """# Settings of a training

The keys of the file that `geonew train FILE.yaml` reads; `--set optimiser.learning_rate=1e-3`
replaces one on the command line. A key that does not exist is refused, and the nearest one named.
Examples: `configs/cpu`, which finish in minutes on one core, and `configs/paper`, for a GPU.

*Written by `python docs/make_settings.py` from the docstrings of the settings.*
"""
REMARKS = {
    "data": "A name that is no file from here is looked up under `GEONEW_HOME/data`.",
    "budget": "Exactly one of these.",
    "model": "`kind` is `geonew`, whose other keys these are, or a baseline: see below.",
}


def sections() -> Iterator[tuple[str, type]]:
    """Heading and dataclass of every part, as they are nested; baselines last."""
    yield "The file", RunConfig
    for name, kind in parts(RunConfig).items():
        mine = ModelConfig if kind is ModelChoice else kind
        yield name, mine
        yield from ((f"{name}.{own}", inner) for own, inner in parts(mine).items())
    for name, kind in MODELS.items():
        if kind.settings is not ModelConfig:
            yield f"model, kind: {name}", kind.settings


def parts(kind: type) -> dict[str, type]:
    """Fields of a dataclass that have settings of their own."""
    hints: dict[str, type] = get_type_hints(kind)
    return {name: hint for name, hint in hints.items() if is_dataclass(hint)}


def arguments(kind: type) -> dict[str, str]:
    """Field -> what its docstring says, those of base classes included."""
    found: dict[str, str] = {}
    for one in reversed(kind.__mro__):
        _, _, block = textwrap.dedent(one.__doc__ or "").partition("Args:\n")
        for names, text in re.findall(
            r"^ {4,8}(\w[\w, ]*): (.*(?:\n {9,}\S.*)*)", block, re.MULTILINE
        ):
            found |= dict.fromkeys(names.split(", "), _markdown(text))
    return found


def _markdown(text: str) -> str:
    """A docstring's words in one line, without references to the code."""
    text = re.sub(r"\s*\(:mod:`[^`]+`\)", "", " ".join(text.split()))
    text = re.sub(r":\w+:`~?([^`]+)`|``([^`]+)``", lambda m: f"`{m[1] or m[2]}`", text)
    return text.replace("|", r"\|")


def default(field: Field) -> str:
    """A setting's default as one writes it in YAML."""
    value = field.default if field.default_factory is MISSING else field.default_factory()
    if value is MISSING:
        return "*required*"
    if is_dataclass(value) and not isinstance(value, Grid):
        return "see below"
    text = yaml.safe_dump(plain(value), default_flow_style=True).removesuffix("\n...\n").strip()
    return f"`{text}`"


def table(kind: type) -> list[str]:
    """The settings of one dataclass."""
    said = arguments(kind)
    lines = ["| key | default | meaning |", "|---|---|---|"]
    return lines + [f"| `{f.name}` | {default(f)} | {said[f.name]} |" for f in fields(kind)]


def compose() -> str:
    """The whole page."""
    lines = [HEAD]
    for heading, kind in sections():
        remark = [REMARKS[heading], ""] if heading in REMARKS else []
        lines += [f"## {heading}\n", *remark, *table(kind), ""]
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    (ROOT / "docs" / "settings.md").write_text(compose(), encoding="utf-8")
