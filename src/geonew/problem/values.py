"""Values a user may give on nodes: a constant, an array over nodes, or a function of coordinates.

One reading for boundary data, sources and parameters, so that the same thing means the same
everywhere. For a quantity of w components on n nodes of a mesh of N:

- w numbers (a plain number where w = 1): constant;
- an array (n, w), one row per node in ascending order, or (N, w), of which the rows are taken;
  where w = 1 the last axis may be left out;
- a function of the coordinates (n, d), in the user's units, that returns one of these.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from geonew.errors import InputError
from geonew.mesh import Mesh

Value = float | int | list | tuple | ndarray | Callable[[ndarray], object]


def evaluate(
    mesh: Mesh,
    nodes: Int[ndarray, "n"],
    value: Value,
    width: int,
    what: str,
    error: type[InputError] = InputError,
) -> Float[ndarray, "n _"]:
    """Values (n, width) on some nodes; ``what`` names them in messages of kind ``error``."""
    array = as_numbers(mesh, nodes, value, what, error)
    columns = spread(array, mesh, nodes, width)
    if columns is None:
        raise wrong_shape(array, mesh, nodes, width, what, error)
    return columns


def as_numbers(
    mesh: Mesh, nodes: Int[ndarray, "n"], value: Value, what: str, error: type[InputError]
) -> Float[ndarray, "..."]:
    """The finite numbers given, functions called, in whatever shape they come."""
    if callable(value):
        try:
            value = value(mesh.points[nodes])  # type: ignore[assignment]
        except Exception as failure:  # the function is the user's code
            raise error(
                f"the function of {what} failed: {type(failure).__name__}: {failure}",
                f"it is called with coordinates of shape ({len(nodes)}, {mesh.dim})",
            ) from failure
    try:
        array = np.asarray(value)
    except ValueError as failure:
        raise error(f"{what} have rows of different length: {value!r}") from failure
    if array.dtype.kind not in "iuf":  # numpy would read "3" and drop imaginary parts
        raise error(f"{what} are not numbers but {array.dtype} ({_short(array)})")
    array = array.astype(np.float64)
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        raise error(
            f"{what} are not finite: {len(bad)} of {array.size} numbers, first at "
            f"{_place(bad[0], array, mesh, nodes)}"
        )
    return array


def spread(
    array: Float[ndarray, "..."], mesh: Mesh, nodes: Int[ndarray, "n"], width: int
) -> Float[ndarray, "n _"] | None:
    """One row per node of an array of any allowed shape; none for another shape."""
    if array.shape == (width,) or (array.ndim == 0 and width == 1):
        return np.tile(array.reshape(1, width), (len(nodes), 1))
    if array.ndim == 1 and width == 1:
        array = array[:, None]
    if array.shape == (len(nodes), width):
        return array
    if array.shape == (mesh.n_nodes, width):
        return array[nodes]
    return None


def wrong_shape(
    array: Float[ndarray, "..."],
    mesh: Mesh,
    nodes: Int[ndarray, "n"],
    width: int,
    what: str,
    error: type[InputError],
) -> InputError:
    """The error for an array that :func:`spread` does not take."""
    if array.size == 1 and width > 1:
        return error(
            f"{what} are one number, {array.item():g}, for {width} components",
            f"give all components, such as {[array.item(), *[0.0] * (width - 1)]}",
        )
    everywhere = "" if len(nodes) == mesh.n_nodes else f" or ({mesh.n_nodes}, {width}) on all nodes"
    return error(
        f"{what} have shape {array.shape}",
        f"give {width} number(s), an array ({len(nodes)}, {width}) on the {len(nodes)} nodes"
        f"{everywhere}, or a function returning one of these",
    )


def _place(index: ndarray, array: ndarray, mesh: Mesh, nodes: ndarray) -> str:
    rows = {len(nodes): nodes, mesh.n_nodes: np.arange(mesh.n_nodes)}
    if array.ndim == 0 or array.shape[0] not in rows:
        return f"position {index.tolist()}"
    node = int(rows[array.shape[0]][index[0]])
    return f"node {node}, x = {mesh.points[node].tolist()}"


def _short(array: ndarray) -> str:
    text = repr(array.tolist())
    return text if len(text) <= 60 else text[:57] + "..."
