"""From a finished run to a model that comes with the package: calibrated, measured, with its card.

    geonew train configs/shipped/NAME.yaml
    python tools/ship.py NAME
    python tools/ship.py --table     # the table of all of them, for the README

Takes the weights with the least validation error, calibrates them on the calibration split,
measures them on the test splits, which nothing before has seen, and writes

    src/geonew/weights/NAME.safetensors, NAME.md    the model and its card
    results/shipped/NAME.json                       every figure on the card, and more
    tests/weights/samples/NAME-SPLIT.h5             20 samples, which the tests measure again
"""

from __future__ import annotations

import argparse
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

from geonew.cache import Cache, default_folder
from geonew.calibrate.calibration import Calibration
from geonew.calibrate.coverage import Coverage, measure_coverage
from geonew.calibrate.fitting import calibrate
from geonew.data.families import family
from geonew.data.generate import generate
from geonew.data.request import Request
from geonew.data.store import DataSet
from geonew.data.writer import Writer
from geonew.evaluate.report import Report, evaluate
from geonew.evaluate.tables import percent
from geonew.evaluate.testset import read_test
from geonew.train.checkpoint import ModelFile, read_model
from geonew.train.metrics import COMBINED

ROOT = Path(__file__).resolve().parents[1]
WEIGHTS, SAMPLES = ROOT / "src/geonew/weights", ROOT / "tests/weights/samples"
COMMITTED = 20  # samples of a split that the tests measure again
PER_VALUE, SWEEP_SEED = 8, 2024  # new geometries at each value of an axis
STEADY_FLOW = (
    "unsteady, turbulent or three-dimensional flow; the solution is the steady laminar one",
    "outlets that are not straight, several inlets, moving walls",
)


@dataclass(frozen=True)
class About:
    """What a card says in words.

    Args:
        title: the problem in a line.
        equation: what is solved, and for what.
        refused: what the model must not be used for.
        tests: data files of the test splits, by name, under GEONEW_HOME/data.
        sweeps: axes along which a distribution is left, with values from within it outwards.
        committed: the splits of which samples are kept with the tests.

    """

    title: str
    equation: str
    refused: tuple[str, ...]
    tests: dict[str, str]
    sweeps: dict[str, tuple[float, ...]]
    committed: tuple[str, ...] = ("id",)


def standard(name: str) -> dict[str, str]:
    """The test splits that every family has."""
    return {"id": f"cpu/{name}/test.h5", "ood": f"cpu/{name}/ood.h5"}


MODELS = {
    "poly-poisson": About(
        "Poisson's equation on a disc with a polygonal cut-out",
        "−Δu = f with f = 1, u = 1 on the cut-out, u = 0 on the circle; dimensionless.",
        (
            "other outer shapes than a disc, several cut-outs",
            "coefficients that vary; sources and boundary values far from 1",
        ),
        standard("poly-poisson"),
        {"sides": (3, 4, 6, 9, 12)},
    ),
    "ns2d-c++": About(
        "Air flow past obstacles in a channel",
        "Steady incompressible Navier-Stokes, Re = 6.7 by height and peak of the inlet profile; in "
        "metres, metres per second and pascals.",
        (*STEADY_FLOW, "other Reynolds numbers (`ns2d-re` has them as a parameter)"),
        standard("ns2d-c++") | {"ood_L1": "bench/ns2d-c++/ood-l1.h5"},
        {
            "obstacles": (1, 2, 3, 4, 5, 6),
            "squares": (0, 0.5, 1),
            "length": (1, 2, 3, 4, 5),
            "angle": (0, 10, 20, 30),
        },
        ("id", "ood_L1"),
    ),
    "ns2d-re": About(
        "Channel flow past obstacles at Reynolds number 1 to 100",
        "Steady incompressible Navier-Stokes, dimensionless (height 1, mean inflow 2/3, pressure "
        "in units of μU/H); `reynolds` is a parameter, the inlet profile is data.",
        (*STEADY_FLOW, "Reynolds numbers above 100, where such flows need not be steady"),
        standard("ns2d-re"),
        {"reynolds": (10, 50, 100, 150, 200), "skew": (0, 0.25, 0.5, 0.7, 0.9)},
    ),
    "elasticity": About(
        "A clamped cell with a cavity under tension",
        "Linear isotropic elasticity in plane strain, E = 1, ν = 0.3, traction (0, 1) on top; both "
        "scale: displacement is proportional to load over E. Von Mises stress is derived from it.",
        (
            "large strains, plasticity, contact, plane stress",
            "peaks of stress: the stress is that of a smooth displacement on the mesh given",
            "other Poisson ratios, loads on other sides",
        ),
        standard("elasticity"),
        {"roughness": (0.3, 0.9, 1.5, 2, 2.5)},
    ),
    "pipe": About(
        "Flow through a bent pipe",
        "Steady incompressible Navier-Stokes, Re = 50 by width and peak of the inlet profile; "
        "dimensionless, length 10.",
        (*STEADY_FLOW, "branching pipes, other Reynolds numbers, other lengths"),
        standard("pipe"),
        {"amplitude": (0.5, 0.75, 1, 1.25, 1.5)},
    ),
    "duct-stokes": About(
        "Creeping flow in a duct past a body, in space",
        "Stokes flow, dimensionless (height 1, pressure in units of μU/H), duct 2 x 1 x 1.",
        (
            "flow with inertia: the equation has none",
            "several bodies, other ducts, open boundaries",
        ),
        standard("duct-stokes"),
        {"cube": (0, 1)},
    ),
}


def ship(name: str, run: Path) -> None:
    """Everything from the run's folder to the card."""
    about, model = MODELS[name], WEIGHTS / f"{name}.safetensors"
    shutil.copy(run / "best.safetensors", model)
    calibrate(model, _data(name, "calibration"))
    report = evaluate([model], list(about.tests.values()), runtime=False)
    covered = {key: measure_coverage(model, file) for key, file in about.tests.items()}
    score = auroc(covered["id"], covered["ood"])
    sweeps = {axis: along(name, model, axis, values) for axis, values in about.sweeps.items()}
    figures = {
        "name": name,
        "recipe": f"configs/shipped/{name}.yaml",
        "evaluation": report.to_plain(each=False),
        "coverage": {key: one.to_plain() for key, one in covered.items()},
        "auroc": score,
        "along": sweeps,
        "training": _training(run),
    }
    target = ROOT / "results/shipped" / f"{name}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    text = card(name, about, report, covered, figures, model.stat().st_size)
    (WEIGHTS / f"{name}.md").write_text(text, encoding="utf-8")
    for split in about.committed:
        keep(_home(about.tests[split]), SAMPLES / f"{name}-{split}.h5")
    print(text)


def auroc(inside: Coverage, outside: Coverage) -> float:
    """Chance that a sample out of distribution is farther away than one in it."""
    a, b = np.array(inside.distances)[:, None], np.array(outside.distances)[None]
    return float(np.mean((b > a) + 0.5 * (b == a)))


def along(name: str, model: Path, axis: str, values: tuple[float, ...]) -> list[dict[str, Any]]:
    """Distance from the training data and width of the bands at values of an axis."""
    file = _home(f"shipped/{name}/{axis}.h5")
    file.parent.mkdir(parents=True, exist_ok=True)
    request = Request(name, "test", PER_VALUE * len(values), SWEEP_SEED, axis=(axis, values))
    generate(family(name), request, file)
    about = read_model(model)[1]
    calibration = Calibration.from_file(about)
    tested = read_test(file, about, cache=Cache.default())
    found = []
    for k, value in enumerate(values):
        chosen = tested.samples[k :: len(values)]  # the axis takes its values in turn
        widths = {
            f.name: [np.average(calibration.bands(s)[f.name], weights=s.mass) for s in chosen]
            for f in about.problem.fields
        }
        found.append(
            {
                "value": float(value),
                "distance": float(np.median([calibration.familiarity(s).distance for s in chosen])),
                "width": {
                    n: float(np.median(w) / calibration.deviations[about.problem.offset(n)])
                    for n, w in widths.items()
                },
            }
        )
    return found


def keep(source: Path, target: Path) -> None:
    """Copy the first samples of a file."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    with DataSet(source) as found, Writer(target, found.header) as writer:
        for k in range(min(COMMITTED, len(found))):
            writer.append(found.columns(k))
        writer.commit()


# -- the card --------------------------------------------------------------------------------------


def card(
    name: str,
    about: About,
    report: Report,
    covered: dict[str, Coverage],
    figures: dict[str, Any],
    size: int,
) -> str:
    """The card as Markdown."""
    training = figures["training"]
    rows = dict(zip(about.tests, report.rows, strict=True))
    file = report.rows[0].about
    lines = [f"# {name}: {about.title}", "", about.equation, ""]
    lines += [*_facts(file, report.rows[0].parameters, size), "", "## Training", ""]
    lines += [
        f"`geonew train configs/shipped/{name}.yaml`, seed {file.run['seed']}: "
        f"{training['steps']:,} steps in {training['cpu_minutes']:.0f} minutes of one core, on "
        f"{training['samples']:,} samples of {training['nodes']} nodes each "
        f"(`geonew data build --suite cpu --families {name}`; SHA-256 of the training data "
        f"`{file.data_hash[:16]}…`). The weights with the least error on the validation split "
        f"({percent(training['validation'])} %) were taken. What the data cover: "
        f"[{name}](data/{_page(name)}).",
        "",
        "## Accuracy",
        "",
        "Relative L2 error in %, mean over samples of the test splits, which chose nothing; `ood` "
        "is out of distribution" + (", `ood_L1` too, at length 1." if "ood_L1" in rows else "."),
        "",
    ]
    names = report.rows[0].evaluation.errors.names
    lines += _table(
        ("data", "samples", *names, "worst sample"),
        [
            (
                key,
                str(row.evaluation.samples),
                *(percent(row.evaluation.column(n).mean) for n in names),
                percent(row.evaluation.column(COMBINED).worst),
            )
            for key, row in rows.items()
        ],
    )
    for key in ("id", "ood"):
        for axis, places in rows[key].evaluation.by_axis().items():
            found = [
                (place, str(f[COMBINED]["relative"]["count"]), _mean(f))
                for place, f in places.items()
            ]
            lines += ["", f"Combined error by {axis}, {key}:", ""]
            lines += _table((axis, "samples", "error in %"), found)
    lines += ["", "## Certificates", ""]
    lines += _certificates({key: row.evaluation.certificate_summary() for key, row in rows.items()})
    lines += ["", "## Error bands and familiarity", ""]
    fields = list(covered["id"].share)
    lines += [
        "Bands at 90 %, calibrated on the calibration split: the part of the domain inside them, "
        "their mean width over the field's deviation, and the part of the samples that are called "
        "unfamiliar.",
        "",
    ]
    lines += _table(
        ("data", *(f"{n} inside" for n in fields), *(f"{n} width" for n in fields), "unfamiliar"),
        [
            (
                key,
                *(f"{100 * one.share[n]:.1f} %" for n in fields),
                *(f"{one.width[n]:.3g}" for n in fields),
                f"{100 * one.outside:.0f} %",
            )
            for key, one in covered.items()
        ],
    )
    lines += [
        "",
        "The distance from the training data tells in and out of distribution apart with an AUROC "
        f"of {figures['auroc']:.3f}. Distance and width as a distribution is left along one axis "
        f"(medians over {PER_VALUE} new geometries; a distance of 1 is the edge of training):",
        "",
    ]
    for axis, places in figures["along"].items():
        widths = [[f"{w:.3g}" for w in p["width"].values()] for p in places]
        lines += _table(
            (axis, "distance", *(f"{n} width" for n in fields)),
            [
                (f"{p['value']:g}", f"{p['distance']:.2f}", *w)
                for p, w in zip(places, widths, strict=True)
            ],
        )
        lines.append("")
    lines += [
        "## Not to be used for",
        "",
        *(f"- {what};" for what in about.refused),
        "- anything that safety depends on, without a check by a solver "
        "(`geonew predict --compare` runs one).",
        "",
        f"All figures: `results/shipped/{name}.json`, made by `python tools/ship.py {name}`.",
    ]
    return "\n".join(lines) + "\n"


def table() -> str:
    """All shipped models, a line each, from their figures."""
    lines = []
    for name in sorted(path.stem for path in WEIGHTS.glob("*.safetensors")):
        found = json.loads((ROOT / "results/shipped" / f"{name}.json").read_text("utf-8"))
        errors = {
            key: percent(result["error"][COMBINED]["relative"]["mean"])
            for key, result in zip(MODELS[name].tests, found["evaluation"]["results"], strict=True)
        }
        short = f" ({errors['ood_L1']} % at length 1)" if "ood_L1" in errors else ""
        inside, outside = f"{errors['id']} %", f"{errors['ood']} %{short}"
        minutes = f"{found['training']['cpu_minutes']:.0f}"
        lines.append((f"`{name}`", MODELS[name].title, inside, outside, minutes))
    head = ("model", "predicts", "error", "out of distribution", "CPU minutes")
    return "\n".join(_table(head, lines))


def _facts(file: ModelFile, parameters: int, size: int) -> list[str]:
    problem, settings = file.problem, file.choice.to_plain()
    prescribed = [f"{d.field}{_axes(d.axes)} on `{d.group}`" for d in problem.dirichlet]
    prescribed += [f"flux of {n.field} on `{n.group}`" for n in problem.neumann]
    learned = [f"the space: {settings['partitions']} functions per component"]
    learned += ["the factors of the symmetric terms"] if settings["tuned"] else []
    learned += [] if settings["law"] == "none" else [f"a flux law ({settings['law']})"]
    rows = [
        ("fields", ", ".join(f"{f.name} ({f.rank})" for f in problem.fields)),
        ("boundary groups", ", ".join(f"`{g}`" for g in problem.groups)),
        ("prescribed", "; ".join(prescribed)),
        ("parameters", ", ".join(f"`{p.name}`" for p in problem.parameters) or "none"),
        ("sources", ", ".join(problem.sources) or "none"),
        ("known", ", ".join(dict.fromkeys(t.form for t in problem.terms))),
        ("learned", "; ".join(learned)),
        ("size", f"{parameters:,} parameters, {size / 1e6:.1f} MB"),
    ]
    return _table(("", ""), rows)


def _axes(axes: tuple[int, ...] | None) -> str:
    return "" if axes is None else " along axis " + ", ".join(str(a + 1) for a in axes)


def _certificates(found: dict[str, dict[str, Any] | None]) -> list[str]:
    rows = []
    for key, c in found.items():
        assert c is not None
        rows.append(
            (
                key,
                f"{100 * c['converged']:.0f} %",
                f"{c['newton_steps']['mean']:.1f} ({c['newton_steps']['most']})",
                f"{100 * c['unique']:.0f} %",
                f"{100 * c['local']:.0f} %",
                f"{c['margin']['least']:.2g}",
                f"{c['worst_balance_defect']:.1g}",
                f"{c['worst_boundary_defect']:.2g}",
            )
        )
    head = (
        "data", "solved", "Newton steps (most)", "unique", "locally unique", "least margin",
        "worst balance defect", "worst boundary defect in ulp",
    )  # fmt: skip
    return _table(head, rows)


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return lines + [f"| {' | '.join(row)} |" for row in rows]


def _mean(found: dict[str, Any]) -> str:
    value = found[COMBINED]["relative"]["mean"]
    return "-" if value is None else percent(value)


# -- what the run left -----------------------------------------------------------------------------


def _training(run: Path) -> dict[str, Any]:
    events = [json.loads(line) for line in (run / "log.jsonl").read_text("utf-8").splitlines()]
    end = [e for e in events if e["event"] == "end"][-1]
    best = [e for e in events if e["event"] == "validation" and e["best"]][-1]
    config = yaml.safe_load((ROOT / "configs/shipped" / f"{run.name}.yaml").read_text("utf-8"))
    with DataSet(_home(config["data"]["train"])) as data:
        nodes = [len(data.columns(k)["points"]) for k in range(0, len(data), 50)]
        samples = len(data)
    return {
        "steps": end["step"],
        "cpu_minutes": end["cpu_seconds"] / 60,
        "validation": best["error"],
        "best_step": best["step"],
        "samples": samples,
        "nodes": f"{min(nodes)} to {max(nodes)}" if min(nodes) < max(nodes) else str(nodes[0]),
    }


def _data(name: str, split: str) -> str:
    return f"cpu/{name}/{split}.h5"


def _home(file: str) -> Path:
    return default_folder() / "data" / file


def _page(name: str) -> str:
    return f"{name.replace('++', 'pp')}.md"


def main() -> None:
    """Ship one model, or several."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MODELS))
    parser.add_argument("--table", action="store_true", help="print the table of shipped models")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs/shipped")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in options.names:
        if name not in MODELS:
            parser.error(f"there is no model {name!r}; there are {', '.join(MODELS)}")
        ship(name, options.runs / name)
    if options.table:
        print(table())


if __name__ == "__main__":
    main()
