"""GNOT's ``.pkl`` files, through an unpickler that knows arrays and nothing else.

A pickle is a program; Python's reader runs whatever functions it names. Here every name is looked
up in a table of a few functions of our own that note down arrays and numbers, and any other name
ends the reading before it is imported. Files are read only when the user asks for it by a flag.

Format: a list of samples ``[X, Y, theta, inputs]``: points (N, d), fields (N, F), global parameters
(p,), and a tuple of input functions (n, f) or ``None``.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from geonew.data.cloud import ALPHA, triangulate_cloud
from geonew.data.recipe import Recipe, Source, boundary_of, check_keys
from geonew.data.record import Case, Record
from geonew.errors import DataError
from geonew.mesh import label
from geonew.mesh.labels import parse_rules

# Python's own containers nest this deep at most: list, sample, inputs, array state.
DEEPEST = 6
_PLAIN = "ask for the data as .npy or .npz files"


def load_pickle(path: Path, allow: bool) -> list[Any]:
    """The samples of a file, made of lists, tuples, dicts, numbers, texts and arrays only.

    Args:
        path: the ``.pkl`` file.
        allow: whether the user asked for it.

    """
    if not allow:
        raise DataError(
            f"{path}: is a pickle, which is read on request only",
            "give --allow-pickle; anything but arrays and numbers in it is refused",
        )
    try:
        with path.open("rb") as stream:
            content = _plain(_ArrayUnpickler(stream, encoding="latin1").load(), DEEPEST)
    except DataError as error:
        raise DataError(f"{path}: {error.what}", error.cure) from error
    except OSError as error:
        raise DataError(f"{path}: cannot be opened: {error.strerror}") from error
    except Exception as error:  # whatever a damaged pickle leads to
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise DataError(f"{path}: is not a readable pickle: {reason}", _PLAIN) from error
    if not isinstance(content, list):
        raise DataError(f"{path}: holds a {type(content).__name__}, not a list of samples")
    return content


def gnot(recipe: Recipe, allow: bool) -> Source:
    """The samples of a GNOT file, triangulated; groups by the recipe's rules.

    kind: gnot
    file: ns2d_train.pkl
    problem: problem.json
    fields: {velocity: [0, 1], pressure: 2}    # columns of Y
    parameters: {re: 0}                        # places in theta
    labels: {inlet: "box:0,0:0,1", wall: rest} # as on the command line
    alpha: 1.35                                # see geonew.data.cloud
    boundary: {wall: {velocity: [0, 0]}}       # what is not given is taken from the solution
    """
    recipe.check("file", "problem", "fields", "parameters", "labels", "alpha", "boundary")
    problem, alpha = recipe.problem(), recipe.number("alpha", ALPHA)
    samples = load_pickle(recipe.place("file"), allow)
    rules = parse_rules([f"{name}={rule}" for name, rule in recipe.mapping("labels").items()])
    check_keys(recipe.mapping("fields"), [f.name for f in problem.fields], f"{recipe.path}: fields")
    names = [p.name for p in problem.parameters]
    check_keys(recipe.mapping("parameters"), names, f"{recipe.path}: parameters")
    chosen = recipe.span(len(samples))

    def record(sample: int) -> Record:
        points, values, theta = _sample(samples[chosen[sample]])
        mesh = label(triangulate_cloud(points, alpha), rules)
        fields = {}
        for f in problem.fields:
            columns = recipe.mapping("fields").get(f.name)
            columns = columns if isinstance(columns, list) else [columns]
            fields[f.name] = _columns(values, columns, f.name, problem.width(f.name))
        numbers = {n: _entry(theta, k, n) for n, k in recipe.mapping("parameters").items()}
        case = Case(recipe.name, recipe.split, {"sample": chosen[sample]}, numbers, {})
        boundary = boundary_of(problem, mesh, fields, recipe.mapping("boundary"))
        return Record(mesh, fields, boundary, case, dict(numbers))

    return Source(problem, len(chosen), record, lambda k: f"number {chosen[k]}")


def _sample(content: object) -> tuple[ndarray, ndarray, ndarray]:
    """Points, fields and parameters of one sample."""
    if not isinstance(content, list) or len(content) < 3:
        raise DataError("the sample is not a list [X, Y, theta, inputs]")
    points, values, theta = content[:3]
    fits = isinstance(points, ndarray) and isinstance(values, ndarray)
    if not fits or points.ndim != 2 or values.ndim != 2 or len(points) != len(values):
        shapes = [getattr(a, "shape", type(a).__name__) for a in (points, values)]
        raise DataError(f"X and Y have shapes {shapes}; they must be (N, d) and (N, F)")
    theta = np.ravel(theta) if isinstance(theta, ndarray | int | float) else np.zeros(0)
    return points.astype(float), values.astype(float), theta.astype(float)


def _columns(values: ndarray, columns: list[Any], name: str, width: int) -> ndarray:
    known = all(type(c) is int and 0 <= c < values.shape[1] for c in columns)
    if not known or len(columns) != width:
        raise DataError(
            f"field {name!r} is given by the columns {columns} of {values.shape[1]}",
            f"give {width} column(s) of Y under fields",
        )
    picked = np.ascontiguousarray(values[:, columns])
    return picked[:, 0] if width == 1 else picked


def _entry(theta: ndarray, place: object, name: str) -> float:
    if type(place) is not int or not 0 <= place < len(theta):
        raise DataError(f"parameter {name!r} is entry {place!r} of {len(theta)}")
    return float(theta[place])


# -- what a pickle may make ------------------------------------------------------------------------
# Stand-ins, turned into arrays afterwards: numpy's own unpickling trusts the flags it is given.


class _Type:
    """Stands for a ``numpy.dtype`` of plain numbers."""

    __slots__ = ("dtype",)

    def __init__(self, code: object) -> None:
        if not isinstance(code, str) or not re.fullmatch(r"[<>|=]?[biuf][1248]", code):
            raise DataError(f"the pickle holds arrays of type {code!r}", _PLAIN)
        self.dtype = np.dtype(code)

    def __setstate__(self, state: object) -> None:
        order = state[1] if isinstance(state, tuple) and len(state) > 1 else None
        if order not in ("<", ">", "|", "="):
            raise _unusual("a type")
        self.dtype = self.dtype.newbyteorder(order)


class _Array:
    """Stands for an array; it has a value once its state is known."""

    __slots__ = ("value",)

    def __init__(self, value: ndarray | None = None) -> None:
        self.value = value

    def __setstate__(self, state: object) -> None:
        if not (isinstance(state, tuple) and len(state) == 5):
            raise _unusual("an array")
        _, shape, kind, fortran, content = state
        self.value = _values(content, kind, shape, "F" if fortran else "C")


def _values(content: object, kind: object, shape: object, order: object) -> ndarray:
    if not isinstance(kind, _Type) or order not in ("C", "F"):
        raise _unusual("an array")
    if not isinstance(content, bytes | bytearray) or not isinstance(shape, tuple):
        raise _unusual("an array")
    flat = np.frombuffer(content, dtype=kind.dtype)  # checked against the shape by numpy
    return flat.reshape(shape, order="F" if order == "F" else "C")


def _reconstruct(kind: object, shape: object, code: object) -> _Array:
    return _Array()


def _scalar(kind: object, content: object) -> _Array:
    return _Array(_values(content, kind, (1,), "C"))


def _from_buffer(content: object, kind: object, shape: object, order: object) -> _Array:
    return _Array(_values(content, kind, shape, order))


def _dtype(code: object, *rest: object) -> _Type:
    return _Type(code)


def _encode(text: object, encoding: object = "latin1") -> bytes:
    """Bytes, as protocols before 3 write them."""
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise _unusual("text")
    return text.encode("latin1")


def _ndarray(*arguments: object) -> object:
    raise _unusual("an array")


def _unusual(what: str) -> DataError:
    return DataError(f"the pickle makes {what} in an unusual way", _PLAIN)


class _Function:
    """A function that a pickle can call, and can neither change nor take apart."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[..., object]) -> None:
        object.__setattr__(self, "_call", call)

    def __call__(self, *arguments: object) -> object:
        return self._call(*arguments)

    def __setattr__(self, name: str, value: object) -> None:
        raise _unusual("a function")

    def __setstate__(self, state: object) -> None:
        raise _unusual("a function")


_KNOWN = {
    ("numpy", "ndarray"): _Function(_ndarray),
    ("numpy", "dtype"): _Function(_dtype),
    ("_codecs", "encode"): _Function(_encode),
}
for _core in ("numpy.core", "numpy._core"):
    _KNOWN[f"{_core}.multiarray", "_reconstruct"] = _Function(_reconstruct)
    _KNOWN[f"{_core}.multiarray", "scalar"] = _Function(_scalar)
    _KNOWN[f"{_core}.numeric", "_frombuffer"] = _Function(_from_buffer)


class _ArrayUnpickler(pickle.Unpickler):
    """An unpickler whose only functions are those above."""

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        """One of our functions; nothing is imported."""
        try:
            return _KNOWN[module_name, global_name]
        except KeyError:
            raise DataError(
                f"the pickle names {module_name}.{global_name}, which is no array", _PLAIN
            ) from None

    def persistent_load(self, pid: Any) -> Any:
        """Nothing is loaded from elsewhere."""
        raise DataError("the pickle refers to objects outside of it", _PLAIN)


def _plain(content: object, depth: int) -> Any:
    """Containers, numbers, texts and arrays of numbers, not too deep; stand-ins become arrays."""
    if isinstance(content, _Array) and content.value is not None:
        return content.value
    if content is None or isinstance(content, str | int | float | bool | bytes):
        return content
    if not isinstance(content, list | tuple | dict) or depth == 0:
        raise DataError(f"the pickle holds a {type(content).__name__}, which is no array", _PLAIN)
    if isinstance(content, dict):
        return {str(key): _plain(item, depth - 1) for key, item in content.items()}
    return [_plain(item, depth - 1) for item in content]
