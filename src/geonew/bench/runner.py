"""The campaign as it runs: a few cells at a time, each in a process of its own.

    first open cell whose needs are met --> process --> result, or where it stopped

One thread per process. Finished cells are skipped, interrupted ones go on from their checkpoint; a
cell that fails is reported and does not stop the others, nor does a result that cannot be read. A
first SIGINT or SIGTERM asks every
process to write its checkpoint and end; a second one ends them at once, which costs the steps since
their last checkpoint.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from geonew.bench.cell import Cell
from geonew.bench.place import Place
from geonew.bench.work import INTERRUPTED
from geonew.errors import ConfigError
from geonew.train.loop import stop_requests

# Seconds between two looks at the processes, and at what can be started when none has ended.
LOOK, LOOK_FURTHER = 0.2, 30.0
BUSY = 75  # exit code of a process whose cell another one computes (EX_TEMPFAIL)
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
LOG = "output.log"

Tell = Callable[[str, Cell, str], None]
Command = Callable[[Place, Cell], list[str]]


@dataclass
class Summary:
    """What a run of the campaign did.

    Args:
        done: cells finished now.
        failed: cells that failed, with the end of what they printed.
        interrupted: whether a signal ended it.

    """

    done: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    interrupted: bool = False


@dataclass
class _Running:
    cell: Cell
    process: subprocess.Popen
    log: IO[bytes]
    started: float


def cell_command(place: Place, cell: Cell) -> list[str]:
    """The command line that computes one cell in a process of its own."""
    return [
        sys.executable, "-m", "geonew.cli", "bench", "--suite", place.campaign.suite,
        "--results", str(place.results), "--configs", str(place.configs), "--cell", cell.name,
    ]  # fmt: skip


def run_cells(
    place: Place,
    cells: Sequence[Cell],
    workers: int,
    tell: Tell,
    command: Command = cell_command,
) -> Summary:
    """Compute cells until none can be started.

    Args:
        place: the campaign's folders.
        cells: which cells, in order; what they need must be finished or among them.
        workers: processes at a time.
        tell: is told (event, cell, text); events are ``start``, ``done``, ``failed``, ``stopped``.
        command: what computes a cell in a process of its own.

    """
    if workers < 1:
        raise ConfigError(f"--workers is {workers}; it must be at least 1")
    summary, running = Summary(), list[_Running]()
    with stop_requests() as stop:
        try:
            looked = float("-inf")
            while True:
                if _collect(place, running, summary, tell):
                    looked = float("-inf")
                if stop.is_set() and not summary.interrupted:
                    summary.interrupted = True
                    for one in running:
                        one.process.send_signal(signal.SIGTERM)
                while (
                    not stop.is_set()
                    and len(running) < workers
                    and time.monotonic() - looked > LOOK_FURTHER
                ):
                    cell = _next(place, cells, running, summary)
                    if cell is None:
                        looked = time.monotonic()
                        break
                    running.append(_start(place, cell, command))
                    tell("start", cell, "")
                if not running:
                    return summary
                time.sleep(LOOK)
        except BaseException:
            for one in running:
                one.process.terminate()
            raise
        finally:
            for one in running:
                one.process.wait()
                one.log.close()


@contextmanager
def only_one(folder: Path) -> Iterator[bool]:
    """Whether this process alone works in a folder; it is let go when the process ends."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as file:
        try:
            import fcntl
        except ImportError:  # where there are no locks, nobody is refused
            yield True
            return
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        yield True


def _next(
    place: Place, cells: Sequence[Cell], running: Sequence[_Running], summary: Summary
) -> Cell | None:
    """The first cell that can be started."""
    taken = {one.cell.name for one in running} | set(summary.failed) | set(summary.done)
    for cell in cells:
        if cell.name not in taken and place.state(cell) in ("open", "begun"):
            return cell
    return None


def _start(place: Place, cell: Cell, command: Command) -> _Running:
    folder = place.run(cell)
    folder.mkdir(parents=True, exist_ok=True)
    log = (folder / LOG).open("ab")
    process = subprocess.Popen(
        command(place, cell),
        stdout=log,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        env=os.environ | dict.fromkeys(THREADS, "1"),
        start_new_session=True,  # a signal at the terminal reaches it through us, and only once
    )
    return _Running(cell, process, log, time.monotonic())


def _collect(place: Place, running: list[_Running], summary: Summary, tell: Tell) -> int:
    """Take note of the processes that ended; how many did."""
    before = len(running)
    for one in list(running):
        code = one.process.poll()
        if code is None:
            continue
        running.remove(one)
        one.log.close()
        name = one.cell.name
        if code == 0 and place.is_done(one.cell):
            summary.done.append(name)
            tell("done", one.cell, f"{(time.monotonic() - one.started) / 60:.1f} min")
        elif code in (INTERRUPTED, -signal.SIGTERM) and summary.interrupted:
            tell("stopped", one.cell, "goes on from its checkpoint next time")
        elif code == BUSY:
            summary.failed[name] = "another process computes this cell"
            tell("failed", one.cell, summary.failed[name])
        else:
            summary.failed[name] = f"exit code {code}: {_tail(place.run(one.cell) / LOG)}"
            tell("failed", one.cell, summary.failed[name])
    return before - len(running)


def _tail(path: Path, length: int = 600) -> str:
    text = path.read_bytes()[-length:].decode("utf-8", errors="replace")
    return text.strip()
