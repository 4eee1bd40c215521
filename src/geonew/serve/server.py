"""The server: a socket, worker processes, and the app between them, until it is interrupted."""

from __future__ import annotations

import asyncio
import errno
import socket
import webbrowser
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from geonew import weights
from geonew.errors import ServerError
from geonew.serve.app import Backstage, create_app
from geonew.serve.guard import LOCAL, Limits
from geonew.serve.pool import Pool

# Connections at a time; more are told to come back.
MOST_CONNECTIONS = 256
KEEP_ALIVE_SECONDS = 20


@dataclass(frozen=True)
class Settings:
    """How the page is served.

    Args:
        models: names, checkpoints or folders of runs; the shipped ones if none are given.
        host: address to listen at.
        port: 0 for any that is free.
        browser: whether to open the page.
        quiet: hide what workers print.
        limits: of clients; by default those of the host.

    """

    models: tuple[str, ...] = ()
    host: str = "127.0.0.1"
    port: int = 8642
    browser: bool = True
    quiet: bool = True
    limits: Limits | None = None


def sources(models: Sequence[str]) -> list[str]:
    """Where the models are: shipped names as they are, paths made whole."""
    chosen = list(models) or list(weights.names())
    if not chosen:
        raise ServerError(
            "there is no model to serve: none is given and none is shipped",
            "give a checkpoint: geonew serve runs/cpu/poly-poisson/best.safetensors",
        )
    known = weights.names()
    return [name if name in known else str(Path(weights.locate(name)).resolve()) for name in chosen]


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens, or an error that says why there is none."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        sock = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise ServerError(f"{host!r} is no address here: {error}", "use 127.0.0.1") from error
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        sock.listen(MOST_CONNECTIONS)
    except (OSError, OverflowError) as error:
        sock.close()
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            raise ServerError(
                f"port {port} of {host} is in use",
                "end the other server, or choose another port: --port 8643 (0: any free one)",
            ) from error
        raise ServerError(
            f"cannot listen at {host}, port {port}: {error}", "choose another --host or --port"
        ) from error
    return sock


def limits_of(host: str) -> Limits:
    """Limits for clients of an address: a local server answers to its local names alone."""
    if host in ("0.0.0.0", "::"):
        return Limits(hosts=())
    return Limits(hosts=tuple(dict.fromkeys((*LOCAL, host.lower(), f"[{host.lower()}]"))))


def address(sock: socket.socket) -> str:
    """Where a browser on this machine finds the page."""
    host, port = sock.getsockname()[:2]
    host = "127.0.0.1" if host in ("0.0.0.0", "::") else host
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


async def serve(settings: Settings, ready: Callable[[str, int], None]) -> None:
    """Serve until interrupted.

    Args:
        settings: of the server.
        ready: called with the address and the number of models, once the page can be opened.

    """
    models = sources(settings.models)
    sock = listen(settings.host, settings.port)
    backstage = Backstage(
        Pool(["models", *models], quiet=settings.quiet),
        Pool(["models", *models], quiet=settings.quiet),
        Pool(["reader"], quiet=settings.quiet),
    )
    try:
        catalogue = await backstage.start()
        app = create_app(backstage, catalogue, settings.limits or limits_of(settings.host))
        config = uvicorn.Config(
            app,
            lifespan="off",
            ws="none",
            access_log=False,
            log_level="critical" if settings.quiet else "info",
            server_header=False,
            limit_concurrency=MOST_CONNECTIONS,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=2,
        )
        server = uvicorn.Server(config)
        running = asyncio.create_task(server.serve(sockets=[sock]))
        while not server.started and not running.done():
            await asyncio.sleep(0.02)
        if server.started:
            ready(address(sock), len(catalogue))
            if settings.browser:
                webbrowser.open(address(sock))
        await running
    finally:
        await backstage.close()
        sock.close()
