"""``geonew bench``: the benchmark campaign, resumable at any moment.

``geonew bench --list`` shows what is done and open, ``--dry-run`` what would be computed next with
which settings, ``--only PATTERN`` restricts it. Results are JSON files, one per cell; checkpoints
and logs lie under ``GEONEW_HOME/runs/bench``. Ctrl-C loses nothing: the same command goes on. A
result that cannot be read is named with the cure; the other cells are computed all the same.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from geonew.cli.options import add_repeatable

if TYPE_CHECKING:
    from geonew.bench.cell import Cell
    from geonew.bench.place import Place

INTERRUPTED = 130


def register(subparsers: argparse._SubParsersAction) -> None:
    """Add ``bench``."""
    command = subparsers.add_parser("bench", help="compare all models on all families")
    command.add_argument(
        "--suite",
        default="cpu",
        help="which campaign (%(default)s); smoke is the same in seconds, on a few samples",
    )
    add_repeatable(
        command, "--only", "PATTERN", "cells whose name has or matches this, e.g. main/ns2d-c++"
    )
    command.add_argument("--list", action="store_true", dest="listing", help="done and open cells")
    command.add_argument("--dry-run", action="store_true", help="show the commands, run nothing")
    command.add_argument("--workers", type=int, default=2, help="cells at a time (%(default)s)")
    command.add_argument("--results", type=Path, help="folder of the results (results/SUITE)")
    command.add_argument("--configs", type=Path, help="base configurations (configs/cpu)")
    command.add_argument("--cell", help=argparse.SUPPRESS)  # one cell, in this process
    command.set_defaults(run=_bench, loads=("torch",))


def _bench(arguments: argparse.Namespace) -> int:
    from geonew.bench.campaign import CONFIGS, campaign
    from geonew.bench.cell import matching
    from geonew.bench.place import Place

    whole = campaign(arguments.suite)
    place = Place(
        whole,
        arguments.results or Path("results") / arguments.suite,
        arguments.configs or Path("configs") / CONFIGS,
    )
    if arguments.cell:
        return _one(place, whole[arguments.cell])
    cells = matching(whole.cells, arguments.only)
    if arguments.listing:
        return _list(place, cells)
    if arguments.dry_run:
        return _dry_run(place, cells)
    return _run(place, cells, arguments.workers)


def _one(place: Place, cell: Cell) -> int:
    from geonew.bench.runner import BUSY, only_one
    from geonew.bench.work import run_cell

    with only_one(place.run(cell)) as alone:
        return run_cell(place, cell) if alone else BUSY


def _list(place: Place, cells: list[Cell]) -> int:
    from geonew.bench.place import AGAIN
    from geonew.bench.work import result_line

    minutes = {"done": 0.0, "to do": 0.0}
    count = dict.fromkeys(minutes, 0)
    width = max(len(cell.name) for cell in cells)
    for cell in cells:
        state, remark = place.state(cell), ""
        if state == "done" and cell.task != "make":
            remark = result_line(place.read(cell))
        elif state == "damaged":
            remark = f"{place.damage(cell)}; {AGAIN}"
        elif state == "waiting":
            first, *rest = place.waits_for(cell)
            remark = f"for {first}" + (f" and {len(rest)} more" if rest else "")
        print(f"{cell.name:<{width}}  {cell.cpu_minutes:>3g} min  {state:<8}  {remark}".rstrip())
        if state != "left out":
            key = "done" if state == "done" else "to do"
            minutes[key], count[key] = minutes[key] + cell.cpu_minutes, count[key] + 1
    print(
        f"{count['done']} cells done ({minutes['done']:g} CPU minutes of training), "
        f"{count['to do']} to do ({minutes['to do']:g})"
    )
    return 0


def _dry_run(place: Place, cells: list[Cell]) -> int:
    from geonew.bench.work import again_command, configuration, evaluate_command, train_command

    for cell in cells:
        state = place.state(cell)
        print(f"{cell.name}: {state}")
        if state not in ("open", "begun"):
            continue
        if cell.task == "train":
            _, settings = configuration(place, cell)
            print(f"    {train_command(place, cell, settings)}")
            if cell.tests:
                print(f"    {evaluate_command(place, cell, cell.tests)}")
        elif cell.task != "make":
            print(f"    {again_command(place, cell)}")
    return 0


def _run(place: Place, cells: list[Cell], workers: int) -> int:
    from geonew.bench.place import AGAIN
    from geonew.bench.runner import run_cells
    from geonew.bench.work import result_line

    def tell(event: str, cell: Cell, text: str) -> None:
        if event == "done" and cell.task != "make":
            text = f"{text}: {result_line(place.read(cell))}"
        print(f"{event:<8} {cell.name}  {text}".rstrip(), flush=True)

    summary = run_cells(place, cells, workers, tell)
    waiting = [cell for cell in cells if place.state(cell) == "waiting"]
    data = sorted({m.split(" ")[0] for cell in waiting for m in place.missing_data(cell)})
    damaged = [cell for cell in cells if place.state(cell) == "damaged"]
    print(f"{len(summary.done)} cells finished, {len(summary.failed)} failed")
    for cell in damaged:
        print(f"damaged  {cell.name}  {place.damage(cell)}; {AGAIN}")
    if data and not summary.interrupted:
        print(
            f"{len(waiting)} cells wait; data are missing of {', '.join(data)}: "
            f"geonew data build --suite {place.campaign.suite} --families {' '.join(data)}"
        )
    if summary.interrupted:
        print("interrupted; the same command goes on")
        return INTERRUPTED
    return 1 if summary.failed or damaged else 0
