"""Accuracy and cost of the Euler solver behind the family ``naca``.

    python benchmarks/naca.py --json results/benchmarks/naca.json docs/data/naca.json \\
        [--samples 6] [--grids 1 2 4]

One thread, seconds of processor time. NACA 0012 at Mach 0.8 and 1.25 degrees over the given grids
(multiples of 110 x 25 cells): lift, drag, shocks, residual, seconds. Then samples of the splits
train and ood: seconds on the grid of the truth, and the difference of Mach number at the stored
nodes from the twice finer grid. Keys: ``naca0012`` by grid, ``seconds``, ``mach_error_percent`` and
``farfield_defect`` by split, ``failures``, and the budgets they are held against.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"  # before numpy is imported

import argparse
import json
from pathlib import Path
from time import process_time

import numpy as np

from geonew.data.euler import Airfoil, c_grid
from geonew.data.euler.measures import forces, shocks, sonic_ends
from geonew.data.euler.solver import FreeStream, solve_euler
from geonew.data.families.naca import NacaEuler, nested
from geonew.errors import SolverError

BUDGETS = {"seconds": 16.0, "mach_error_percent": 1.0, "lift": (0.3395, 0.3708)}
SPLITS = ("train", "ood")


def published_case(refinement: int) -> dict[str, float | None]:
    solution = solve_euler(nested(c_grid(Airfoil.naca0012(), refinement)), FreeStream(0.8, 1.25))
    force, (lower, upper) = forces(solution), shocks(solution)
    ends = sonic_ends(solution)
    return {
        "lift": force.lift, "drag": force.drag, "lower_shock": lower, "upper_shock": upper,
        "lower_sonic_end": ends[0], "upper_sonic_end": ends[1],
        "residual": solution.fall, "newton_steps": solution.steps, "seconds": solution.seconds,
    }  # fmt: skip


def samples(split, count: int) -> dict[str, object]:
    family, generator = NacaEuler(), np.random.default_rng(0)
    seconds, errors, defects, failures = [], [], [], 0
    for _ in range(count):
        case = family.draw(split, generator)
        start = process_time()
        try:
            record = family.solve(case, "coarse")
            seconds.append(process_time() - start)
            finer = family.solve(case, "coarse", truth=4)
        except SolverError:
            failures += 1
            continue
        gap = np.linalg.norm(record.fields["mach"] - finer.fields["mach"])
        errors.append(100 * gap / np.linalg.norm(finer.fields["mach"]))
        defects.append(record.info["farfield_defect"])
    return {
        "seconds": {"mean": np.mean(seconds), "max": max(seconds)},
        "mach_error_percent": {"mean": np.mean(errors), "max": max(errors)},
        "farfield_defect": max(defects),
        "failures": failures,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="accuracy and cost of the family naca")
    parser.add_argument("--json", type=Path, nargs="+", default=[Path("out/naca.json")])
    parser.add_argument("--samples", type=int, default=6)
    parser.add_argument("--grids", type=int, nargs="+", default=[1, 2, 4])
    options = parser.parse_args()
    published_case(1)  # compiles
    report = {
        "family": "naca",
        "naca0012": {f"{110 * k}x{25 * k}": published_case(k) for k in options.grids},
        **{split: samples(split, options.samples) for split in SPLITS},
        "budgets": BUDGETS,
    }
    for path in options.json:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
