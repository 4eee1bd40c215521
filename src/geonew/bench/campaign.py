"""The campaign on a processor: which cells there are, the most informative first.

* ``rate``: each row at the same three learning rates on ns2d-c++ (grids on pipe), for 2 CPU
  minutes; the best by validation is used everywhere.
* ``main``: every row on every family, 5 CPU minutes, one seed.
* ``long``: five rows on poly-poisson and ns2d-c++, 15 CPU minutes, three seeds.
* ``longest``: the best four of all rows on ns2d-c++, by validation in ``main``, 60 CPU minutes.
* ``ablation``: one change each, 5 CPU minutes on ns2d-c++, beside the same models ``unchanged``:
  those of ``main`` may have been trained on another processor, where a minute is worth other steps.
* ``swap``, ``sweep``, ``refine``: models of ``long`` on reversed flow, over the axes of the
  distribution, and on finer meshes; ``rescale``: one that reads coordinates, with those of a longer
  channel squeezed to the lengths it was trained on.
* ``cavity``: published lid-driven flows, trained on every third grid line, tested on all nodes.
* ``finetune``: ns2d-c with few samples, from scratch and from a model of ns2d-c++.
* ``shown``: the models that pictures show, 5 CPU minutes each, one after another on one machine, to
  be kept beside the results.
* ``data``: the sets that these need, made by our own generators.

The suite ``smoke`` has the same cells on a few samples for seconds: a test of the machinery.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from geonew.bench.cell import Cell, Task, check_order
from geonew.bench.rows import BASELINES, LEADING, OURS, STRUCTURED
from geonew.bench.sets import amounts_of
from geonew.data.families import family
from geonew.errors import ConfigError

RATES = (1e-3, 3e-3, 1e-2)
SHORT, MIDDLE, LONG, LONGEST = 2.0, 5.0, 15.0, 60.0
# What the suite smoke has of these minutes: two CPU seconds in place of five minutes.
PARTS = {"cpu": 1.0, "smoke": 1 / 150}
SEEDS = (0, 1, 2)
BEST = 4
FINETUNED = (10, 20, 40, 80, 160)
# Partitions and blocks that are tried besides those of the base configurations, 32 and 2.
PARTITIONS, DEPTHS = (8, 16), (1, 4)
ABLATED = ("known+learned", "learned", "inducing")
UNCHANGED = "unchanged"
HARD = "ns2d-c++"
# Family -> rows that pictures show.
SHOWN = {HARD: ("transolver", "learned", "known+learned"), "naca": ("learned",)}
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
ANGLES, CAVITY_DATA = "data/angles", "data/skewed-cavity"
CONFIGS = "cpu"  # whose base configurations all suites have


@dataclass(frozen=True)
class Campaign:
    """All cells of a suite.

    Args:
        suite: its name, and that of its data and results.
        cells: in the order in which they are wanted.
        elsewhere: its data are not where the base configurations say, but under its own name.

    """

    suite: str
    cells: tuple[Cell, ...]
    elsewhere: bool = False

    def __post_init__(self) -> None:
        check_order(self.cells)

    def __getitem__(self, name: str) -> Cell:
        for cell in self.cells:
            if cell.name == name:
                return cell
        raise ConfigError(f"there is no cell {name!r}", "`geonew bench --list` shows all names")

    def data_settings(self, cell: Cell) -> tuple[str, ...]:
        """Settings of a cell's configuration that say where its data are."""
        files = training_files(self.suite, cell.family) if self.elsewhere else {}
        return tuple(f"data.{which}={file}" for which, file in files.items())


def campaign(suite: str) -> Campaign:
    """The campaign of that name."""
    if suite not in PARTS:
        raise ConfigError(
            f"there is no campaign {suite!r}", f"there is one for each suite of {', '.join(PARTS)}"
        )
    return Campaign(suite, tuple(_Plan(suite).cells()), elsewhere=suite != CONFIGS)


def training_files(suite: str, name: str) -> dict[str, str]:
    """Data files of a family's configuration, relative to ``GEONEW_HOME/data``."""
    folder = amounts_of(suite).folder if name == CAVITY else suite
    return {"train": f"{folder}/{name}/train.h5", "validation": f"{folder}/{name}/val.h5"}


def rows_of(name: str) -> tuple[str, ...]:
    """The rows that can be trained on a family."""
    known = OURS if family(name).problem.terms else ("learned",)
    direct = tuple(r for r in BASELINES if r != "deeponet" or name not in WITHOUT_FRAME)
    return (*known, *direct, *(STRUCTURED if name in GRIDS else ()))


def unchanged_cell(row: str) -> str:
    """The cell with which ablations of a row are compared."""
    return f"ablation/{UNCHANGED}/{row}"


def rate_cells(row: str) -> tuple[str, ...]:
    """The cells that choose the learning rate of a row."""
    return tuple(f"rate/{row}/{rate:g}" for rate in RATES)


@dataclass(frozen=True)
class _Plan:
    """The cells of a suite."""

    suite: str

    def cells(self) -> Iterator[Cell]:
        yield Cell(UNIT_LENGTH, "make", HARD, "")
        for rows in (LEADING, tuple(r for r in rows_of(HARD) if r not in LEADING)):
            for row in rows:
                yield from self.rates(row, HARD)
            yield from (self.main(HARD, row) for row in rows)
        yield from (self.main("poly-poisson", row) for row in rows_of("poly-poisson"))
        yield from (self.long(name, row, 0) for name in (HARD, "poly-poisson") for row in LEADING)
        yield from self.ablations()
        for row in STRUCTURED:
            yield from self.rates(row, GRIDS[0])
        for name in FAMILIES[2:]:
            yield from (self.main(name, row) for row in rows_of(name))
        yield from self.evaluations()
        yield from self.cavities()
        yield from self.finetuning()
        for seed in SEEDS[1:]:
            for name in (HARD, "poly-poisson"):
                yield from (self.long(name, row, seed) for row in LEADING)
        yield from self.longest()
        for name, rows in SHOWN.items():
            yield from (self.trained(f"shown/{name}/{row}", name, row, MIDDLE) for row in rows)

    # -- kinds of cells ----------------------------------------------------------------------------

    def minutes(self, budget: float) -> float:
        return budget * PARTS[self.suite]

    def made(self, name: str) -> str:
        """A set of the campaign's own, made from ns2d-c++."""
        return f"{amounts_of(self.suite).folder}/{HARD}/{name}.h5"

    def tests(self, name: str) -> dict[str, str]:
        tests = {"id": f"{self.suite}/{name}/test.h5", "ood": f"{self.suite}/{name}/ood.h5"}
        return tests | ({"ood_L1": self.made("ood-l1")} if name == HARD else {})

    def rates(
        self, row: str, name: str, rate_of: str = "", settings: tuple[str, ...] = ()
    ) -> list[Cell]:
        return [
            Cell(cell, "train", name, row, 0, self.minutes(SHORT), settings, rate=rate)
            for cell, rate in zip(rate_cells(rate_of or row), RATES, strict=True)
        ]

    def trained(
        self,
        cell: str,
        name: str,
        row: str,
        budget: float,
        seed: int = 0,
        settings: tuple[str, ...] = (),
        rate_of: str = "",
    ) -> Cell:
        made = (UNIT_LENGTH,) if name == HARD else ()
        return Cell(
            cell, "train", name, row, seed, self.minutes(budget), settings, self.tests(name),
            rate_of=rate_of, needs=(*rate_cells(rate_of or row), *made),
        )  # fmt: skip

    def main(self, name: str, row: str) -> Cell:
        return self.trained(f"main/{name}/{row}", name, row, MIDDLE)

    def long(self, name: str, row: str, seed: int) -> Cell:
        return self.trained(f"long/{name}/{row}/{seed}", name, row, LONG, seed)

    def longest(self) -> Iterator[Cell]:
        deciding = tuple(f"main/{HARD}/{row}" for row in rows_of(HARD))
        for row in rows_of(HARD):
            made = self.trained(f"longest/{HARD}/{row}", HARD, row, LONGEST)
            yield replace(made, chosen=BEST, among=deciding)

    # -- what only some rows have ------------------------------------------------------------------

    def ablations(self) -> Iterator[Cell]:
        """One change each; for rows of both kinds where both have the thing that is changed."""

        def changed(what: str, row: str, *settings: str, rate_of: str = "") -> Cell:
            return self.trained(
                f"ablation/{what}/{row}", HARD, row, MIDDLE, settings=settings, rate_of=rate_of
            )

        yield from (changed(UNCHANGED, row) for row in ABLATED)
        yield from (changed("point-cloud", row, POINT_CLOUD) for row in ABLATED)
        yield from (changed("no-gradients", row, "features.gradients=false") for row in ABLATED)
        # As configs/paper has it: the bound on the flux falls soon after the start, or solves fail.
        law = "model.paper={mode: published, gamma: -3.0, momentum: 0.8}"
        yield changed("paper-law", "learned", "model.law=paper", law)
        space = ("model.boundary=nodal", "model.partitions=16", "model.exchanges=1")
        yield changed("paper", "learned", "model.law=paper", law, *space)
        # Without constants of the medium the flux law is all there is: at full strength.
        law = ("model.law=structured", "model.structured={strength: 1.0}")
        yield changed("no-constants", "learned", "model.constitutive=false", *law)
        law = ("model.law=structured", "model.structured={strength: 0.002}")
        for row in ("known+learned", "learned"):
            yield changed("structured-law", row, *law)
        for row in ("known+learned", "learned"):
            yield changed("nodal", row, "model.boundary=nodal")
        for count in PARTITIONS:
            yield changed(f"partitions-{count}", "known+learned", f"model.partitions={count}")
        for row in ("known+learned", "inducing"):
            for depth in DEPTHS:
                yield changed(f"depth-{depth}", row, f"model.depth={depth}")
        for row in ("known+learned", "inducing"):
            yield changed("no-harmonic", row, "features.harmonic=false")
        # Geo-NeW has a weight decay on most families, baselines have none: the other way round.
        yield changed("no-decay", "known+learned", "optimiser.weight_decay=0.0")
        yield changed("decay", "inducing", "optimiser.weight_decay=0.03")
        adamw = ("optimiser.name=adamw",)
        for row in ("known+learned", "inducing"):
            yield from self.rates(row, HARD, f"{row}-adamw", adamw)
            yield changed("adamw", row, *adamw, rate_of=f"{row}-adamw")

    def evaluations(self) -> Iterator[Cell]:
        """Models of ``long`` on data that show one thing each."""
        for what in (SWAP, ANGLES, HEAT_MAP, LEVELS):
            yield Cell(what, "make", HARD, "")

        def again(what: str, task: Task, row: str, tests: dict[str, str], *needs: str) -> Cell:
            start = f"long/{HARD}/{row}/0"
            return Cell(
                f"{what}/{row}", task, HARD, row, tests=tests, start=start, needs=needs
            )  # fmt: skip

        for row in LEADING:
            tests = {"swap": self.made("swap"), "id": self.tests(HARD)["id"]}
            yield again("swap", "evaluate", row, tests, SWAP)
        for row in LEADING:
            tests = {"angles": self.made("angles"), "heat_map": self.made("heat-map")}
            yield again("sweep", "evaluate", row, tests, ANGLES, HEAT_MAP)
        tests = {name: self.tests(HARD)[name] for name in ("ood", "ood_L1")}
        yield again("rescale", "rescale", "transolver", tests, UNIT_LENGTH)
        for row in LEADING:
            tests = {level: self.made(level) for level in ("coarse", "medium", "fine")}
            yield again("refine", "refine", row, tests, LEVELS)

    def cavities(self) -> Iterator[Cell]:
        yield Cell(CAVITY_DATA, "make", CAVITY, "")
        test = training_files(self.suite, CAVITY)["train"].replace("train", "test")
        for row in LEADING:
            yield Cell(
                f"cavity/{row}", "train", CAVITY, row, 0, self.minutes(MIDDLE),
                tests={"id": test}, needs=(*rate_cells(row), CAVITY_DATA),
            )  # fmt: skip

    def finetuning(self) -> Iterator[Cell]:
        name = "ns2d-c"
        for row in ("known+learned", "inducing"):
            for count in FINETUNED:
                for kind, start in (("scratch", ""), ("init", f"long/{HARD}/{row}/0")):
                    yield Cell(
                        f"finetune/{kind}/{row}/{count}", "train", name, row, 0,
                        self.minutes(SHORT), (f"data.train_limit={count}",), self.tests(name),
                        start=start, needs=rate_cells(row),
                    )  # fmt: skip
