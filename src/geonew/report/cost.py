"""Tables of cost: inference and training against depth, and the size of every model.

Times are processor times of one core, measured where the models were trained; the paper's, of an
H200, stand beside in columns of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from geonew.bench.campaign import DEPTHS, HARD, PARTITIONS, unchanged_cell
from geonew.bench.rows import OURS
from geonew.report import published
from geonew.report.results import LABELS, Document, Results, main_of
from geonew.report.table import Column, Entry, Line, Table, with_values
from geonew.train.metrics import COMBINED

TIMED = ("known+learned", "inducing")
BASE_DEPTH = 2  # of the base configurations


def cost_tables(results: Results) -> Iterator[Table]:
    """All of these tables that have a number."""
    for made in (inference_time(results), training_time(results), sizes(results)):
        if not made.is_empty:
            yield made


def by_depth(row: str) -> dict[int, str]:
    """Depth of the encoder -> cell of a row."""
    cells = {depth: f"ablation/depth-{depth}/{row}" for depth in DEPTHS}
    return dict(sorted({**cells, BASE_DEPTH: unchanged_cell(row)}.items()))


def by_partitions(results: Results) -> dict[int, str]:
    """Number of partitions -> cell of known+learned, that of the base configuration too."""
    cells = {p: f"ablation/partitions-{p}/known+learned" for p in PARTITIONS}
    base = unchanged_cell("known+learned")
    if base in results:
        cells[int(results[base]["architecture"]["partitions"])] = base
    return dict(sorted(cells.items()))


def epoch_seconds(document: Document) -> float | None:
    """Processor time of one pass over the training data; none where no step was made."""
    speed = float(document["samples_per_second"])
    return document["train_samples"] / speed if speed > 0 else None


def inference_time(results: Results) -> Table:
    """Milliseconds per sample against the depth of the encoder."""
    lines, used = [], []
    depths = list(by_depth(TIMED[0]))
    first = next((results[n] for n in by_depth(TIMED[0]).values() if n in results), None)
    if first is not None:
        seconds = first.get("reference_seconds", {}).get("id")
        own = Entry(None if seconds is None else 1e3 * seconds)
        others = [Entry(published.COMSOL) for _ in published.DEPTHS]
        lines.append(Line("Finite elements (CPU)", (*[own] * len(depths), *others)))
    for row in TIMED:
        cells = by_depth(row)
        used += list(cells.values())
        mine = [_forward(results, name) for name in cells.values()]
        others = [Entry(v) for v in _published(published.INFERENCE, row)]
        lines.append(Line(LABELS[row], (*mine, *others), ours=row in OURS))
    return Table(
        key="inference-time",
        title="Inference time against depth, ms per sample, NS2d-c++",
        corner="method",
        columns=_depth_columns(depths),
        lines=with_values(lines),
        caption=results.provenance(used),
        notes=(
            "Forward pass in batches of 8 on one core, features apart, median of processor times. "
            "Published: one H200, COMSOL on a processor; the paper's Geo-NeW learns its whole law.",
        ),
    )


def _forward(results: Results, name: str) -> Entry:
    if name not in results:
        return Entry()
    return Entry(results[name].get("runtime", {}).get("id", {}).get("forward"))


def training_time(results: Results) -> Table:
    """Seconds per epoch against the depth of the encoder."""
    lines, used = [], []
    depths = list(by_depth(TIMED[0]))
    for row in TIMED:
        cells = by_depth(row)
        used += list(cells.values())
        mine = [Entry(epoch_seconds(results[n]) if n in results else None) for n in cells.values()]
        others = [Entry(v) for v in _published(published.TRAINING, row)]
        lines.append(Line(LABELS[row], (*mine, *others), ours=row in OURS))
    samples = sorted({results[n]["train_samples"] for n in used if n in results})
    return Table(
        key="training-time",
        title="Training time against depth, seconds per epoch, NS2d-c++",
        corner="method",
        columns=_depth_columns(depths),
        lines=with_values(lines),
        caption=results.provenance(used),
        notes=(
            f"An epoch has {' or '.join(map(str, samples))} samples here. Processor time of one "
            "core; published: one H200.",
        ),
    )


def _published(table: Mapping[str, tuple[float, ...]], row: str) -> Sequence[float | None]:
    """The paper's Geo-NeW stands beside ours whichever law it has."""
    found = table.get("learned" if row in OURS else row)
    return found if found is not None else [None] * len(published.DEPTHS)


def _depth_columns(depths: Sequence[int]) -> tuple[Column, ...]:
    mine = _own_columns(depths)
    others = [Column(f"N = {n}", "number", best=False, published=True) for n in published.DEPTHS]
    return (*mine, *others)


def _own_columns(depths: Sequence[int]) -> list[Column]:
    """Columns of our own depths."""
    return [Column(f"N = {depth}", "number", best=False) for depth in depths]


def sizes(results: Results) -> Table:
    """Weights, speed and epochs of every model on ns2d-c++."""
    names = main_of(HARD)
    columns = (
        Column("weights", "count", best=False),
        Column("learning rate", "number", best=False),
        Column("steps", "count", best=False),
        Column("epochs", "number", best=False),
        Column("samples/s", "number", best=False),
        Column("ms per prediction", "number", best=False),
        Column("features, ms", "number", best=False),
        Column("validation error"),
    )
    lines = []
    for row in results.rows(names):
        found = results[f"main/{HARD}/{row}"]
        runtime = found.get("runtime", {}).get("id", {})
        entries = (
            Entry(found["parameters"]),
            Entry(found["learning_rate"]),
            Entry(found["steps"]),
            Entry(found["epochs"]),
            Entry(found["samples_per_second"]),
            Entry(runtime.get("forward")),
            Entry(runtime.get("stages", {}).get("features")),
            Entry(found["validation"].get(COMBINED)),
        )
        lines.append(Line(LABELS[row], entries, ours=row in OURS))
    return Table(
        key="sizes",
        title="Sizes and speed, NS2d-c++",
        corner="model",
        columns=columns,
        lines=tuple(lines),
        caption=results.provenance(names),
    )
