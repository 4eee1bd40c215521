"""``geonew train CONFIG.yaml``: train a model, alone or under torchrun.

``geonew train configs/cpu/poly-poisson.yaml --set budget.cpu_minutes=5`` trains;
``--resume`` goes on after an interruption, ``--init MODEL`` starts from given weights.
Several processes: ``torchrun --nproc-per-node 2 -m geonew.cli train CONFIG.yaml``.
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from pathlib import Path

from geonew.cli.options import add_repeatable

INTERRUPTED = 130  # as if SIGINT had ended it


def register(subparsers: argparse._SubParsersAction) -> None:
    """Add ``train``."""
    command = subparsers.add_parser("train", help="train a model on data files")
    command.add_argument("config", type=Path, metavar="CONFIG.yaml", help="the configuration")
    command.add_argument(
        "--resume", action="store_true", help="go on from the last checkpoint of the run"
    )
    command.add_argument("--init", type=Path, metavar="MODEL", help="start from a model file")
    command.add_argument("--device", help="auto, cpu or cuda, instead of the configuration's")
    add_repeatable(
        command,
        "--set",
        "KEY=VALUE",
        "replace a setting, e.g. optimiser.learning_rate=1e-3",
        name="settings",
    )
    command.add_argument("--quiet", action="store_true", help="show no progress")
    command.set_defaults(run=_train, loads=("torch",))


def _train(arguments: argparse.Namespace) -> int:
    from geonew.train.config import load_config
    from geonew.train.loop import train
    from geonew.train.progress import Display

    settings = list(arguments.settings)
    if arguments.device:
        settings.append(f"device={arguments.device}")
    config = load_config(arguments.config, settings)
    with ExitStack() as stack:
        observers = [] if arguments.quiet else [stack.enter_context(Display())]
        outcome = train(config, resume=arguments.resume, init=arguments.init, observers=observers)
    if outcome.interrupted:
        print(f"interrupted after {outcome.steps} steps; --resume goes on in {outcome.folder}")
        return INTERRUPTED
    print(f"wrote {outcome.model} after {outcome.steps} steps")
    return 0
