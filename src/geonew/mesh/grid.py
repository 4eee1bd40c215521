r"""Structured meshes: the nodes as the places of a (rows, cols) array.

Node numbers run along the rows, as ``array.ravel()`` does. A C-grid has a cut: along its first
column (j = 0) the first ``cut`` rows coincide with the last ones in reverse order, place by place,
and a mesh has one node there; nodes are then numbered by their first places.

Identity kept: values on nodes put on the grid and read back are the same, bit for bit; at the cut,
where one node has two places, reading back averages.

A mesh is such a grid when its edges are: every grid line's edges are in the mesh, and every other
edge is a diagonal of one quadrilateral. Anything else is refused: a convolution over an array whose
neighbours are no neighbours learns nothing that holds for the next mesh.
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from geonew.errors import ConfigError, MeshError
from geonew.mesh.mesh import Mesh

# Meshes that were found to be these grids: a training run asks about the same ones many times.
_ACCEPTED: WeakKeyDictionary[Mesh, set[Grid]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Grid:
    """The shape of a structured mesh.

    Args:
        rows, cols: places along each direction.
        cut: rows whose places j = 0 coincide with those of the last rows, in reverse order.

    """

    rows: int
    cols: int
    cut: int = 0

    def __post_init__(self) -> None:
        if self.rows < 2 or self.cols < 2 or not 0 <= 2 * self.cut <= self.rows:
            raise ConfigError(
                f"{self} is no grid: it needs two rows and columns, and a cut of at most half the "
                "rows"
            )

    def __str__(self) -> str:
        cut = f" with a cut of {self.cut} nodes" if self.cut else ""
        return f"{self.rows} x {self.cols} grid{cut}"

    @property
    def numbers(self) -> Int[ndarray, "rows cols"]:
        """Node at each place."""
        numbers = np.arange(self.rows * self.cols).reshape(self.rows, self.cols)
        if self.cut:
            numbers[::-1, 0][: self.cut] = numbers[: self.cut, 0]
        _, flat = np.unique(numbers, return_inverse=True)
        return flat.reshape(self.rows, self.cols)

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return self.rows * self.cols - self.cut

    @property
    def mirrored(self) -> Int[ndarray, "N"]:
        """For each node the one at its place when the rows run the other way."""
        numbers = self.numbers
        image = np.empty(self.n_nodes, dtype=numbers.dtype)
        image[numbers] = numbers[::-1]
        return image

    def check(self, mesh: Mesh) -> None:
        """Refuse a mesh that is not this grid, numbered as it is."""
        if self in _ACCEPTED.get(mesh, ()):
            return
        cure = "use a model for unstructured meshes, or a grid model with this mesh's shape"
        if mesh.dim != 2 or mesh.n_nodes != self.n_nodes:
            raise MeshError(
                f"a mesh of {mesh.n_nodes} nodes in {mesh.dim} dimensions is no {self}, which has "
                f"{self.n_nodes} nodes in the plane",
                cure,
            )
        n = self.numbers
        lines = [(n[:-1], n[1:]), (n[:, :-1], n[:, 1:])]
        diagonals = [(n[:-1, :-1], n[1:, 1:]), (n[1:, :-1], n[:-1, 1:])]
        own = self._keys(lines)
        a, b, c = mesh.cells.T
        edges = self._keys([(a, b), (b, c), (c, a)])
        absent = np.setdiff1d(own, edges)
        foreign = np.setdiff1d(edges, np.union1d(own, self._keys(diagonals)))
        if len(absent) or len(foreign):
            raise MeshError(
                f"the mesh has the {self.n_nodes} nodes of a {self}, but not its edges: "
                f"{len(absent)} of {len(own)} are missing, {len(foreign)} of {len(edges)} lead "
                "elsewhere",
                cure + "; nodes are numbered row by row",
            )
        _ACCEPTED.setdefault(mesh, set()).add(self)

    def _keys(self, pairs: list[tuple[ndarray, ndarray]]) -> Int[ndarray, "_"]:
        """One number per undirected edge, each once, loops left out."""
        a = np.concatenate([p.ravel() for p, _ in pairs]).astype(np.int64)
        b = np.concatenate([q.ravel() for _, q in pairs]).astype(np.int64)
        keys = np.minimum(a, b) * self.n_nodes + np.maximum(a, b)
        return np.unique(keys[a != b])
