"""Generation: the same samples whatever happens on the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from geonew.data.columns import content_digest
from geonew.data.generate import MOST_ATTEMPTS, InProcess, Progress, generate
from geonew.data.journal import journal_of, part_of
from geonew.data.pools import DaskPool, ProcessPool
from geonew.data.request import Request
from geonew.data.store import DataSet
from geonew.errors import DataError
from square_family import Square

ROOT = Path(__file__).resolve().parents[2]
FAMILY = Square(failing=0.2)
REQUEST = Request("square", "train", 24, 7)


def contents(path: Path) -> list[bytes]:
    with DataSet(path) as dataset:
        return [content_digest(dataset.columns(k)) for k in range(len(dataset))]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> list[bytes]:
    path = tmp_path_factory.mktemp("undisturbed") / "d.h5"
    generate(FAMILY, REQUEST, path)
    return contents(path)


def test_failures_are_counted_and_stored(tmp_path, undisturbed):
    seen: list[Progress] = []
    progress = generate(FAMILY, REQUEST, tmp_path / "d.h5", on_progress=seen.append)
    assert [p.done for p in seen] == list(range(25))
    with DataSet(tmp_path / "d.h5") as dataset:
        stored = [dataset.meta(k)["failures"] for k in range(24)]
        assert sum(map(len, stored)) == progress.failures > 0
        hard = next(k for k in range(24) if stored[k])
        assert stored[hard][0]["error"] == "SolverError"
        assert "ran out" in stored[hard][0]["reason"]
        assert dataset[hard].info["attempts"] == len(stored[hard]) + 1
        # the sample that follows a failure is the next draw, not the next sample's
        case = FAMILY.draw("train", REQUEST.generator(hard, len(stored[hard])))
        assert dataset[hard].case == case
        assert dataset.header.origin == REQUEST.to_dict()


def test_any_order_of_arrival_gives_the_same_file(tmp_path, undisturbed):
    class Shuffled(InProcess):
        def outcomes(self, family, request, samples):
            numbers = np.random.default_rng(0).permutation(list(samples)).tolist()
            return super().outcomes(family, request, numbers)

    generate(FAMILY, REQUEST, tmp_path / "d.h5", Shuffled())
    assert contents(tmp_path / "d.h5") == undisturbed


def test_larger_requests_continue_smaller_ones(tmp_path, undisturbed):
    path = tmp_path / "d.h5"
    generate(FAMILY, REQUEST.of(10), path)
    assert contents(path) == undisturbed[:10]
    progress = generate(FAMILY, REQUEST, path)
    assert (progress.begun, progress.done) == (10, 24)
    assert contents(path) == undisturbed
    assert generate(FAMILY, REQUEST, path).begun == 24  # nothing left to do


def test_another_request_is_refused(tmp_path):
    path = tmp_path / "d.h5"
    generate(FAMILY, REQUEST.of(2), path)
    for other in (
        Request("square", "train", 24, 8),
        Request("square", "val", 24, 7),
        Request("square", "train", 24, 7, "medium"),
        Request("square", "train", 24, 7, swap=True),
        Request("square", "train", 24, 7, axis=("width", (1.0,))),
    ):
        with pytest.raises(DataError, match="another request"):
            generate(FAMILY, other, path)
    with pytest.raises(DataError, match="holds 2 samples already"):
        generate(FAMILY, REQUEST.of(1), path)
    with pytest.raises(DataError, match="names family"):
        generate(FAMILY, Request("other", "train", 1, 1), path)


def test_sweeps_and_swaps(tmp_path):
    sweep = Request("square", "ood", 6, 1, axis=("width", (1.5, 2.5, 3.5)))
    generate(Square(), sweep, tmp_path / "sweep.h5")
    with DataSet(tmp_path / "sweep.h5") as dataset:
        assert dataset.axes["width"] == (1.5, 2.5, 3.5) * 2
        assert len(set(dataset.parameters["k"])) == 6
    plain, swapped = Request("square", "test", 2, 1), Request("square", "test", 2, 1, swap=True)
    generate(Square(), plain, tmp_path / "plain.h5")
    generate(Square(), swapped, tmp_path / "swapped.h5")
    a, b = DataSet(tmp_path / "plain.h5")[0], DataSet(tmp_path / "swapped.h5")[0]
    assert a.mesh.digest == b.mesh.digest
    assert a.boundary["left"]["u"][0] == -b.boundary["left"]["u"][0]


def test_splits_and_seeds_draw_differently():
    draws = {
        (split, seed, k, a): Request("square", split, 9, seed).generator(k, a).uniform()
        for split in ("train", "val", "calibration", "test", "ood")
        for seed in (0, 1)
        for k in (0, 1)
        for a in (0, 1)
    }
    assert len(set(draws.values())) == len(draws)


def test_impossible_samples_and_mistakes_end_it(tmp_path):
    with pytest.raises(DataError, match=f"sample 0 failed {MOST_ATTEMPTS} times.*ran out"):
        generate(Square(failing=2.0), REQUEST, tmp_path / "a.h5")
    with pytest.raises(DataError, match=r"TypeError: a mistake \(square_family.py, line"):
        generate(Square(mistake=True), REQUEST, tmp_path / "b.h5")
    assert len(DataSet(tmp_path / "b.h5")) == 0


def test_senseless_requests_are_refused():
    """Without the tests' type checker, as users meet them."""
    script = """
from geonew.data.request import Request
from geonew.errors import DataError
good = dict(family="square", split="train", samples=1, seed=0)
for change in (
    {"split": "all"}, {"level": "finest"}, {"samples": 0}, {"seed": -1},
    {"axis": ("a", (float("inf"),))}, {"axis": ("a", ())},
):
    try:
        Request(**(good | change))
    except DataError as error:
        print(error.what)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert run.stdout.splitlines() == [
        "the split is 'all'",
        "the level is 'finest'",
        "0 samples are asked for",
        "the seed is -1",
        "axis 'a' has the values (inf,)",
        "axis 'a' has the values ()",
    ]


# -- several processes -----------------------------------------------------------------------------


def test_workers_make_the_same_file_even_if_one_dies(tmp_path, undisturbed):
    family = Square(failing=0.2, deadly=str(tmp_path / "dead"))
    generate(family, REQUEST, tmp_path / "d.h5", ProcessPool(2))
    assert (tmp_path / "dead").exists()
    assert contents(tmp_path / "d.h5") == undisturbed


@pytest.mark.slow
def test_samples_that_kill_their_workers_end_it(tmp_path):
    family = Square(deadly="/nowhere/at/all")  # touching it fails: a named mistake, not a kill
    with pytest.raises(DataError, match="FileNotFoundError"):
        generate(family, REQUEST, tmp_path / "d.h5", ProcessPool(2))


SCRIPT = """
import resource, signal, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from square_family import Square
from geonew.data import generate as module
from geonew.data.pools import ProcessPool
from geonew.data.request import Request
module.COMMIT_SECONDS = 0.0
if __name__ == "__main__":
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    if {limit}:
        resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
    family = Square(failing=0.2, pause={pause})
    request = Request("square", "train", 24, 7, {level!r})
    module.generate(family, request, Path(sys.argv[1]), {pool})
"""
FINE = Request("square", "train", 24, 7, "fine")


def script(
    folder: Path,
    limit: int = 0,
    pause: float = 0.0,
    level: str = "coarse",
    pool: str = "module.InProcess()",
) -> Path:
    path = folder / "script.py"
    tests = str(ROOT / "tests")
    path.write_text(SCRIPT.format(tests=tests, limit=limit, pause=pause, level=level, pool=pool))
    return path


@pytest.fixture(scope="module")
def fine(tmp_path_factory) -> list[bytes]:
    path = tmp_path_factory.mktemp("fine") / "d.h5"
    generate(FAMILY, FINE, path)
    assert path.stat().st_size > 800_000
    return contents(path)


@pytest.mark.parametrize("samples", [3, pytest.param(11, marks=pytest.mark.slow)])
def test_killed_and_resumed(tmp_path, undisturbed, samples):
    """kill -9 while it writes, then resume: the same samples, bit for bit."""
    path = tmp_path / "d.h5"
    process = subprocess.Popen([sys.executable, script(tmp_path, pause=0.02), path])
    seen = 0
    while seen < samples and process.poll() is None:
        time.sleep(0.01)
        if path.exists():
            seen = path.stat().st_size and len(DataSet(path, check=False))
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    found = contents(path)
    assert samples <= len(found) < 24
    assert found == undisturbed[: len(found)]
    progress = generate(FAMILY, REQUEST, path)
    assert progress.begun == len(found)
    assert contents(path) == undisturbed
    assert not journal_of(path).exists()
    assert not part_of(path).exists()


def test_workers_end_with_the_process_that_started_them(tmp_path):
    path = tmp_path / "d.h5"
    command = [sys.executable, script(tmp_path, pause=0.5, pool="ProcessPool(1)"), path]
    process = subprocess.Popen(command)
    while process.poll() is None and not (path.exists() and len(DataSet(path, check=False))):
        time.sleep(0.01)
    started = psutil.Process(process.pid).children()
    assert any("spawn_main" in part for child in started for part in child.cmdline())
    process.kill()
    process.wait()
    assert not psutil.wait_procs(started, timeout=20)[1]


@pytest.mark.slow
def test_killed_again_and_again(tmp_path, undisturbed):
    """At random moments after its first commit, commits included, until it is done."""
    path = tmp_path / "d.h5"
    rng = np.random.default_rng(0)
    for _ in range(6):
        process = subprocess.Popen([sys.executable, script(tmp_path), path])
        before = path.stat().st_mtime_ns if path.exists() else 0
        while process.poll() is None:
            if path.exists() and path.stat().st_mtime_ns != before:
                time.sleep(rng.uniform(0, 0.2))
                break
            time.sleep(0.002)
        process.kill()
        process.wait()
        found = contents(path)
        assert found == undisturbed[: len(found)]
    generate(FAMILY, REQUEST, path)
    assert contents(path) == undisturbed


@pytest.mark.parametrize("limit", [600_000, 800_000])
def test_a_full_disk_leaves_what_was_stored(tmp_path, fine, limit):
    """The file may not grow beyond a limit: what is there stays readable, and can be continued."""
    path = tmp_path / "d.h5"
    run = subprocess.run(
        [sys.executable, script(tmp_path, limit, level="fine"), path],
        capture_output=True,
        text=True,
    )
    assert "DataError" in run.stderr
    assert "cannot be written: File too large" in run.stderr
    assert path.stat().st_size <= limit
    found = contents(path)
    assert 0 < len(found) < 24
    assert found == fine[: len(found)]
    generate(FAMILY, FINE, path)
    assert contents(path) == fine
    assert path.stat().st_size > limit


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_really_full_disk(tmp_path, fine):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=800k", "tmpfs", disk], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("no file system can be mounted here")
    try:
        path = disk / "d.h5"
        run = subprocess.run(
            [sys.executable, script(tmp_path, level="fine"), path], capture_output=True, text=True
        )
        assert "No space left on device" in run.stderr
        found = contents(path)
        assert 0 < len(found) < 24
        assert found == fine[: len(found)]
        subprocess.run(["mount", "-o", "remount,size=10m", disk], check=True)
        generate(FAMILY, FINE, path)
        assert contents(path) == fine
    finally:
        subprocess.run(["umount", disk], check=True)


# -- Dask ------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Dask's own machinery
def test_a_dask_worker_dies_and_all_samples_arrive(tmp_path, undisturbed):
    environment = os.environ | {"PYTHONPATH": str(ROOT / "tests")}
    scheduler = subprocess.Popen(
        [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", "0", "--no-dashboard",
         "--scheduler-file", tmp_path / "scheduler.json", "--host", "127.0.0.1"],
        env=environment, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    worker = [
        sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file",
        str(tmp_path / "scheduler.json"), "--nthreads", "1", "--no-dashboard", "--nanny",
        "--local-directory", str(tmp_path),
    ]  # fmt: skip
    processes = [scheduler]
    try:
        deadline = time.monotonic() + 60
        while not (tmp_path / "scheduler.json").exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        import json

        address = json.loads((tmp_path / "scheduler.json").read_text())["address"]
        processes += [
            subprocess.Popen(
                worker, env=environment, stderr=subprocess.DEVNULL, start_new_session=True
            )
            for _ in range(2)
        ]
        family = Square(failing=0.2, deadly=str(tmp_path / "dead"))
        generate(family, REQUEST, tmp_path / "d.h5", DaskPool(address, timeout=60.0))
    finally:
        for process in reversed(processes):
            os.killpg(process.pid, signal.SIGKILL)  # with the processes that they started
            process.wait()
    assert (tmp_path / "dead").exists()
    assert contents(tmp_path / "d.h5") == undisturbed


@pytest.mark.filterwarnings("ignore")
def test_no_scheduler_is_named(tmp_path):
    with pytest.raises(DataError, match="no Dask scheduler answers"):
        generate(FAMILY, REQUEST, tmp_path / "d.h5", DaskPool("tcp://127.0.0.1:9", timeout=1.0))
