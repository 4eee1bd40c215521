"""From JSON to frozen dataclasses, strictly: every key known, every value of the declared type.

JSON here is data from anywhere. Whatever it holds, the result is the declared dataclass or a
:class:`ProblemError` that names the place, such as ``fields[1].reference``; no code is run.
"""

from __future__ import annotations

import dataclasses
import json
import types
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from geonew.errors import ProblemError

T = TypeVar("T")


def parse(text: str) -> dict[str, Any]:
    """A JSON object; repeated keys are refused, not silently overwritten."""
    try:
        raw = json.loads(text, object_pairs_hook=_object)
    except RecursionError as error:
        raise ProblemError("the problem is not valid JSON: nested too deeply") from error
    except ValueError as error:  # JSONDecodeError, or a number of thousands of digits
        raise ProblemError(f"the problem is not valid JSON: {error}") from error
    if not isinstance(raw, dict):
        raise ProblemError(f"the problem must be a JSON object, not {_kind(raw)}")
    return raw


def build(kind: type[T], raw: object, where: str) -> T:
    """A dataclass from a JSON object whose keys are its fields."""
    if not isinstance(raw, dict):
        raise ProblemError(f"{where} must be a JSON object, not {_kind(raw)}")
    declared = {f.name: f for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    unknown = sorted(set(raw) - set(declared))
    if unknown:
        raise ProblemError(
            f"{where} has unknown keys {unknown}", f"known keys are {sorted(declared)}"
        )
    missing = [name for name, f in declared.items() if name not in raw and _required(f)]
    if missing:
        raise ProblemError(f"{where} lacks the keys {missing}")
    hints = get_type_hints(kind)
    return kind(**{name: _value(hints[name], raw[name], f"{where}.{name}") for name in raw})


def _value(hint: Any, raw: object, where: str) -> Any:
    """One value, checked against its annotation."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):  # only X | None occurs
        if raw is None:
            return None
        return _value(next(a for a in arguments if a is not type(None)), raw, where)
    if origin is Literal:
        if not isinstance(raw, str) or raw not in arguments:
            raise ProblemError(f"{where} is {raw!r}; it must be one of {list(arguments)}")
        return raw
    if origin is tuple:
        return _tuple(arguments, raw, where)
    if origin is Mapping:
        if not isinstance(raw, dict):
            raise ProblemError(f"{where} must be a JSON object, not {_kind(raw)}")
        return {name: _value(arguments[1], item, f"{where}.{name}") for name, item in raw.items()}
    if dataclasses.is_dataclass(hint):
        return build(hint, raw, where)  # type: ignore[arg-type]
    return _atom(hint, raw, where)


def _tuple(arguments: tuple[Any, ...], raw: object, where: str) -> tuple[Any, ...]:
    if not isinstance(raw, list):
        raise ProblemError(f"{where} must be a list, not {_kind(raw)}")
    if arguments[-1] is not Ellipsis and len(raw) != len(arguments):
        raise ProblemError(f"{where} must have {len(arguments)} entries, not {len(raw)}")
    return tuple(_value(arguments[0], item, f"{where}[{n}]") for n, item in enumerate(raw))


def _atom(hint: type, raw: object, where: str) -> Any:
    if hint is float and isinstance(raw, int) and not isinstance(raw, bool):
        try:
            return float(raw)
        except OverflowError as error:
            raise ProblemError(f"{where} is too large a number") from error
    if type(raw) is not hint:  # by exact type: true is no number
        wanted = {str: "a text", int: "a whole number", float: "a number"}[hint]
        raise ProblemError(f"{where} must be {wanted}, not {_kind(raw)}")
    return raw


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ProblemError(f"the JSON repeats the keys {twice}", "keep one of each")
    return dict(pairs)


def _required(declared: dataclasses.Field[Any]) -> bool:
    missing = dataclasses.MISSING
    return declared.default is missing and declared.default_factory is missing


def _kind(raw: object) -> str:
    """What JSON calls the type of a value."""
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}
    names |= {int: "a whole number", float: "a number", type(None): "null"}
    return names[type(raw)]
