"""The cache under real processes: killed while writing, writing at once, damaged, full."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from geonew.cache import SUFFIX, Cache, default_folder, default_limit, digest
from geonew.errors import CacheError

LIMIT = 10**8
KEY = digest("a key")


def arrays(seed: int = 0, size: int = 1000) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {"x": rng.standard_normal(size), "i": rng.integers(0, 9, (3, 4)), "b": np.array([True])}


def same(a: dict, b: dict) -> bool:
    return set(a) == set(b) and all(
        a[k].dtype == b[k].dtype and a[k].shape == b[k].shape and (a[k] == b[k]).all() for k in a
    )


def python(code: str, *arguments: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True
    )


def test_arrays_come_back_to_the_bit(tmp_path):
    cache = Cache(tmp_path, LIMIT)
    assert cache.get(KEY) is None
    cache.put(KEY, arrays())
    assert same(Cache(tmp_path, LIMIT).get(KEY), arrays())
    cache.put(KEY, arrays(1))
    assert same(cache.get(KEY), arrays(1))
    cache.clear()
    assert cache.get(KEY) is None
    assert cache.size() == 0


def test_odd_arrays_are_kept(tmp_path):
    cache = Cache(tmp_path, LIMIT)
    odd = {"empty": np.zeros((0, 3)), "scalar": np.array(2.0), "strided": np.arange(12.0)[::3]}
    cache.put(KEY, {**odd, "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3))})
    got = cache.get(KEY)
    assert got["empty"].shape == (0, 3)
    assert got["scalar"] == 2.0
    assert got["strided"].tolist() == [0, 3, 6, 9]
    assert got["fortran"].tolist() == [[0, 1, 2], [3, 4, 5]]


@given(
    st.lists(
        st.one_of(st.text(), st.integers(), st.lists(st.integers(), max_size=3)),
        min_size=1,
        max_size=3,
    ),
    st.lists(
        st.one_of(st.text(), st.integers(), st.lists(st.integers(), max_size=3)),
        min_size=1,
        max_size=3,
    ),
)
def test_digests_differ_exactly_when_the_parts_do(a, b):
    assert (digest(*a) == digest(*b)) == (a == b)


def test_digests_see_shape_type_and_boundaries_of_arrays():
    zeros = np.zeros(4)
    keys = [
        digest(zeros),
        digest(zeros.reshape(2, 2)),
        digest(zeros.astype(np.int64)),
        digest(zeros[:2], zeros[2:]),
        digest(np.zeros(4), "x"),
        digest("ab", "c"),
        digest("a", "bc"),
    ]
    assert len(set(keys)) == len(keys)
    assert digest(np.arange(6.0).reshape(2, 3).T) == digest(np.arange(6.0).reshape(2, 3).T.copy())


@pytest.mark.parametrize("where", [0, 10, 60, -1])
def test_a_damaged_entry_is_noticed_and_forgotten(tmp_path, where):
    cache = Cache(tmp_path, LIMIT)
    cache.put(KEY, arrays())
    (path,) = tmp_path.glob(f"??/*{SUFFIX}")
    content = bytearray(path.read_bytes())
    content[where] ^= 1
    path.write_bytes(content)
    assert cache.get(KEY) is None
    assert not path.exists()
    cache.put(KEY, arrays())
    assert same(cache.get(KEY), arrays())


@pytest.mark.parametrize("length", [0, 7, 39, 100])
def test_a_truncated_entry_is_noticed(tmp_path, length):
    cache = Cache(tmp_path, LIMIT)
    cache.put(KEY, arrays())
    (path,) = tmp_path.glob(f"??/*{SUFFIX}")
    path.write_bytes(path.read_bytes()[:length])
    assert cache.get(KEY) is None


WRITE_AND_DIE = """
import os, signal, sys
import numpy as np
import geonew.cache
from geonew.cache import Cache
cache = Cache(sys.argv[1], 10**8)
geonew.cache.os.fsync = lambda descriptor: os.kill(os.getpid(), signal.SIGKILL)  # before the rename
cache.put(sys.argv[2], {"x": np.arange(1000.0)})
"""


def test_a_writer_killed_before_the_rename_leaves_no_entry(tmp_path):
    process = python(WRITE_AND_DIE, str(tmp_path), KEY)
    assert process.wait(60) == -signal.SIGKILL
    process.stdout.close()
    assert len(list((tmp_path / "unfinished").glob("*~*"))) == 1
    assert list(tmp_path.glob(f"??/*{SUFFIX}")) == []
    cache = Cache(tmp_path, LIMIT)  # opening sweeps what the dead writer left
    assert list((tmp_path / "unfinished").glob("*~*")) == []
    assert cache.get(KEY) is None
    cache.put(KEY, arrays())
    assert same(cache.get(KEY), arrays())


WRITE_FOREVER = """
import sys
import numpy as np
from geonew.cache import Cache
cache = Cache(sys.argv[1], 10**8)
print("ready", flush=True)
for k in range(10**9):
    cache.put(sys.argv[2], {"x": np.full(200_000, float(k)), "k": np.array([k])})
"""


def test_writers_killed_at_any_moment_never_leave_half_an_entry(tmp_path):
    seen = 0
    for trial in range(4):
        process = python(WRITE_FOREVER, str(tmp_path), KEY)
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.05 + 0.013 * trial)
        process.kill()
        process.wait(60)
        process.stdout.close()
        got = Cache(tmp_path, LIMIT).get(KEY)
        if got is not None:
            assert (got["x"] == got["k"]).all()
            seen += 1
        assert list((tmp_path / "unfinished").glob("*~*")) == []
    assert seen


WRITE_MANY = """
import sys
import numpy as np
from geonew.cache import Cache, digest
cache, me = Cache(sys.argv[1], int(sys.argv[3])), int(sys.argv[2])
wrong = 0
for k in range(60):
    key = digest("shared", k % 7)
    cache.put(key, {"x": np.full(5000, float(me)), "writer": np.array([me])})
    got = cache.get(key)
    if got is not None:
        wrong += int(not (got["x"] == got["writer"]).all())
print(wrong)
"""


@pytest.mark.parametrize("limit", [10**8, 100_000], ids=["roomy", "evicting"])
def test_concurrent_writers_never_mix(tmp_path, limit):
    writers = [python(WRITE_MANY, str(tmp_path), str(k), str(limit)) for k in range(3)]
    for writer in writers:
        out, _ = writer.communicate(timeout=120)
        assert writer.returncode == 0
        assert int(out) == 0
    cache = Cache(tmp_path, limit)
    assert cache.size() <= limit
    assert list((tmp_path / "unfinished").glob("*~*")) == []


def test_a_living_writers_file_is_not_swept(tmp_path):
    cache = Cache(tmp_path, LIMIT)
    mine = tmp_path / "unfinished" / f"{os.uname().nodename}~{os.getpid()}~abc"
    elsewhere = tmp_path / "unfinished" / "elsewhere~1~abc"
    ancient = tmp_path / "unfinished" / "elsewhere~2~abc"
    for path in (mine, elsewhere, ancient):
        path.write_bytes(b"x")
    os.utime(ancient, (0, 0))
    Cache(tmp_path, LIMIT)
    assert mine.exists()
    assert elsewhere.exists()
    assert not ancient.exists()
    assert cache.size() == 0


def test_the_least_recently_used_go_first(tmp_path):
    one = 8 * 1000 + 500
    cache = Cache(tmp_path, 4 * one)
    keys = [digest(k) for k in range(5)]
    for age, key in enumerate(keys[:4]):
        cache.put(key, {"x": np.zeros(1000)})
        (path,) = tmp_path.glob(f"??/{key}{SUFFIX}")
        os.utime(path, (1000 + age, 1000 + age))
    assert cache.get(keys[0]) is not None  # used just now: no longer the oldest
    cache.put(keys[4], {"x": np.zeros(1000)})
    # two had to go: after one the cache would be fuller than nine tenths
    assert [cache.get(key) is not None for key in keys] == [True, False, False, True, True]
    assert cache.size() <= 4 * one


def test_an_entry_larger_than_the_limit_is_not_kept(tmp_path):
    cache = Cache(tmp_path, 1000)
    cache.put(KEY, {"x": np.zeros(1000)})
    assert cache.get(KEY) is None
    assert cache.size() == 0


def test_a_folder_that_cannot_be_used_is_explained(tmp_path):
    occupied = tmp_path / "file"
    occupied.write_text("not a folder")
    with pytest.raises(CacheError, match="GEONEW_HOME"):
        Cache(occupied, LIMIT)
    with pytest.raises(CacheError, match="cannot be used"):
        Cache(Path("/proc/no-such-place"), LIMIT)


def test_a_folder_that_vanishes_is_explained(tmp_path):
    cache = Cache(tmp_path / "cache", LIMIT)
    (tmp_path / "cache" / "unfinished" / "probe").unlink()
    (tmp_path / "cache" / "unfinished").rmdir()
    (tmp_path / "cache").rmdir()
    assert cache.get(KEY) is None
    with pytest.raises(CacheError, match="cannot be used"):
        cache.put(KEY, arrays())


def test_environment_names_folder_and_limit(tmp_path, monkeypatch):
    monkeypatch.setenv("GEONEW_HOME", str(tmp_path))
    monkeypatch.setenv("GEONEW_CACHE_GB", "0.5")
    assert default_folder() == tmp_path
    assert Cache.default() == Cache(tmp_path / "features", 500_000_000)
    for wrong in ("many", "-1", "inf", "nan"):
        monkeypatch.setenv("GEONEW_CACHE_GB", wrong)
        with pytest.raises(CacheError, match="not a size"):
            default_limit()
    monkeypatch.delenv("GEONEW_HOME")
    assert default_folder().parts[-2:] == (".cache", "geonew")
