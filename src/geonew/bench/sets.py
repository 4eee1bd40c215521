"""Data sets that only the campaign needs, made by the generators of :mod:`geonew.data`.

    GEONEW_HOME/data/bench/ns2d-c++/{swap,ood-l1,heat-map,coarse,medium,fine}.h5
    GEONEW_HOME/data/bench/skewed-cavity/{train,val,test}.h5

``swap``: the test shapes of ns2d-c++ with inlet and outlet exchanged and the flow of that solved.
``ood-l1``: out of distribution in everything but the channel's length. ``heat-map``: circles, with
length, number and angle of the step on a grid of values. ``coarse``, ``medium``, ``fine``: the same
shapes three times. ``skewed-cavity``: published lid-driven flows; the training samples are every
third line of their grids, the test samples whole grids.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
from numpy import ndarray

from geonew.cache import default_folder
from geonew.data.check import check_record
from geonew.data.columns import pack
from geonew.data.families import family
from geonew.data.families.channel import (
    OBSTACLES_OOD,
    RADIUS,
    RAMP_ENDS,
    RUN,
    STEEPEST,
    Channel,
    ChannelObstacles,
)
from geonew.data.families.placing import place
from geonew.data.generate import generate
from geonew.data.header import Header
from geonew.data.importing import open_source
from geonew.data.recipe import Recipe
from geonew.data.record import Case, Family, Record, Split
from geonew.data.request import Request
from geonew.data.store import DataSet
from geonew.data.writer import Writer
from geonew.errors import DataError
from geonew.mesh import NormalDirection, RawMesh, Rest, clean, label

SEED = 0
SAMPLES, LEVEL_SAMPLES = 100, 10
LENGTHS = (1.0, 2.0, 3.0, 4.0, 5.0)
COUNTS = (1, 2, 3, 4, 5, 6)
ANGLES = (0.0, 15.0, 30.0)
PER_PLACE = 2
# Of the published cavities: which part and samples, and every which grid line.
CAVITIES: Mapping[Split, tuple[str, int, int, int]] = {
    "train": ("train", 0, 80, 3),
    "val": ("train", 80, 100, 3),
    "test": ("validate", 0, 50, 1),
}
CAVITY_FILE = "skewed_cavity.npz"
# Where files that were published by others are, beside a checkout by default.
PUBLISHED = "GEONEW_SHARED_DATA"


@dataclass(frozen=True)
class UnitLength(ChannelObstacles):
    """ns2d-c++ with L = 1, all else out of distribution."""

    name: str = "ns2d-c++-l1"

    def draw(
        self,
        split: Split,
        generator: np.random.Generator,
        axis: tuple[str, float] | None = None,
        swap: bool = False,
    ) -> Case:
        """Four to six obstacles, at least one of them square, and a step."""
        count = int(generator.integers(OBSTACLES_OOD[0], OBSTACLES_OOD[1] + 1))
        squares = generator.random(count) < 0.5
        if not squares.any():
            squares[generator.integers(count)] = True
        angle = STEEPEST * (1 - generator.random())  # in (0, steepest]
        return channel_case(self.name, split, generator, 1.0, float(angle), squares)


@dataclass(frozen=True)
class Places(ChannelObstacles):
    """ns2d-c++ with circles at given places (length, obstacles, angle), taken by their number."""

    name: str = "ns2d-c++-places"
    places: tuple[tuple[float, int, float], ...] = tuple(product(LENGTHS, COUNTS, ANGLES))

    def draw(
        self,
        split: Split,
        generator: np.random.Generator,
        axis: tuple[str, float] | None = None,
        swap: bool = False,
    ) -> Case:
        """The axis ``place`` is the number of the place."""
        if axis is None or axis[0] != "place":
            raise DataError(f"{self.name} is drawn along the axis 'place'")
        length, count, angle = self.places[round(axis[1])]
        return channel_case(self.name, split, generator, length, angle, np.zeros(count, dtype=bool))


def channel_case(
    name: str,
    split: Split,
    generator: np.random.Generator,
    length: float,
    angle: float,
    squares: ndarray,
) -> Case:
    """A channel with obstacles at random places; the rest is given."""
    start = float(generator.uniform(RAMP_ENDS[0], length - RUN - RAMP_ENDS[1])) if angle else 0.0
    channel = Channel(length, angle, start)
    obstacles, tries = place(generator, squares.tolist(), RADIUS, channel.walls, length)
    numbers: dict[str, float | int] = {"length": length, "angle": angle, "start": start}
    for k, o in enumerate(obstacles):
        numbers |= {f"x_{k}": o.x, f"y_{k}": o.y, f"radius_{k}": o.radius}
        numbers |= {f"square_{k}": int(o.square), f"angle_{k}": o.angle}
    return Case(
        family=name,
        split=split,
        shape=channel.shape(obstacles, False).to_dict(),
        parameters={**numbers, "swap": 0, "tries": tries},
        axes={
            "obstacles": len(squares),
            "squares": float(np.mean(squares)),
            "length": length,
            "angle": angle,
        },
    )


@dataclass(frozen=True)
class Generated:
    """A file that a family's generator makes.

    Args:
        file: relative to ``GEONEW_HOME/data``.
        made_of: the family.
        request: which samples.

    """

    file: str
    made_of: Family
    request: Request

    def path(self) -> Path:
        """Where it is."""
        return default_folder() / "data" / self.file

    def is_complete(self) -> bool:
        """Whether all samples are there."""
        return stored_samples(self.path()) == self.request.samples

    def make(self) -> None:
        """Make what is missing."""
        generate(self.made_of, self.request, self.path())


@dataclass(frozen=True)
class Cavity:
    """A file of published cavities, on every so many grid lines."""

    split: Split

    def path(self) -> Path:
        """Where it is."""
        return default_folder() / "data" / "bench" / "skewed-cavity" / f"{self.split}.h5"

    def is_complete(self) -> bool:
        """Whether all samples are there."""
        _, first, end, _ = CAVITIES[self.split]
        return stored_samples(self.path()) == end - first

    def make(self) -> None:
        """Import the samples, whole or not at all."""
        part, first, end, stride = CAVITIES[self.split]
        content = {"kind": "skewed-cavity", "file": str(published(CAVITY_FILE)), "part": part}
        recipe = Recipe(Path("campaign"), {**content, "samples": [first, end], "split": self.split})
        source = open_source(recipe)
        path, origin = self.path(), {"kind": "imported", "recipe": {"part": part, "lines": stride}}
        unfinished = path.with_name(path.name + ".importing")
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.unlink(missing_ok=True)
        header = Header("skewed-cavity", self.split, source.problem, source.units, origin)
        try:
            with Writer(unfinished, header) as writer:
                for k in range(source.count):
                    record = coarsened(source.record(k), stride)
                    check_record(source.problem, record)
                    writer.append(pack(record))
                writer.commit()
            os.replace(unfinished, path)
        finally:
            unfinished.unlink(missing_ok=True)


def coarsened(record: Record, stride: int) -> Record:
    """A cavity on every so many lines of its square grid; its pressure has mean zero again."""
    if stride == 1:
        return record
    side = round(record.mesh.n_nodes**0.5)
    if side**2 != record.mesh.n_nodes or (side - 1) % stride:
        raise DataError(f"{record.mesh.n_nodes} nodes are no square grid with every {stride}. line")
    numbers = np.arange(side**2).reshape(side, side)[::stride, ::stride]
    few = len(numbers)
    own = np.arange(few**2).reshape(few, few)
    corners = (own[:-1, :-1], own[:-1, 1:], own[1:, 1:], own[1:, :-1])
    quads = np.stack([c.ravel() for c in corners], axis=1)
    kept = numbers.ravel()
    mesh = clean(RawMesh(record.mesh.points[kept], [("quad", quads)]))
    mesh = label(mesh, {"lid": NormalDirection((0, 1), 1), "wall": Rest()})
    pressure = record.fields["pressure"][kept]
    mass = np.bincount(mesh.cells.ravel(), np.repeat(mesh.volumes, 3)) / 3
    boundary = {
        group: {
            "velocity": np.tile(
                record.boundary[group]["velocity"][0], (len(mesh.nodes_of(group)), 1)
            )
        }
        for group in mesh.groups
    }
    return replace(
        record,
        mesh=mesh,
        fields={
            "velocity": record.fields["velocity"][kept],
            "pressure": pressure - mass @ pressure / mass.sum(),
        },
        boundary=boundary,
    )


def stored_samples(path: Path) -> int:
    """How many samples a file holds; 0 where there is none."""
    if not path.exists():
        return 0
    with DataSet(path, check=False) as data:
        return len(data)


def published(name: str) -> Path:
    """A file that others published."""
    folder = Path(os.environ.get(PUBLISHED, Path("..") / "shared" / "data"))
    if not (folder / name).exists():
        raise DataError(
            f"there is no file {name} in {folder}", f"set {PUBLISHED} to the folder that has it"
        )
    return folder / name


def _heat_map() -> Generated:
    made = Places()
    numbers = tuple(float(k) for k in range(len(made.places)))
    request = Request(
        made.name, "ood", PER_PLACE * len(numbers), SEED, axis=("place", numbers)
    )  # fmt: skip
    return Generated("bench/ns2d-c++/heat-map.h5", made, request)


def _of_hard(file: str, request: Callable[[str], Request]) -> Generated:
    made = family("ns2d-c++")
    return Generated(f"bench/ns2d-c++/{file}.h5", made, request(made.name))


def sets() -> dict[str, Sequence[Generated | Cavity]]:
    """Files of each cell that makes data."""
    unit = UnitLength()
    return {
        "data/ood-l1": [
            Generated("bench/ns2d-c++/ood-l1.h5", unit, Request(unit.name, "ood", SAMPLES, SEED))
        ],
        "data/swap": [_of_hard("swap", lambda n: Request(n, "test", SAMPLES, SEED, swap=True))],
        "data/heat-map": [_heat_map()],
        "data/levels": [
            _of_hard("coarse", lambda n: Request(n, "test", LEVEL_SAMPLES, SEED, "coarse")),
            _of_hard("medium", lambda n: Request(n, "test", LEVEL_SAMPLES, SEED, "medium")),
            _of_hard("fine", lambda n: Request(n, "test", LEVEL_SAMPLES, SEED, "fine")),
        ],
        "data/skewed-cavity": [Cavity("train"), Cavity("val"), Cavity("test")],
    }
