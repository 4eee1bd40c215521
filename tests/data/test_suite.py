"""Suites and hashes: what is built, where, and what is said about it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from geonew.data.fingerprint import fingerprint, known_fingerprints, record_fingerprints
from geonew.data.store import DataSet
from geonew.data.suite import SUITES, Suite, build, suite
from geonew.data.verify import verify
from geonew.errors import DataError
from square_family import Square

SMALL = Suite("small", "coarse", {"train": 3, "ood": 2}, {("square", "train"): 4})


def test_the_cpu_suite_is_the_stated_one():
    sizes = {r.split: r.samples for r in suite("cpu").requests("poly-poisson")}
    assert sizes == {"train": 400, "val": 100, "calibration": 100, "test": 100, "ood": 200}
    assert next(SUITES["cpu"].requests("ns2d-c++")).samples == 1000
    assert all(r.level == "coarse" for r in suite("cpu").requests("pipe"))
    with pytest.raises(DataError, match="no suite 'gpu'"):
        suite("gpu")


def test_files_live_under_the_home_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("GEONEW_HOME", str(tmp_path))
    path = suite("cpu").path("ns2d-c++", "val")
    assert path == tmp_path / "data" / "cpu" / "ns2d-c++" / "val.h5"


def test_building_twice_recognises_what_is_there(tmp_path):
    hashes = tmp_path / "hashes.json"
    first = list(build(SMALL, [Square()], home=tmp_path))
    assert [b.progress.done for b in first] == [4, 2]
    assert {b.verdict for b in first} == {"unknown"}  # reported, not an error
    record_fingerprints(hashes, {b.key: b.fingerprint for b in first})
    again = list(build(SMALL, [Square()], home=tmp_path, hashes=hashes))
    assert [b.progress.begun for b in again] == [4, 2]  # nothing was computed
    assert {b.verdict for b in again} == {"identical"}
    elsewhere = list(build(SMALL, [Square()], home=tmp_path / "b", hashes=hashes))
    assert {b.verdict for b in elsewhere} == {"identical"}


def test_some_splits_only(tmp_path):
    (built,) = build(SMALL, [Square()], home=tmp_path, splits=["ood"])
    assert built.path == SMALL.path("square", "ood", tmp_path)
    assert not SMALL.path("square", "train", tmp_path).exists()


def test_verdicts(tmp_path):
    (built, _) = build(SMALL, [Square()], home=tmp_path)
    hashes = tmp_path / "hashes.json"
    mine = fingerprint(DataSet(built.path))
    norms = {"u": mine.norms["u"] * (1 + 1e-12)}
    for known, verdict, passed in [
        (mine, "identical", True),
        (replace(mine, content="other", norms=norms), "equal to round-off", True),
        (replace(mine, content="other", norms={"u": mine.norms["u"] * 1.01}), "different", False),
        (replace(mine, content="other", nodes=1), "different", False),
    ]:
        record_fingerprints(hashes, {built.key: known})
        found = verify(built.path, hashes)
        assert (found.verdict, found.passed) == (verdict, passed)
        assert found.problems == {}
    assert verify(built.path).verdict == "unknown"
    hashes.write_text("[]")
    with pytest.raises(DataError, match="hashes"):
        known_fingerprints(hashes)


def test_committed_hashes_can_be_read():
    assert isinstance(known_fingerprints(), dict)
