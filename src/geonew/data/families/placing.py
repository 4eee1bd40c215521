r"""Obstacles placed at random in a channel, with gaps kept.

An obstacle is a circle or a square of equal area, :math:`s = r \sqrt\pi`, turned by any angle. Its
reach is the radius of the circle around it, r or :math:`s / \sqrt 2`. Obstacles are drawn one after
the other; one that comes nearer than ``GAP`` (in units of the channel's height, reach to reach) to
another or to a wall, or nearer than ``ENDS`` to inlet or outlet, is drawn again. When one does not
find room in ``TRIES`` draws, all are drawn anew. Every draw is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy import ndarray

from geonew.errors import ShapeError
from geonew.shape import Loop, disc, regular_polygon

GAP = 0.06
ENDS = 0.12
TRIES = 200
RESTARTS = 200


@dataclass(frozen=True)
class Obstacle:
    """A circle, or a square of the same area turned by ``angle``."""

    x: float
    y: float
    radius: float
    square: bool = False
    angle: float = 0.0

    @property
    def reach(self) -> float:
        """Radius of the circle around it."""
        return self.radius * float(np.sqrt(np.pi / 2)) if self.square else self.radius

    def loop(self, name: str = "obstacle") -> Loop:
        """Its boundary."""
        if self.square:
            return regular_polygon((self.x, self.y), self.reach, 4, name, self.angle)
        return disc((self.x, self.y), self.radius, name)


def place(
    generator: np.random.Generator,
    squares: Sequence[bool],
    radius: tuple[float, float],
    walls: ndarray,
    length: float,
) -> tuple[list[Obstacle], int]:
    """Obstacles with gaps, and how many draws that took.

    Args:
        generator: the only source of randomness.
        squares: for each obstacle, whether it is a square.
        radius: range of the radii.
        walls: segments of both walls, (n, 2, 2).
        length: of the channel; obstacles have x in 0 to ``length``.

    """
    height = (float(walls[:, :, 1].min()), float(walls[:, :, 1].max()))
    tries = 0
    for _ in range(RESTARTS):
        placed: list[Obstacle] = []
        for square in squares:
            for _ in range(TRIES):
                tries += 1
                new = Obstacle(
                    x=float(generator.uniform(0, length)),
                    y=float(generator.uniform(*height)),
                    radius=float(generator.uniform(*radius)),
                    square=square,
                    angle=float(generator.uniform(0, np.pi / 2)) if square else 0.0,
                )
                if fits(new, placed, walls, length):
                    placed.append(new)
                    break
            else:
                break
        if len(placed) == len(squares):
            return placed, tries
    raise ShapeError(
        f"{len(squares)} obstacles with radii {radius} found no room in {tries} draws",
        "draw from another seed, or fewer or smaller obstacles",
    )


def fits(new: Obstacle, placed: Sequence[Obstacle], walls: ndarray, length: float) -> bool:
    """Whether an obstacle keeps its distance from the ends, the walls and the others."""
    if not ENDS <= new.x - new.reach <= new.x + new.reach <= length - ENDS:
        return False
    for other in placed:
        if np.hypot(new.x - other.x, new.y - other.y) < new.reach + other.reach + GAP:
            return False
    center = np.array([new.x, new.y])
    start, along = walls[:, 0], walls[:, 1] - walls[:, 0]
    t = np.clip(((center - start) * along).sum(axis=1) / (along**2).sum(axis=1), 0, 1)
    distance = np.linalg.norm(start + t[:, None] * along - center, axis=1).min()
    between = _height_at(walls, new.x)
    return bool(distance >= new.reach + GAP and between[0] < new.y < between[1])


def _height_at(walls: ndarray, x: float) -> tuple[float, float]:
    """Lower and upper wall above and below x."""
    low, high = walls[:, :, 0].min(axis=1), walls[:, :, 0].max(axis=1)
    over = walls[(low <= x) & (x <= high)]
    part = (x - over[:, 0, 0]) / (over[:, 1, 0] - over[:, 0, 0])
    heights = over[:, 0, 1] + part * (over[:, 1, 1] - over[:, 0, 1])
    return float(heights.min()), float(heights.max())
