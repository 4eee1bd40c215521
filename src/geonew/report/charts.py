"""Charts drawn from the results alone, and the numbers in them.

Error against the angle of the step; improvement over the axes of the distribution; error and
training time against partitions and depth; Newton steps over training; other meshes; few samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from geonew.bench.campaign import FAMILIES, FINETUNED, HARD
from geonew.bench.rows import LEADING, OURS, ROWS
from geonew.plot.charts import Chart, Curve, charts_figure, heat_maps_figure
from geonew.plot.encode import as_svg
from geonew.report.cost import TIMED, by_depth, by_partitions, epoch_seconds
from geonew.report.picture import Picture
from geonew.report.results import LABELS, Results
from geonew.report.transfer import KINDS, TUNED
from geonew.train.metrics import COMBINED

OPPONENT = "transolver"


def charts(results: Results) -> Iterator[Picture]:
    """All charts for which there are results."""
    made: list[Picture | None] = [
        angle_chart(results),
        *(heat_map(results, row) for row in OURS),
        size_chart(results),
        time_chart(results),
        newton_chart(results),
        validation_chart(results),
        refinement_chart(results),
        finetuning_chart(results),
    ]
    yield from (picture for picture in made if picture is not None)


def angle_chart(results: Results) -> Picture | None:
    """Error against the angle of the step, with the tenth and ninetieth percentile."""
    names = {row: f"sweep/{row}" for row in LEADING if f"sweep/{row}" in results}
    curves = []
    for row, name in names.items():
        table = results[name].get("by_axis", {}).get("angles", {}).get("angle", {})
        figures = [(float(k), v[COMBINED]["relative"]) for k, v in table.items()]
        known = [(x, f) for x, f in figures if f["mean"] is not None]
        if known:
            x, found = zip(*known, strict=True)
            mean, low, high = (_percent([f[key] for f in found]) for key in ("mean", "low", "high"))
            curves.append(_curve(row, x, mean, low, high))
    if not curves:
        return None
    ticks = sorted({x for c in curves for x in c.x})
    made = Chart(curves, "angle of the step in degrees", "relative L2 error in %", ticks=ticks)
    caption = (
        "NS2d-c++, channels in distribution but for the step; mean over samples, bands from the "
        f"10th to the 90th percentile. {results.provenance(list(names.values()), 'angles')}"
    )
    return _chart("angle", "Error against the angle of the step", caption, [made])


def heat_map(results: Results, row: str) -> Picture | None:
    """Improvement over Transolver at every place (length, obstacles, angle)."""
    names = [f"sweep/{row}", f"sweep/{OPPONENT}"]
    if any(name not in results or "places" not in results[name] for name in names):
        return None
    ours, theirs = (
        {(p["length"], p["obstacles"], p["angle"]): p["error"] for p in results[name]["places"]}
        for name in names
    )
    lengths, counts, angles = (sorted({place[k] for place in ours}) for k in range(3))
    maps: dict[str, np.ndarray] = {}
    numbers = []
    for angle in angles:
        values = np.full((len(counts), len(lengths)), np.nan)
        for (r, count), (c, length) in _grid(counts, lengths):
            place = (length, count, angle)
            if ours.get(place) is not None and theirs.get(place):
                values[r, c] = 100 * (1 - ours[place] / theirs[place])
                numbers.append({"place": list(place), "improvement": float(values[r, c])})
        maps[f"step of {angle:g}°"] = values
    if not numbers:
        return None
    figure = heat_maps_figure(
        maps, [f"{n:g}" for n in counts], [f"{x:g}" for x in lengths], "obstacles", "length L",
        "error saved, % of Transolver's",
    )  # fmt: skip
    caption = (
        f"{LABELS[row]} against Transolver on NS2d-c++ with circles: error saved at every length, "
        "number of obstacles and angle of the step, in % of Transolver's error; negative where it "
        f"is larger. In distribution: L = 1, up to 3 obstacles, no step. "
        f"{results.provenance(names, 'heat_map')}"
    )
    title = f"Improvement over Transolver, {LABELS[row]}"
    key = f"heat-map-{_plain_name(row)}"
    return Picture(key, title, caption, as_svg(figure), "svg", {"places": numbers})


def size_chart(results: Results) -> Picture | None:
    """Error against partitions and depth."""
    partitions = _against(
        results, {"known+learned": by_partitions(results)}, lambda n: _error(results, n)
    )
    depth = _against(results, {row: by_depth(row) for row in TIMED}, lambda n: _error(results, n))
    caption = f"NS2d-c++, test error. {results.provenance(_used(results))}"
    return _two("sizes", "Error against partitions and depth", caption, partitions, depth,
                "relative L2 error in %")  # fmt: skip


def time_chart(results: Results) -> Picture | None:
    """Training time against partitions and depth."""

    def seconds(name: str) -> float | None:
        return epoch_seconds(results[name])

    partitions = _against(results, {"known+learned": by_partitions(results)}, seconds)
    depth = _against(results, {row: by_depth(row) for row in TIMED}, seconds)
    caption = f"NS2d-c++, processor time of one core. {results.provenance(_used(results))}"
    return _two("times", "Training time against partitions and depth", caption, partitions, depth,
                "seconds per epoch")  # fmt: skip


def newton_chart(results: Results) -> Picture | None:
    """Newton steps per sample over the course of training, family by family."""
    panels, used = [], []
    for row in OURS:
        curves = []
        for number, family in enumerate(FAMILIES):
            name = f"main/{family}/{row}"
            found = results[name].get("history", {}).get("training") if name in results else None
            if found and found["step"]:
                steps = [float("nan") if n is None else n for n in found["newton_steps"]]
                curves.append(Curve(family, found["step"], steps, colour=number))
                used.append(name)
        if curves:
            panels.append(
                Chart(curves, "training step", "Newton steps per solve", LABELS[row], marks=False)
            )
    if not panels:
        return None
    caption = f"Mean over the samples of a batch. {results.provenance(used)}"
    return _chart("newton", "Newton steps over training", caption, panels)


def validation_chart(results: Results) -> Picture | None:
    """Validation error over the budget, for the longest trainings there are."""
    for group in ("longest/{}/{}", "long/{}/{}/0", "main/{}/{}"):
        names = {row: group.format(HARD, row) for row in ROWS}
        there = {row: n for row, n in names.items() if n in results}
        curves = []
        for row, name in there.items():
            document = results[name]
            found = document.get("history", {}).get("validation", {})
            if len(found.get("step", [])) > 1:
                pace = document["cpu_seconds"] / max(document["steps"], 1) / 60
                x = [float(step) * pace for step in found["step"]]
                curves.append(_curve(row, x, _percent(found["error"])))
        if curves:
            made = Chart(curves, "CPU minutes", "validation error in %", marks=False)
            caption = f"NS2d-c++. {results.provenance(list(there.values()))}"
            return _chart("validation", "Validation error over training", caption, [made])
    return None


def refinement_chart(results: Results) -> Picture | None:
    """Error on coarse, medium and fine meshes, and of transfers from coarse ones."""
    names = {row: f"refine/{row}" for row in LEADING if f"refine/{row}" in results}
    curves = []
    for row, name in names.items():
        table = results[name]["refinement"]
        direct = [level for level in table if " to " not in level]
        moved = [direct[0], *(level for level in table if " to " in level)] if direct else []
        for levels, dashed in ((direct, False), (moved, True)):
            points = [(t["nodes"], t["error"][COMBINED]["relative"]["mean"])
                      for t in (table[level] for level in levels)]  # fmt: skip
            points = [(x, y) for x, y in points if y is not None]
            if len(points) > 1:
                x, y = zip(*points, strict=True)
                label = LABELS[row] + (", encoded coarse" if dashed else "")
                curves.append(_curve(row, x, _percent(y), label=label, dashed=dashed))
    if not curves:
        return None
    made = Chart(curves, "nodes (mean over shapes)", "relative L2 error in %")
    caption = (
        "NS2d-c++, the same shapes on coarse, medium and fine meshes; dashed: encoded and solved "
        f"on the coarse mesh. {results.provenance(list(names.values()))}"
    )
    return _chart(
        "refinement", "Trained on coarse meshes, evaluated on finer ones", caption, [made]
    )


def finetuning_chart(results: Results) -> Picture | None:
    """Error against the number of samples, from scratch and from another family's model."""
    curves, used = [], []
    for row in TUNED:
        for kind, words in KINDS.items():
            names = {n: f"finetune/{kind}/{row}/{n}" for n in FINETUNED}
            points = [(n, results.entry([name], "id").value) for n, name in names.items()]
            points = [(n, value) for n, value in points if value is not None]
            if points:
                x, y = zip(*points, strict=True)
                label = f"{LABELS[row]}, {words}"
                curves.append(_curve(row, x, _percent(y), label=label, dashed=kind == "scratch"))
                used += list(names.values())
    if not curves:
        return None
    made = Chart(curves, "training samples", "relative L2 error in %", ticks=FINETUNED)
    caption = f"NS2d-c, test error. {results.provenance(used)}"
    return _chart("finetuning", "Fine-tuning on few samples", caption, [made])


# -- common ----------------------------------------------------------------------------------------


def _curve(
    row: str,
    x: Sequence[float | int],
    y: Sequence[float | int],
    low: Sequence[float | int] = (),
    high: Sequence[float | int] = (),
    label: str = "",
    dashed: bool = False,
) -> Curve:
    """A model's curve, in the colour it has in all charts."""
    return Curve(
        label or LABELS[row], x, y, low, high, ROWS.index(row), strong=row in OURS, dashed=dashed
    )


def _chart(key: str, title: str, caption: str, panels: Sequence[Chart]) -> Picture:
    numbers = {"panels": [{"x": p.x, "y": p.y, "title": p.title,
                           "curves": [asdict(c) for c in p.curves]} for p in panels]}  # fmt: skip
    return Picture(key, title, caption, as_svg(charts_figure(panels)), "svg", numbers)


def _two(
    key: str,
    title: str,
    caption: str,
    partitions: Sequence[Curve],
    depth: Sequence[Curve],
    y: str,
) -> Picture | None:
    panels = [
        Chart(curves, x, y, ticks=sorted({v for c in curves for v in c.x}))
        for curves, x in ((partitions, "partitions P"), (depth, "depth of the encoder N"))
        if curves
    ]
    return _chart(key, title, caption, panels) if panels else None


def _against(
    results: Results,
    cells: Mapping[str, Mapping[int, str]],
    value: Callable[[str], float | None],
) -> list[Curve]:
    """One curve per row over the sizes whose cells have been run; at least two of them."""
    curves = []
    for row, names in cells.items():
        points = [(float(size), value(n)) for size, n in names.items() if n in results]
        points = [(size, v) for size, v in points if v is not None]
        if len(points) > 1:
            x, y = zip(*points, strict=True)
            curves.append(_curve(row, x, y))
    return curves


def _used(results: Results) -> list[str]:
    cells = [*by_partitions(results).values(), *(n for r in TIMED for n in by_depth(r).values())]
    return list(dict.fromkeys(cells))


def _error(results: Results, name: str) -> float | None:
    value = results.entry([name], "id").value
    return None if value is None else 100 * value


def _percent(values: Sequence[float | None]) -> list[float]:
    return [float("nan") if v is None else 100 * v for v in values]


def _grid(rows: Sequence[Any], columns: Sequence[Any]) -> Iterator[tuple[tuple, tuple]]:
    for row in enumerate(rows):
        for column in enumerate(columns):
            yield row, column


def _plain_name(row: str) -> str:
    return row.replace("+", "-")
