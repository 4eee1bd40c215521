"""Code blocks of the pages, and how a page with commands becomes one program."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS]
# These are followed step by step: commands, files and Python in turn, in an empty folder.
TUTORIALS = [page for page in DOCS if page.name.startswith("tutorial-")]
_BLOCK = re.compile(r'^```(\w*)(?: title="([^"]+)")?\n(.*?)^```', re.MULTILINE | re.DOTALL)
_SHELL = "subprocess.run(['bash', '-euo', 'pipefail', '-c', {text!r}], check=True)"


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, the file it is to be saved as, its text."""

    language: str
    title: str
    text: str


def blocks(page: Path) -> Iterator[Block]:
    """All blocks of a page, in order."""
    for match in _BLOCK.finditer(page.read_text(encoding="utf-8")):
        yield Block(match[1], match[2] or "", match[3])


def python_of(page: Path) -> str:
    """All Python blocks of a page, joined: later ones may use names of earlier ones."""
    return "\n".join(block.text for block in blocks(page) if block.language == "python")


def program_of(page: Path, shorter: Mapping[str, str]) -> str:
    """A page as one program: blocks with a title are saved, commands run, Python is Python.

    ``shorter`` replaces what would take minutes; every text of it must occur.
    """
    lines = ["import subprocess", "from pathlib import Path"]
    left = set(shorter)
    for block in blocks(page):
        text = block.text
        for long, short in shorter.items():
            if long in text:
                left.discard(long)
                text = text.replace(long, short)
        if block.title:
            lines.append(f"Path({block.title!r}).write_text({text!r})")
        elif block.language == "sh":
            lines.append(_SHELL.format(text=text))
        elif block.language == "python":
            lines.append(text)
    assert not left, f"{page.name} has no {sorted(left)}"
    return "\n".join(lines)


def commands(page: Path, name: str = "geonew") -> Iterator[str]:
    """Lines of a page's shell blocks that begin with a command, continued lines joined."""
    for block in blocks(page):
        if block.language == "sh":
            for line in block.text.replace("\\\n", " ").splitlines():
                if line.strip().startswith(f"{name} "):
                    yield line.strip()
