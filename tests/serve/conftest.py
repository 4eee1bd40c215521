"""One server for all tests of the page, with two untrained models."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from geonew.data.families import family
from serve_runs import Running, running, untrained


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Flow, calibrated, and Poisson, not."""
    folder = tmp_path_factory.mktemp("models")
    flow = untrained(folder / "flow.safetensors", family("ns2d-c++").problem)
    poisson = untrained(
        folder / "poisson.safetensors", family("poly-poisson").problem, calibrated=False
    )
    return [str(flow), str(poisson)]


@pytest.fixture(scope="session")
def server(checkpoints: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("server"), *checkpoints) as started:
        yield started


@pytest.fixture
def client(server: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.address, timeout=60, trust_env=False) as made:
        yield made
