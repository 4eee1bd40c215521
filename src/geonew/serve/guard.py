"""The guard in front of the app: whom it answers, how much it reads, how often.

- Only requests that name this server as their host: no other site can reach it through the browser
  of somebody who runs it.
- A bucket of tokens per client bounds the rate.
- A body is read whole before anything else happens, up to a size and within a time.
- Every response forbids the browser to load anything from elsewhere, or to be framed.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field

from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
LOCAL = ("127.0.0.1", "localhost", "[::1]")
MOST_CLIENTS = 1000


@dataclass(frozen=True)
class Limits:
    """What a client may ask for.

    Args:
        hosts: names under which the server is known; empty for any.
        per_second: requests of one client in the long run.
        burst: and at once.
        body: bytes of a request.
        upload: bytes of an uploaded file.
        receive_seconds: to send it.
        uploads: bodies of that size at a time.

    """

    hosts: tuple[str, ...] = LOCAL
    per_second: float = 40.0
    burst: float = 120.0
    body: int = 64 * 1024
    upload: int = 16 * 2**20
    receive_seconds: float = 30.0
    uploads: int = 4


@dataclass
class Bucket:
    """Tokens of one client."""

    tokens: float
    at: float


@dataclass
class Guard:
    """ASGI middleware; see the module docstring.

    Args:
        app: what is guarded.
        limits: of its clients.
        upload_path: where files may be uploaded.

    """

    app: ASGIApp
    limits: Limits
    upload_path: str
    _buckets: OrderedDict[str, Bucket] = field(default_factory=OrderedDict)
    _uploading: int = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        headers = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in scope["headers"]}
        upload = scope["path"] == self.upload_path and scope["method"] == "POST"

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                known = {k.lower() for k, _ in message["headers"]}
                extra = [(k.encode(), v.encode()) for k, v in HEADERS.items()]
                message["headers"] = [
                    *message["headers"],
                    *((k, v) for k, v in extra if k not in known),
                ]
            await send(message)

        if not self._known(headers.get("host", "")):
            await refuse(guarded, 421, "this server does not answer to that name")
            return
        wait = self._spend(scope)
        if wait > 0:
            await refuse(
                guarded, 429, "too many requests", {"retry-after": str(max(1, round(wait)))}
            )
            return
        if upload and self._uploading >= self.limits.uploads:
            await refuse(guarded, 503, "other uploads are running", {"retry-after": "2"})
            return
        self._uploading += upload
        try:
            await self._with_body(scope, receive, guarded, headers, upload)
        finally:
            self._uploading -= upload

    async def _with_body(
        self, scope: Scope, receive: Receive, send: Send, headers: Mapping[str, str], upload: bool
    ) -> None:
        most = self.limits.upload if upload else self.limits.body
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > most:
            await refuse(send, 413, f"a request here has at most {most} bytes")
            return
        try:
            body = await asyncio.wait_for(_read(receive, most), self.limits.receive_seconds)
        except TimeoutError:
            await refuse(send, 408, "the request came too slowly")
            return
        except OverflowError:
            await refuse(send, 413, f"a request here has at most {most} bytes")
            return
        if body is None:  # the client has left
            return
        pending = [body]

        async def replay() -> Message:
            if pending:
                return {"type": "http.request", "body": pending.pop(), "more_body": False}
            return await receive()

        await self.app(scope, replay, send)

    def _known(self, host: str) -> bool:
        if not self.limits.hosts:
            return True
        name, colon, port = host.rpartition(":")
        name = name if colon and port.isdigit() else host
        return name.lower() in self.limits.hosts

    def _spend(self, scope: Scope) -> float:
        """Seconds until the client may ask; 0 takes a token of its bucket."""
        client, now = (scope.get("client") or ("",))[0], time.monotonic()
        bucket = self._buckets.setdefault(client, Bucket(self.limits.burst, now))
        self._buckets.move_to_end(client)
        while len(self._buckets) > MOST_CLIENTS:
            self._buckets.popitem(last=False)
        gained = (now - bucket.at) * self.limits.per_second
        bucket.tokens, bucket.at = min(self.limits.burst, bucket.tokens + gained), now
        if bucket.tokens < 1:
            return (1 - bucket.tokens) / self.limits.per_second
        bucket.tokens -= 1
        return 0.0


async def _read(receive: Receive, most: int) -> bytes | None:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        part = message.get("body", b"")
        size += len(part)
        if size > most:
            raise OverflowError
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


async def refuse(
    send: Send, status: int, what: str, headers: Mapping[str, str] | None = None
) -> None:
    """Answer with an error in the form of all errors here."""
    body = json.dumps({"what": what, "cure": ""}).encode()
    head = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        *((k.encode(), v.encode()) for k, v in (headers or {}).items()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})
