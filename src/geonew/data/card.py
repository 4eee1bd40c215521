"""The data card: what a file holds, in words and numbers, as text or as Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from geonew.data.store import DataSet

Row = tuple[str, str]


@dataclass(frozen=True)
class Card:
    """Sections of lines (name, content), and the failed attempts.

    Args:
        title: family, split and number of samples.
        sections: heading -> lines.
        failures: one sentence per failed attempt.

    """

    title: str
    sections: Mapping[str, tuple[Row, ...]]
    failures: tuple[str, ...]

    def text(self) -> str:
        """For a terminal."""
        lines = [self.title]
        for heading, rows in self.sections.items():
            lines.append(f"  {heading}")
            width = max((len(name) for name, _ in rows), default=0)
            lines += [f"    {name:<{width}}  {content}" for name, content in rows]
        lines += [f"  failed: {sentence}" for sentence in self.failures]
        return "\n".join(lines)

    def markdown(self, picture: str = "") -> str:
        """For the documentation, with the name of a picture of samples."""
        lines = [f"# {self.title}", ""]
        if picture:
            lines += [f"![samples]({picture})", ""]
        for heading, rows in self.sections.items():
            lines += [f"## {heading}", "", "| | |", "|---|---|"]
            lines += [f"| {name} | {content} |" for name, content in rows]
            lines.append("")
        if self.failures:
            lines += ["## failed attempts", "", *[f"- {s}" for s in self.failures], ""]
        return "\n".join(lines)


def card(dataset: DataSet, ranges: Mapping[str, str] | None = None) -> Card:
    """Describe a data set.

    Args:
        dataset: the file.
        ranges: what each parameter of its family means and may be.

    """
    header, count = dataset.header, len(dataset)
    metas = [dataset.meta(k) for k in range(count)]
    sections: dict[str, tuple[Row, ...]] = {"origin": _origin(dataset)}
    sections["problem"] = _problem(dataset)
    if count:
        sections["samples"] = _samples(dataset, metas)
        sections["axes"] = tuple((n, _span(v, header.unit(n))) for n, v in dataset.axes.items())
        ranges = ranges or {}
        named = {**dict.fromkeys(ranges, ()), **dataset.parameters}
        sections["parameters"] = tuple(
            (n, "; ".join(filter(None, [_span(v, header.unit(n)), ranges.get(n, "")])))
            for n, v in named.items()
        )
    failures = tuple(
        f"sample {k}, attempt {f['attempt']}: {f['error']}: {f['reason']}"
        for k, meta in enumerate(metas)
        for f in meta["failures"]
    )
    title = f"{header.family}, {header.split}: {count} samples"
    return Card(title, {h: rows for h, rows in sections.items() if rows}, failures)


def _origin(dataset: DataSet) -> tuple[Row, ...]:
    header = dataset.header
    origin = [(key, str(value)) for key, value in header.origin.items() if key != "family"]
    versions = ", ".join(f"{name} {version}" for name, version in header.versions.items())
    return (
        ("file", dataset.path.name),
        *origin,
        ("made with", versions),
        ("units", in_units(header.units) or "not stated"),
    )


def _problem(dataset: DataSet) -> tuple[Row, ...]:
    problem = dataset.problem
    fields = ", ".join(f"{f.name} ({f.rank})" for f in problem.fields)
    rows = [("name", f"{problem.name}, {problem.dim}D"), ("fields", fields)]
    rows.append(("groups", ", ".join(problem.groups)))
    pairs = ", ".join(f"{d.field} on {d.group}" for d in problem.dirichlet)
    rows.append(("prescribed", pairs))
    for name, items in (
        ("derived", [d.name for d in problem.derived]),
        ("parameters", [p.name for p in problem.parameters]),
        ("sources", list(problem.sources)),
        ("known terms", [t.form for t in problem.terms]),
    ):
        if items:
            rows.append((name, ", ".join(items)))
    return tuple(rows)


def _samples(dataset: DataSet, metas: list[dict]) -> tuple[Row, ...]:
    nodes = [dataset.rows("points", k) for k in range(len(dataset))]
    rows = [("nodes", f"{min(nodes)} to {max(nodes)}, mean {np.mean(nodes):.0f}")]
    failed = sum(len(meta["failures"]) for meta in metas)
    rows.append(("failed attempts", str(failed)))
    names = dict.fromkeys(name for meta in metas for name in meta["info"])
    for name in names:
        values = [meta["info"][name] for meta in metas if name in meta["info"]]
        rows.append(
            (name, f"{min(values):.3g} to {max(values):.3g}, median {np.median(values):.3g}")
        )
    seconds = [meta["info"]["seconds"] for meta in metas if meta["info"].get("seconds", 0) > 0]
    if seconds:
        rows.append(("throughput", f"{60 / np.mean(seconds):.3g} samples per CPU minute"))
    return tuple(rows)


def in_units(units: Mapping[str, str]) -> str:
    """Names by their unit: ``m: length, x_k; m/s: velocity``."""
    named = {unit: [n for n, u in units.items() if u == unit] for unit in units.values()}
    return "; ".join(f"{unit}: {', '.join(names)}" for unit, names in named.items())


def _span(values: tuple[float | int | str | None, ...], unit: str = "") -> str:
    """Least and greatest of numbers, or how often each of few words occurs."""
    given = [value for value in values if value is not None]
    if not given:
        return ""
    if any(isinstance(value, str) for value in given):
        counts = {str(value): given.count(value) for value in given}
        return ", ".join(f"{value} ({n})" for value, n in sorted(counts.items()))
    numbers = [float(value) for value in given]  # type: ignore[arg-type]
    least, greatest = min(numbers), max(numbers)
    span = f"{least:.6g}" if least == greatest else f"{least:.6g} to {greatest:.6g}"
    return span if unit in ("", "1") else f"{span} {unit}"
