r"""Generation: sample k from its own randomness, on as many workers as there are, in order.

    Request --draw, solve, check--> columns --append in order of k, commit every second--> file

Identity kept: the content of the file depends on the request alone, not on the number of workers,
the order in which they finish, or interruptions; a sample is computed from
:meth:`Request.generator` and nothing else, with one thread.

A sample that cannot be solved is drawn again, and the reason is stored with the one that follows
it: the distribution of a data set is that of the family, minus what its file lists as failed.
Errors that have no name (a mistake in the code, not a hard case) end the generation at once.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from threadpoolctl import threadpool_limits

from geonew.data.check import check_record
from geonew.data.columns import Columns, pack
from geonew.data.header import Header
from geonew.data.record import Family
from geonew.data.request import Request
from geonew.data.store import DataSet
from geonew.data.writer import Writer
from geonew.errors import DataError, GeoNeWError

# Samples that fail this often are not hard but impossible: the family or its ranges are wrong.
MOST_ATTEMPTS = 10
# Seconds between commits: what a kill can cost.
COMMIT_SECONDS = 1.0
# Errors that speak of a hard case: our named ones, and those of numerical libraries.
RETRIED = (GeoNeWError, ArithmeticError, np.linalg.LinAlgError)


@dataclass(frozen=True)
class Outcome:
    """One sample: its columns, or why there are none; plain data, so that it can travel.

    Args:
        sample: its number k.
        columns: what is stored; none if the generation must end.
        failures: attempts that failed, with ``attempt``, ``error``, ``reason``.
        fatal: why the generation must end, if it must.
        seconds: time it took, failures included.

    """

    sample: int
    columns: Columns | None
    failures: tuple[dict[str, Any], ...]
    fatal: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Progress:
    """What is known after each sample, for whoever shows it.

    Args:
        done: samples in the file.
        total: samples asked for.
        begun: samples the file held at the beginning.
        failures: failed attempts so far.
        sample: the last sample, and its failures with reasons.

    """

    done: int
    total: int
    begun: int
    failures: int
    sample: Outcome | None = None


@runtime_checkable
class Pool(Protocol):
    """Computes samples somewhere; outcomes come in any order, each number exactly once."""

    def outcomes(
        self, family: Family, request: Request, samples: Iterable[int]
    ) -> Iterator[Outcome]:
        """The outcome of every sample asked for."""
        ...


def produce(family: Family, request: Request, sample: int) -> Outcome:
    """Draw and solve one sample, again and again until it succeeds; runs in a worker."""
    start = time.perf_counter()
    failures: list[dict[str, Any]] = []
    with threadpool_limits(1):  # the last bits depend on the number of threads
        for attempt in range(MOST_ATTEMPTS):
            begun = time.perf_counter()
            try:
                generator = request.generator(sample, attempt)
                axis = request.axis_of(sample)
                case = family.draw(request.split, generator, axis, request.swap)
                record = family.solve(case, request.level)
                check_record(family.problem, record)
            except RETRIED as error:
                reason = " ".join(str(error).split())
                kind = type(error).__name__
                failures.append({"attempt": attempt, "error": kind, "reason": reason})
                continue
            except Exception as error:
                place = traceback.extract_tb(error.__traceback__)[-1]
                what = (
                    f"sample {sample}, attempt {attempt}: {type(error).__name__}: {error} "
                    f"({Path(place.filename).name}, line {place.lineno})"
                )
                elapsed = time.perf_counter() - start
                return Outcome(sample, None, tuple(failures), what, elapsed)
            info = {"seconds": time.perf_counter() - begun, **record.info}
            record = replace(record, info={**info, "attempts": float(attempt + 1)})
            elapsed = time.perf_counter() - start
            return Outcome(sample, pack(record, failures), tuple(failures), "", elapsed)
    last = failures[-1]
    what = f"sample {sample} failed {MOST_ATTEMPTS} times, last with {last['error']}: "
    return Outcome(sample, None, tuple(failures), what + last["reason"], 0.0)


def generate(
    family: Family,
    request: Request,
    path: Path,
    pool: Pool | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Progress:
    """Generate a file, or continue one that holds the beginning of the same request.

    Args:
        family: what is drawn and solved.
        request: which samples.
        path: the file.
        pool: who computes; by default this process.
        on_progress: called after each sample.

    """
    if request.family != family.name:
        raise DataError(f"the request names family {request.family!r}, not {family.name!r}")
    with _writer(family, request, path) as writer:
        begun = len(writer)
        progress = Progress(begun, request.samples, begun, _failures(path))
        if on_progress:
            on_progress(progress)
        missing = range(begun, request.samples)
        committed = time.monotonic()
        outcomes = (pool or InProcess()).outcomes(family, request, missing) if missing else []
        for outcome in _in_order(outcomes, begun):
            if outcome.columns is None:
                writer.commit()
                raise DataError(
                    f"{path}: {outcome.fatal}",
                    f"the {len(writer)} samples before it are stored; mend the family, or narrow "
                    "its ranges",
                )
            writer.append(outcome.columns)
            if time.monotonic() - committed > COMMIT_SECONDS:
                writer.commit()
                committed = time.monotonic()
            failures = progress.failures + len(outcome.failures)
            progress = Progress(len(writer), request.samples, begun, failures, outcome)
            if on_progress:
                on_progress(progress)
        writer.commit()
    return progress


class InProcess:
    """Computes samples one after another in this process."""

    def outcomes(
        self, family: Family, request: Request, samples: Iterable[int]
    ) -> Iterator[Outcome]:
        """The outcome of every sample, in order."""
        return (produce(family, request, sample) for sample in samples)


def _writer(family: Family, request: Request, path: Path) -> Writer:
    units = dict(family.units)
    header = Header(family.name, request.split, family.problem, units, request.to_dict())
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        return Writer(path, header)
    with DataSet(path) as existing:
        request.check_continues(existing.header.origin, len(existing), str(path))
        there, here = existing.header.versions["geonew"], header.versions["geonew"]
        same = replace(existing.problem, terms=family.problem.terms) == family.problem
        if there != here or not same:
            raise DataError(
                f"{path}: made by geonew {there}, or for another problem; this is {here}",
                "go on with the version that began it, or choose another file",
            )
        stated = existing.header
    writer = Writer(path)
    # Units and known terms are statements about the samples, which stay as they are.
    if not stated.units or stated.problem != family.problem:
        writer.restate(replace(stated, units=units, problem=family.problem))
    return writer


def _failures(path: Path) -> int:
    with DataSet(path, check=False) as existing:
        return sum(len(existing.meta(k)["failures"]) for k in range(len(existing)))


def _in_order(outcomes: Iterable[Outcome], first: int) -> Iterator[Outcome]:
    """Outcomes by their number; those that come too early wait."""
    waiting: dict[int, Outcome] = {}
    for outcome in outcomes:
        waiting[outcome.sample] = outcome
        while first in waiting:
            yield waiting.pop(first)
            first += 1
    if waiting:
        raise DataError(f"sample {first} never arrived", "start the same command again to go on")
