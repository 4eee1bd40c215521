"""Transactions: after any interruption a file is as it was at a commit."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from geonew.data import journal
from geonew.data.journal import PAGE, JournalledFile, journal_of
from geonew.errors import DataError


def content(path: Path) -> bytes:
    with JournalledFile(path, "r") as file:
        return file.read()


class Interrupted(Exception):
    """Stands for a kill: nothing after it happens."""


operations = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 5 * PAGE), st.binary(max_size=2 * PAGE)),
        st.tuples(st.just("commit"), st.just(0), st.just(b"")),
    ),
    max_size=12,
)


@given(operations)
def test_it_reads_and_writes_like_memory(tmp_path_factory, steps):
    path = tmp_path_factory.mktemp("j") / "file"
    with JournalledFile(path, "x") as file:
        file.write(b"x")
        file.commit()
        memory = bytearray(b"x")
        committed = bytes(memory)
        for kind, place, data in steps:
            if kind == "commit":
                file.commit()
                committed = bytes(memory)
                continue
            if data and place > len(memory):
                memory.extend(bytes(place - len(memory)))
            memory[place : place + len(data)] = data
            file.seek(place)
            assert file.write(data) == len(data)
            file.seek(0)
            assert file.read() == bytes(memory)
            file.seek(place // 2)
            assert file.read(PAGE + 7) == bytes(memory[place // 2 : place // 2 + PAGE + 7])
    assert content(path) == committed


@pytest.mark.parametrize("step", range(9))
def test_an_interruption_at_any_system_call_loses_no_commit(tmp_path, monkeypatch, step):
    """Kill at the n-th pwrite, fsync or unlink; the next reader and writer see a commit."""
    path = tmp_path / "file"
    old = np.random.default_rng(0).bytes(3 * PAGE + 100)
    with JournalledFile(path, "x") as file:
        file.write(old)
        file.commit()
    new = bytearray(old)
    file = JournalledFile(path, "a")
    for place in (5, PAGE + 3, 3 * PAGE + 50):
        new[place : place + 100] = b"n" * 100
        file.seek(place)
        file.write(b"n" * 100)
    calls = 0

    def dying(real):
        def call(*arguments, **options):
            nonlocal calls
            calls += 1
            if calls > step:
                raise Interrupted
            return real(*arguments, **options)

        return call

    with monkeypatch.context() as patch:
        for name in ("pwrite", "fsync"):
            patch.setattr(os, name, dying(getattr(os, name)))
        patch.setattr(Path, "unlink", dying(Path.unlink))
        try:
            file.commit()
            finished = True
        except Interrupted:
            finished = False
    seen = content(path)
    wanted = {bytes(new)} if finished else {bytes(new), old, old + bytes(50), old + b"n" * 50}
    assert seen in wanted
    copy = tmp_path / "copy"
    shutil.copy(path, copy)
    if journal_of(path).exists():
        shutil.copy(journal_of(path), journal_of(copy))
    with JournalledFile(copy, "a"):
        pass
    assert content(copy) == seen
    assert not journal_of(copy).exists()
    file.close()


def test_a_full_disk_undoes_itself(tmp_path, monkeypatch):
    path = tmp_path / "file"
    with JournalledFile(path, "x") as file:
        file.write(b"old" * 5000)
        file.commit()
        before = path.read_bytes()
        file.seek(0)
        file.write(b"new" * 9000)
        real = os.pwrite

        def full(descriptor, data, offset):
            if offset >= len(before):
                real(descriptor, data[:100], offset)  # some of it fits
                raise OSError(28, "No space left on device")
            return real(descriptor, data, offset)

        monkeypatch.setattr(os, "pwrite", full)
        with pytest.raises(DataError, match="No space left on device") as raised:
            file.commit()
        assert "start the same command again" in raised.value.cure
    assert path.read_bytes() == before
    assert not journal_of(path).exists()


def test_a_half_written_journal_counts_for_nothing(tmp_path):
    path = tmp_path / "file"
    with JournalledFile(path, "x") as file:
        file.write(b"old" * 5000)
        file.commit()
    journal._write_journal(journal_of(path), {0: bytearray(b"new" * 100)})
    whole = journal_of(path).read_bytes()
    assert content(path).startswith(b"new")
    for cut in (0, 10, 60, len(whole) - 1):
        journal_of(path).write_bytes(whole[:cut])
        assert content(path) == b"old" * 5000
    journal_of(path).write_bytes(whole[:-1] + b"!")
    assert content(path) == b"old" * 5000


def test_one_writer_at_a_time(tmp_path):
    path = tmp_path / "file"
    with JournalledFile(path, "x") as file:
        file.write(b"1")
        file.commit()
        with pytest.raises(DataError, match="another process is writing"):
            JournalledFile(path, "a")
    JournalledFile(path, "a").close()


def test_an_unborn_file_leaves_nothing(tmp_path):
    with JournalledFile(tmp_path / "file", "x") as file:
        file.write(b"1")
    assert list(tmp_path.iterdir()) == []
