r"""Data sets on disk: one HDF5 file per split, written in transactions, read sample by sample.

    /header             JSON: format, schema, family, split, problem, units, origin, versions
    /checksum           (n, 32) SHA-256 of each sample
    /columns/NAME/data  all samples' rows one after another
    /columns/NAME/rows  (n, 2) first and last + 1 row of each sample; -1 where it has none

Names and content of the columns: :mod:`geonew.data.columns`. Only what
:mod:`geonew.data.hdf5` allows is read.

Identity kept: what ``append`` got is what ``[k]`` returns, to the last bit, or a
:class:`~geonew.errors.DataError` names the sample k; after a crash or on a full disk the file holds
the samples of its last commit (:mod:`geonew.data.journal`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import h5py
import numpy as np
from numpy import ndarray

from geonew.data.columns import META, Columns, checksum, column_parts, read_meta, unpack
from geonew.data.hdf5 import LARGEST, array, check_signature, member, stored_length
from geonew.data.header import Header
from geonew.data.journal import JournalledFile, being_written, journal_of, read_journal
from geonew.data.record import Record
from geonew.errors import DataError, GeoNeWError
from geonew.problem import Problem

# Files up to this size are read through once when they are opened: it takes a second or less.
CHECKED_WHOLE = 256 * 2**20
# A header is a problem and a few names.
LARGEST_HEADER = 2**24
# Zeros that may stand for the missing end of a truncated file while it is examined.
LARGEST_GAP = 2**30
# How often, and after how long, a file is opened again that another process is writing.
RETRIES, RETRY_SECONDS = 10, 0.1
_DAMAGED = "restore the file from a copy, or generate it again"
T = TypeVar("T")


class DataSet:
    """The samples of one file, read when they are asked for; checked when opened and when read.

    Args:
        path: the file.
        check: whether to read everything once now; by default for files up to 256 MB. The checksum
            of a sample is compared whenever it is read.

    """

    def __init__(self, path: str | os.PathLike[str], check: bool | None = None) -> None:
        self.path = Path(path)
        check_signature(self.path)
        self._process = 0
        self._tables()  # opens the file
        if check is None:
            check = self.path.stat().st_size <= CHECKED_WHOLE
        if check:
            for index in range(len(self)):
                self.columns(index)

    # -- access --------------------------------------------------------------------------------

    @property
    def header(self) -> Header:
        """What all samples share."""
        self._tables()
        return self._header

    @property
    def problem(self) -> Problem:
        """What is asked for."""
        return self.header.problem

    def __len__(self) -> int:
        self._tables()
        return len(self._checksums)

    def __getitem__(self, index: int) -> Record:
        index = self._index(index)
        columns = self.columns(index)
        try:
            return unpack(columns)
        except (GeoNeWError, KeyError, TypeError) as error:
            raise self._damaged(index, error) from error

    def __iter__(self) -> Iterator[Record]:
        return (self[index] for index in range(len(self)))

    def columns(self, index: int) -> Columns:
        """The stored columns of a sample, compared with its checksum."""
        index = self._index(index)
        tables = self._tables()
        columns = {}
        for name, (data, rows) in tables.items():
            start, stop = (int(n) for n in rows[index])
            if start < 0:
                continue
            row_bytes = data.dtype.itemsize * int(np.prod(data.shape[1:]))
            if (stop - start) * row_bytes > LARGEST:
                raise DataError(f"{self.path}: sample {index} announces {stop - start} rows")
            try:
                columns[name] = data[start:stop]
            except (OSError, RuntimeError, ValueError) as error:
                raise self._damaged(index, error) from error
        if checksum(columns) != self._checksums[index].tobytes():
            raise self._damaged(index, None)
        return columns

    def rows(self, name: str, index: int) -> int:
        """Number of rows of a column in a sample, such as ``points``; reads no data."""
        start, stop = self._tables()[name][1][self._index(index)]
        return int(stop - start)

    def meta(self, index: int) -> dict[str, Any]:
        """Case, parameters, info, notes and failed attempts of a sample."""
        return self._metas[self._index(index)]

    @cached_property
    def axes(self) -> dict[str, tuple[float | int | str | None, ...]]:
        """Axis of the distribution -> place of each sample on it."""
        return self._table("axes")

    @cached_property
    def parameters(self) -> dict[str, tuple[float | int | str | None, ...]]:
        """Drawn parameter -> value in each sample."""
        return self._table("parameters")

    @cached_property
    def _metas(self) -> list[dict[str, Any]]:
        data, rows = self._tables()[META]
        metas = []
        for index, (start, stop) in enumerate(rows):
            try:
                metas.append(read_meta(data[start:stop]))
            except (OSError, RuntimeError, ValueError, DataError) as error:
                raise self._damaged(index, error) from error
        return metas

    def _table(self, key: str) -> dict[str, tuple[float | int | str | None, ...]]:
        rows = [meta["case"][key] for meta in self._metas]
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: tuple(row.get(name) for row in rows) for name in names}

    def close(self) -> None:
        """Close the file; reading opens it again."""
        if self._process:
            self._file.close()
        self._process = 0

    def __enter__(self) -> DataSet:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"DataSet({str(self.path)!r}, {len(self)} samples of {self.header.family!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.path, self._process = state["path"], 0

    # -- opening -------------------------------------------------------------------------------

    def _tables(self) -> dict[str, tuple[h5py.Dataset, ndarray]]:
        """Column -> (data, rows); opens the file, once in every process."""
        if self._process == os.getpid():
            return self._columns
        for retries in reversed(range(RETRIES)):
            try:
                _refuse_truncated(self.path)
                self._file = guarded(self.path, lambda: _open(self.path))
                found = guarded(self.path, lambda: read_structure(self._file))
                break
            except DataError:
                if not retries or not being_written(self.path):
                    raise
                time.sleep(RETRY_SECONDS)  # seen in the middle of a commit
        self._header, self._checksums, self._columns = found
        self._process = os.getpid()
        return self._columns

    def _index(self, index: int) -> int:
        count = len(self)
        if not -count <= index < count:
            raise IndexError(f"{self.path} has {count} samples, no sample {index}")
        return index % count

    def _damaged(self, index: int, error: Exception | None) -> DataError:
        reason = _reason(error) if error else "its checksum does not match its content"
        return DataError(f"{self.path}: sample {index} is damaged: {reason}", _DAMAGED)


def _open(path: Path, pretended: int | None = None) -> h5py.File:
    """Through our own file: with what a journal adds, and never a state that HDF5 remembers."""
    return h5py.File(JournalledFile(path, "r", pretended), "r")


def read_structure(
    file: h5py.File,
) -> tuple[Header, ndarray, dict[str, tuple[h5py.Dataset, ndarray]]]:
    """Header, checksums and columns, after a look at everything the file says about itself."""
    unknown = set(file) - {"header", "checksum", "columns"}
    if unknown:
        raise DataError(f"the file holds {sorted(unknown)}, which no data set has")
    text = array(file, "header")
    if text.dtype.str != "|u1" or text.ndim != 1 or text.shape[0] > LARGEST_HEADER:
        raise DataError("the header is no text")
    header = Header.from_bytes(text[()].tobytes())
    checksums = array(file, "checksum")
    if checksums.dtype.str != "|u1" or checksums.shape[1:] != (32,):
        raise DataError("the checksums have a wrong shape")
    count = checksums.shape[0]
    table = member(file, "columns", h5py.Group)
    assert isinstance(table, h5py.Group)
    columns = {}
    for name in map(str, table):
        column_parts(name)
        group = member(table, name, h5py.Group)
        assert isinstance(group, h5py.Group)
        if set(group) != {"data", "rows"}:
            raise DataError(f"column {name!r} holds {sorted(group)}")
        data, rows = array(group, "data"), array(group, "rows")
        if rows.dtype.str != "<i8" or rows.shape != (count, 2):
            raise DataError(
                f"column {name!r} has rows for {rows.shape[0]} samples, not {count}: sample "
                f"{min(rows.shape[0], count)} is incomplete"
            )
        columns[name] = (data, _checked_rows(name, rows[()], data.shape[0]))
    if count and not {"points", "cells", META} <= set(columns):
        raise DataError("sample 0 has no mesh or no description")
    return header, checksums[()], columns


def _checked_rows(name: str, rows: ndarray, length: int) -> ndarray:
    start, stop = rows.T
    absent = (start == -1) & (stop == -1)
    bad = np.flatnonzero(~absent & ((start < 0) | (stop < start) | (stop > length)))
    if bad.size:
        raise DataError(
            f"sample {bad[0]} has rows {rows[bad[0]].tolist()} of {length} in column {name!r}"
        )
    return rows


def _refuse_truncated(path: Path) -> None:
    """Say how far a file that lost its end can be trusted."""
    wanted, have = stored_length(path, read_journal(journal_of(path))), path.stat().st_size
    if wanted <= have:
        return
    what = f"{path}: the file is truncated: {have} of {wanted} bytes"
    if wanted - have > LARGEST_GAP:
        raise DataError(f"{what}; sample 0 and all after it cannot be read", _DAMAGED)
    intact = 0
    try:
        with _open(path, wanted) as file:
            _, checksums, columns = read_structure(file)
            for intact in range(len(checksums)):
                found = {
                    name: data[rows[intact, 0] : rows[intact, 1]]
                    for name, (data, rows) in columns.items()
                    if rows[intact, 0] >= 0
                }
                if checksum(found) != checksums[intact].tobytes():
                    break
    except (OSError, RuntimeError, KeyError, ValueError, GeoNeWError):
        pass  # whatever else is wrong, the missing end is the reason
    raise DataError(f"{what}; sample {intact} is the first that cannot be read", _DAMAGED)


def guarded(path: Path, action: Callable[[], T]) -> T:
    """Whatever is wrong with a file becomes one named error."""
    try:
        return action()
    except GeoNeWError as error:
        raise DataError(f"{path}: {error.what}", error.cure or _DAMAGED) from error
    except (OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError) as error:
        raise DataError(
            f"{path}: the index of the file is damaged, so that not even sample 0 can be found: "
            f"{_reason(error)}",
            _DAMAGED,
        ) from error


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
