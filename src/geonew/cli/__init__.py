"""The command ``geonew``: subcommands from the modules of this package, one exit code each.

Exit codes: 0 success, 1 an error that Geo-NeW explains, 2 wrong usage, 70 a mistake in Geo-NeW, 130
interrupted. Errors are one paragraph on stderr; ``--debug`` shows the traceback as well.

Each module of a subcommand has ``register(subparsers)``, which adds its parser and sets ``run`` to
a function from the parsed arguments to an exit code. Heavy imports belong into these functions, so
that ``geonew --help`` is quick; libraries that must not be interrupted while they are loaded are
named by ``loads``.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from geonew import __version__
from geonew.cli import (
    bench,
    calibrate,
    data,
    evaluate,
    features,
    mesh,
    predict,
    report,
    serve,
    train,
)
from geonew.cli.interrupts import held_interrupts
from geonew.errors import GeoNeWError

MODULES = (predict, mesh, features, data, train, evaluate, calibrate, serve, bench, report)
INTERRUPTED = 130  # 128 + SIGINT, as shells report it
UNEXPECTED = 70  # EX_SOFTWARE of sysexits.h


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command."""
    whole = argparse.ArgumentParser(
        prog="geonew", description="PDE solutions on unseen geometries, with guarantees."
    )
    whole.add_argument("--version", action="version", version=f"geonew {__version__}")
    whole.add_argument("--debug", action="store_true", help="show tracebacks of errors")
    subparsers = whole.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in MODULES:
        module.register(subparsers)
    return whole


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    try:
        arguments = parser().parse_args(argv)
    except SystemExit as end:  # argparse has printed its message already
        return end.code if isinstance(end.code, int) else 2
    try:
        with held_interrupts():
            for library in getattr(arguments, "loads", ()):
                import_module(library)
        code = int(arguments.run(arguments))
        sys.stdout.flush()
    except GeoNeWError as error:
        if arguments.debug:
            raise
        print(f"geonew: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader of our output has left (| head): nothing to say, and nothing to flush at exit.
        if sys.stdout is sys.__stdout__:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print("geonew: interrupted", file=sys.stderr)
        return INTERRUPTED
    except Exception as error:  # a mistake of ours: say so, without the inside of the program
        if arguments.debug:
            raise
        reason = " ".join(str(error).split())[:500]
        print(
            f"geonew: unexpected {type(error).__name__}: {reason}\n"
            "  What to do: this is a mistake in geonew; run geonew --debug ... for the traceback",
            file=sys.stderr,
        )
        return UNEXPECTED
    return code
