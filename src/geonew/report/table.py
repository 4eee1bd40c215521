"""A table: columns that know how their numbers are written and which of them is best.

    entries --text--> the same words in HTML, in Markdown and on a terminal; values as JSON beside

Identity kept: what is written is a rounding of the value in the JSON, nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isclose
from typing import Any, Literal

from geonew.errors import InputError

Kind = Literal["percent", "ratio", "number", "count", "text"]
THOUSAND = 999.5  # from here on three digits would be written with a power of ten
NOT_RUN = "·"  # what stands where a cell has not been run
NOT_ASKED = "–"  # what stands where there is nothing to run
NOT_FINITE = "∞"  # at least one sample has no finite prediction


@dataclass(frozen=True)
class Column:
    """A column.

    Args:
        name: its heading.
        kind: how numbers are written.
        best: whether the least number is marked.
        published: whether its numbers are others', published elsewhere.

    """

    name: str
    kind: Kind = "percent"
    best: bool = True
    published: bool = False


@dataclass(frozen=True)
class Entry:
    """What stands in one place of a table.

    Args:
        value: a number; none where there is none.
        spread: standard deviation over runs, where there are several.
        runs: how many.
        text: in place of a number.

    """

    value: float | int | None = None
    spread: float | None = None
    runs: int = 1
    text: str = ""

    def to_plain(self) -> Any:
        """As JSON data: a text, a number, or a number with its spread."""
        if self.text:
            return self.text
        if self.spread is None:
            return self.value
        return {"value": self.value, "spread": self.spread, "runs": self.runs}

    def shown(self, kind: Kind) -> str:
        """As people read it."""
        if self.text:
            return self.text
        if self.value is None:
            return NOT_RUN
        text = written(self.value, kind)
        return text if self.spread is None else f"{text} ± {written(self.spread, kind, 2)}"


NOTHING = Entry(text=NOT_ASKED)
FAILED = Entry(text=NOT_FINITE)


def number_or_nothing(value: float | int | None) -> Entry:
    """A number, where there may be none by its nature."""
    return NOTHING if value is None else Entry(value)


@dataclass(frozen=True)
class Line:
    """A row.

    Args:
        label: what it is about.
        entries: one for each column.
        ours: whether it is about Geo-NeW.

    """

    label: str
    entries: tuple[Entry, ...]
    ours: bool = False


@dataclass(frozen=True)
class Table:
    """A table.

    Args:
        key: short name, for files and links.
        title: what it shows.
        corner: what the labels of the rows are.
        columns: from left to right.
        lines: from above to below.
        caption: data, budget, seeds, command.
        notes: what has to be known to read it.

    """

    key: str
    title: str
    corner: str
    columns: tuple[Column, ...]
    lines: tuple[Line, ...]
    caption: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for line in self.lines:
            if len(line.entries) != len(self.columns):
                raise InputError(
                    f"table {self.key}: row {line.label!r} has {len(line.entries)} entries for "
                    f"{len(self.columns)} columns"
                )

    @property
    def is_empty(self) -> bool:
        """Whether no number of ours is in it."""
        return not any(
            entry.value is not None
            for line in self.lines
            for column, entry in zip(self.columns, line.entries, strict=True)
            if not column.published
        )

    def is_best(self, line: int, column: int) -> bool:
        """Whether an entry is the best of its column, of at least two; equal ones all are."""
        if not self.columns[column].best or self.columns[column].published:
            return False
        values = [row.entries[column].value for row in self.lines]
        known = [value for value in values if value is not None]
        mine = values[line]
        return mine is not None and len(known) > 1 and isclose(mine, min(known), rel_tol=1e-12)

    def texts(self) -> list[list[str]]:
        """All entries as people read them."""
        return [
            [e.shown(c.kind) for c, e in zip(self.columns, line.entries, strict=True)]
            for line in self.lines
        ]

    def to_plain(self) -> dict[str, Any]:
        """As JSON data."""
        return {
            "title": self.title,
            "caption": self.caption,
            "notes": list(self.notes),
            "columns": [
                {"name": c.name, "kind": c.kind, "published": c.published} for c in self.columns
            ],
            "rows": [
                {"label": line.label, "values": [entry.to_plain() for entry in line.entries]}
                for line in self.lines
            ],
        }

    def markdown(self) -> str:
        """For a document."""
        head = [self.corner, *(_heading(c) for c in self.columns)]
        lines = [f"### {self.title}", "", _row(head)]
        lines.append("|" + "|".join(["---", *("---:" for _ in self.columns)]) + "|")
        for k, (line, texts) in enumerate(zip(self.lines, self.texts(), strict=True)):
            cells = [f"**{t}**" if self.is_best(k, c) else t for c, t in enumerate(texts)]
            lines.append(_row([line.label, *cells]))
        for text in (self.caption, *self.notes):
            if text:
                lines += ["", text]
        return "\n".join(lines) + "\n"


def written(value: float | int, kind: Kind, digits: int = 3) -> str:
    """A number as text: errors in percent with three digits, ratios with two decimals."""
    if kind == "count":
        return f"{value:,.0f}"
    if kind == "ratio":
        return f"{value:.2f}"
    number = 100 * value if kind == "percent" else value
    return f"{number:,.0f}" if abs(number) >= THOUSAND else f"{number:.{digits}g}"


def with_values(lines: Sequence[Line]) -> tuple[Line, ...]:
    """Those rows in which something stands, ours or published."""
    return tuple(
        line
        for line in lines
        if any(entry.value is not None or entry.text == NOT_FINITE for entry in line.entries)
    )


def _heading(column: Column) -> str:
    return f"*published:* {column.name}" if column.published else column.name


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
