"""Workers: they answer, are replaced when they fail, and only the latest of a session waits."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable

import pytest

from geonew.errors import ServerError
from geonew.mesh import write_mesh
from geonew.serve.meshes import unpack_mesh
from geonew.serve.pool import MOST_WAITING, Pool, RefusedError
from zoo import square_with_hole

PARSE = {"do": "parse", "suffix": ".msh"}


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("mesh") / "mesh.msh"
    write_mesh(path, square_with_hole())
    return path.read_bytes()


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Temporary files of the workers go here, and none of them stays."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    yield
    assert list(tmp_path.iterdir()) == []


def with_pool(work: Callable[[Pool], Awaitable[None]]) -> None:
    """Run something with a pool of one reader."""

    async def run() -> None:
        pool = Pool(["reader"])
        await pool.start()
        pids = pool.pids
        try:
            await work(pool)
        finally:
            pids += pool.pids
            await pool.close()
        for pid in pids:
            assert not os.path.exists(f"/proc/{pid}"), "a worker was left behind"

    asyncio.run(run())


async def refused(task: Awaitable) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        await task
    return caught.value


def test_it_answers_and_goes_on_after_every_kind_of_failure(good):
    async def work(pool: Pool) -> None:
        async def check() -> None:
            head, body = await pool.ask(PARSE, good, seconds=30.0)
            assert head["groups"]["hole"] == 12
            assert unpack_mesh(body).n_nodes == head["nodes"] == 96

        await check()
        first = pool.pids
        bad = await refused(pool.ask(PARSE, b"$MeshFormat nonsense", seconds=30.0))
        assert (bad.status, pool.pids) == (422, first)
        unknown = await refused(pool.ask({"do": "dance"}, seconds=30.0))
        assert (unknown.status, pool.pids) == (500, first)  # a fault of ours, said as such
        late = await refused(pool.ask(PARSE, good, seconds=0.0))
        assert late.status == 504
        await check()
        assert pool.pids != first
        os.kill(pool.pids[0], signal.SIGKILL)
        lost = await refused(pool.ask(PARSE, good, seconds=30.0))
        assert lost.status == 503
        await check()

    with_pool(work)


def test_only_the_latest_request_of_a_session_waits(good):
    async def work(pool: Pool) -> None:
        tasks = [
            asyncio.create_task(pool.ask(PARSE, good, seconds=30.0, session=name))
            for name in ("a", "b", "a", "a", "b", "", "")
        ]
        done = await asyncio.gather(*tasks, return_exceptions=True)
        status = [d.status if isinstance(d, RefusedError) else 200 for d in done]
        assert status == [409, 409, 409, 200, 200, 200, 200]
        assert pool.waiting == 0

    with_pool(work)


def test_the_queue_has_an_end_and_forgets_clients_that_leave(good):
    async def work(pool: Pool) -> None:
        tasks = [
            asyncio.create_task(pool.ask(PARSE, good, seconds=30.0))
            for _ in range(MOST_WAITING + 3)
        ]
        await asyncio.sleep(0)
        for task in tasks[1 : MOST_WAITING // 2]:
            task.cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        full = [d for d in done if isinstance(d, RefusedError)]
        assert [d.status for d in full] == [503] * 3
        left = [d for d in done if isinstance(d, asyncio.CancelledError)]
        assert len(left) == MOST_WAITING // 2 - 1
        assert pool.waiting == 0

    with_pool(work)


def test_a_worker_that_cannot_start_says_why(tmp_path):
    async def run() -> None:
        pool = Pool(["models", str(tmp_path / "none.safetensors")])
        with pytest.raises(ServerError, match=r"none\.safetensors"):
            await pool.start()
        assert pool.pids == []

    asyncio.run(run())
