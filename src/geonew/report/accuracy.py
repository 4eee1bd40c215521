"""Tables of accuracy: every model on every family, in and out of distribution.

The paper's two tables, standard and non-standard, once for every budget; families in space, for
which the paper has none; published flows in a cavity; Geo-NeW over the best baseline; a summary.
``known+learned`` knows terms of the equation that no other row is told, and has its own row always.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from geonew.bench.campaign import FAMILIES, HARD
from geonew.bench.rows import LEADING, OURS, ROWS
from geonew.report.published import PERCENT, published_error, published_ratio
from geonew.report.results import BUDGETS, LABELS, Results, runs_of
from geonew.report.table import (
    NOTHING,
    Column,
    Entry,
    Line,
    Table,
    number_or_nothing,
    with_values,
)
from geonew.train.metrics import COMBINED


@dataclass(frozen=True)
class Asked:
    """One column of a table of errors.

    Args:
        name: its heading.
        family: whose data.
        test: which test set.
        column: which error.
        beside: whether published figures stand beside it.

    """

    name: str
    family: str
    test: str
    column: str = COMBINED
    beside: bool = False


STANDARD = (
    Asked("NACA", "naca", "id", beside=True),
    Asked("NACA OOD", "naca", "ood"),
    Asked("Elasticity stress", "elasticity", "id", "von_mises", beside=True),
    Asked("Elasticity displacement", "elasticity", "id"),
    Asked("displacement OOD", "elasticity", "ood"),
    Asked("Pipe", "pipe", "id", beside=True),
    Asked("Pipe OOD", "pipe", "ood"),
)
NON_STANDARD = (
    Asked("Poly ID", "poly-poisson", "id", beside=True),
    Asked("Poly OOD", "poly-poisson", "ood", beside=True),
    Asked("NS2d-c", "ns2d-c", "id", beside=True),
    Asked("NS2d-c OOD", "ns2d-c", "ood"),
    Asked("NS2d-c++ ID", HARD, "id", beside=True),
    Asked("NS2d-c++ OOD", HARD, "ood", beside=True),
    Asked("OOD at L = 1", HARD, "ood_L1", beside=True),
    Asked("NS2d-Re ID", "ns2d-re", "id"),
    Asked("NS2d-Re OOD", "ns2d-re", "ood"),
)
SOLID = (
    Asked("Ball-Poisson ID", "ball-poisson", "id"),
    Asked("Ball-Poisson OOD", "ball-poisson", "ood"),
    Asked("Duct-Stokes ID", "duct-stokes", "id"),
    Asked("Duct-Stokes OOD", "duct-stokes", "ood"),
)


def accuracy_tables(results: Results) -> Iterator[Table]:
    """All tables of accuracy that have a number."""
    tables = [summary(results), ratios(results)]
    for group in BUDGETS:
        tables.append(errors(results, group, "standard", "Standard data sets", STANDARD))
        tables.append(
            errors(results, group, "non-standard", "Non-standard data sets", NON_STANDARD)
        )
    tables.append(errors(results, "main", "space", "Families in space (3D)", SOLID))
    tables.append(cavity(results))
    yield from (table for table in tables if not table.is_empty)


def errors(results: Results, group: str, key: str, title: str, asked: Sequence[Asked]) -> Table:
    """Errors of all models for one budget, published ones in columns of their own at the end."""
    names = [n for a in asked for row in ROWS for n in runs_of(group, a.family, row)]
    there = [a for a in asked if any(_entry(results, group, a, row).value for row in ROWS)]
    beside = [a for a in there if a.beside and (a.family, a.test) in PERCENT]
    columns = [Column(a.name) for a in there]
    columns += [Column(a.name, best=False, published=True) for a in beside]
    more = dict.fromkeys(
        row for a in beside for row in PERCENT[a.family, a.test] if row not in LABELS
    )
    lines = []
    for row in (*(r for r in ROWS if r in results.rows(names)), *more):
        mine = [_entry(results, group, a, row) for a in there]
        others = [number_or_nothing(published_error(a.family, a.test, row)) for a in beside]
        lines.append(Line(LABELS.get(row, row), (*mine, *others), ours=row in OURS))
    return Table(
        key=f"{key}-{group}",
        title=f"{title}, {_budget(results, names)}",
        corner="model",
        columns=tuple(columns),
        lines=with_values(lines),
        caption=results.provenance(names),
    )


def summary(results: Results) -> Table:
    """Every family in one line, at the longest budget that it has."""
    tests = {"id": "", "ood": "OOD, "}
    lines, used = [], []
    for family in FAMILIES:
        for group in reversed(BUDGETS):
            contests = [_contest(results, group, Asked(family, family, test)) for test in tests]
            if not any(contests):
                continue
            runs = [n for some in _common(results, group, family).values() for n in some]
            errors = [entry for c in contests for entry in (c.entries() if c else (Entry(),) * 3)]
            lines.append(Line(family, (Entry(text=_budget(results, runs)), *errors)))
            used += runs
            break
    return Table(
        key="summary",
        title="Every family at its longest budget",
        corner="data",
        columns=(
            Column("budget", "text", best=False),
            *(
                Column(f"{test}{who}", best=False)
                for test in tests.values()
                for who in ("known + learned", "learned", "best baseline")
            ),
        ),
        lines=tuple(lines),
        caption=results.provenance(used),
    )


def ratios(results: Results) -> Table:
    """Geo-NeW over the best baseline, family by family, at the same budget."""
    columns = (
        Column("budget", "text", best=False),
        Column("known + learned / best", "ratio", best=False),
        Column("learned / best", "ratio", best=False),
        Column("best baseline", "text", best=False),
        Column("its error"),
        Column("Geo-NeW / best", "ratio", best=False, published=True),
    )
    lines, used = [], []
    for group in BUDGETS:
        for asked in _judged():
            made = _ratio(results, group, asked)
            if made is not None:
                lines.append(made)
                used += [n for some in _common(results, group, asked.family).values() for n in some]
    return Table(
        key="ratios",
        title="Geo-NeW over the best baseline (below 1 is better than all of them)",
        corner="data",
        columns=tuple(_unmarked(column) for column in columns),
        lines=tuple(lines),
        caption=results.provenance(used),
        notes=(
            "The best baseline is the one with the least error on that very test set: the hardest "
            "opponent, not one chosen by validation. Of several seeds those count that all rows of "
            "a line have.",
        ),
    )


def cavity(results: Results) -> Table:
    """Published lid-driven flows: trained on every third grid line, tested on all."""
    names = [f"cavity/{row}" for row in LEADING]
    tested = [results[n]["error"]["id"] for n in names if n in results and results[n]["error"]]
    shown = (COMBINED, "velocity", "pressure")
    fields = [field for field in shown if tested and field in tested[0]]
    columns = tuple(Column("all fields" if f == COMBINED else f) for f in fields)
    lines = [
        Line(
            LABELS[row],
            tuple(results.entry([f"cavity/{row}"], "id", f) for f in fields),
            ours=row in OURS,
        )
        for row in results.rows(names)
    ]
    return Table(
        key="cavity",
        title="Skewed lid-driven cavity, real published data",
        corner="model",
        columns=columns,
        lines=tuple(lines),
        caption=results.provenance(names),
        notes=(
            "Flows published by others; training samples have every third line of the grids, test "
            "samples all of them.",
        ),
    )


def _entry(results: Results, group: str, asked: Asked, row: str) -> Entry:
    names = runs_of(group, asked.family, row)
    if not results.knows(names):
        return NOTHING
    return results.entry(names, asked.test, asked.column)


def _judged() -> Iterator[Asked]:
    """What ratios are of: every family, in and out of distribution."""
    for family in FAMILIES:
        yield Asked(f"{family} ID", family, "id", beside=family != "elasticity")
        if family == "elasticity":  # what was published is its stress
            yield Asked("elasticity stress ID", family, "id", "von_mises", beside=True)
        yield Asked(f"{family} OOD", family, "ood", beside=True)
        if family == HARD:
            yield Asked(f"{family} OOD at L = 1", family, "ood_L1", beside=True)


@dataclass(frozen=True)
class _Contest:
    """Errors of Geo-NeW's rows on one test set, and that of its hardest opponent there."""

    known: Entry
    learned: Entry
    best: str
    error: float

    def entries(self) -> tuple[Entry, Entry, Entry]:
        return self.known, self.learned, Entry(self.error)

    def over(self, mine: Entry) -> Entry:
        """An error of ours over that of the best baseline."""
        return mine if mine.value is None else Entry(mine.value / self.error)


def _contest(results: Results, group: str, asked: Asked) -> _Contest | None:
    """Over seeds that all rows have; none without a baseline and one of ours."""
    found = {
        row: results.entry(names, asked.test, asked.column)
        for row, names in _common(results, group, asked.family).items()
    }
    others = {r: float(e.value) for r, e in found.items() if r not in OURS and e.value is not None}
    if not others or all(found[row].value is None for row in OURS):
        return None
    best = min(others, key=lambda row: others[row])
    known, learned = (
        Entry(found[row].value) if results.knows(runs_of(group, asked.family, row)) else NOTHING
        for row in ("known+learned", "learned")
    )
    return _Contest(known, learned, best, others[best])


def _ratio(results: Results, group: str, asked: Asked) -> Line | None:
    """One line of ratios."""
    made = _contest(results, group, asked)
    if made is None:
        return None
    names = [name for some in _common(results, group, asked.family).values() for name in some]
    beside = published_ratio(asked.family, asked.test) if asked.beside else None
    return Line(
        asked.name,
        (
            Entry(text=_budget(results, names)),
            made.over(made.known),
            made.over(made.learned),
            Entry(text=LABELS[made.best]),
            Entry(made.error),
            number_or_nothing(beside),
        ),
    )


def _common(results: Results, group: str, family: str) -> dict[str, list[str]]:
    """Row -> its runs with the seeds that every row has which has any."""
    runs = {row: runs_of(group, family, row) for row in ROWS}
    begun = [names for names in runs.values() if any(name in results for name in names)]
    seeds = [k for k in range(len(runs[ROWS[0]])) if all(names[k] in results for names in begun)]
    return {row: [names[k] for k in seeds] for row, names in runs.items()}


def _unmarked(column: Column) -> Column:
    """A column whose rows are different data: none of them is best."""
    return Column(column.name, column.kind, best=False, published=column.published)


def _budget(results: Results, names: Sequence[str]) -> str:
    """The budget of some cells in words."""
    minutes = sorted({results[n]["cpu_minutes"] for n in names if n in results})
    shown = [f"{m:g} min" if m >= 1 else f"{60 * m:.3g} s" for m in minutes]
    return " or ".join(shown) or "not run"
