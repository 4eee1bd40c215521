"""Reports for people: tables on a terminal, or in Markdown.

Errors in percent of the truth, mean over samples, with the standard deviation over seeds where
there are several; further tables for boundary and balances, for the axes of the distribution, and
for cost. Data are called by family and split, and by their file where that is not enough. Samples
that were left out are named below the tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan

from jaxtyping import Bool
from numpy import ndarray
from rich.table import Table

from geonew.evaluate.evaluation import Evaluation
from geonew.evaluate.report import Report, Row
from geonew.evaluate.testset import skipped_line
from geonew.train.metrics import COMBINED

# What tells data apart -> what they are called.
Names = Mapping[tuple[str, str, str], str]


@dataclass(frozen=True)
class Sheet:
    """A table.

    Args:
        title: what it shows.
        head: names of the columns.
        rows: cells as text.

    """

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def rich(self) -> Table:
        """For a terminal."""
        table = Table(title=self.title, title_justify="left")
        for k, name in enumerate(self.head):
            table.add_column(name, justify="left" if k == 0 else "right", overflow="fold")
        for row in self.rows:
            table.add_row(*row)
        return table

    def markdown(self) -> str:
        """For a document."""
        lines = [f"**{self.title}**", "", "| " + " | ".join(self.head) + " |"]
        lines.append(
            "|" + "|".join("---" if k == 0 else "---:" for k in range(len(self.head))) + "|"
        )
        lines += ["| " + " | ".join(row) + " |" for row in self.rows]
        return "\n".join(lines) + "\n"


def sheets(report: Report) -> list[Sheet]:
    """All tables of a report."""
    names = data_names(report)
    made = [_errors(report, names), _structure(report.rows, names), *_axes(report.rows, names)]
    timed = [r for r in report.rows if r.evaluation.runtime is not None]
    return [*made, *([_cost(timed, names)] if timed else [])]


def markdown(report: Report) -> str:
    """All tables as Markdown, and what was left out."""
    lines = "".join(f"\n{line}\n" for line in left_out(report))
    return "\n".join(sheet.markdown() for sheet in sheets(report)) + lines


def left_out(report: Report) -> list[str]:
    """A line for every file of which samples were left out."""
    found = {r.evaluation.data: r.evaluation for r in report.rows if r.evaluation.skipped}
    return [skipped_line(one.file, one.skipped) for one in found.values()]


def data_names(report: Report) -> Names:
    """What every file is called in the tables."""
    found = {e.data: f"{e.family} {e.split}" for e in (r.evaluation for r in report.rows)}
    count = Counter(found.values())
    return {
        data: name if count[name] == 1 else f"{name}, {data[0]}" for data, name in found.items()
    }


def percent(value: float, deviation: float = float("nan")) -> str:
    """An error in percent."""
    if isnan(value):
        return "-"
    text = f"{100 * value:.3g}"
    return text if isnan(deviation) else f"{text} ± {100 * deviation:.2g}"


def _label(row: Row) -> str:
    return f"{row.model} ({row.about.choice.kind})"


def _errors(report: Report, names: Names) -> Sheet:
    columns = list(dict.fromkeys(n for r in report.rows for n in r.evaluation.errors.names))
    rows: list[tuple[str, ...]] = []
    for group in report.seeds():
        for row in group.rows:
            rows.append(_error_row(row, names, columns))
            for name, which in row.evaluation.where.items():
                found = [_column(row.evaluation, c, which) for c in columns]
                rows.append((f"  at {name}", "", str(int(which.sum())), *found, "", "", ""))
        if len(group.rows) > 1:
            first = group.rows[0]
            label = f"{len(group.rows)} seeds ({first.about.choice.kind})"
            found = [percent(*group.mean(c)) for c in columns]
            rows.append((label, names[first.evaluation.data], "", *found, "", "", ""))
    head = ("model", "data", "samples", *columns, "by mass", "median", "spread")
    return Sheet("Relative L2 error in %, mean over samples", head, tuple(rows))


def _error_row(row: Row, names: Names, columns: Sequence[str]) -> tuple[str, ...]:
    evaluation = row.evaluation
    combined = evaluation.column(COMBINED)
    return (
        _label(row),
        names[evaluation.data],
        str(evaluation.samples),
        *(_column(evaluation, name) for name in columns),
        percent(evaluation.column(COMBINED, weighted=True).mean),
        percent(combined.median),
        percent(combined.deviation),
    )


def _column(evaluation: Evaluation, name: str, which: Bool[ndarray, "n"] | None = None) -> str:
    if name not in evaluation.errors.names:
        return "-"
    return percent(evaluation.column(name, which).mean)


def _structure(rows: Sequence[Row], names: Names) -> Sheet:
    made = []
    for row in rows:
        e = row.evaluation
        plain = e.to_plain(each=False)
        certificate = plain["certificate"]
        made.append(
            (
                _label(row),
                names[e.data],
                ", ".join(f"{n} {_number(v['worst'])}" for n, v in plain["boundary"].items()),
                _with_truth(plain, "mass_defect"),
                _with_truth(plain, "divergence"),
                _with_truth(plain, "reaction_defect"),
                f"{100 * plain['solved']:.0f} %",
                "-" if certificate is None else f"{100 * certificate['unique']:.0f} %",
                "-" if certificate is None else f"{100 * certificate['local']:.0f} %",
                "-" if certificate is None else _number(certificate["margin"]["least"]),
                "-" if certificate is None else _number(certificate["worst_antisymmetry"]),
                "-" if certificate is None else _number(certificate["worst_balance_defect"]),
            )
        )
    head = (
        "model", "data", "worst boundary error", "mass defect (truth)", "divergence (truth)",
        "reaction defect (truth)", "solved", "unique", "local", "least margin", "fluxes cancel",
        "balances close",
    )  # fmt: skip
    return Sheet("Boundary, balances, certificates", head, tuple(made))


def _with_truth(plain: dict, name: str) -> str:
    parts = [
        f"{_number(figure['mean'])} ({_number(plain['truth'][name][field]['mean'])})"
        for field, figure in plain[name].items()
    ]
    return ", ".join(parts) or "-"


def _axes(rows: Sequence[Row], names: Names) -> list[Sheet]:
    result = []
    by_data: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        by_data.setdefault(row.evaluation.data, []).append(row)
    for data, mine in by_data.items():
        found = [row.evaluation.by_axis() for row in mine]
        for axis in found[0]:  # the same data have the same axes
            groups = [one[axis] for one in found]
            labels = list(groups[0])
            counts = [groups[0][label][COMBINED]["relative"]["count"] for label in labels]
            head = ("model", *(f"{label} ({n})" for label, n in zip(labels, counts, strict=True)))
            table = tuple(
                (_label(row), *(_mean(group[label]) for label in labels))
                for row, group in zip(mine, groups, strict=True)
            )
            title = f"Combined error in % by {axis}, {names[data]} (samples)"
            result.append(Sheet(title, head, table))
    return result


def _mean(found: dict) -> str:
    value = found[COMBINED]["relative"]["mean"]
    return "-" if value is None else percent(value)


def _cost(rows: Sequence[Row], names: Names) -> Sheet:
    times = [r.evaluation.runtime for r in rows]
    stages = list(dict.fromkeys(name for t in times if t is not None for name in t.stages))
    made = []
    for row, t in zip(rows, times, strict=True):
        assert t is not None
        made.append(
            (
                _label(row),
                names[row.evaluation.data],
                *(f"{t.stages[s]:.3g}" if s in t.stages else "-" for s in stages),
                f"{t.forward:.3g}",
                f"{t.nodes:.0f}",
                "-" if t.peak_megabytes is None else f"{t.peak_megabytes:.0f}",
                str(row.parameters),
            )
        )
    first = times[0]
    assert first is not None
    peak = f"peak MB of the {first.peak_of}"
    head = ("model", "data", *stages, "forward", "nodes", peak, "parameters")
    title = (
        f"Milliseconds per sample, batches of {first.batch}, "
        f"{first.device}, {first.threads} thread(s)"
    )
    return Sheet(title, head, tuple(made))


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2g}"
