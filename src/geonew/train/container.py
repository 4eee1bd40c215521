"""One file of named tensors and one JSON document, written atomically, read without trust.

    file = safetensors; its metadata hold the document and the SHA-256 of document and tensors

Guarantees. A reader finds the old file or the new one, never a part of either: a temporary file is
written, flushed to the disk and renamed. Any change of a bit, any other format, and any document
that is not what the caller expects raises a :class:`~geonew.errors.CheckpointError`. Nothing is
unpickled, nothing executed; sizes are bounded by the file's own.

Trees of tensors (the state of an optimiser) are stored as tensors with names and a JSON tree that
refers to them. Identity kept: strides are restored too, since the order in which a matrix lies in
memory decides the last bit of its products.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from geonew.errors import CheckpointError

FORMAT = "geonew-checkpoint"
SCHEMA = 1
_DAMAGED = "use another checkpoint of the run, or train again"


def write_container(
    path: str | Path, tensors: Mapping[str, Tensor], document: Mapping[str, Any]
) -> None:
    """Write a file, replacing an older one in one stroke."""
    path = Path(path)
    text = json.dumps({"schema": SCHEMA, **document}, sort_keys=True)
    stored = {name: t.detach().cpu().contiguous() for name, t in tensors.items()}
    metadata = {"format": FORMAT, "document": text, "sha256": _digest(text, stored)}
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{uuid.uuid4().hex}")
    try:
        with temporary.open("xb") as file:
            file.write(save(stored, metadata))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise CheckpointError(
            f"cannot write {path}: {error.strerror or error}", "free some space, or write elsewhere"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def read_container(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and document of a file that :func:`write_container` wrote."""
    path = Path(path)
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != FORMAT:
                raise CheckpointError(
                    f"{path} is no checkpoint of geonew", "give a file that geonew train wrote"
                )
            # Copies: aligned as torch aligns, and independent of the file.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, RuntimeError, MemoryError) as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise CheckpointError(f"cannot read {path}: {reason}", _DAMAGED) from error
    text = metadata.get("document", "")
    if metadata.get("sha256") != _digest(text, tensors):
        raise CheckpointError(f"{path} is damaged: its checksum does not match", _DAMAGED)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: the description is not valid JSON", _DAMAGED) from error
    if not isinstance(document, dict) or document.pop("schema", None) != SCHEMA:
        raise CheckpointError(
            f"{path} was written by another version of geonew (this one reads schema {SCHEMA})",
            "use the version that wrote it",
        )
    return tensors, document


def encode_tree(value: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    """A tree of dicts, lists, tuples, numbers and tensors as JSON; tensors go into ``tensors``."""
    if isinstance(value, Tensor):
        order = sorted(range(value.ndim), key=lambda k: -value.stride(k))
        tensors[name] = value.permute(order)
        return {"tensor": name, "order": order}
    if isinstance(value, Mapping):
        items = [[key, encode_tree(item, f"{name}.{key}", tensors)] for key, item in value.items()]
        return {"mapping": items}
    if isinstance(value, list | tuple):
        items = [encode_tree(item, f"{name}.{n}", tensors) for n, item in enumerate(value)]
        return {"tuple" if isinstance(value, tuple) else "list": items}
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):  # JSON has no infinity
        return value if math.isfinite(value) else {"float": str(value)}
    raise CheckpointError(f"{name} is a {type(value).__name__}, which cannot be stored")


def decode_tree(raw: Any, tensors: Mapping[str, Tensor]) -> Any:
    """Inverse of :func:`encode_tree`."""
    try:
        return _decode(raw, tensors)
    except (KeyError, TypeError, ValueError, RuntimeError, RecursionError) as error:
        raise CheckpointError(
            f"the stored state is not one that geonew writes: {error}", _DAMAGED
        ) from error


def _decode(raw: Any, tensors: Mapping[str, Tensor]) -> Any:
    if not isinstance(raw, dict):
        return raw
    if "tensor" in raw:
        stored, order = tensors[raw["tensor"]], raw["order"]
        return stored.permute([order.index(k) for k in range(len(order))])
    if "mapping" in raw:
        return {key: _decode(item, tensors) for key, item in raw["mapping"]}
    if "float" in raw:
        return float(raw["float"])
    kind = tuple if "tuple" in raw else list
    return kind(_decode(item, tensors) for item in raw["tuple" if kind is tuple else "list"])


def _digest(text: str, tensors: Mapping[str, Tensor]) -> str:
    state = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        state.update(f"|{name}|{tensor.dtype}|{tuple(tensor.shape)}|".encode())
        if tensor.numel():
            state.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return state.hexdigest()
