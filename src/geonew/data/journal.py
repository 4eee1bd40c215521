r"""A file that changes in whole transactions, which HDF5 lacks and a kill or a full disk needs.

HDF5 rewrites its own indices in place, so a process that dies in mid-write can make all earlier
samples unreadable. Here its writes go to memory first. With :math:`L` the length of the file at the
last commit, a commit is

1. bytes beyond :math:`L` are written: nothing refers to them yet;
2. pages below :math:`L` that changed are written to the journal, with their checksum;
3. the same pages are written in place; 4. the journal is removed;

each step synced to the disk before the next. Identity kept: after any interruption, base file plus
a valid journal is the file at the last commit or at the one before. Space is taken in steps 1 and 2
only, so a full disk undoes itself. A new file appears under its name with its first commit.
"""

from __future__ import annotations

import hashlib
import io
import os
import struct
from pathlib import Path

from geonew.errors import DataError

PAGE = 4096
SUFFIX = ".journal"
PART = ".part"
_MAGIC = b"GEONEWJ1"
_HEAD = struct.Struct("<8sQ32s")  # magic, number of pages, SHA-256 of what follows
_ENTRY = struct.Struct("<QI")  # offset, length


class JournalledFile(io.RawIOBase):
    """A binary file whose writes stay in memory until :meth:`commit`.

    Args:
        path: the file.
        mode: ``"x"`` makes a new file, ``"a"`` recovers and changes one, ``"r"`` reads one, with
            what a valid journal adds, and changes nothing.
        pretended: for reading, a length to pretend; zeros follow the end. For damaged files.

    """

    def __init__(self, path: Path, mode: str, pretended: int | None = None) -> None:
        super().__init__()
        self._path = path
        self._writable = mode != "r"
        self._born = mode != "x"
        flags = os.O_RDWR if self._writable else os.O_RDONLY
        if mode == "x":
            flags |= os.O_CREAT | os.O_TRUNC
        place = path if self._born else part_of(path)
        try:
            self._descriptor = os.open(place, flags | getattr(os, "O_BINARY", 0), 0o666)
        except OSError as error:
            raise DataError(f"{path}: cannot be opened: {error.strerror}") from error
        if self._writable:
            self._lock()
        self._pages: dict[int, bytearray] = {}
        self._tail = bytearray()
        self._position = 0
        if self._born:
            self._recover()
        self._committed = os.fstat(self._descriptor).st_size
        self._length = max(self._committed, pretended or 0)
        if self._length > self._committed:
            self._tail.extend(bytes(self._length - self._committed))

    # -- what HDF5 calls -----------------------------------------------------------------------

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def writable(self) -> bool:
        """Unless opened for reading."""
        return self._writable

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a place, counted from the beginning, the current place or the end."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._length}[whence]
        self._position = start + offset
        return self._position

    def tell(self) -> int:
        """The current place."""
        return self._position

    def readinto(self, buffer) -> int:
        """Fill a buffer from the current place."""
        view = memoryview(buffer).cast("B")
        count = max(0, min(len(view), self._length - self._position))
        done = 0
        while done < count:
            place = self._position + done
            if place >= self._committed:
                start = place - self._committed
                piece = self._tail[start : start + count - done]
            elif place // PAGE in self._pages:
                inside = place % PAGE
                piece = self._pages[place // PAGE][inside : inside + count - done]
            else:
                stop = place + 1
                while stop < min(place + count - done, self._committed):  # up to the next page held
                    stop = min((stop // PAGE + 1) * PAGE, place + count - done, self._committed)
                    if stop // PAGE in self._pages:
                        break
                piece = os.pread(self._descriptor, stop - place, place)
            if not piece:
                raise OSError(f"the file ends at {place}, before {self._length}")
            view[done : done + len(piece)] = piece
            done += len(piece)
        self._position += count
        return count

    def write(self, data) -> int:
        """Write at the current place, in memory."""
        view = memoryview(data).cast("B")
        if not len(view):
            return 0
        place, done = self._position, 0
        while done < len(view) and place + done < self._committed:
            number, inside = divmod(place + done, PAGE)
            page = self._page(number)
            count = min(len(page) - inside, len(view) - done)
            page[inside : inside + count] = view[done : done + count]
            done += count
        if done < len(view):
            start = place + done - self._committed
            if start > len(self._tail):
                self._tail.extend(bytes(start - len(self._tail)))
            self._tail[start : start + len(view) - done] = view[done:]
        self._position = place + len(view)
        self._length = max(self._length, self._position)
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        """Set the length; bytes that this cuts off stay on the disk, where they do not matter."""
        size = self._position if size is None else size
        missing = size - self._committed - len(self._tail)
        if missing > 0:
            self._tail.extend(bytes(missing))
        self._length = size
        return size

    def flush(self) -> None:
        """Nothing: only :meth:`commit` writes."""

    def close(self) -> None:
        """Forget what was not committed."""
        if not self.closed:
            os.close(self._descriptor)
            if not self._born:
                part_of(self._path).unlink(missing_ok=True)
        super().close()

    # -- transactions --------------------------------------------------------------------------

    def commit(self) -> None:
        """Make all writes since the last commit permanent, or none of them."""
        journal = journal_of(self._path)
        try:
            try:
                _write_all(self._descriptor, self._tail, self._committed)
                os.fsync(self._descriptor)
                if self._born and self._pages:
                    _write_journal(journal, self._pages)
            except OSError:
                journal.unlink(missing_ok=True)
                os.ftruncate(self._descriptor, self._committed)
                raise
            for number, page in self._pages.items():
                _write_all(self._descriptor, page, number * PAGE)
            os.fsync(self._descriptor)
            if self._born:
                journal.unlink(missing_ok=True)
            else:
                os.replace(part_of(self._path), self._path)
                _sync_folder(self._path.parent)
                self._born = True
        except OSError as error:
            raise DataError(
                f"{self._path}: cannot be written: {error.strerror or error}; it holds what was "
                "committed before",
                "make room or choose another place, and start the same command again to go on",
            ) from error
        self._committed += len(self._tail)
        self._tail = bytearray()
        self._pages = {}

    def _page(self, number: int) -> bytearray:
        if number not in self._pages:
            count = min(PAGE, self._committed - number * PAGE)
            self._pages[number] = bytearray(os.pread(self._descriptor, count, number * PAGE))
        return self._pages[number]

    def _recover(self) -> None:
        """Finish what an interrupted commit began, in memory if the file is only read."""
        pages = read_journal(journal_of(self._path))
        if not self._writable:
            for number, page in pages.items():
                # The last page of the old length was short; what follows it is in the file.
                rest = os.pread(self._descriptor, PAGE - len(page), number * PAGE + len(page))
                self._pages[number] = bytearray(page + rest)
            return
        for number, page in pages.items():
            _write_all(self._descriptor, page, number * PAGE)
        if pages:
            os.fsync(self._descriptor)
        journal_of(self._path).unlink(missing_ok=True)

    def _lock(self) -> None:
        """One writer at a time; where the system has no such locks, the user's care."""
        try:
            import fcntl
        except ImportError:
            return
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._descriptor)
            raise DataError(
                f"{self._path}: another process is writing this file", "wait for it, or end it"
            ) from error


def journal_of(path: Path) -> Path:
    """Where the journal of a file is."""
    return path.with_name(path.name + SUFFIX)


def part_of(path: Path) -> Path:
    """Where a file is before its first commit."""
    return path.with_name(path.name + PART)


def being_written(path: Path) -> bool:
    """Whether some process has the file open for writing."""
    try:
        import fcntl
    except ImportError:
        return False
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def read_journal(path: Path) -> dict[int, bytes]:
    """Page number -> content; empty unless the journal is whole."""
    try:
        content = path.read_bytes()
    except OSError:
        return {}
    if len(content) < _HEAD.size:
        return {}
    magic, count, digest = _HEAD.unpack_from(content)
    body = memoryview(content)[_HEAD.size :]
    if magic != _MAGIC or hashlib.sha256(body).digest() != digest:
        return {}
    pages, place = {}, 0
    for _ in range(count):
        if place + _ENTRY.size > len(body):
            return {}
        offset, length = _ENTRY.unpack_from(body, place)
        place += _ENTRY.size
        pages[offset // PAGE] = bytes(body[place : place + min(length, PAGE)])
        place += length
    return pages


def _write_journal(path: Path, pages: dict[int, bytearray]) -> None:
    body = b"".join(_ENTRY.pack(n * PAGE, len(page)) + bytes(page) for n, page in pages.items())
    head = _HEAD.pack(_MAGIC, len(pages), hashlib.sha256(body).digest())
    with path.open("wb") as file:
        file.write(head + body)
        file.flush()
        os.fsync(file.fileno())
    _sync_folder(path.parent)


def _write_all(descriptor: int, data: bytes | bytearray, offset: int) -> None:
    view = memoryview(data)
    while len(view):
        count = os.pwrite(descriptor, view, offset)
        view, offset = view[count:], offset + count


def _sync_folder(folder: Path) -> None:
    """New names in a folder are permanent after this; some systems cannot, and need not."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)
