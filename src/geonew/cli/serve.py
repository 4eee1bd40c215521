"""``geonew serve [MODEL ...]``: a page where a shape is dragged and the field follows.

Models are names of shipped ones, checkpoints, or folders of training runs; without any, all shipped
ones. The page is on this machine alone unless ``--host`` says otherwise.
"""

from __future__ import annotations

import argparse
from types import FrameType

from geonew.errors import ServerError


def register(subparsers: argparse._SubParsersAction) -> None:
    """Add ``serve``."""
    command = subparsers.add_parser("serve", help="a page to change shapes and see the field")
    command.add_argument(
        "models", nargs="*", metavar="MODEL", help="names or checkpoints (all shipped models)"
    )
    command.add_argument("--host", default="127.0.0.1", help="address (%(default)s)")
    command.add_argument(
        "--port", type=int, default=8642, help="0 for any that is free (%(default)s)"
    )
    command.add_argument("--no-browser", action="store_true", help="do not open the page")
    command.set_defaults(run=_serve)


def _serve(arguments: argparse.Namespace) -> int:
    import asyncio
    import signal

    try:
        from geonew.serve.server import Settings, serve
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("geonew"):
            raise
        raise ServerError(
            f"the page needs {error.name}", "install it: pip install 'geonew[serve,data]'"
        ) from error

    def ready(address: str, count: int) -> None:
        models = "1 model" if count == 1 else f"{count} models"
        print(f"{address} serves {models}; Ctrl-C ends it", flush=True)

    settings = Settings(
        models=tuple(arguments.models),
        host=arguments.host,
        port=arguments.port,
        browser=not arguments.no_browser,
        quiet=not arguments.debug,
    )
    # Also where a shell made us deaf to Ctrl-C, as it does with commands in the background.
    handlers = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: _terminated}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        asyncio.run(serve(settings, ready))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return 0


def _terminated(number: int, frame: FrameType | None) -> None:
    """Leave as if by exit: workers are ended and their files removed on the way."""
    raise SystemExit(128 + number)
