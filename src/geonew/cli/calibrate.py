"""``geonew calibrate MODEL --data CALIBRATION.h5``: bands and a measure of familiarity for a model.

The result is stored in the model's own file. ``--check FILE...`` shows how well the bands hold on
other data, such as the test and the out-of-distribution split. Samples with numbers that are not
finite are left out and named.
"""

from __future__ import annotations

import argparse
from pathlib import Path


def register(subparsers: argparse._SubParsersAction) -> None:
    """Add ``calibrate``."""
    command = subparsers.add_parser("calibrate", help="error bands for a trained model")
    command.add_argument("model", type=Path, metavar="MODEL", help="checkpoint; it is added to")
    command.add_argument(
        "--data", required=True, metavar="FILE", help="data file of the split calibration"
    )
    command.add_argument("--level", type=float, default=0.9, help="of the bands (%(default)s)")
    command.add_argument(
        "--check", nargs="+", default=[], metavar="FILE", help="measure coverage on these files"
    )
    command.add_argument("--json", type=Path, metavar="OUT", help="write all figures as JSON")
    command.set_defaults(run=_calibrate, loads=("torch",))


def _calibrate(arguments: argparse.Namespace) -> int:
    from rich.console import Console

    from geonew.calibrate.coverage import measure_coverage
    from geonew.calibrate.fitting import calibrate
    from geonew.evaluate.report import write_json
    from geonew.evaluate.tables import Sheet
    from geonew.evaluate.testset import distinct_names, skipped_line

    made = calibrate(arguments.model, arguments.data, level=arguments.level)
    names = distinct_names(arguments.check)
    found = [measure_coverage(arguments.model, f, name=called) for f, called in names.items()]
    factors = ", ".join(
        f"{name} {made.share[name]:.3g} (everywhere {made.whole[name]:.3g})" for name in made.share
    )
    print(f"{100 * made.level:g} % bands from {len(made.distances)} samples, in scales: {factors}")
    if found:
        fields = list(made.share)
        rows = tuple(
            (
                f"{one.file} ({one.split})",
                str(one.samples),
                *(f"{100 * one.share[n]:.1f} %" for n in fields),
                *(f"{100 * one.whole[n]:.0f} %" for n in fields),
                f"{100 * one.outside:.0f} %",
                f"{one.distance:.2f}",
            )
            for one in found
        )
        head = (
            "data", "samples", *(f"{n} inside" for n in fields),
            *(f"{n} everywhere" for n in fields), "unfamiliar", "distance",
        )  # fmt: skip
        Console().print(Sheet("Coverage of the bands", head, rows).rich())
    for file, skipped in ((arguments.data, made.skipped), *((o.file, o.skipped) for o in found)):
        if skipped:
            print(skipped_line(file, skipped))
    if arguments.json is not None:
        document = {"calibration": made.to_plain(), "coverage": [one.to_plain() for one in found]}
        write_json(arguments.json, document)
    print(f"added to {arguments.model}")
    return 0
