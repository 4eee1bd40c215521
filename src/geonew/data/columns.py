"""Records as named columns of plain arrays, and back: what is stored of a sample.

    Record <--> {"points": (N, d), "cells": (C, d+1), "group:wall": (n, d), "field:u": (N,), ...}

Names have parts joined by ``:``, each part percent-encoded, so that any group name can be stored.
What is no array (the case, numbers about the solve) is JSON text in the column ``meta``.

Identity kept: ``unpack(pack(record))`` equals the record to the last bit.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
from numpy import ndarray

from geonew.data.record import Case, Record
from geonew.errors import DataError
from geonew.mesh import Mesh

Columns = dict[str, ndarray]
META = "meta"
# The part of a column's name that says what it is -> how many names follow.
KINDS = {"points": 0, "cells": 0, "group": 1, "field": 1, "boundary": 2, "parameter": 1}
KINDS |= {"source": 1, "neumann": 2, META: 0}
_META_KEYS = {"case", "parameters", "info", "groups", "fields", "notes", "failures"}


def column_name(kind: str, *names: str) -> str:
    """Name of a column; dots are encoded too, since HDF5 gives them a meaning."""
    return ":".join([kind, *(quote(name, safe="").replace(".", "%2E") for name in names)])


def column_parts(name: str) -> tuple[str, ...]:
    """Inverse of :func:`column_name`; refuses what it would not have made."""
    kind, *names = (unquote(part, errors="replace") for part in name.split(":"))
    if KINDS.get(kind) != len(names) or column_name(kind, *names) != name:
        raise DataError(f"{name!r} is not the name of a column of a data set")
    return (kind, *names)


def pack(record: Record, failures: Sequence[Mapping[str, Any]] = ()) -> Columns:
    """The columns of a record.

    Args:
        record: the sample.
        failures: attempts that came before it, each with ``attempt``, ``error`` and ``reason``.

    """
    mesh, case = record.mesh, record.case
    columns: Columns = {"points": _floats(mesh.points), "cells": _integers(mesh.cells)}
    for group, facets in mesh.groups.items():
        columns[column_name("group", group)] = _integers(facets)
    for name, values in record.fields.items():
        columns[column_name("field", name)] = _floats(values)
    for name, values in record.sources.items():
        columns[column_name("source", name)] = _floats(values)
    for kind, data in (("boundary", record.boundary), ("neumann", record.neumann)):
        for group, by_field in data.items():
            for name, values in by_field.items():
                columns[column_name(kind, group, name)] = _floats(values)
    numbers = {}
    for name, value in record.parameters.items():
        if isinstance(value, ndarray) and value.ndim:
            columns[column_name("parameter", name)] = _floats(value)
        else:
            numbers[name] = float(value)
    meta = {
        "case": {
            "family": case.family,
            "split": case.split,
            "shape": case.shape,
            "parameters": case.parameters,
            "axes": case.axes,
        },
        "parameters": numbers,
        "info": record.info,
        "groups": list(mesh.groups),
        "fields": list(record.fields),
        "notes": list(mesh.notes),
        "failures": list(failures),
    }
    columns[META] = np.frombuffer(to_json(meta), dtype=np.uint8)
    return columns


def unpack(columns: Columns) -> Record:
    """The record of some columns; wrong or missing ones raise a named error."""
    meta = read_meta(columns[META])
    arrays: dict[str, dict[tuple[str, ...], ndarray]] = {kind: {} for kind in KINDS}
    for name, values in columns.items():
        kind, *names = column_parts(name)
        arrays[kind][tuple(names)] = values
    points, cells = arrays["points"].get(()), arrays["cells"].get(())
    groups = {name: values.astype(np.int64) for (name,), values in arrays["group"].items()}
    fields = {name: values for (name,), values in arrays["field"].items()}
    if points is None or cells is None or set(groups) != set(meta["groups"]):
        raise DataError("the sample's mesh is incomplete")
    if set(fields) != set(meta["fields"]):
        raise DataError(f"the sample has fields {sorted(fields)}, not {meta['fields']}")
    parameters: dict[str, float | ndarray] = dict(meta["parameters"])
    parameters |= {name: values for (name,), values in arrays["parameter"].items()}
    return Record(
        mesh=Mesh(
            points,
            cells.astype(np.int64),
            {name: groups[name] for name in meta["groups"]},
            tuple(meta["notes"]),
        ),
        fields={name: fields[name] for name in meta["fields"]},
        boundary=_nested(arrays["boundary"]),
        case=Case(**meta["case"]),
        parameters=parameters,
        sources={name: values for (name,), values in arrays["source"].items()},
        neumann=_nested(arrays["neumann"]),
        info={name: float(value) for name, value in meta["info"].items()},
    )


def read_meta(values: ndarray) -> dict[str, Any]:
    """The content of column ``meta``."""
    meta = from_json(values.tobytes())
    case = meta.get("case")
    wanted = {"family", "split", "shape", "parameters", "axes"}
    if set(meta) != _META_KEYS or not isinstance(case, dict) or set(case) != wanted:
        raise DataError("the sample's description is not one that geonew writes")
    return meta


def checksum(columns: Columns) -> bytes:
    """SHA-256 over all columns: names, types, shapes, bytes."""
    return _digest(columns, sorted(columns))


def content_digest(columns: Columns) -> bytes:
    """SHA-256 over what a sample is: arrays, case, parameters; not how long its solve took."""
    meta = read_meta(columns[META])
    names = sorted(name for name in columns if name != META)
    state = hashlib.sha256(_digest(columns, names))
    state.update(to_json({key: meta[key] for key in ("case", "parameters", "groups")}))
    return state.digest()


def to_json(data: object) -> bytes:
    """Canonical JSON: sorted keys, no spaces, floats to the last bit, all of them finite."""
    try:
        text = json.dumps(
            data, sort_keys=True, separators=(",", ":"), allow_nan=False, default=_plain
        )
    except (TypeError, ValueError) as error:
        raise DataError(
            f"the description of a sample cannot be stored: {error}",
            "cases and numbers about a solve hold names, finite numbers, lists and mappings",
        ) from error
    return text.encode()


def from_json(text: bytes) -> dict[str, Any]:
    """A JSON object."""
    try:
        data = json.loads(text.decode())
    except (ValueError, RecursionError) as error:
        raise DataError(f"the description is not valid JSON: {error}") from error
    if not isinstance(data, dict):
        raise DataError("the description is not a JSON object")
    return data


def _plain(value: object) -> object:
    """Numbers and arrays of numpy as Python's; mappings that are no dict."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not plain data")


def _digest(columns: Columns, names: Sequence[str]) -> bytes:
    state = hashlib.sha256()
    for name in names:
        array = np.ascontiguousarray(columns[name])
        state.update(f"{name}|{array.dtype.str}|{array.shape}|".encode())
        state.update(array.data if array.size else b"")
    return state.digest()


def _floats(values: object) -> ndarray:
    return np.ascontiguousarray(values, dtype="<f8")


def _integers(values: ndarray) -> ndarray:
    if values.size and values.max() > np.iinfo(np.int32).max:
        raise DataError(f"node number {values.max()} is too large to be stored")
    return np.ascontiguousarray(values, dtype="<i4")


def _nested(arrays: Mapping[tuple[str, ...], ndarray]) -> dict[str, dict[str, ndarray]]:
    result: dict[str, dict[str, ndarray]] = {}
    for (group, name), values in arrays.items():
        result.setdefault(group, {})[name] = values
    return result
