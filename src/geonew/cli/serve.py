"""``geonew serve [MODEL ...]``: a page where a shape is dragged and the field follows.

Models are names of shipped ones, checkpoints, or folders of training runs; without any, all shipped
ones. The page is on this machine alone unless ``--host`` says otherwise.
"""

from __future__ import annotations

import argparse

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
    asyncio.run(serve(settings, ready))
    return 0
