r"""Formulas of x, y, z as users type them: ``4*y*(1-y), 0``.

    text --parsed--> tree of known nodes --walked with arrays--> one number per point

A formula is data from anywhere: the tree may hold numbers, coordinates, ``pi``, ``e``, the
operators ``+ - * / % **``, comparisons (1 or 0) and a fixed list of functions, and nothing else.
Nothing is executed: the tree is walked here, in float64, so that no number grows beyond it.
Several formulas separated by commas are the components of a vector.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from geonew.errors import InputError

COORDINATES = "xyz"
# Longer than any formula a person types; what is longer could only exhaust the parser.
LONGEST = 1000
DEEPEST = 50
LARGEST = 1e300  # a whole number beyond float64 is no boundary value

_CONSTANTS = {"pi": np.pi, "e": np.e}
_FUNCTIONS: Mapping[str, tuple[Callable[..., Any], range]] = {
    **{
        name: (getattr(np, name), range(1, 2))
        for name in ("sin", "cos", "tan", "exp", "log", "sqrt", "sinh", "cosh", "tanh", "sign")
    },
    "abs": (np.abs, range(1, 2)),
    "asin": (np.arcsin, range(1, 2)),
    "acos": (np.arccos, range(1, 2)),
    "atan": (np.arctan, range(1, 2)),
    "atan2": (np.arctan2, range(2, 3)),
    "hypot": (np.hypot, range(2, 3)),
    "min": (lambda *parts: reduce(np.minimum, parts), range(1, 10)),
    "max": (lambda *parts: reduce(np.maximum, parts), range(1, 10)),
    "where": (lambda chosen, a, b: np.where(chosen != 0, a, b), range(3, 4)),
}
_OPERATORS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: np.divide,
    ast.Mod: np.mod,
    ast.Pow: np.power,
}
_COMPARISONS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
}
KNOWN = (
    f"coordinates {', '.join(COORDINATES)}, pi, e, + - * / % **, comparisons and "
    f"{', '.join(sorted(_FUNCTIONS))}"
)


@dataclass(frozen=True)
class Expression:
    """One or several formulas of the coordinates.

    Args:
        text: as typed.
        parts: the tree of each component.

    """

    text: str
    parts: tuple[ast.expr, ...]

    def __call__(self, points: Float[ndarray, "n d"]) -> Float[ndarray, "n w"]:
        """Values at points, one column per component."""
        space = {name: points[:, k] for k, name in enumerate(COORDINATES[: points.shape[1]])}
        with np.errstate(all="ignore"):  # what is not finite is refused by whoever asked
            columns = [
                np.broadcast_to(_value(p, space, self.text), len(points)) for p in self.parts
            ]
        return np.stack(columns, axis=1).astype(np.float64)

    @property
    def constant(self) -> list[float] | None:
        """The numbers, where no coordinate occurs."""
        names = {n.id for part in self.parts for n in ast.walk(part) if isinstance(n, ast.Name)}
        if names & set(COORDINATES):
            return None
        return self(np.zeros((1, len(COORDINATES))))[0].tolist()


def parse(text: str) -> Expression:
    """A formula, checked before anything is computed; says which piece is not known."""
    if len(text) > LONGEST:
        raise InputError(f"a formula has {len(text)} characters", f"use at most {LONGEST}")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise InputError(f"{text!r} is no formula", f"known are {KNOWN}") from error
    parts = tuple(tree.elts) if isinstance(tree, ast.Tuple) else (tree,)
    if not parts:
        raise InputError(f"{text!r} is empty", "write one formula per component")
    for part in parts:
        _check(part, text, 0)
    return Expression(text, parts)


def _check(node: ast.AST, text: str, depth: int) -> None:
    """Refuse everything that :func:`_value` does not know."""
    if depth > DEEPEST:
        raise InputError(f"{text!r} is nested too deeply")
    children: list[ast.AST] = []
    number = (
        isinstance(node, ast.Constant)
        and type(node.value) in (int, float)
        and abs(node.value) < LARGEST  # type: ignore[arg-type]
    )
    name = isinstance(node, ast.Name) and (node.id in COORDINATES or node.id in _CONSTANTS)
    if number or name:
        pass
    elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        children = [node.left, node.right]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        children = [node.operand]
    elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARISONS:
        children = [node.left, node.comparators[0]]
    elif (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in _FUNCTIONS
        and not node.keywords
        and len(node.args) in _FUNCTIONS[node.func.id][1]
    ):
        children = list(node.args)
    else:
        piece = ast.get_source_segment(text.strip(), node) or type(node).__name__
        raise InputError(f"{piece!r} in the formula {text!r} is not known", f"known are {KNOWN}")
    for child in children:
        _check(child, text, depth + 1)


def _value(node: ast.AST, space: Mapping[str, ndarray], text: str) -> Any:
    """The value of a checked tree."""
    if isinstance(node, ast.Constant):
        return np.float64(node.value)  # type: ignore[arg-type]
    if isinstance(node, ast.Name):
        if node.id in _CONSTANTS:
            return _CONSTANTS[node.id]
        if node.id not in space:
            raise InputError(
                f"the formula {text!r} uses {node.id!r}, but the mesh is {len(space)}D",
                f"use {', '.join(space)}",
            )
        return space[node.id]
    if isinstance(node, ast.BinOp):
        return _OPERATORS[type(node.op)](
            _value(node.left, space, text), _value(node.right, space, text)
        )
    if isinstance(node, ast.UnaryOp):
        inner = _value(node.operand, space, text)
        return -inner if isinstance(node.op, ast.USub) else inner
    if isinstance(node, ast.Compare):
        compare = _COMPARISONS[type(node.ops[0])]
        first, second = node.left, node.comparators[0]
        return compare(_value(first, space, text), _value(second, space, text)).astype(np.float64)
    assert isinstance(node, ast.Call)
    assert isinstance(node.func, ast.Name)
    function = _FUNCTIONS[node.func.id][0]
    return function(*(_value(argument, space, text) for argument in node.args))
