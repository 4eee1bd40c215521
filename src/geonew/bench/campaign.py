"""The campaign on a processor: which cells there are, the most informative first.

* ``rate``: each row at the same three learning rates on ns2d-c++ (grids on pipe), for 2 CPU
  minutes; the best by validation is used everywhere.
* ``main``: every row on every family, 5 CPU minutes, one seed.
* ``long``: five rows on poly-poisson and ns2d-c++, 15 CPU minutes, three seeds.
* ``longest``: the best four of these on ns2d-c++, by validation, 60 CPU minutes.
* ``ablation``: one change each, 5 CPU minutes on ns2d-c++; the cells of ``main`` are what they are
  compared with.
* ``swap``, ``sweep``, ``refine``: models of ``long`` on reversed flow, over the axes of the
  distribution, and on finer meshes.
* ``cavity``: published lid-driven flows, trained on every third grid line, tested on all nodes.
* ``finetune``: ns2d-c with few samples, from scratch and from a model of ns2d-c++.
* ``data``: the sets that these need, made by our own generators.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from geonew.bench.cell import Cell, check_order
from geonew.bench.rows import BASELINES, LEADING, OURS, STRUCTURED
from geonew.data.families import family
from geonew.errors import ConfigError

RATES = (1e-3, 3e-3, 1e-2)
SHORT, MIDDLE, LONG, LONGEST = 2.0, 5.0, 15.0, 60.0
SEEDS = (0, 1, 2)
BEST = 4
FINETUNED = (10, 20, 40, 80, 160)
HARD = "ns2d-c++"
CAVITY = "skewed-cavity"
FAMILIES = (
    HARD, "poly-poisson", "ns2d-c", "elasticity", "pipe", "naca", "ns2d-re", "ball-poisson",
    "duct-stokes",
)  # fmt: skip
GRIDS = ("pipe", "naca")
# Without a frame there are no coordinates, of which a DeepONet's basis functions are made.
WITHOUT_FRAME = ("poly-poisson", "ball-poisson")
# What is known of points without a mesh: where they are, what they lie on, how far from it.
POINT_CLOUD = (
    "features={labels: true, distance: true, harmonic: false, torsion: false, data: false, "
    "hks_times: 0, hks_gradients: false, gradients: false, coordinates: true}"
)
UNIT_LENGTH, SWAP, HEAT_MAP, LEVELS = "data/ood-l1", "data/swap", "data/heat-map", "data/levels"
CAVITY_DATA = "data/skewed-cavity"


@dataclass(frozen=True)
class Campaign:
    """All cells of a suite.

    Args:
        suite: its name, and that of its configurations, data and results.
        cells: in the order in which they are wanted.

    """

    suite: str
    cells: tuple[Cell, ...]

    def __post_init__(self) -> None:
        check_order(self.cells)

    def __getitem__(self, name: str) -> Cell:
        for cell in self.cells:
            if cell.name == name:
                return cell
        raise ConfigError(f"there is no cell {name!r}", "`geonew bench --list` shows all names")


def campaign(suite: str) -> Campaign:
    """The campaign of that name."""
    if suite != "cpu":
        raise ConfigError(f"there is no campaign {suite!r}", "there is one for the suite cpu")
    return Campaign("cpu", tuple(_cells()))


def rows_of(name: str) -> tuple[str, ...]:
    """The rows that can be trained on a family."""
    known = OURS if family(name).problem.terms else ("learned",)
    direct = tuple(r for r in BASELINES if r != "deeponet" or name not in WITHOUT_FRAME)
    return (*known, *direct, *(STRUCTURED if name in GRIDS else ()))


def rate_cells(row: str) -> tuple[str, ...]:
    """The cells that choose the learning rate of a row."""
    return tuple(f"rate/{row}/{rate:g}" for rate in RATES)


def _cells() -> Iterator[Cell]:
    yield Cell(UNIT_LENGTH, "make", HARD, "")
    for rows in (LEADING, tuple(r for r in rows_of(HARD) if r not in LEADING)):
        for row in rows:
            yield from _rates(row, HARD)
        yield from (_main(HARD, row) for row in rows)
    yield from (_main("poly-poisson", row) for row in rows_of("poly-poisson"))
    yield from (_long(name, row, 0) for name in (HARD, "poly-poisson") for row in LEADING)
    yield from _ablations()
    for row in STRUCTURED:
        yield from _rates(row, GRIDS[0])
    for name in FAMILIES[2:]:
        yield from (_main(name, row) for row in rows_of(name))
    yield from _special()
    for seed in SEEDS[1:]:
        yield from (_long(name, row, seed) for name in (HARD, "poly-poisson") for row in LEADING)
    yield from _longest()


def _rates(row: str, name: str, rate_of: str = "", settings: tuple[str, ...] = ()) -> list[Cell]:
    key = rate_of or row
    return [
        Cell(cell, "train", name, row, 0, SHORT, settings, rate=rate)
        for cell, rate in zip(rate_cells(key), RATES, strict=True)
    ]


def _tests(name: str) -> dict[str, str]:
    tests = {"id": f"cpu/{name}/test.h5", "ood": f"cpu/{name}/ood.h5"}
    return tests | ({"ood_L1": "bench/ns2d-c++/ood-l1.h5"} if name == HARD else {})


def _trained(
    cell: str,
    name: str,
    row: str,
    minutes: float,
    seed: int = 0,
    settings: tuple[str, ...] = (),
    rate_of: str = "",
) -> Cell:
    made = (UNIT_LENGTH,) if name == HARD else ()
    return Cell(
        cell, "train", name, row, seed, minutes, settings, _tests(name),
        rate_of=rate_of, needs=(*rate_cells(rate_of or row), *made),
    )  # fmt: skip


def _main(name: str, row: str) -> Cell:
    return _trained(f"main/{name}/{row}", name, row, MIDDLE)


def _long(name: str, row: str, seed: int) -> Cell:
    return _trained(f"long/{name}/{row}/{seed}", name, row, LONG, seed)


def _longest() -> Iterator[Cell]:
    deciding = tuple(f"long/{HARD}/{row}/{seed}" for row in LEADING for seed in SEEDS)
    for row in LEADING:
        made = _trained(f"longest/{HARD}/{row}", HARD, row, LONGEST)
        yield Cell(
            made.name, "train", HARD, row, 0, LONGEST, tests=made.tests, needs=made.needs,
            chosen=BEST, among=deciding,
        )  # fmt: skip


def _ablations() -> Iterator[Cell]:
    """One change each; for rows of both kinds where both have the thing that is changed."""

    def changed(what: str, row: str, *settings: str, rate_of: str = "") -> Cell:
        return _trained(
            f"ablation/{what}/{row}", HARD, row, MIDDLE, settings=settings, rate_of=rate_of
        )

    for row in ("known+learned", "learned", "inducing"):
        yield changed("point-cloud", row, POINT_CLOUD)
    for row in ("known+learned", "learned", "inducing"):
        yield changed("no-gradients", row, "features.gradients=false")
    # As configs/paper has it: the bound on the flux has to fall soon, or nothing is solved.
    law = "model.paper={mode: published, gamma: -3.0, momentum: 0.8}"
    yield changed("paper-law", "learned", "model.law=paper", law)
    for row in ("known+learned", "learned"):
        yield changed("nodal", row, "model.boundary=nodal")
    for partitions in (8, 32):
        yield changed(f"partitions-{partitions}", "known+learned", f"model.partitions={partitions}")
    for row in ("known+learned", "inducing"):
        for depth in (1, 4):
            yield changed(f"depth-{depth}", row, f"model.depth={depth}")
    for row in ("known+learned", "inducing"):
        yield changed("no-harmonic", row, "features.harmonic=false")
    adamw = ("optimiser.name=adamw",)
    for row in ("known+learned", "inducing"):
        yield from _rates(row, HARD, f"{row}-adamw", adamw)
        yield changed("adamw", row, *adamw, rate_of=f"{row}-adamw")


def _special() -> Iterator[Cell]:
    for what in (SWAP, HEAT_MAP, LEVELS):
        yield Cell(what, "make", HARD, "")
    for row in LEADING:
        start = f"long/{HARD}/{row}/0"
        tests = {"swap": "bench/ns2d-c++/swap.h5", "id": f"cpu/{HARD}/test.h5"}
        yield Cell(
            f"swap/{row}", "evaluate", HARD, row, tests=tests, start=start, needs=(SWAP,)
        )  # fmt: skip
    for row in LEADING:
        start, tests = f"long/{HARD}/{row}/0", {"heat_map": "bench/ns2d-c++/heat-map.h5"}
        yield Cell(
            f"sweep/{row}", "evaluate", HARD, row, tests=tests, start=start, needs=(HEAT_MAP,)
        )  # fmt: skip
    for row in LEADING:
        start = f"long/{HARD}/{row}/0"
        tests = {level: f"bench/ns2d-c++/{level}.h5" for level in ("coarse", "medium", "fine")}
        yield Cell(f"refine/{row}", "refine", HARD, row, tests=tests, start=start, needs=(LEVELS,))
    yield Cell(CAVITY_DATA, "make", CAVITY, "")
    for row in LEADING:
        yield Cell(
            f"cavity/{row}", "train", CAVITY, row, 0, MIDDLE,
            tests={"id": "bench/skewed-cavity/test.h5"}, needs=(*rate_cells(row), CAVITY_DATA),
        )  # fmt: skip
    for row in ("known+learned", "inducing"):
        for count in FINETUNED:
            for kind, start in (("scratch", ""), ("init", f"long/{HARD}/{row}/0")):
                yield Cell(
                    f"finetune/{kind}/{row}/{count}", "train", "ns2d-c", row, 0, SHORT,
                    (f"data.train_limit={count}",), _tests("ns2d-c"), start=start,
                    needs=rate_cells(row),
                )  # fmt: skip
