"""Writing data files: samples are appended in memory and committed together.

What a commit leaves is a file that HDF5 has closed properly; see :mod:`geonew.data.journal` for
what an interruption leaves. Arrays are not compressed: rows are then added in place, which keeps
commits small, and floating-point fields would shrink by little.
"""

from __future__ import annotations

import os
from pathlib import Path

import h5py
import numpy as np
from numpy import ndarray

from geonew.data.columns import Columns, checksum, column_parts
from geonew.data.hdf5 import check_signature
from geonew.data.header import Header
from geonew.data.journal import JournalledFile
from geonew.data.store import guarded, read_structure
from geonew.errors import DataError

# Rows of a chunk fill about this many bytes: a sample of 1,000 nodes touches one or two.
CHUNK_BYTES = 2**15
# Samples per chunk of the tables of rows and checksums.
TABLE_CHUNK = 128


class Writer:
    """Appends samples to a file; what is not committed does not exist.

    Args:
        path: the file.
        header: for a new file; without one an existing file is continued.

    """

    def __init__(self, path: str | os.PathLike[str], header: Header | None = None) -> None:
        self.path = Path(path)
        if header is not None and self.path.exists():
            raise DataError(f"{self.path}: the file exists", "choose another name, or resume it")
        if header is None:
            check_signature(self.path)
        elif not self.path.parent.is_dir():
            raise DataError(f"{self.path}: there is no such folder", "make the folder first")
        self._pending: list[Columns] = []
        self._count = 0
        self._kinds: dict[str, tuple[str, tuple[int, ...]]] = {}
        self._raw = JournalledFile(self.path, "x" if header is not None else "a")
        try:
            guarded(self.path, lambda: self._open("w" if header is not None else "r+"))
            if header is not None:
                text = np.frombuffer(header.to_bytes(), dtype=np.uint8)
                self._file.create_dataset("header", data=text)
                self._file.create_dataset(
                    "checksum", (0, 32), "u1", maxshape=(None, 32), chunks=(TABLE_CHUNK, 32)
                )
                self._file.create_group("columns")
                self.commit()
            _, checksums, columns = guarded(self.path, lambda: read_structure(self._file))
            self._count = len(checksums)
            self._kinds = {n: (d.dtype.str, d.shape[1:]) for n, (d, _) in columns.items()}
        except BaseException:
            self._raw.close()
            raise

    def __len__(self) -> int:
        return self._count + len(self._pending)

    def append(self, columns: Columns) -> None:
        """Add one sample, in memory; :meth:`commit` makes it permanent."""
        for name, values in columns.items():
            column_parts(name)
            kind = (values.dtype.str, values.shape[1:])
            if self._kinds.setdefault(name, kind) != kind:
                raise DataError(
                    f"sample {len(self)}: rows of {name!r} are {kind}, before {self._kinds[name]}",
                    "all samples of a file need the same fields, of the same width",
                )
        self._pending.append(columns)

    def commit(self) -> None:
        """Make all appended samples permanent; on a full disk none of them, with an error."""
        table = self._file["columns"]
        assert isinstance(table, h5py.Group)
        for name, (kind, rest) in self._kinds.items():
            if name not in table:
                self._add_column(table, name, np.dtype(kind), rest)
            mine = [columns.get(name) for columns in self._pending]
            group = table[name]
            assert isinstance(group, h5py.Group)
            _append_rows(group["data"], group["rows"], mine)  # type: ignore[arg-type]
        digests = [np.frombuffer(checksum(columns), dtype=np.uint8) for columns in self._pending]
        _grow(self._file["checksum"], np.reshape(digests, (-1, 32)))  # type: ignore[arg-type]
        self._file.close()  # a committed file is one that HDF5 has closed properly
        self._raw.commit()
        self._count += len(self._pending)
        self._pending = []
        self._open("r+")

    def restate(self, header: Header) -> None:
        """Replace the header, at once; the samples stay."""
        del self._file["header"]
        text = np.frombuffer(header.to_bytes(), dtype=np.uint8)
        self._file.create_dataset("header", data=text)
        self.commit()

    def close(self) -> None:
        """Forget what is not committed."""
        if self._file:
            self._file.close()
        self._raw.close()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _open(self, mode: str) -> None:
        self._raw.seek(0)
        self._file = h5py.File(self._raw, mode, libver=("v110", "v110"))

    def _add_column(
        self, table: h5py.Group, name: str, dtype: np.dtype, rest: tuple[int, ...]
    ) -> None:
        group = table.create_group(name)
        rows = max(1, CHUNK_BYTES // max(1, dtype.itemsize * int(np.prod(rest))))
        group.create_dataset(
            "data", (0, *rest), dtype, maxshape=(None, *rest), chunks=(rows, *rest)
        )
        before = np.full((self._count, 2), -1, dtype="<i8")
        group.create_dataset("rows", data=before, maxshape=(None, 2), chunks=(TABLE_CHUNK, 2))


def _append_rows(data: h5py.Dataset, rows: h5py.Dataset, values: list[ndarray | None]) -> None:
    """Rows of several samples, one after another; none for a sample without this column."""
    stops = data.shape[0] + np.cumsum([0 if v is None else len(v) for v in values], dtype=np.int64)
    table = np.full((len(values), 2), -1, dtype=np.int64)
    for k, array_ in enumerate(values):
        if array_ is not None:
            table[k] = stops[k] - len(array_), stops[k]
    present = [v for v in values if v is not None]
    if present:
        _grow(data, np.concatenate(present))
    _grow(rows, table)


def _grow(dataset: h5py.Dataset, rows: ndarray) -> None:
    start = dataset.shape[0]
    if len(rows):
        dataset.resize(start + len(rows), axis=0)
        dataset[start:] = rows
