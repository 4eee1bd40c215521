"""Data sets that only the campaign needs, made by the generators of :mod:`geonew.data`.

    GEONEW_HOME/data/bench/ns2d-c++/{swap,ood-l1,angles,heat-map,coarse,medium,fine}.h5
    GEONEW_HOME/data/bench/skewed-cavity/{train,val,test}.h5

``swap``: the test shapes of ns2d-c++ with inlet and outlet exchanged and the flow of that solved.
``ood-l1``: out of distribution in everything but the channel's length. ``angles``: in distribution
but for the step, of one angle after another. ``heat-map``: circles, with length, number and angle
of the step on a grid of values. ``coarse``, ``medium``, ``fine``: the same
shapes three times. ``skewed-cavity``: published lid-driven flows; the training samples are every
third line of their grids, the test samples whole grids.

The suite ``smoke`` has the same sets with a few samples each, under ``smoke-bench``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np

from geonew.cache import default_folder
from geonew.data.check import check_record
from geonew.data.columns import pack
from geonew.data.families.channel import (
    OBSTACLES_OOD,
    STEEPEST,
    ChannelObstacles,
    Sizes,
    some_squares,
)
from geonew.data.generate import generate
from geonew.data.header import Header
from geonew.data.importing import open_source
from geonew.data.recipe import Recipe
from geonew.data.record import Family, Level, Record, Split
from geonew.data.request import Request
from geonew.data.store import DataSet
from geonew.data.writer import Writer
from geonew.errors import DataError
from geonew.mesh import NormalDirection, RawMesh, Rest, clean, label

SEED = 0
# Of the published cavities: which part and samples, and every which grid line.
Cavities = Mapping[Split, tuple[str, int, int, int]]
CAVITY_FILE = "skewed_cavity.npz"
# Where files that were published by others are, beside a checkout by default.
PUBLISHED = "GEONEW_SHARED_DATA"
Spot = tuple[float, int, float]  # length, obstacles, angle of the step in degrees


@dataclass(frozen=True)
class Amounts:
    """How much of each set a suite has.

    Args:
        folder: of the sets, under ``GEONEW_HOME/data``.
        samples: of ``swap`` and ``ood-l1``.
        levels: shapes that are meshed three times.
        places: of the heat map.
        per_place: samples at each.
        angles: of the step, one after another.
        per_angle: samples at each.
        cavities: split -> part, first and last sample, every which grid line.

    """

    folder: str
    samples: int
    levels: int
    places: tuple[Spot, ...]
    per_place: int
    angles: tuple[float, ...]
    per_angle: int
    cavities: Cavities


AMOUNTS = {
    "cpu": Amounts(
        folder="bench",
        samples=100,
        levels=10,
        places=tuple(product((1.0, 2.0, 3.0, 4.0, 5.0), (1, 2, 3, 4, 5, 6), (0.0, 15.0, 30.0))),
        per_place=2,
        angles=(0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0),
        per_angle=10,
        cavities={
            "train": ("train", 0, 80, 3),
            "val": ("train", 80, 100, 3),
            "test": ("validate", 0, 50, 1),
        },
    ),
    "smoke": Amounts(
        folder="smoke-bench",
        samples=2,
        levels=1,
        places=tuple(product((1.0, 2.0), (1, 2), (0.0, 30.0))),
        per_place=1,
        angles=(0.0, 15.0, 30.0),
        per_angle=1,
        cavities={
            "train": ("train", 0, 4, 3),
            "val": ("train", 80, 82, 3),
            "test": ("validate", 0, 1, 1),
        },
    ),
}


def unit_length(
    split: Split, generator: np.random.Generator, axis: tuple[str, float] | None
) -> Sizes:
    """L = 1 and all else out of distribution: four to six obstacles, a square, a step."""
    count = int(generator.integers(OBSTACLES_OOD[0], OBSTACLES_OOD[1] + 1))
    squares = some_squares(generator.random(count) < 0.5, generator)
    return Sizes(1.0, float(STEEPEST * (1 - generator.random())), squares)  # in (0, steepest]


@dataclass(frozen=True)
class AtPlaces:
    """Circles at given places, taken by their number, which is the axis ``place``."""

    places: tuple[Spot, ...]

    def __call__(
        self, split: Split, generator: np.random.Generator, axis: tuple[str, float] | None
    ) -> Sizes:
        """The sizes at a place."""
        if axis is None or axis[0] != "place":
            raise DataError("places of the heat map are drawn along the axis 'place'")
        length, count, angle = self.places[round(axis[1])]
        return Sizes(length, angle, (False,) * count)


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
    """A file of published cavities, on every so many grid lines.

    Args:
        split: which split.
        amounts: of the suite.

    """

    split: Split
    amounts: Amounts

    def path(self) -> Path:
        """Where it is."""
        folder = default_folder() / "data" / self.amounts.folder
        return folder / "skewed-cavity" / f"{self.split}.h5"

    def is_complete(self) -> bool:
        """Whether all samples are there."""
        _, first, end, _ = self.amounts.cavities[self.split]
        return stored_samples(self.path()) == end - first

    def make(self) -> None:
        """Import the samples, whole or not at all."""
        part, first, end, stride = self.amounts.cavities[self.split]
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


def amounts_of(suite: str) -> Amounts:
    """How much of each set a suite has."""
    if suite not in AMOUNTS:
        raise DataError(f"suite {suite!r} has no sets of its own", f"those with: {list(AMOUNTS)}")
    return AMOUNTS[suite]


def sets(suite: str) -> dict[str, Sequence[Generated | Cavity]]:
    """Files of each cell that makes data."""
    amounts = amounts_of(suite)

    def file(name: str, made: ChannelObstacles, request: Request) -> Generated:
        return Generated(f"{amounts.folder}/ns2d-c++/{name}.h5", made, request)

    def level(name: Level) -> Generated:
        return file(name, plain, Request(plain.name, "test", amounts.levels, SEED, name))

    plain = ChannelObstacles()
    unit = ChannelObstacles("ns2d-c++-l1", unit_length)
    spread = ChannelObstacles("ns2d-c++-places", AtPlaces(amounts.places))
    numbers = tuple(float(k) for k in range(len(amounts.places)))
    everywhere = amounts.per_place * len(numbers)
    swapped = Request(plain.name, "test", amounts.samples, SEED, swap=True)
    steps = Request(
        plain.name,
        "ood",
        amounts.per_angle * len(amounts.angles),
        SEED,
        axis=("angle", amounts.angles),
    )
    return {
        "data/ood-l1": [file("ood-l1", unit, Request(unit.name, "ood", amounts.samples, SEED))],
        "data/swap": [file("swap", plain, swapped)],
        "data/angles": [file("angles", plain, steps)],
        "data/heat-map": [
            file(
                "heat-map",
                spread,
                Request(spread.name, "ood", everywhere, SEED, axis=("place", numbers)),
            )
        ],
        "data/levels": [level("coarse"), level("medium"), level("fine")],
        "data/skewed-cavity": [Cavity(split, amounts) for split in amounts.cavities],
    }
