"""A process that works for the page, one request at a time, over its standard input and output.

    8 bytes: length | message (:mod:`geonew.serve.wire`)   in both directions

Two roles: ``models`` predicts and solves, ``reader`` reads uploaded files and nothing else. A
process has a limit on its memory; the server ends one that takes too long. What libraries print
goes to standard error, never between the messages. A worker whose server is gone reads the end of
its input and ends.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

import numpy as np
from numpy import ndarray

from geonew.errors import GeoNeWError
from geonew.serve.wire import pack, unpack

LENGTH = np.dtype("<u8")
# Address space: predictions and truths of the largest meshes take a third of it.
GIGABYTES = {"models": 8.0, "reader": 3.0}
# Longest reason of an unforeseen error that is passed on.
LONGEST_REASON = 300

Job = Callable[[Mapping[str, Any], bytes], tuple[Mapping[str, Any], bytes]]


def read_message(stream: BinaryIO) -> bytes | None:
    """The next message; none at the end."""
    head = stream.read(LENGTH.itemsize)
    if len(head) < LENGTH.itemsize:
        return None
    length = int(np.frombuffer(head, LENGTH)[0])
    message = stream.read(length)
    return message if len(message) == length else None


def framed(message: bytes) -> bytes:
    """A message with its length."""
    return np.array(len(message), LENGTH).tobytes() + message


def reader_jobs() -> dict[str, Job]:
    """What a reader does."""
    from geonew.serve.meshes import describe, pack_mesh, read_upload

    def parse(task: Mapping[str, Any], body: bytes) -> tuple[Mapping[str, Any], bytes]:
        mesh = read_upload(body, str(task["suffix"]))
        return describe(mesh), pack_mesh(mesh)

    return {"parse": parse}


def model_jobs(sources: list[str]) -> dict[str, Job]:
    """What a worker with models does."""
    from geonew.serve.scene import Scene
    from geonew.serve.workshop import Workshop

    workshop = Workshop(sources)

    def catalogue(task: Mapping[str, Any], body: bytes) -> tuple[Mapping[str, Any], bytes]:
        return {"models": workshop.catalogue()}, b""

    def draw(task: Mapping[str, Any], body: bytes) -> tuple[Mapping[str, Any], bytes]:
        return workshop.draw(task["model"], task["seed"], task["outside"]), b""

    def predict(task: Mapping[str, Any], body: bytes) -> tuple[Mapping[str, Any], bytes]:
        return {}, workshop.predict(Scene.model_validate(task["scene"]), body)

    def reference(task: Mapping[str, Any], body: bytes) -> tuple[Mapping[str, Any], bytes]:
        return {}, workshop.reference(Scene.model_validate(task["scene"]), body)

    def export(task: Mapping[str, Any], body: bytes) -> tuple[Mapping[str, Any], bytes]:
        return {}, workshop.export(Scene.model_validate(task["scene"]), body)

    return {
        "catalogue": catalogue,
        "draw": draw,
        "predict": predict,
        "reference": reference,
        "export": export,
    }


def answer(jobs: Mapping[str, Job], message: bytes) -> bytes:
    """The reply to one message: a result, or what went wrong."""
    try:
        task, arrays = unpack(message)
        body = arrays["body"].tobytes() if "body" in arrays else b""
        head, result = jobs[task["do"]](task, body)
        return pack({"result": head}, {"body": _as_array(result)})
    except GeoNeWError as error:
        return failure(type(error).__name__, error.what, error.cure)
    except MemoryError:
        return failure(
            "MemoryError", "this takes more memory than the page may use", "use a smaller mesh"
        )
    except Exception as error:  # whatever it is, the worker goes on
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        return failure("Unforeseen", reason[:LONGEST_REASON], "")


def failure(kind: str, what: str, cure: str) -> bytes:
    """The reply that something went wrong."""
    return pack({"error": {"kind": kind, "what": what, "cure": cure}})


def _as_array(data: bytes) -> ndarray:
    return np.frombuffer(data, np.uint8)


def _limit_memory(gigabytes: float) -> None:
    try:
        import resource
    except ImportError:  # Windows has no such limits
        return
    limit = int(gigabytes * 2**30)
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


def main(arguments: list[str]) -> int:
    """``worker.py ROLE [MODEL ...]``: announce readiness, then answer until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which then ends us
    role, sources = arguments[0], arguments[1:]
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    _limit_memory(GIGABYTES[role])

    def send(message: bytes) -> None:
        out.write(framed(message))
        out.flush()

    try:
        jobs = reader_jobs() if role == "reader" else model_jobs(sources)
    except GeoNeWError as error:
        send(failure(type(error).__name__, error.what, error.cure))
        return 1
    send(pack({"result": {"ready": role}}))
    while (message := read_message(sys.stdin.buffer)) is not None:
        send(answer(jobs, message))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
