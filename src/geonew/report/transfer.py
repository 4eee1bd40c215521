"""Tables of what lies off the training data: steps, lengths, labels, meshes, other families.

Each reads models of one budget on data that show one thing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from geonew.bench.campaign import FINETUNED, HARD
from geonew.bench.rows import LEADING, OURS
from geonew.report.results import LABELS, Document, Results, entry_of
from geonew.report.table import NOTHING, Column, Entry, Line, Table, with_values
from geonew.train.metrics import COMBINED

TUNED = ("known+learned", "inducing")
KINDS = {"scratch": "from scratch", "init": "from NS2d-c++"}
LEVELS = ("coarse", "medium", "fine", "coarse to medium", "coarse to fine")


def transfer_tables(results: Results) -> Iterator[Table]:
    """All of these tables that have a number."""
    for made in (
        angles(results),
        rescaled(results),
        swapped(results),
        refinement(results),
        finetuning(results),
    ):
        if not made.is_empty:
            yield made


def angles(results: Results) -> Table:
    """Error against the angle of the step."""
    names = [f"sweep/{row}" for row in LEADING]
    places = _places(results, names)
    lines = [
        Line(
            LABELS[row],
            tuple(_at_angle(results, f"sweep/{row}", place) for place in places),
            ours=row in OURS,
        )
        for row in results.rows(names)
    ]
    return Table(
        key="angles",
        title="Error against the angle of the step, NS2d-c++",
        corner="model",
        columns=tuple(Column(f"{place}°") for place in places),
        lines=tuple(lines),
        caption=results.provenance(names, "angles"),
        notes=("Channels in distribution but for the step; models of `long`, seed 0.",),
    )


def _places(results: Results, names: Sequence[str]) -> list[str]:
    found = [results[n].get("by_axis", {}).get("angles", {}).get("angle") for n in names
             if n in results]  # fmt: skip
    return list(dict.fromkeys(place for table in found if table for place in table))


def _at_angle(results: Results, name: str, place: str) -> Entry:
    table = results[name].get("by_axis", {}).get("angles", {}).get("angle", {})
    return entry_of(table.get(place, {}).get(COMBINED, {}).get("relative"))


def rescaled(results: Results) -> Table:
    """Transolver with coordinates squeezed to those of its training."""
    tests = {"ood": "OOD", "ood_L1": "OOD at L = 1"}
    start = f"long/{HARD}/transolver/0"
    rows = {
        "Transolver": start,
        "Transolver, rescaled coordinates": "rescale/transolver",
        LABELS["learned"]: f"long/{HARD}/learned/0",
        LABELS["known+learned"]: f"long/{HARD}/known+learned/0",
    }
    lines = [
        Line(label, tuple(results.entry([n], t) for t in tests), ours="Geo" in label)
        for label, n in rows.items()
        if n in results and "rescale/transolver" in results
    ]
    return Table(
        key="rescaled",
        title="Coordinates rescaled to the training lengths, NS2d-c++",
        corner="model",
        columns=tuple(Column(name) for name in tests.values()),
        lines=tuple(lines),
        caption=results.provenance(list(rows.values()), "ood"),
        notes=("At L = 1 there is nothing to squeeze but what a step leaves of the height.",),
    )


def swapped(results: Results) -> Table:
    """Inlet and outlet exchanged, against the truth of the reversed flow."""
    names = [f"swap/{row}" for row in LEADING]
    lines = [
        Line(
            LABELS[row],
            tuple(results.entry([f"swap/{row}"], test) for test in ("id", "swap")),
            ours=row in OURS,
        )
        for row in results.rows(names)
    ]
    return Table(
        key="swap",
        title="Labels of inlet and outlet exchanged, NS2d-c++",
        corner="model",
        columns=(Column("as trained"), Column("exchanged")),
        lines=tuple(lines),
        caption=results.provenance(names, "swap"),
        notes=(
            "The truth of exchanged labels is the flow the other way, solved anew. Every model is "
            "given the same features in the frame of the inlet, so the reversed flow is nearly one "
            "of its training distribution; the paper's baselines read raw coordinates.",
        ),
    )


def refinement(results: Results) -> Table:
    """Trained on coarse meshes: other meshes of the same shapes."""
    names = [f"refine/{row}" for row in LEADING]
    found = {row: results[f"refine/{row}"]["refinement"] for row in results.rows(names)}
    levels = [level for level in LEVELS if any(level in table for table in found.values())]
    nodes = {
        level: next(t[level]["nodes"] for t in found.values() if level in t) for level in levels
    }
    lines = [
        Line(LABELS[row], tuple(_level(table.get(level)) for level in levels), ours=row in OURS)
        for row, table in found.items()
    ]
    return Table(
        key="refinement",
        title="Trained on coarse meshes, evaluated on finer ones of the same shapes, NS2d-c++",
        corner="model",
        columns=tuple(
            Column(f"{'encoded ' if ' to ' in n else ''}{n} ({nodes[n]:.0f} nodes)") for n in levels
        ),
        lines=tuple(lines),
        caption=results.provenance(names),
        notes=(
            "Encoded coarse to fine: encoded and solved on the coarse mesh, evaluated on the nodes "
            "of the fine one; only models whose embedding needs anchors alone can do that. The "
            "paper has no such study.",
        ),
    )


def _level(table: Document | None) -> Entry:
    """A cell computes all levels at once: one that it lacks is a transfer that cannot be."""
    return NOTHING if table is None else entry_of(table["error"][COMBINED]["relative"])


def finetuning(results: Results) -> Table:
    """ns2d-c from few samples, from scratch and from a model of ns2d-c++."""
    rows = [(row, kind) for row in TUNED for kind in KINDS]
    used = [f"finetune/{kind}/{row}/{n}" for row, kind in rows for n in FINETUNED]
    columns = [Column(f"{n} samples") for n in FINETUNED]
    lines = [
        Line(
            f"{LABELS[row]}, {KINDS[kind]}",
            tuple(results.entry([f"finetune/{kind}/{row}/{n}"], "id") for n in FINETUNED),
            ours=row in OURS,
        )
        for row, kind in rows
    ]
    return Table(
        key="finetuning",
        title="Fine-tuning on few samples of NS2d-c",
        corner="model",
        columns=tuple(columns),
        lines=with_values(lines),
        caption=results.provenance(used),
    )
