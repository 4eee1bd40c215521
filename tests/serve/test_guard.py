"""The guard: foreign names, floods, large and slow requests are turned away, in words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable

import httpx
import pytest
from starlette.responses import PlainTextResponse

from geonew.serve.guard import Guard, Limits

Content = bytes | AsyncIterable[bytes]
LIMITS = Limits(per_second=1000.0, burst=20.0, body=100, upload=1000, receive_seconds=0.2)


async def echo(scope, receive, send):
    body = (await receive())["body"]
    await PlainTextResponse(str(len(body)))(scope, receive, send)


def ask(limits: Limits, *requests: httpx.Request) -> list[httpx.Response]:
    async def run() -> list[httpx.Response]:
        transport = httpx.ASGITransport(Guard(echo, limits, "/up"))
        async with httpx.AsyncClient(transport=transport) as client:
            return [await client.send(request) for request in requests]

    return asyncio.run(run())


def post(
    path: str = "/", content: bytes | AsyncIterable[bytes] = b"", **headers: str
) -> httpx.Request:
    return httpx.Request("POST", f"http://localhost:8642{path}", content=content, headers=headers)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8642", 200),
        ("127.0.0.1", 200),
        ("[::1]:8642", 200),
        ("LOCALHOST", 200),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("[::1].evil.example", 421),
        ("", 421),
    ],
)
def test_only_its_own_names(host, status):
    (response,) = ask(LIMITS, post(host=host))
    assert response.status_code == status
    assert "default-src 'none'" in response.headers["content-security-policy"]
    assert "http" not in response.headers["content-security-policy"]


def test_any_name_where_asked_for():
    assert ask(Limits(hosts=()), post(host="geo.example"))[0].status_code == 200


def test_a_flood_is_slowed():
    responses = ask(Limits(burst=5.0, per_second=0.5), *[post() for _ in range(8)])
    assert [r.status_code for r in responses] == [200] * 5 + [429] * 3
    assert int(responses[-1].headers["retry-after"]) >= 1
    assert responses[-1].json()["what"] == "too many requests"


def test_sizes():
    responses = ask(
        LIMITS, post(content=bytes(100)), post(content=bytes(101)), post("/up", bytes(1000)),
        post("/up", bytes(1001)),
    )  # fmt: skip
    assert [r.status_code for r in responses] == [200, 413, 200, 413]


def test_sizes_that_are_not_announced():
    async def parts():
        for _ in range(30):
            yield bytes(10)

    assert ask(LIMITS, post(content=parts()))[0].status_code == 413


def test_slow_requests():
    async def parts():
        yield b"a"
        await asyncio.sleep(5)
        yield b"b"

    assert ask(LIMITS, post(content=parts()))[0].status_code == 408
