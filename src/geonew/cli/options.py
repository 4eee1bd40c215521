"""Options that several commands have."""

from __future__ import annotations

import argparse


def add_repeatable(
    command: argparse.ArgumentParser, flag: str, metavar: str, text: str, name: str = ""
) -> None:
    """An option that may be given several times; a list, empty by default.

    Args:
        command: the parser.
        flag: such as ``--only``.
        metavar: what stands for its value.
        text: for people.
        name: of the attribute; the flag's own by default.

    """
    command.add_argument(
        flag,
        action="append",
        default=[],
        metavar=metavar,
        dest=name or flag.lstrip("-").replace("-", "_"),
        help=f"{text} (may be repeated)",
    )
