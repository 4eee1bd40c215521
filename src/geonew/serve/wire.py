"""Arrays and a few words in one piece of bytes, for the browser and between processes.

    4 bytes: length n of the head | head: n bytes of JSON | arrays, each at a multiple of 8 bytes

The head's entry ``arrays`` gives type, shape and place of every array, so that a browser lays typed
arrays over the bytes without copying. Plain data only: whatever the bytes are, reading them makes
numbers and text or raises :class:`InputError`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy import ndarray

from geonew.errors import InputError

ALIGNMENT = 8
_LENGTH = np.dtype("<u4")
# Types that a browser has typed arrays for, and float64 and int64 between processes.
TYPES = ("<f4", "<f8", "<i4", "<i8", "<u2", "<u4", "|u1")


def pack(head: Mapping[str, Any], arrays: Mapping[str, ndarray] | None = None) -> bytes:
    """A head and named arrays as bytes; numbers that are not finite may stand in arrays only."""
    parts: list[bytes] = []
    table: dict[str, Any] = {}
    place = 0
    for name, values in (arrays or {}).items():
        kind = values.dtype.newbyteorder("<").str
        if kind not in TYPES:
            raise InputError(f"array {name!r} has the type {values.dtype}", f"use one of {TYPES}")
        raw = np.ascontiguousarray(values).astype(kind, copy=False).tobytes()
        table[name] = {"type": kind, "shape": list(values.shape), "at": place}
        parts += [raw, bytes(-len(raw) % ALIGNMENT)]
        place += len(raw) + -len(raw) % ALIGNMENT
    text = json.dumps({**head, "arrays": table}, allow_nan=False).encode()
    text += b" " * (-(len(text) + _LENGTH.itemsize) % ALIGNMENT)
    return b"".join([np.array(len(text), _LENGTH).tobytes(), text, *parts])


def unpack(data: bytes) -> tuple[dict[str, Any], dict[str, ndarray]]:
    """Inverse of :func:`pack`: the head without its table, and the arrays."""
    try:
        start = _LENGTH.itemsize + int(np.frombuffer(data[:4], _LENGTH)[0])
        head = json.loads(data[_LENGTH.itemsize : start])
        table = head.pop("arrays")
        arrays = {}
        for name, entry in table.items():
            kind, shape = entry["type"], [int(n) for n in entry["shape"]]
            if kind not in TYPES or min(shape, default=0) < 0:
                raise ValueError(f"array {name!r}")
            at = start + int(entry["at"])
            size = math.prod(shape) * np.dtype(kind).itemsize
            if not start <= at <= at + size <= len(data):
                raise ValueError(f"array {name!r} reaches beyond the end")
            arrays[name] = np.frombuffer(data[at : at + size], kind).reshape(shape)
        return head, arrays
    except (IndexError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"these bytes are no message: {error}") from error
