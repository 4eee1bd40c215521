"""Pictures of fields and features, from models and data of the campaign that are on disk.

Samples are the first ones of their files, never chosen by how they look. Rows are compared at one
budget, that of which most models are on disk, of equal ones the longest; a model that is shown
alone is the one trained longest. What cannot be drawn is returned as a sentence that says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from geonew.bench.campaign import FAMILIES, HARD, SHOWN
from geonew.bench.rescaling import rescaled
from geonew.bench.rows import OURS
from geonew.cache import Cache
from geonew.data.record import Record
from geonew.data.store import DataSet
from geonew.errors import DataError, GeoNeWError
from geonew.evaluate.evaluation import summarise
from geonew.evaluate.predictions import predict_all
from geonew.evaluate.testset import TestSet, read_test
from geonew.features import FeatureSpec, featurise
from geonew.features.spectral import dirichlet_eigenpairs
from geonew.fem import SolverPool
from geonew.model.geonew import GeoNeW
from geonew.model.prediction import Prediction
from geonew.model.sample import to_lab
from geonew.plot.comparison import Samples, comparison_figure, overview_figure
from geonew.plot.encode import as_png
from geonew.plot.features import features_figure, select_columns
from geonew.plot.fields import fields_figure
from geonew.plot.model import partitions_figure
from geonew.plot.shocks import ShockView, shocks_figure
from geonew.problem import Problem
from geonew.report.picture import Picture
from geonew.report.results import BUDGETS, LABELS, Results, runs_of
from geonew.train.checkpoint import ModelFile, read_model
from geonew.train.samples import locate

COMPARED = SHOWN[HARD]
TRAINED = ("shown", *BUDGETS)
RESCALED = "transolver"
AIRFOILS = 3
EXAMPLES = 2  # samples of each kind in the overview
# The airfoil has chord 1 from the origin; shocks stand within half a chord of it.
WINDOW = ((-0.25, -0.65), (1.35, 0.65))
MODES = 9
FEATURES = ("hks:[0247]", "|grad hks:[247]|", "harmonic:*")


@dataclass(frozen=True)
class Missing:
    """A picture that cannot be drawn.

    Args:
        key: short name of the picture.
        title: what it would show.
        reason: what is missing.

    """

    key: str
    title: str
    reason: str


class Drawing(NamedTuple):
    """A PNG file with its words, whose models made it, and what could not be shown."""

    content: bytes
    caption: str
    cells: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()


def pictures(results: Results) -> Iterator[Picture | Missing]:
    """Every picture, or why there is none."""
    for key, title, draw in (
        (
            "fields-ood",
            "Out of distribution: longer, with step and squares",
            lambda: compared(results, "ood"),
        ),
        ("fields-ood-l1", "Out of distribution at L = 1", lambda: compared(results, "ood_L1")),
        ("swap", "Labels exchanged against the reversed truth", lambda: exchanged(results)),
        ("basis", "Learned basis", lambda: basis(results)),
        ("airfoils", "Partitions and shocks around airfoils", lambda: airfoils(results)),
        ("features", "Heat kernel signature and harmonic coordinates", lambda: features(results)),
        ("eigenvectors", "Eigenvectors of the Laplacian", lambda: eigenvectors(results)),
        ("overview", "The data sets", lambda: overview(results)),
    ):
        try:
            made = draw()
        except GeoNeWError as error:
            yield Missing(key, title, error.what)
            continue
        yield Picture(
            key, title, made.caption, made.content, "png", cells=made.cells, absent=made.absent
        )


# -- predictions -----------------------------------------------------------------------------------


def compared(results: Results, test: str) -> Drawing:
    """Target, predictions and errors on the first sample of a test set of ns2d-c++."""
    file = _test_file(results, test)
    drawn = _predictions(results, file, rescale=True)
    caption = (
        f"NS2d-c++, sample 0 of {file}: target, predictions and errors; in brackets the relative "
        "L2 error of all fields on this sample. Rescaled: coordinates squeezed to the lengths of "
        f"the training data. {_models(results, drawn.cells)}"
    )
    mesh = _record(file, 0).mesh
    figure = comparison_figure(mesh, drawn.truth, drawn.fields, note="target")
    return Drawing(as_png(figure), caption, drawn.cells, drawn.absent)


def exchanged(results: Results) -> Drawing:
    """Inlet and outlet exchanged, beside the truth of the reversed flow."""
    cells = [c for c in results.place.campaign.cells if c.group == "swap"]
    if not cells:
        raise DataError("the campaign has no cell that exchanges labels")
    file = cells[0].tests["swap"]
    drawn = _predictions(results, file)
    caption = (
        f"NS2d-c++, sample 0 of {file}: inlet and outlet exchanged, the flow solved anew, and what "
        f"the models predict without having seen such data. {_models(results, drawn.cells)}"
    )
    figure = comparison_figure(
        _record(file, 0).mesh, drawn.truth, drawn.fields, note="truth of the reversed flow"
    )
    return Drawing(as_png(figure), caption, drawn.cells, drawn.absent)


def basis(results: Results) -> Drawing:
    """Learned basis functions of all components on a sample of ns2d-c++."""
    file = _test_file(results, "id")
    cell, path = _model(results, HARD, OURS[::-1])
    prediction, _ = _predicted(path, file, 1)
    made = prediction[0]
    figure = partitions_figure(
        made.mesh, made.rows, made.problem.component_names, made.problem.groups
    )
    caption = (
        f"NS2d-c++, sample 0 of {file}: which basis function dominates where, and the largest of "
        f"them, component by component. {_models(results, (cell,))}"
    )
    return Drawing(as_png(figure), caption, (cell,))


def airfoils(results: Results) -> Drawing:
    """Partitions beside the shocks of several airfoils."""
    file = results.place.campaign["main/naca/learned"].tests["id"]
    cell, path = _model(results, "naca", OURS[::-1])
    predictions, tested = _predicted(path, file, AIRFOILS)
    views = []
    for number, (made, record) in enumerate(zip(predictions, tested.records, strict=True)):
        column = made.problem.component_names.index("mach")
        caption = f"sample {number}, Mach number (truth)"
        views.append(
            ShockView(made.mesh, np.asarray(record.fields["mach"]), made.rows[:, column], caption)
        )
    figure = shocks_figure(views, *WINDOW)
    caption = (
        f"NACA, the first samples of {file}: Mach number, and the partition that dominates where; "
        f"the sonic line in red over both, its steep end the shock. {_models(results, (cell,))}"
    )
    return Drawing(as_png(figure), caption, (cell,))


@dataclass(frozen=True, eq=False)
class _Drawn:
    """Truth and predictions of one sample, the cells whose models made them, and rows without."""

    truth: dict[str, ndarray]
    fields: dict[str, dict[str, ndarray]]
    cells: tuple[str, ...]
    absent: tuple[str, ...]


def _predictions(results: Results, file: str, rescale: bool = False) -> _Drawn:
    """Fields of all compared rows, trained equally long, on the first sample of a file."""
    truth: dict[str, ndarray] = {}
    fields: dict[str, dict[str, ndarray]] = {}
    cells: list[str] = []
    trained = [_on_disk(results, group, HARD, COMPARED) for group in reversed(TRAINED)]
    compared = max(trained, key=len)
    for row, (cell, path) in compared.items():
        cells.append(cell)
        model, about = read_model(path)
        tested = read_test(file, about, limit=1, cache=Cache.default())
        sample = tested.samples[0]
        assert sample.target is not None
        truth = _by_name(about.problem, to_lab(sample, sample.target))
        kinds = {LABELS[row]: tested}
        if rescale and row == RESCALED:
            kinds[f"{LABELS[row]}, rescaled"] = rescaled(tested, about)
        for label, asked in kinds.items():
            made = predict_all(model, asked.samples)
            error = _error(about, asked, made)
            fields[f"{label} ({100 * error:.3g} %)"] = _by_name(about.problem, made[0].fields)
    if not fields:
        raise DataError(f"no model of {HARD} is on disk (looked for {' and '.join(COMPARED)})")
    absent = tuple(row for row in COMPARED if row not in compared)
    return _Drawn(truth, fields, tuple(cells), absent)


def _error(about: ModelFile, tested: TestSet, made: tuple) -> float:
    deviations = about.deviations * np.array(about.problem.references)
    return summarise(about.problem, deviations, tested, made).combined


def _by_name(problem: Problem, components: ndarray) -> dict[str, ndarray]:
    """Components -> fields: vectors whole, scalars flat."""
    result = {}
    for field in problem.fields:
        values = components[:, problem.columns(field.name)]
        result[field.name] = values if field.rank == "vector" else values[:, 0]
    return result


def _predicted(path: Path, file: str, count: int) -> tuple[list[Prediction], TestSet]:
    """Whole predictions of Geo-NeW on the first samples of a file."""
    model, about = read_model(path)
    if not isinstance(model, GeoNeW):
        raise DataError(f"{path.name} is no Geo-NeW: it has no basis")
    tested = read_test(file, about, limit=count, cache=Cache.default())
    return model.predict_samples(tested.samples), tested


# -- features and data -----------------------------------------------------------------------------


def features(results: Results) -> Drawing:
    """Heat kernel signature with its gradients, and harmonic coordinates, of one mesh."""
    file = results.place.campaign["main/ns2d-c/learned"].tests["id"]
    record, problem = _record(file, 0), _problem(file)
    made = featurise(record.mesh, problem, FeatureSpec(), record.boundary, Cache.default())
    figure = features_figure(made, select_columns(made.columns, FEATURES))
    caption = (
        f"NS2d-c, sample 0 of {file}: heat kernel signature at four of eight times, lengths of its "
        "gradient at three of them, and the harmonic coordinates."
    )
    return Drawing(as_png(figure), caption)


def eigenvectors(results: Results) -> Drawing:
    """Lowest eigenvectors of the Laplacian on one mesh."""
    file = results.place.campaign["main/ns2d-c/learned"].tests["id"]
    record, problem = _record(file, 0), _problem(file)
    made = featurise(record.mesh, problem, FeatureSpec(), record.boundary, Cache.default())
    operators = made.operators
    solver = SolverPool(operators.stiffness).fixing(operators.mesh.boundary_nodes)
    pairs = dirichlet_eigenpairs(solver, operators.mass, MODES)
    figure = fields_figure(
        operators.mesh,
        {f"λ = {pairs.values[k]:.3g}": pairs.vectors[:, k] for k in range(MODES)},
    )
    caption = (
        f"NS2d-c, sample 0 of {file}: eigenvectors of the Laplacian with zero on the boundary, of "
        "which the heat kernel signature is the invariant sum."
    )
    return Drawing(as_png(figure), caption)


def overview(results: Results) -> Drawing:
    """Two samples in distribution and two out of it, of every family that is on disk."""
    lines, absent, kinds = [], [], {"ID": "id", "OOD": "ood"}
    for family in FAMILIES:
        tests = results.place.campaign[f"main/{family}/learned"].tests
        try:
            records = [
                (name, record)
                for name, key in kinds.items()
                for record in _first(tests[key], EXAMPLES)
            ]
        except DataError:
            absent.append(family)
            continue
        field = _problem(tests["id"]).fields[0]
        lines.append(
            Samples(
                family,
                [record.mesh for _, record in records],
                [np.asarray(record.fields[field.name]) for _, record in records],
                [f"{name}: {field.name}" for name, _ in records],
                WINDOW if family == "naca" else None,
            )
        )
    if not lines:
        raise DataError(f"no data of suite {results.suite} are on disk")
    rest = f" Not on disk: {', '.join(absent)}." if absent else ""
    caption = (
        "The first two samples in distribution and out of it, families below each other; vectors "
        f"by their length, solids by their middle section. `geonew data build --suite "
        f"{results.suite}`.{rest}"
    )
    return Drawing(as_png(overview_figure(lines)), caption, absent=tuple(absent))


# -- where things are ------------------------------------------------------------------------------


def _test_file(results: Results, test: str) -> str:
    return results.place.campaign[f"main/{HARD}/learned"].tests[test]


def _on_disk(
    results: Results, group: str, family: str, rows: Sequence[str]
) -> dict[str, tuple[str, Path]]:
    """Row -> cell and model, of the rows with this budget whose model is on disk."""
    found: dict[str, tuple[str, Path]] = {}
    for row in rows:
        for name in runs_of(group, family, row):
            path = results.checkpoint(name) if name in results else None
            if path is not None:
                found.setdefault(row, (name, path))
    return found


def _model(results: Results, family: str, rows: Sequence[str]) -> tuple[str, Path]:
    """The model of the first of several rows that is on disk, trained as long as any of it."""
    for row in rows:
        for group in reversed(TRAINED):
            found = _on_disk(results, group, family, (row,))
            if found:
                return found[row]
    raise DataError(f"no model of {family} is on disk (looked for {' and '.join(rows)})")


def _models(results: Results, cells: Sequence[str]) -> str:
    return f"Models: {', '.join(cells)}. {results.provenance(cells)}"


def _record(file: str, number: int) -> Record:
    with DataSet(locate(file), check=False) as data:
        if len(data) <= number:
            raise DataError(f"{file} has {len(data)} samples")
        return data[number]


def _first(file: str, count: int) -> list[Record]:
    with DataSet(locate(file), check=False) as data:
        return [data[k] for k in range(min(count, len(data)))]


def _problem(file: str) -> Problem:
    with DataSet(locate(file), check=False) as data:
        return data.problem
