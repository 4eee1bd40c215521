"""The report: from a folder of results to a page, Markdown and JSON.

    results/SUITE --read_results--> Results --tables, charts, pictures--> Report --write-->
        report.html    everything, in one file
        report.md      the same tables, and figures as links
        report.json    every number: tables, charts, results of all cells
        figures/       the figures as files

Nothing is computed anew but the fields in pictures, and these only where models and data are on
disk; elsewhere pictures that were kept are shown. What is missing is listed, never filled in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from geonew.bench.place import Place
from geonew.cache import default_folder
from geonew.errors import DataError
from geonew.evaluate.report import write_json
from geonew.report.accuracy import accuracy_tables
from geonew.report.charts import charts
from geonew.report.cost import cost_tables
from geonew.report.kept import kept_pictures
from geonew.report.page import Section, missing_html, page
from geonew.report.picture import Picture
from geonew.report.pictures import Missing, pictures
from geonew.report.published import REMARK
from geonew.report.results import Results, read_results
from geonew.report.studies import study_tables
from geonew.report.table import Table
from geonew.report.transfer import transfer_tables

TITLE = "Geo-NeW: results"
TOLD = (
    "Geo-NeW, known + learned is told known terms of the equation; no other row is. Geo-NeW, "
    "learned is told no equation: it learns the constants of a linear medium, the same everywhere, "
    "with a flux law beside them where `configs/cpu` does not say `law: none`. That is not the "
    "paper's law; the paper's, and the structured flux law alone, are among the ablations."
)
# Section -> tables and figures in it, by key; a key that ends in "*" stands for all it begins.
LAYOUT = (
    (
        "accuracy",
        "Accuracy",
        ("summary", "ratios", "standard-*", "non-standard-*", "space-*", "cavity"),
    ),
    (
        "shift",
        "Out of distribution",
        ("angles", "angle", "heat-map-*", "fields-ood", "fields-ood-l1", "rescaled", "swap*"),
    ),
    ("meshes", "Other meshes, few samples", ("refinement*", "finetuning*")),
    ("structure", "Structure and ablations", ("boundary", "guarantees", "encodings", "ablations")),
    ("cost", "Cost", ("inference-time", "training-time", "sizes*", "times", "newton")),
    ("inside", "Inside the model", ("basis", "airfoils", "features", "eigenvectors")),
    ("data", "Data and training", ("overview", "validation", "rates")),
)


@dataclass(frozen=True, eq=False)
class Report:
    """Everything that is written.

    Args:
        results: what it is made of.
        tables: with at least one number each.
        figures: charts and pictures.
        undrawn: figures that could not be drawn, and why.

    """

    results: Results
    tables: tuple[Table, ...]
    figures: tuple[Picture, ...]
    undrawn: tuple[Missing, ...]

    def sections(self) -> list[Section]:
        """Chapters that have something in them, tables before the figures of the same key."""
        items: list[Table | Picture] = [*self.tables, *self.figures]
        made = []
        for key, title, patterns in LAYOUT:
            chosen = tuple(i for p in patterns for i in items if _matches(i.key, p))
            if chosen:
                made.append(Section(key, title, tuple(dict.fromkeys(chosen))))
        return made

    def missing(self) -> list[tuple[str, list[str]]]:
        """What is not there: (kind, names)."""
        groups: dict[str, list[str]] = {}
        for cell in self.results.missing():
            groups.setdefault(cell.group, []).append(cell.name)
        all_of = [cell.group for cell in self.results.place.campaign.cells]
        found = [
            (f"{group}, {len(names)} of {all_of.count(group)} cells", names)
            for group, names in groups.items()
        ]
        if self.undrawn:
            found.append(("figures", [f"{m.title}: {m.reason}" for m in self.undrawn]))
        if self.results.damaged:
            found.append(("damaged results", list(self.results.damaged)))
        return [(title, [self._anywhere(name) for name in names]) for title, names in found]

    def _anywhere(self, text: str) -> str:
        """Without the folders of this machine."""
        text = text.replace(str(default_folder()), "GEONEW_HOME")
        return text.replace(str(self.results.place.results), "RESULTS")

    def lead(self) -> list[str]:
        """What a reader has to know first."""
        results = self.results
        wanted = len(results.found) + len(results.missing())
        minutes = sum(float(d["cpu_seconds"]) for d in results.found.values() if "cpu_seconds" in d)
        versions = dict.fromkeys(
            f"geonew {d['versions']['geonew']}, torch {d['versions']['torch']}"
            for d in results.found.values()
        )
        text = [
            f"Suite {results.suite}: {len(results.found)} of {wanted} cells of the campaign "
            f"have been run, {minutes / 60:,.0f} CPU minutes of training in all; "
            f"{'; '.join(versions) or 'no versions known'}.",
            "Every model is trained in one harness with the same data, features, batch size and "
            "budget of processor time on one core; learning rates and checkpoints are chosen by "
            "validation, test data decide nothing. Errors are relative L2 errors in %, means over "
            "samples; the least of a column is bold; ± is the standard deviation over seeds; "
            "· has not been run, – does not apply, ∞ has failed: a prediction or a whole training.",
            "Not the same: weight decay is Geo-NeW's own (0.03 in most families; baselines have "
            "none). Geo-NeW's law, partitions and other choices are set for each family in "
            "`configs/cpu`, by validation; baselines take their sizes from there and are otherwise "
            "the same in all families. The learning rate of a row is chosen on NS2d-c++ (of "
            "Geo-FNO and U-Net on Pipe) and kept everywhere. Geo-FNO and U-Net need grids, "
            "DeepONet a frame: without, they have no row.",
            TOLD,
            REMARK,
        ]
        if results.suite == "smoke":
            text.append(
                "This suite trains for seconds on a few samples, to test the machinery: its "
                "numbers mean nothing."
            )
        return text

    def html(self) -> str:
        """The page."""
        return page(TITLE, self.lead(), self.sections(), missing_html(self.missing()))

    def markdown(self) -> str:
        """The same tables for a document, figures as links."""
        parts = [f"# {TITLE}\n", *(f"{text}\n" for text in self.lead())]
        for section in self.sections():
            parts.append(f"## {section.title}\n")
            for item in section.items:
                if isinstance(item, Table):
                    parts.append(item.markdown())
                else:
                    parts.append(f"### {item.title}\n\n![{item.title}]({item.file})\n")
                    parts.append(f"{item.caption}\n")
        parts.append("## Not run yet\n")
        for title, names in self.missing():
            parts.append(f"- not run yet: {title}: {'; '.join(names)}")
        return "\n".join(parts).rstrip() + "\n"

    def to_plain(self) -> dict[str, Any]:
        """Every number."""
        return {
            "suite": self.results.suite,
            "tables": {table.key: table.to_plain() for table in self.tables},
            "figures": {
                f.key: {
                    "title": f.title,
                    "caption": f.caption,
                    "file": f.file,
                    "numbers": _without_nan(f.numbers),
                }
                for f in self.figures
            },
            "missing": dict(self.missing()),
            "cells": dict(self.results.found),
        }

    def write(self, folder: str | Path) -> list[Path]:
        """Write all files into a folder; returns the page, the Markdown and the JSON."""
        folder = Path(folder)
        try:
            (folder / "figures").mkdir(parents=True, exist_ok=True)
            for figure in self.figures:
                (folder / figure.file).write_bytes(figure.content)
            (folder / "report.html").write_text(self.html(), encoding="utf-8")
            (folder / "report.md").write_text(self.markdown(), encoding="utf-8")
        except OSError as error:
            raise DataError(
                f"cannot write the report to {folder}: {error.strerror or error}",
                "choose another folder with --out",
            ) from error
        write_json(folder / "report.json", self.to_plain())
        return [folder / name for name in ("report.html", "report.md", "report.json")]


def make_report(place: Place, *, draw: bool = True) -> Report:
    """The report of a campaign.

    Args:
        place: its folders.
        draw: make pictures that need models and data; else those that were kept are shown.

    """
    results = read_results(place)
    if not results.found:
        raise DataError(
            f"no cell of campaign {results.suite!r} has a result in {place.results}",
            f"run `geonew bench --suite {results.suite}` first, or give the folder it wrote to",
        )
    tables = (
        *accuracy_tables(results),
        *study_tables(results),
        *cost_tables(results),
        *transfer_tables(results),
    )
    drawn: list[Picture | Missing] = [*charts(results), *_pictures(results, draw)]
    return Report(
        results,
        tables,
        tuple(_of(drawn, Picture)),
        tuple(_of(drawn, Missing)),
    )


def _pictures(results: Results, draw: bool) -> Iterator[Picture | Missing]:
    """Pictures drawn now; a kept one where it shows more than can be drawn."""
    kept = kept_pictures(results.place.results)
    if not draw:
        yield from kept.values()
        return
    for made in pictures(results):
        older = kept.get(made.key)
        if isinstance(made, Missing):
            yield older or made
        else:
            yield older if older and len(older.absent) < len(made.absent) else made


def _of(items: Iterable[Any], kind: type) -> Sequence[Any]:
    return [item for item in items if isinstance(item, kind)]


def _matches(key: str, pattern: str) -> bool:
    return key.startswith(pattern[:-1]) if pattern.endswith("*") else key == pattern


def _without_nan(value: Any) -> Any:
    """JSON has no NaN."""
    if isinstance(value, dict):
        return {name: _without_nan(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and value != value else value
