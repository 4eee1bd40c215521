"""Who computes samples: processes of this machine, or the workers of a running Dask cluster.

Both keep a window of samples in flight, so that a slow one holds back few others, and both survive
the death of a worker: what it was computing is computed again, from the same randomness.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import chain, islice
from threading import Thread

from geonew import __version__
from geonew.data.generate import Outcome, produce
from geonew.data.record import Family
from geonew.data.request import Request
from geonew.errors import DataError

# Samples in flight per worker: one at work, the others waiting so that nobody is idle.
WINDOW = 4
# Deaths of workers without any sample in between; one more would end the same way.
MOST_DEATHS = 3
# One thread per worker, or processes would compete for the cores.
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


@dataclass(frozen=True)
class ProcessPool:
    """Processes on this machine, started afresh (spawned) with one thread each.

    Args:
        workers: how many; 0 means one per core.

    """

    workers: int = 0

    def __post_init__(self) -> None:
        if self.workers < 0:
            raise DataError(f"{self.workers} workers are asked for", "give 1 or more")

    @property
    def count(self) -> int:
        """Number of processes."""
        if hasattr(os, "sched_getaffinity"):  # the cores we may use, where the system tells
            return self.workers or len(os.sched_getaffinity(0))
        return self.workers or os.cpu_count() or 1

    def outcomes(
        self, family: Family, request: Request, samples: Iterable[int]
    ) -> Iterator[Outcome]:
        """The outcome of every sample, in the order they are done."""
        todo = iter(samples)
        taken: set[int] = set()  # asked of a worker, and not yet back
        deaths = 0
        while True:
            again = iter(sorted(taken))
            executor = self._start()
            flying: set[Future[Outcome]] = set()
            try:
                while True:
                    for sample in islice(chain(again, todo), WINDOW * self.count - len(flying)):
                        taken.add(sample)
                        flying.add(executor.submit(produce, family, request, sample))
                    if not flying:
                        return
                    for future in wait(flying, return_when=FIRST_COMPLETED).done:
                        outcome = future.result()
                        flying.remove(future)
                        taken.remove(outcome.sample)
                        deaths = 0
                        yield outcome
            except BrokenProcessPool as error:
                deaths += 1
                _check_deaths(taken, deaths, error)
            finally:
                executor.shutdown(wait=True, cancel_futures=True)

    def _start(self) -> ProcessPoolExecutor:
        kept = {name: os.environ.get(name) for name in _ONE_THREAD}
        os.environ |= dict.fromkeys(_ONE_THREAD, "1")
        try:
            executor = ProcessPoolExecutor(
                self.count, multiprocessing.get_context("spawn"), initializer=_end_with_parent
            )
            # Processes start with the first tasks, and must see the settings above.
            for future in [executor.submit(_ready) for _ in range(self.count)]:
                future.result()
            return executor
        finally:
            for name, value in kept.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


@dataclass(frozen=True)
class DaskPool:
    """The workers of a running Dask cluster.

    Args:
        scheduler: its address, such as ``tcp://host:8786``. Whoever runs it can run code here, as
            with every Dask cluster: use one you trust.
        timeout: seconds to wait for it.

    """

    scheduler: str
    timeout: float = 30.0

    def outcomes(
        self, family: Family, request: Request, samples: Iterable[int]
    ) -> Iterator[Outcome]:
        """The outcome of every sample, in the order they are done."""
        try:
            from distributed import Client, KilledWorker, as_completed
        except ImportError as error:
            raise DataError("--scheduler needs dask.distributed", "install geonew[data]") from error
        try:
            client = Client(self.scheduler, timeout=self.timeout, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise DataError(
                f"no Dask scheduler answers at {self.scheduler!r}: {error}",
                "start one with `dask scheduler` and workers with `dask worker ADDRESS`",
            ) from error
        with client:
            threads = self._threads(client)
            todo = iter(samples)
            deaths: dict[int, int] = {}
            flying = {}

            def send(sample: int):
                future = client.submit(produce, family, request, sample, pure=False)
                flying[future] = sample
                return future

            first = [send(sample) for sample in islice(todo, WINDOW * threads)]
            queue = as_completed(first, loop=client.loop)
            for future in queue:
                sample = flying.pop(future)
                try:
                    outcome = future.result()
                except KilledWorker as error:
                    deaths[sample] = deaths.get(sample, 0) + 1
                    _check_deaths([sample], deaths[sample], error)
                    queue.add(send(sample))
                    continue
                for following in islice(todo, 1):
                    queue.add(send(following))
                yield outcome

    def _threads(self, client) -> int:
        """Threads of all workers; waits for one worker, and refuses another version of geonew."""
        try:
            client.wait_for_workers(1, timeout=self.timeout)
        except TimeoutError as error:
            raise DataError(
                f"the Dask cluster at {self.scheduler!r} has no worker",
                "start some with `dask worker ADDRESS`",
            ) from error
        versions = set(client.run(_version).values())
        if versions != {__version__}:
            raise DataError(
                f"the Dask workers have geonew {sorted(versions)}, this process {__version__}",
                "install the same version everywhere: samples must not depend on who computes them",
            )
        return sum(client.nthreads().values())


def _check_deaths(samples: Iterable[int], deaths: int, error: Exception) -> None:
    if deaths >= MOST_DEATHS:
        raise DataError(
            f"the workers of samples {sorted(samples)} died {deaths} times and returned nothing",
            "they may need more memory than there is: use fewer workers, or a coarser level",
        ) from error


def _end_with_parent() -> None:
    """Ends a worker when the process that started it is gone, however that went.

    A worker waits for tasks at a pipe that it holds open itself: it would wait for ever.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def _ready() -> None:
    """Imports this module in a worker."""


def _version() -> str:
    return __version__
