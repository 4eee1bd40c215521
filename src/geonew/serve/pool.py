"""Worker processes behind a queue: bounded, timed, replaced when they fail.

A request waits for a free worker. There is room for so many that wait, and no more. Of the requests
of one session only the last one waits: a drag asks for many shapes and wants the latest. A worker
that takes longer than its request may, or is lost, is ended and replaced; the request fails, the
next one finds a fresh worker.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from geonew.errors import ServerError
from geonew.serve.wire import pack, unpack
from geonew.serve.worker import LENGTH, framed

# Importing torch on a busy machine takes this long at most.
START_SECONDS = 180.0
MOST_WAITING = 64
# After a worker could not be started, this long until the next attempt.
PAUSE_SECONDS = 2.0
# Several workers share the cores: one thread each.
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")

Reply = tuple[dict[str, Any], bytes]


class RefusedError(ServerError):
    """A request that is not answered, with the HTTP status that says so.

    Args:
        status: of the response.
        what: as in the base class.
        cure: as in the base class.

    """

    def __init__(self, status: int, what: str, cure: str = "") -> None:
        super().__init__(what, cure)
        self.status = status


@dataclass(eq=False)
class Entry:
    """A request that waits or is being worked on.

    Args:
        message: for the worker.
        seconds: it may take.
        session: whose request it is; empty for nobody's.
        reply: where the answer goes.

    """

    message: bytes
    seconds: float
    session: str
    reply: asyncio.Future[bytes] = field(repr=False)


class Worker:
    """One process.

    Args:
        command: after ``python -m geonew.serve.worker``.
        quiet: hide what its libraries print.

    """

    def __init__(self, command: Sequence[str], quiet: bool = True) -> None:
        self.command, self.quiet = tuple(command), quiet
        self._process: asyncio.subprocess.Process | None = None
        self._folder = ""  # of its temporary files, which it cannot remove when it is ended

    @property
    def pid(self) -> int | None:
        """Its process number while it runs."""
        return self._process.pid if self._process is not None else None

    async def start(self) -> None:
        """Start it and wait until it is ready; raises what it says where it is not."""
        self._folder = tempfile.mkdtemp(prefix="geonew-")
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "geonew.serve.worker",
            *self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if self.quiet else None,
            env=os.environ | dict.fromkeys(ONE_THREAD, "1") | {"TMPDIR": self._folder},
            start_new_session=True,  # Ctrl-C in a terminal is for the server alone
        )
        try:
            ready = await asyncio.wait_for(self._receive(), START_SECONDS)
        except (TimeoutError, EOFError, OSError) as error:
            await self.stop()
            raise ServerError(
                "a worker process did not start", "run geonew --debug serve to see why"
            ) from error
        head, _ = unpack(ready)
        if "error" in head:
            await self.stop()
            raise ServerError(head["error"]["what"], head["error"]["cure"])

    async def call(self, message: bytes) -> bytes:
        """The reply to one message; ``EOFError`` or ``OSError`` if the process is lost."""
        if self._process is None or self._process.stdin is None:
            raise EOFError("the worker is not running")
        self._process.stdin.write(framed(message))
        await self._process.stdin.drain()
        return await self._receive()

    async def stop(self) -> None:
        """End it, whatever it does, and remove what it leaves."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = ""

    async def _receive(self) -> bytes:
        assert self._process is not None
        assert self._process.stdout is not None
        stream = self._process.stdout
        head = await stream.readexactly(LENGTH.itemsize)
        return await stream.readexactly(int(np.frombuffer(head, LENGTH)[0]))


class Pool:
    """Workers of one kind behind one queue.

    Args:
        command: of every worker.
        count: of workers.
        quiet: hide what their libraries print.

    """

    def __init__(self, command: Sequence[str], count: int = 1, quiet: bool = True) -> None:
        self._workers = [Worker(command, quiet) for _ in range(count)]
        self._queue: asyncio.Queue[Entry] = asyncio.Queue()
        self._waiting: list[Entry] = []
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def waiting(self) -> int:
        """Requests in the queue."""
        return len(self._waiting)

    @property
    def pids(self) -> list[int]:
        """Process numbers of the workers."""
        return [worker.pid for worker in self._workers if worker.pid is not None]

    async def start(self) -> None:
        """Start all workers; raises what one says that cannot."""
        try:
            await asyncio.gather(*(worker.start() for worker in self._workers))
        except BaseException:
            await self.close()
            raise
        self._tasks = [asyncio.create_task(self._serve(worker)) for worker in self._workers]

    async def close(self) -> None:
        """End all workers; requests that wait are refused."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for entry in self._waiting:
            _fail(entry, RefusedError(503, "the server is closing"))
        self._waiting.clear()
        await asyncio.gather(*(worker.stop() for worker in self._workers))

    async def ask(
        self, task: Mapping[str, Any], body: bytes = b"", *, seconds: float, session: str = ""
    ) -> Reply:
        """Have a task done: what the worker found, and bytes.

        Args:
            task: for the worker.
            body: bytes that go with it.
            seconds: it may take, once it is begun.
            session: an earlier request of it that still waits is refused.

        """
        if session:
            for entry in [e for e in self._waiting if e.session == session]:
                self._waiting.remove(entry)
                _fail(entry, RefusedError(409, "a later request took its place"))
        if len(self._waiting) >= MOST_WAITING:
            raise RefusedError(
                503, f"{len(self._waiting)} requests are waiting already", "try again in a moment"
            )
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        message = pack(task, {"body": np.frombuffer(body, np.uint8)})
        entry = Entry(message, seconds, session, future)
        self._waiting.append(entry)
        self._queue.put_nowait(entry)
        try:
            head, arrays = unpack(await future)
        finally:
            if entry in self._waiting:  # the client has left
                self._waiting.remove(entry)
        if "error" in head:
            error = head["error"]
            status = 500 if error["kind"] == "Unforeseen" else 422
            raise RefusedError(status, error["what"], error["cure"])
        return head["result"], arrays["body"].tobytes() if "body" in arrays else b""

    async def _serve(self, worker: Worker) -> None:
        while True:
            entry = await self._queue.get()
            if entry not in self._waiting:
                continue
            self._waiting.remove(entry)
            try:
                if worker.pid is None:
                    await worker.start()
                reply = await asyncio.wait_for(worker.call(entry.message), entry.seconds)
            except TimeoutError:
                await worker.stop()
                _fail(
                    entry,
                    RefusedError(
                        504,
                        f"this took longer than {entry.seconds:g} s and was ended",
                        "simplify the shape, or use a smaller mesh",
                    ),
                )
            except (EOFError, OSError):
                await worker.stop()
                lost = RefusedError(503, "the worker process was lost and is being replaced")
                _fail(entry, lost)
            except ServerError as error:
                _fail(entry, RefusedError(503, error.what, error.cure))
                await asyncio.sleep(PAUSE_SECONDS)
            else:
                if not entry.reply.done():
                    entry.reply.set_result(reply)
            if worker.pid is None:
                with suppress(ServerError):  # else at the next request
                    await worker.start()


def _fail(entry: Entry, error: RefusedError) -> None:
    if not entry.reply.done():
        entry.reply.set_exception(error)
