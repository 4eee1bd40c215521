"""``geonew evaluate MODEL... --data FILE...``: errors, boundary, balances, certificates, cost.

Any model that ``geonew train`` wrote, ours or a baseline; several seeds of one are summarised.
``--where length=1`` adds figures for the samples at a place on an axis of the distribution. Samples
with numbers that are not finite are left out and named.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from geonew.cli.options import add_repeatable
from geonew.errors import ConfigError


def register(subparsers: argparse._SubParsersAction) -> None:
    """Add ``evaluate``."""
    command = subparsers.add_parser("evaluate", help="errors and guarantees of trained models")
    command.add_argument("models", nargs="+", type=Path, metavar="MODEL", help="checkpoints")
    command.add_argument(
        "--data",
        nargs="+",
        required=True,
        metavar="FILE",
        help="data files; a name that is no path is looked up under GEONEW_HOME/data",
    )
    command.add_argument("--json", type=Path, metavar="OUT", help="write all figures as JSON")
    command.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    add_repeatable(command, "--where", "AXIS=VALUE", "figures for the samples at this place too")
    command.add_argument("--batch", type=int, default=8, help="samples at once (%(default)s)")
    command.add_argument("--limit", type=int, metavar="N", help="the first N samples of each file")
    command.add_argument("--device", default="auto", help="auto, cpu or cuda (%(default)s)")
    command.add_argument("--no-runtime", action="store_true", help="do not measure the cost")
    command.add_argument("--quiet", action="store_true", help="show no progress")
    command.set_defaults(run=_evaluate, loads=("torch",))


def _evaluate(arguments: argparse.Namespace) -> int:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from geonew.evaluate.report import evaluate
    from geonew.evaluate.tables import left_out, markdown, sheets
    from geonew.train.distributed import choose_device

    for name in ("batch", "limit"):
        value = getattr(arguments, name)
        if value is not None and value < 1:
            raise ConfigError(f"--{name} is {value}; it must be at least 1")
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=arguments.quiet,
    )
    with progress:
        task = progress.add_task("reading", total=None)
        report = evaluate(
            arguments.models,
            arguments.data,
            batch=arguments.batch,
            limit=arguments.limit,
            where=[parse_place(text) for text in arguments.where],
            device=str(choose_device(arguments.device)),
            runtime=not arguments.no_runtime,
            notify=lambda what, done, total: progress.update(
                task, description=what, completed=done, total=total
            ),
        )
    if arguments.json is not None:
        report.write(arguments.json)
    if arguments.markdown:
        print(markdown(report))
        return 0
    console = Console()
    for sheet in sheets(report):
        console.print(sheet.rich())
    for line in left_out(report):
        print(line)
    return 0


def parse_place(text: str) -> tuple[str, float]:
    """``AXIS=VALUE``."""
    axis, equals, value = text.partition("=")
    try:
        if not axis or not equals:
            raise ValueError
        return axis.strip(), float(value)
    except ValueError as error:
        raise ConfigError(f"--where {text!r} is no place", "write it as length=1") from error
