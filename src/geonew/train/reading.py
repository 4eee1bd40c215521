"""From YAML to frozen dataclasses, strictly: every key known, every value of the declared type.

    text --safe_load--> plain data --build--> dataclass --plain--> plain data

A configuration is data from anywhere: the result is the declared dataclass or a
:class:`~geonew.errors.ConfigError` that names the place, such as ``optimiser.learning_rate``, and
for an unknown key the nearest known one. A class with a method ``from_plain(raw, where)`` reads
itself.

Identity kept: ``build(type(c), plain(c), "")`` equals c.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

from geonew.errors import ConfigError

T = TypeVar("T")
# Nested deeper than any configuration; beyond it, recursion would end in a traceback.
DEEPEST = 20
_NAMES = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


def read_yaml(path: str | Path) -> dict[str, Any]:
    """The mapping in a YAML file."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read configuration {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"configuration {path} is not UTF-8 text: {error.reason}") from error
    return parse_yaml(text, str(path))


def parse_yaml(text: str, where: str) -> dict[str, Any]:
    """The mapping in a YAML text; repeated keys are refused, tags are never followed."""
    try:
        raw = yaml.load(text, Loader=_Loader)  # a SafeLoader: plain data only
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"{where} is not valid YAML: {reason}") from error
    if not isinstance(raw, dict):
        raise ConfigError(f"{where} must be a mapping of settings, not {_kind(raw)}")
    return raw


def with_settings(raw: dict[str, Any], settings: Sequence[str]) -> dict[str, Any]:
    """Plain data with single settings replaced, each as ``optimiser.learning_rate=1e-3``."""
    result = _copy(raw)
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or not all(key.split(".")):
            raise ConfigError(
                f"--set {setting!r} is no setting", "write it as optimiser.learning_rate=1e-3"
            )
        *parents, last = key.split(".")
        place = result
        for parent in parents:
            place = place.setdefault(parent, {})
            if not isinstance(place, dict):
                raise ConfigError(f"--set {setting!r}: {parent!r} has no settings of its own")
        try:
            place[last] = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ConfigError(f"--set {setting!r}: {text!r} is not a YAML value") from error
    return result


def build(kind: type[T], raw: object, where: str) -> T:
    """A dataclass from a mapping whose keys are its fields.

    Args:
        kind: the dataclass.
        raw: plain data.
        where: name of the place, for messages; empty at the top.

    """
    if where.count(".") > DEEPEST:
        raise ConfigError(f"{where} is nested too deeply")
    reads_itself = getattr(kind, "from_plain", None)
    if reads_itself is not None:
        return reads_itself(raw, where)
    return build_plainly(kind, raw, where)


def build_plainly(kind: type[T], raw: object, where: str) -> T:
    """The same for a class that does not read itself."""
    raw = {} if raw is None else raw  # a heading with nothing below it
    if not isinstance(raw, dict):
        raise ConfigError(f"{where or 'the configuration'} must be a mapping, not {_kind(raw)}")
    declared = {f.name: f for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    for key in raw:
        if key not in declared:
            raise _unknown(str(key), list(declared), where)
    missing = [name for name, f in declared.items() if name not in raw and _required(f)]
    if missing:
        raise ConfigError(
            f"{where or 'the configuration'} lacks {', '.join(map(repr, missing))}",
            "add the missing settings",
        )
    hints = get_type_hints(kind)
    return kind(**{name: _value(hints[name], raw[name], _join(where, name)) for name in raw})


def plain(value: Any) -> Any:
    """A configuration as plain data: mappings, lists, texts, numbers."""
    writes_itself = getattr(value, "to_plain", None)
    if writes_itself is not None:
        return writes_itself()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    return value


def differences(ours: Any, theirs: Any, where: str = "") -> list[str]:
    """Names of the settings in which two pieces of plain data differ."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        keys = dict.fromkeys([*ours, *theirs])
        return [
            name
            for key in keys
            for name in differences(ours.get(key), theirs.get(key), _join(where, str(key)))
        ]
    return [] if ours == theirs else [where]


def nearest(name: str, known: Sequence[str]) -> str:
    """Advice for a name that is not known."""
    close = get_close_matches(name, known, n=1, cutoff=0.5)
    listed = f"known are {', '.join(known)}"
    return f"did you mean {close[0]!r}? {listed}" if close else listed


def _value(hint: Any, raw: object, where: str) -> Any:
    """One value, checked against its annotation."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):  # only X | None occurs
        if raw is None:
            return None
        return _value(next(a for a in arguments if a is not type(None)), raw, where)
    if origin is Literal:
        if not isinstance(raw, str) or raw not in arguments:
            raise ConfigError(f"{where} is {raw!r}", nearest(str(raw), arguments))
        return raw
    if origin is tuple:
        if not isinstance(raw, list):
            raise ConfigError(f"{where} must be a list, not {_kind(raw)}")
        return tuple(_value(arguments[0], item, f"{where}[{n}]") for n, item in enumerate(raw))
    if dataclasses.is_dataclass(hint):
        return build(hint, raw, where)  # type: ignore[arg-type]
    return _atom(hint, raw, where)


def _atom(hint: type, raw: object, where: str) -> Any:
    if hint is float and type(raw) in (int, str):  # YAML reads 1e-3, without a dot, as text
        try:
            return float(raw)  # type: ignore[arg-type]
        except (ValueError, OverflowError):
            pass
    if type(raw) is not hint:  # by exact type: true is no number
        raise ConfigError(f"{where} is {raw!r}; it must be {_NAMES[hint]}")
    return raw


class _Loader(yaml.SafeLoader):
    """Safe loading that refuses a key given twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = sorted({str(key) for key in keys if keys.count(key) > 1})
        if twice:
            raise yaml.YAMLError(f"the keys {twice} are given twice")
        return super().construct_mapping(node, deep=deep)


def _unknown(key: str, known: list[str], where: str) -> ConfigError:
    place = f"{where} has" if where else "the configuration has"
    return ConfigError(f"{place} no setting {key!r}", nearest(key, known))


def _required(declared: dataclasses.Field[Any]) -> bool:
    missing = dataclasses.MISSING
    return declared.default is missing and declared.default_factory is missing


def _join(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _copy(raw: Any) -> Any:
    return {key: _copy(value) for key, value in raw.items()} if isinstance(raw, dict) else raw


def _kind(raw: object) -> str:
    if isinstance(raw, dict):
        return "a mapping"
    if isinstance(raw, list):
        return "a list"
    return "nothing" if raw is None else _NAMES.get(type(raw), type(raw).__name__)
