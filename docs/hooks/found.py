"""Fill pages with what lies in the repository: measured figures, and cards of shipped models.

    <!-- benchmarks -->  -->  one table for each results/benchmarks/NAME.json
    <!-- cards -->       -->  the cards of geonew.weights, one after another

Filled when the site is built, so that a page never shows the figures of an earlier day.
"""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

from geonew import weights

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = "<!-- benchmarks -->"
CARDS = "<!-- cards -->"
LARGE = 1000  # from here on whole numbers, instead of powers of ten
# The indented line of a benchmark's docstring that says how to run it, with its continuation.
CONTINUED = "\\\n"
COMMAND = re.compile(r"^ {4}(python benchmarks/(?:.*\\\n)*.*)$", re.MULTILINE)
NO_CARDS = "*This version comes without weights: there is no card.*"


def rows(found: Any, path: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    """Nested figures as lines of a table: where, what."""
    if isinstance(found, dict):
        return [row for key, value in found.items() for row in rows(value, (*path, str(key)))]
    if isinstance(found, list):
        return [(", ".join(path), " to ".join(_word(value) for value in found))]
    return [(", ".join(path), _word(found))]


def _word(value: Any) -> str:
    if not isinstance(value, float):
        return f"`{value}`"
    return f"{value:,.0f}" if abs(value) >= LARGE else f"{value:.3g}"


def benchmark(file: Path) -> str:
    """One file of figures as a section, with the program that made it."""
    program = ROOT / "benchmarks" / f"{file.stem}.py"
    lines = [f"### {file.stem}", ""]
    if program.is_file():
        text = ast.get_docstring(ast.parse(program.read_text(encoding="utf-8"))) or ""
        command = COMMAND.search(text)
        lines += [text.splitlines()[0].replace("``", "`"), ""]
        lines += (
            [f"`{' '.join(command[1].replace(CONTINUED, ' ').split())}`", ""] if command else []
        )
    lines += ["| figure | value |", "|---|---|"]
    found = json.loads(file.read_text(encoding="utf-8"))
    lines += [f"| {where.replace('_', ' ')} | {what} |" for where, what in rows(found)]
    return "\n".join(lines)


def benchmarks() -> str:
    """All figures of results/benchmarks."""
    files = sorted((ROOT / "results" / "benchmarks").glob("*.json"))
    return "\n\n".join(benchmark(file) for file in files)


def cards() -> str:
    """All cards, their headings one level lower."""
    found = [
        re.sub(r"^#", "##", weights.card(name), flags=re.MULTILINE) for name in weights.names()
    ]
    return "\n\n".join(found) or NO_CARDS


def on_page_markdown(markdown: str, **_: object) -> str:
    """MkDocs's hook: the marks of a page, filled."""
    if BENCHMARKS in markdown:
        markdown = markdown.replace(BENCHMARKS, benchmarks())
    if CARDS in markdown:
        markdown = markdown.replace(CARDS, cards())
    return markdown
