"""``geonew report RESULTS``: one page of tables and figures from what ``geonew bench`` has found.

``geonew report results/cpu --out out/report`` writes ``report.html`` (one file, nothing outside),
``report.md``, ``report.json`` and ``figures/``. Models and data are taken from ``GEONEW_HOME``;
``--keep`` leaves the pictures drawn from them, and the models in them, beside the results, so that
reports made elsewhere can show them. What is not there is listed at the end of the page.
"""

from __future__ import annotations

import argparse
from pathlib import Path


def register(subparsers: argparse._SubParsersAction) -> None:
    """Add ``report``."""
    command = subparsers.add_parser("report", help="tables and figures of the campaign, as a page")
    command.add_argument("results", type=Path, metavar="RESULTS", help="folder of geonew bench")
    command.add_argument(
        "--out", type=Path, default=Path("out") / "report", help="folder to write (%(default)s)"
    )
    command.add_argument(
        "--suite", help="which campaign; by default the one the folder is named after, else cpu"
    )
    command.add_argument(
        "--no-pictures",
        action="store_true",
        help="draw only tables and charts, which need no models or data; kept pictures are shown",
    )
    command.add_argument(
        "--keep",
        action="store_true",
        help="keep pictures of predictions, and their models, beside the results: RESULTS/pictures "
        "and RESULTS/models",
    )
    command.set_defaults(run=_report)


def _report(arguments: argparse.Namespace) -> int:
    from geonew.bench.campaign import CONFIGS, PARTS, campaign
    from geonew.bench.place import Place
    from geonew.report.kept import FOLDER, keep
    from geonew.report.report import make_report

    named = arguments.results.resolve().name
    suite = arguments.suite or (named if named in PARTS else CONFIGS)
    place = Place(campaign(suite), arguments.results, Path("configs") / CONFIGS)
    report = make_report(place, draw=not arguments.no_pictures)
    page, *others = report.write(arguments.out)
    print(
        f"{page}: {len(report.tables)} tables and {len(report.figures)} figures from "
        f"{len(report.results.found)} cells; also {', '.join(path.name for path in others)}"
    )
    if arguments.keep:
        kept = keep(report.figures, report.results)
        print(f"{len(kept)} pictures kept in {arguments.results / FOLDER}")
    missing = sum(len(names) for _, names in report.missing())
    if missing:
        print(f"{missing} things are not there yet; the page lists them at its end")
    return 0
