"""Tables of single questions: boundary, guarantees, encodings, ablations, learning rates.

Each reads the cells of one group of the campaign; what is compared is trained for the same budget.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from geonew.bench.campaign import ABLATED, HARD, rate_cells, unchanged_cell
from geonew.bench.rows import OURS, ROWS
from geonew.report import published
from geonew.report.results import LABELS, Results, main_of
from geonew.report.table import FAILED, NOTHING, Column, Entry, Line, Table, number_or_nothing
from geonew.train.metrics import COMBINED

WORDS = {
    "point-cloud": "point cloud in place of mesh features",
    "no-gradients": "without gradients of features",
    "paper-law": "the paper's flux law",
    "paper": "the paper's flux law, boundary and number of partitions",
    "no-constants": "structured flux law in place of constants of the medium",
    "structured-law": "with the structured flux law beside",
    "nodal": "boundary values by nodes, as in the paper",
    "no-harmonic": "without harmonic coordinates",
    "no-decay": "without weight decay",
    "decay": "with Geo-NeW's weight decay",
    "adamw": "AdamW in place of SOAP",
}


def study_tables(results: Results) -> Iterator[Table]:
    """All of these tables that have a number."""
    for made in (
        boundary(results),
        guarantees(results),
        encodings(results),
        ablations(results),
        rates(results),
    ):
        if not made.is_empty:
            yield made


def boundary(results: Results) -> Table:
    """Error on the Dirichlet part of ns2d-c."""
    names, fields = main_of("ns2d-c"), ("velocity", "pressure")
    columns = [Column(f"{f}, mean", "number") for f in fields]
    columns += [Column(f"{f}, worst", "number") for f in fields]
    columns += [Column(f, "number", best=False, published=True) for f in ("u", "v", "p")]
    lines = []
    for row in results.rows(names):
        found = results[f"main/ns2d-c/{row}"]["boundary"].get("id", {})
        mine = [Entry(found.get(f, {}).get(which)) for which in ("mean", "worst") for f in fields]
        others = published.BOUNDARY.get(row, {})
        beside = [number_or_nothing(others.get(f)) for f in "uvp"]
        lines.append(Line(LABELS[row], (*mine, *beside), ours=row in OURS))
    return Table(
        key="boundary",
        title="Error on the boundary, NS2d-c",
        corner="model",
        columns=tuple(columns),
        lines=tuple(lines),
        caption=results.provenance(names),
        notes=(
            "Root mean square over the nodes where a field is prescribed, over the field's "
            "training deviation (the paper divides by the norm of the data, which vanishes for "
            "the pressure at an outlet).",
        ),
    )


def guarantees(results: Results) -> Table:
    """What holds by construction, and balances of the fields, on the out-of-distribution set."""
    names = main_of(HARD)
    columns = (
        Column("solved", "percent", best=False),
        Column("unique, proved", "percent", best=False),
        Column("locally unique", "percent", best=False),
        Column("worst antisymmetry", "number", best=False),
        Column("worst balance", "number", best=False),
        Column("Newton steps", "number", best=False),
        Column("mass defect", "number"),
        Column("mass defect of the truth", "number", best=False),
    )
    lines = []
    for row in results.rows(names):
        found = results[f"main/{HARD}/{row}"]
        certificate = (found.get("certificate") or {}).get("ood") or {}
        balance = found.get("conservation", {}).get("ood", {})
        truth = balance.get("truth", {}).get("mass_defect", {})
        entries = (
            Entry(found.get("solved", {}).get("ood")),
            number_or_nothing(certificate.get("unique")),
            number_or_nothing(certificate.get("local")),
            number_or_nothing(certificate.get("worst_antisymmetry")),
            number_or_nothing(certificate.get("worst_balance_defect")),
            number_or_nothing(certificate.get("newton_steps", {}).get("mean")),
            Entry(balance.get("mass_defect", {}).get("velocity", {}).get("mean")),
            Entry(truth.get("velocity", {}).get("mean")),
        )
        lines.append(Line(LABELS[row], entries, ours=row in OURS))
    return Table(
        key="guarantees",
        title="Guarantees and balances out of distribution, NS2d-c++",
        corner="model",
        columns=columns,
        lines=tuple(lines),
        caption=results.provenance(names, "ood"),
        notes=(
            "Solved, unique and locally unique: shares of the samples in %. Direct models solve "
            "nothing, so no certificate exists for them. The mass defect is that of the piecewise "
            "linear velocity, which even the truth has.",
        ),
    )


def encodings(results: Results) -> Table:
    """Point cloud against mesh features, the paper's ablation."""
    columns = (
        Column("point cloud, ID"),
        Column("mesh-based, ID"),
        Column("point cloud, OOD"),
        Column("mesh-based, OOD"),
        Column("point cloud", best=False, published=True),
        Column("mesh-based", best=False, published=True),
    )
    used, lines = [], []
    for row in ABLATED:
        pair = (f"ablation/point-cloud/{row}", unchanged_cell(row))
        used += pair
        mine = [results.entry([name], test) for test, name in product(("id", "ood"), pair)]
        others = [e / 100 for e in published.ENCODING.get(row, ())]
        beside = [Entry(e) for e in others] or [NOTHING, NOTHING]
        lines.append(Line(LABELS[row], (*mine, *beside), ours=row in OURS))
    there = [line for line in lines if any(e.value is not None for e in line.entries[:4])]
    return Table(
        key="encodings",
        title="Input encodings, NS2d-c++",
        corner="model",
        columns=columns,
        lines=tuple(there),
        caption=results.provenance(used),
    )


def ablations(results: Results) -> Table:
    """One change each, beside the model without it."""
    columns = (
        Column("ID"),
        Column("over unchanged", "ratio", best=False),
        Column("OOD"),
        Column("over unchanged, OOD", "ratio", best=False),
        Column("samples/s", "number", best=False),
    )
    cells = [c for c in results.place.campaign.cells if c.group == "ablation"]
    lines = []
    for row in ABLATED:
        base = unchanged_cell(row)
        changed = [c.name for c in cells if c.row == row and c.name != base and c.name in results]
        if not changed:
            continue
        lines.append(_ablation(results, LABELS[row], base, base))
        lines += [_ablation(results, f"… {_change(name)}", name, base) for name in changed]
    return Table(
        key="ablations",
        title="Ablations, NS2d-c++",
        corner="change",
        columns=tuple(Column(c.name, c.kind, best=False) for c in columns),
        lines=tuple(lines),
        caption=results.provenance([c.name for c in cells]),
        notes=("Over unchanged: error over that of the same model without the change.",),
    )


def _ablation(results: Results, label: str, name: str, base: str) -> Line:
    entries = []
    for test in ("id", "ood"):
        mine, plain = results.entry([name], test), results.entry([base], test)
        ratio = mine.value / plain.value if mine.value and plain.value else None
        entries += [mine, NOTHING if name == base else Entry(ratio)]
    speed = results[name]["samples_per_second"] if name in results else None
    return Line(label, (*entries, Entry(speed)), ours="Geo-NeW" in label)


def _change(name: str) -> str:
    what = name.split("/")[1]
    kind, _, number = what.partition("-")
    if kind in ("partitions", "depth"):
        return f"{number} partitions" if kind == "partitions" else f"depth {number}"
    return WORDS.get(what, what)


def rates(results: Results) -> Table:
    """Validation errors by which learning rates were chosen."""
    used = [n for row in ROWS for n in rate_cells(row) if n in results]
    tried = sorted({float(results[n]["learning_rate"]) for n in used})
    lines = []
    for row in ROWS:
        mine = {float(results[n]["learning_rate"]): n for n in rate_cells(row) if n in results}
        if mine:
            entries = tuple(_validated(results, mine.get(rate)) for rate in tried)
            lines.append(Line(LABELS[row], entries, ours=row in OURS))
    return Table(
        key="rates",
        title="Choice of the learning rate: validation error in %",
        corner="model",
        columns=tuple(Column(f"{rate:g}", best=False) for rate in tried),
        lines=tuple(lines),
        caption=results.provenance(used),
        notes=("The least of a row is used everywhere; test data play no part in it.",),
    )


def _validated(results: Results, name: str | None) -> Entry:
    """Validation error of a cell; one that has none has failed."""
    if name is None:
        return Entry()
    error = results[name]["validation"].get(COMBINED)
    return FAILED if error is None else Entry(error)
