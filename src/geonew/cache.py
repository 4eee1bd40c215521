r"""A content-addressed cache of arrays on disk.

    key = SHA-256 of everything a result depends on;  file = magic, SHA-256 of payload, payload

Guarantees. A reader sees a whole entry or none: a writer fills a temporary file and renames it,
which is atomic, so concurrent writers of one key both succeed and a killed one leaves nothing but a
temporary file, removed by whoever opens the cache next. A damaged entry is recognised by its
checksum, deleted, and computed again. The size is bounded: when it exceeds the limit, the entries
not used for longest go first. The payload is in the safetensors format; nothing is ever unpickled.

The folder is ``GEONEW_HOME`` (default ``~/.cache/geonew``), the limit ``GEONEW_CACHE_GB`` gigabytes
(default 10).
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy import ndarray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from geonew.errors import CacheError

MAGIC = b"GEONEW01"
SUFFIX = ".arrays"
DEFAULT_GIGABYTES = 10.0
# After an eviction the cache is this full, so that not every write has to evict again.
REFILL = 0.9
# A temporary file of another machine is taken for abandoned after this many seconds.
ABANDONED_AFTER = 3600.0


def digest(*parts: str | int | float | list | ndarray) -> str:
    """SHA-256 over strings, numbers, lists of them, and arrays with their shape and type."""
    state = hashlib.sha256()
    for part in parts:
        if isinstance(part, ndarray):
            head, body = f"{part.dtype.str}{part.shape}", np.ascontiguousarray(part).tobytes()
        else:
            head, body = type(part).__name__, json.dumps(part).encode()
        state.update(f"{head}:{len(body)}:".encode())
        state.update(body)
    return state.hexdigest()


def default_folder() -> Path:
    """``GEONEW_HOME``, or ``~/.cache/geonew``."""
    home = os.environ.get("GEONEW_HOME")
    return Path(home).expanduser() if home else Path.home() / ".cache" / "geonew"


def default_limit() -> int:
    """``GEONEW_CACHE_GB`` in bytes, or 10 GB."""
    text = os.environ.get("GEONEW_CACHE_GB", str(DEFAULT_GIGABYTES))
    try:
        gigabytes = float(text)
    except ValueError:
        gigabytes = -1.0
    if not 0 <= gigabytes < float("inf"):
        raise CacheError(
            f"GEONEW_CACHE_GB is {text!r}, which is not a size",
            "set it to a number of gigabytes, such as 10",
        )
    return int(gigabytes * 1e9)


@dataclass(frozen=True)
class Cache:
    """A folder of entries; safe to share between processes.

    Args:
        folder: where the entries live; made if it does not exist.
        limit: largest total size in bytes.

    """

    folder: Path
    limit: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", Path(self.folder))
        try:
            self._temporary.mkdir(parents=True, exist_ok=True)
            self._sweep()
            self._atomic_write(self._temporary / "probe", b"")
        except OSError as error:
            raise self._unusable(error) from error

    @classmethod
    def default(cls) -> Cache:
        """The cache that the environment variables name."""
        return cls(default_folder() / "features", default_limit())

    def get(self, key: str) -> dict[str, ndarray] | None:
        """The arrays stored under a key; none if there are none, or if they are damaged."""
        path = self._path(key)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unusable(error) from error
        arrays = _decode(content)
        if arrays is None:
            path.unlink(missing_ok=True)
            return None
        with suppress(FileNotFoundError):  # evicted meanwhile by another process; we have it
            os.utime(path)  # access times are often switched off; the time of change is ours
        return arrays

    def put(self, key: str, arrays: Mapping[str, ndarray]) -> None:
        """Store arrays under a key; an entry larger than the limit is not kept."""
        content = _encode(arrays)
        if len(content) > self.limit:
            return
        path = self._path(key)
        try:
            path.parent.mkdir(exist_ok=True)
            self._atomic_write(path, content)
            self._evict()
        except OSError as error:
            raise self._unusable(error) from error

    def size(self) -> int:
        """Total size of the entries in bytes."""
        return sum(size for _, size, _ in self._entries())

    def clear(self) -> None:
        """Remove all entries."""
        for _, _, path in self._entries():
            Path(path).unlink(missing_ok=True)

    # -- files ---------------------------------------------------------------------------------

    @property
    def _temporary(self) -> Path:
        return self.folder / "unfinished"

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}{SUFFIX}"

    def _atomic_write(self, path: Path, content: bytes) -> None:
        name = f"{socket.gethostname()}~{os.getpid()}~{uuid.uuid4().hex}"
        temporary = self._temporary / name
        try:
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    def _sweep(self) -> None:
        """Remove temporary files whose writer is gone."""
        for path in self._temporary.iterdir():
            host, _, rest = path.name.partition("~")
            writer = rest.partition("~")[0]
            if host == socket.gethostname() and writer.isdigit():
                gone = not _alive(int(writer))
            else:
                gone = _age(path) > ABANDONED_AFTER
            if gone:
                path.unlink(missing_ok=True)

    def _entries(self) -> list[tuple[float, int, str]]:
        """(last use, size, path) of every entry, the oldest first."""
        entries = []
        for shelf in self.folder.glob("??"):
            for entry in os.scandir(shelf):  # every new entry asks: names and times, no objects
                if entry.name.endswith(SUFFIX):
                    with suppress(FileNotFoundError):  # evicted meanwhile
                        status = entry.stat()
                        entries.append((status.st_mtime, status.st_size, entry.path))
        return sorted(entries)

    def _evict(self) -> None:
        entries = self._entries()
        total = sum(size for _, size, _ in entries)
        if total <= self.limit:
            return
        for _, size, path in entries[:-1]:  # the newest is the one just written
            Path(path).unlink(missing_ok=True)
            total -= size
            if total <= REFILL * self.limit:
                return

    def _unusable(self, error: OSError) -> CacheError:
        return CacheError(
            f"the cache folder {self.folder} cannot be used: {error.strerror or error}",
            "set GEONEW_HOME to a folder with free space that you may write to, or use no cache",
        )


def _encode(arrays: Mapping[str, ndarray]) -> bytes:
    payload = save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    return MAGIC + hashlib.sha256(payload).digest() + payload


def _decode(content: bytes) -> dict[str, ndarray] | None:
    start = len(MAGIC) + hashlib.sha256().digest_size
    payload = content[start:]
    if content[:start] != MAGIC + hashlib.sha256(payload).digest():
        return None
    try:
        return load(payload)
    except SafetensorError:
        return None


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it lives, and belongs to somebody else
        return True
    return True


def _age(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
