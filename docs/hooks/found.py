"""Fill pages with what lies in the repository: measured figures, and cards of shipped models.

    <!-- campaign -->    -->  tables and figures of `geonew report results/cpu`
    <!-- benchmarks -->  -->  one table for each results/benchmarks/NAME.json
    <!-- cards -->       -->  the cards of geonew.weights, one after another

Filled when the site is built, so that a page never shows the figures of an earlier day.
"""

from __future__ import annotations

import ast
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from geonew import weights
from geonew.bench.campaign import CONFIGS, campaign
from geonew.bench.place import Place
from geonew.report.report import Report, make_report
from geonew.report.table import Table

ROOT = Path(__file__).resolve().parents[2]
CAMPAIGN = "<!-- campaign -->"
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


@cache
def report() -> Report:
    """What `geonew report` makes of results/cpu without models and data."""
    place = Place(campaign(CONFIGS), ROOT / "results" / CONFIGS, ROOT / "configs" / CONFIGS)
    return make_report(place, draw=False)


def comparison() -> str:
    """Tables and figures of results/cpu, and which cells of the campaign are not there."""
    lines = report().lead()
    for section in report().sections():
        lines.append(f"### {section.title}")
        for item in section.items:
            if isinstance(item, Table):
                lines.append(re.sub("^###", "####", item.markdown()))
            else:
                lines.append(f"#### {item.title}")
                lines.append(f"![{item.title}]({item.file}){{ .campaign }}\n\n{item.caption}")
    for title, names in report().missing():
        lines.append(f"Not run yet: {title}: {', '.join(names)}.")
    return "\n\n".join(lines)


def cards() -> str:
    """All cards, their headings one level lower."""
    found = [
        re.sub(r"^#", "##", weights.card(name), flags=re.MULTILINE) for name in weights.names()
    ]
    return "\n\n".join(found) or NO_CARDS


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """MkDocs's hook: the figures of the campaign, as files of the site."""
    for figure in report().figures:
        files.append(File.generated(config, figure.file, content=figure.content))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """MkDocs's hook: the marks of a page, filled."""
    if CAMPAIGN in markdown:
        markdown = markdown.replace(CAMPAIGN, comparison())
    if BENCHMARKS in markdown:
        markdown = markdown.replace(BENCHMARKS, benchmarks())
    if CARDS in markdown:
        markdown = markdown.replace(CARDS, cards())
    return markdown
