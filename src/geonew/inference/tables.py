r"""Measured profiles: values at points, from a CSV file, carried over to the nodes of a boundary.

    x, y, value(s) per row  --linear along the rows (2D), over their triangles (3D)-->  nodes

In 2D the rows are points of a curve in their order along it, and a node takes the value at the
nearest point of that polyline; in 3D the rows are triangulated in their mean plane. A node that
lies farther from the rows than these are apart is refused: the profile does not cover it.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.interpolate import LinearNDInterpolator, NearestNDInterpolator
from scipy.spatial import KDTree

from geonew.errors import InputError

LARGEST_FILE = 50_000_000  # bytes: a profile is not a data set
# A node may lie this many row distances away from the rows.
REACH = 2.0
# Rows are in a plane when they leave it by less than this part of their extent.
FLAT = 1e-3


@dataclass(frozen=True, eq=False)
class Profile:
    """Values at points, as a function of the coordinates.

    Args:
        path: where they come from.
        points: of the rows.
        values: of the rows.

    """

    path: Path
    points: Float[ndarray, "m d"]
    values: Float[ndarray, "m w"]

    def __call__(self, points: Float[ndarray, "n e"]) -> Float[ndarray, "n w"]:
        """Values at points; a mesh of another dimension is refused."""
        if points.shape[1] != self.points.shape[1]:
            raise InputError(
                f"{self.path} has {self.points.shape[1]} columns of coordinates, the mesh is "
                f"{points.shape[1]}D",
                f"write the columns {', '.join('xyz'[: points.shape[1]])} and then the values",
            )
        self._check_reach(points)
        if len(self.points) == 1:
            return np.repeat(self.values, len(points), axis=0)
        if points.shape[1] == 2:
            return self._along(points)
        return self._over(points)

    def _check_reach(self, points: Float[ndarray, "n d"]) -> None:
        tree = KDTree(self.points)
        distance, _ = tree.query(points)
        if len(self.points) < 2:
            return
        apart = float(tree.query(self.points, k=2)[0][:, 1].max())
        worst = int(distance.argmax())
        if distance[worst] > REACH * apart:
            raise InputError(
                f"{self.path} does not cover the boundary: the node at {points[worst].tolist()} is "
                f"{distance[worst]:.3g} from the nearest row, rows are up to {apart:.3g} apart",
                "give rows along the whole group, in the mesh's units",
            )

    def _along(self, points: Float[ndarray, "n 2"]) -> Float[ndarray, "n w"]:
        start, step = self.points[:-1], np.diff(self.points, axis=0)
        length = np.maximum((step**2).sum(axis=1), np.finfo(float).tiny)
        t = np.einsum("nkd,kd->nk", points[:, None] - start, step) / length
        t = np.clip(t, 0.0, 1.0)
        gap = points[:, None] - (start + t[..., None] * step)
        best = (gap**2).sum(axis=2).argmin(axis=1)
        part = t[np.arange(len(points)), best][:, None]
        return (1 - part) * self.values[best] + part * self.values[best + 1]

    def _over(self, points: Float[ndarray, "n 3"]) -> Float[ndarray, "n w"]:
        centre = self.points.mean(axis=0)
        _, size, axes = np.linalg.svd(self.points - centre, full_matrices=False)
        nearest = NearestNDInterpolator(self.points, self.values)(points)
        if len(self.points) < 4 or size[2] > FLAT * size[0] or size[1] <= FLAT * size[0]:
            return np.asarray(nearest, dtype=np.float64)
        plane = axes[:2].T
        linear = LinearNDInterpolator((self.points - centre) @ plane, self.values)
        found = linear((points - centre) @ plane)
        return np.where(np.isfinite(found), found, nearest)  # outside their hull the nearest row


def read_profile(path: str | Path, dim: int, width: int) -> Profile:
    """A CSV file: a head line, then coordinates and values.

    Args:
        path: the file.
        dim: number of coordinates.
        width: number of values per row.

    """
    path = Path(path)
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise InputError(f"{path} is larger than {LARGEST_FILE} bytes", "give fewer rows")
        with path.open(encoding="utf-8-sig", newline="") as stream:
            rows = [row for row in csv.reader(stream) if any(cell.strip() for cell in row)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: the table cannot be read: {error}", "check the file") from error
    names = ", ".join([*"xyz"[:dim], *(f"value {k + 1}" for k in range(width))])
    if rows and not _numbers(rows[0]):
        rows = rows[1:]  # the head
    if not rows:
        raise InputError(f"{path}: the table has no rows", f"write the columns {names}")
    for number, row in enumerate(rows, 1):
        if len(row) != dim + width or not _numbers(row):
            raise InputError(
                f"{path}: row {number} is {','.join(row)!r}",
                f"write {dim + width} finite numbers: {names}",
            )
    table = np.array(rows, dtype=np.float64)
    return Profile(path, table[:, :dim], table[:, dim:])


def _numbers(row: list[str]) -> bool:
    try:
        return bool(np.isfinite([float(cell) for cell in row]).all())
    except ValueError:
        return False
