"""``geonew data``: make, import, look at and check data sets.

``geonew data generate FAMILY --samples N --seed S --out FILE`` makes samples, on the cores of this
machine or on a Dask cluster, and goes on where it was interrupted; ``build`` makes a whole suite;
``import RECIPE.yaml --out FILE`` reads the files of others; ``info``, ``plot``, ``card`` and
``verify`` look at a file.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from geonew.errors import DataError

if TYPE_CHECKING:
    from geonew.data.generate import Pool, Progress
    from geonew.data.record import Family
    from geonew.data.store import DataSet

SPLITS = ("train", "val", "calibration", "test", "ood")
LEVELS = ("coarse", "medium", "fine")
# Reasons of failed attempts that are printed; the others are in the file.
SHOWN_FAILURES = 5


def register(subparsers: argparse._SubParsersAction) -> None:
    """Add ``data`` and its subcommands."""
    group = subparsers.add_parser("data", help="make, import, look at and check data sets")
    actions = group.add_subparsers(dest="action", required=True, metavar="ACTION")
    for add in (_add_families, _add_generate, _add_build, _add_import, _add_looking):
        add(actions)


def _add_families(actions: argparse._SubParsersAction) -> None:
    families = actions.add_parser("families", help="which families there are, with their ranges")
    families.set_defaults(run=_families)


def _add_generate(actions: argparse._SubParsersAction) -> None:
    make = actions.add_parser("generate", help="draw and solve samples of a family")
    make.add_argument("family", metavar="FAMILY", help="see `geonew data families`")
    make.add_argument("--samples", type=int, required=True, metavar="N", help="how many")
    make.add_argument("--seed", type=int, default=0, metavar="S", help="default: %(default)s")
    make.add_argument("--out", type=Path, required=True, metavar="FILE", help="file to write (.h5)")
    make.add_argument("--split", choices=SPLITS, default="train", help="default: %(default)s")
    make.add_argument("--level", choices=LEVELS, default="coarse", help="default: %(default)s")
    make.add_argument(
        "--axis",
        metavar="A=V[,V...]",
        help="fix one axis of the distribution; several values are taken in turn, and A=V:W:N are "
        "N values from V to W",
    )
    make.add_argument("--swap", action="store_true", help="labels exchanged, e.g. flow reversed")
    make.add_argument(
        "--resume",
        action="store_true",
        help="insist that the file exists (an unfinished one is continued in any case)",
    )
    _add_workers(make)
    make.set_defaults(run=_generate)


def _add_build(actions: argparse._SubParsersAction) -> None:
    build = actions.add_parser("build", help="make all files of a suite, under GEONEW_HOME/data")
    build.add_argument("--suite", default="cpu", help="default: %(default)s")
    build.add_argument("--families", nargs="+", metavar="FAMILY", help="only these")
    build.add_argument(
        "--splits",
        nargs="+",
        choices=SPLITS,
        metavar="SPLIT",
        help=f"only these of {', '.join(SPLITS)}; training and tests do without calibration",
    )
    build.add_argument(
        "--record-hashes", type=Path, metavar="JSON", help="add what was made to a file of hashes"
    )
    _add_workers(build)
    build.set_defaults(run=_build)


def _add_import(actions: argparse._SubParsersAction) -> None:
    read = actions.add_parser("import", help="read simulations or published sets")
    read.add_argument("recipe", type=Path, metavar="RECIPE.yaml", help="what is where")
    read.add_argument("--out", type=Path, required=True, metavar="FILE", help="file to write (.h5)")
    read.add_argument("--plot", type=Path, metavar="PNG", help="draw twelve samples to look at")
    read.add_argument(
        "--allow-pickle",
        action="store_true",
        help="read .pkl files, arrays only; anything else in them is refused",
    )
    read.add_argument("--overwrite", action="store_true", help="replace an existing file")
    read.set_defaults(run=_import)


def _add_looking(actions: argparse._SubParsersAction) -> None:
    info = actions.add_parser("info", help="what a file holds")
    info.add_argument("file", type=Path, metavar="FILE")
    info.set_defaults(run=_info)
    plot = actions.add_parser("plot", help="draw twelve samples")
    plot.add_argument("file", type=Path, metavar="FILE")
    plot.add_argument("--out", type=Path, required=True, help="picture to write (.png, .pdf, .svg)")
    plot.add_argument("--field", help="which field (default: the first)")
    plot.add_argument("--overwrite", action="store_true", help="replace an existing picture")
    plot.set_defaults(run=_plot)
    card = actions.add_parser("card", help="write the data card, with a picture beside it")
    card.add_argument("file", type=Path, metavar="FILE")
    card.add_argument("--out", type=Path, required=True, metavar="MD", help="card to write (.md)")
    card.add_argument("--overwrite", action="store_true", help="replace existing files")
    card.set_defaults(run=_card)
    verify = actions.add_parser("verify", help="checksums, boundary data, finite fields, hashes")
    verify.add_argument("file", type=Path, metavar="FILE")
    verify.add_argument("--hashes", type=Path, metavar="JSON", help="other known hashes")
    verify.set_defaults(run=_verify)


def _add_workers(command: argparse.ArgumentParser) -> None:
    where = command.add_mutually_exclusive_group()
    where.add_argument(
        "--workers", type=int, default=0, metavar="W", help="processes (default: one per core)"
    )
    where.add_argument("--scheduler", metavar="ADDRESS", help="of a running Dask cluster you trust")


# -- making ----------------------------------------------------------------------------------------


def _families(arguments: argparse.Namespace) -> int:
    from geonew.data.families import FAMILIES

    for name, family in FAMILIES.items():
        print(f"{name}: {', '.join(f.name for f in family.problem.fields)}, {family.problem.dim}D")
        for parameter, text in family.ranges.items():
            print(f"    {parameter}: {text}")
    return 0


def _generate(arguments: argparse.Namespace) -> int:
    from geonew.data.families import family
    from geonew.data.generate import generate
    from geonew.data.request import Request

    chosen = family(arguments.family)
    request = Request(
        chosen.name,
        arguments.split,
        arguments.samples,
        arguments.seed,
        arguments.level,
        parse_axis(arguments.axis),
        arguments.swap,
    )
    if arguments.resume and not arguments.out.exists():
        raise DataError(f"{arguments.out}: there is no file to resume", "drop --resume, or check")
    with _Bar(f"{chosen.name} {request.split}") as bar:
        progress = generate(chosen, request, arguments.out, _pool(arguments), bar)
    _report_failures(bar.reasons, progress)
    kept = f", {progress.begun} of them from before" if progress.begun else ""
    print(f"wrote {arguments.out}: {progress.done} samples{kept}")
    return 0


def _build(arguments: argparse.Namespace) -> int:
    from geonew.data.families import FAMILIES, family
    from geonew.data.fingerprint import record_fingerprints
    from geonew.data.request import Request
    from geonew.data.suite import build, suite

    chosen = suite(arguments.suite)
    families = [family(name) for name in arguments.families or FAMILIES]
    differing = []
    with _Bar(chosen.name) as bar:

        def show(request: Request, progress: Progress) -> None:
            bar.title = f"{request.family} {request.split}"
            bar(progress)

        for built in build(
            chosen, families, _pool(arguments), on_progress=show, splits=arguments.splits
        ):
            words = {"unknown": "no hash is known", "different": "DIFFERENT from the known hash"}
            verdict = words.get(built.verdict, f"{built.verdict} to the known data set")
            bar.say(f"{built.path}: {built.progress.done} samples, {verdict}")
            differing += [built.key] if built.verdict == "different" else []
            if arguments.record_hashes:
                record_fingerprints(arguments.record_hashes, {built.key: built.fingerprint})
    if differing:
        raise DataError(
            f"these files differ from what is known: {differing}",
            "check the versions of gmsh and scikit-fem with `geonew data info`",
        )
    return 0


def _import(arguments: argparse.Namespace) -> int:
    from geonew.data.importing import import_recipe
    from geonew.data.store import DataSet

    _check_free(arguments.plot, arguments.overwrite)
    with _Bar(arguments.recipe.name) as bar:
        count = import_recipe(
            arguments.recipe,
            arguments.out,
            allow_pickle=arguments.allow_pickle,
            overwrite=arguments.overwrite,
            on_sample=bar.count,
        )
    if arguments.plot:
        with DataSet(arguments.out, check=False) as dataset:
            _draw(dataset, arguments.plot)
        print(f"wrote {arguments.plot}")
    print(f"wrote {arguments.out}: {count} samples")
    return 0


def parse_axis(text: str | None) -> tuple[str, tuple[float, ...]] | None:
    """``A=V``, ``A=V,W,...`` or ``A=V:W:N``."""
    if text is None:
        return None
    name, _, values = text.partition("=")
    try:
        if values.count(":") == 2:
            first, last, count = values.split(":")
            steps = max(int(count) - 1, 1)
            width = float(last) - float(first)
            numbers = tuple(float(first) + width * k / steps for k in range(int(count)))
        else:
            numbers = tuple(float(value) for value in values.split(","))
    except ValueError as error:
        raise DataError(
            f"--axis {text!r} is not understood: {error}",
            "write for example length=3, length=1,2,5 or length=1:5:9",
        ) from error
    return name.strip(), numbers


def _pool(arguments: argparse.Namespace) -> Pool:
    from geonew.data.pools import DaskPool, ProcessPool

    if arguments.scheduler:
        return DaskPool(arguments.scheduler)
    return ProcessPool(arguments.workers)


def _report_failures(reasons: list[str], progress: Progress) -> None:
    for reason in reasons[:SHOWN_FAILURES]:
        print(f"failed and drawn again: {reason}")
    if progress.failures:
        print(f"{progress.failures} attempts failed in all; `geonew data info` lists them")


# -- looking ---------------------------------------------------------------------------------------


def _info(arguments: argparse.Namespace) -> int:
    from geonew.data.card import card
    from geonew.data.store import DataSet

    with DataSet(arguments.file, check=False) as dataset:
        print(card(dataset, _ranges(dataset)).text())
    return 0


def _plot(arguments: argparse.Namespace) -> int:
    from geonew.data.store import DataSet

    _check_free(arguments.out, arguments.overwrite)
    with DataSet(arguments.file, check=False) as dataset:
        count = _draw(dataset, arguments.out, arguments.field)
    print(f"wrote {arguments.out}: {count} samples")
    return 0


def _card(arguments: argparse.Namespace) -> int:
    from geonew.data.card import card
    from geonew.data.store import DataSet

    picture = arguments.out.with_suffix(".png")
    _check_free(arguments.out, arguments.overwrite)
    _check_free(picture, arguments.overwrite)
    with DataSet(arguments.file, check=False) as dataset:
        _draw(dataset, picture)
        text = card(dataset, _ranges(dataset)).markdown(picture.name)
    try:
        arguments.out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise DataError(f"{arguments.out}: cannot be written: {error.strerror}") from error
    print(f"wrote {arguments.out} and {picture}")
    return 0


def _verify(arguments: argparse.Namespace) -> int:
    from geonew.data.verify import verify

    with _Bar(arguments.file.name) as bar:
        found = verify(arguments.file, arguments.hashes, bar.count)
    for index, what in found.problems.items():
        print(f"sample {index}: {what.removeprefix(f'{arguments.file}: ')}")
    if found.fingerprint:
        print(f"content {found.fingerprint.content}")
    if found.verdict == "unknown":
        print(f"no hash is known for {found.key or 'this file'}")
    else:
        print(f"{found.verdict} to the known {found.key}")
    if not found.passed:
        bad = len(found.problems)
        raise DataError(
            f"{arguments.file}: {bad} of {found.samples} samples are wrong"
            if bad
            else f"{arguments.file}: differs from the known hash of {found.key}",
            "generate or import it again",
        )
    print(f"{arguments.file}: all {found.samples} samples are as they should be")
    return 0


def _draw(dataset: DataSet, path: Path, name: str | None = None) -> int:
    """A gallery of twelve samples, spread over the file."""
    import numpy as np

    from geonew.plot.samples import GALLERY, plot_gallery

    if len(dataset) == 0:
        raise DataError(f"{dataset.path}: there is no sample to draw", "generate some first")
    chosen = np.unique(np.linspace(0, len(dataset) - 1, GALLERY).astype(int)).tolist()
    records = [dataset[index] for index in chosen]
    name = name or dataset.problem.fields[0].name
    if name not in records[0].fields:
        raise DataError(
            f"{dataset.path}: there is no field {name!r}", f"choose of {list(records[0].fields)}"
        )
    values = [record.fields[name] for record in records]
    label = f"|{name}|" if values[0].ndim == 2 else name
    captions = [f"sample {index}" for index in chosen]
    title = f"{dataset.header.family}, {dataset.header.split}"
    plot_gallery([record.mesh for record in records], values, captions, path, title, label)
    return len(chosen)


def _ranges(dataset: DataSet) -> dict[str, str]:
    """What the family says about its parameters, where it is one of ours."""
    from geonew.data.families import FAMILIES

    known: Family | None = FAMILIES.get(dataset.header.family)
    return dict(known.ranges) if known else {}


def _check_free(path: Path | None, overwrite: bool) -> None:
    if path is not None and path.exists() and not overwrite:
        raise DataError(f"{path}: the file exists", "give --overwrite or another name")


class _Bar:
    """A progress bar with the time left and the failures; on stderr, so that output stays clean."""

    def __init__(self, title: str) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        self.title = title
        self.reasons: list[str] = []
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._task = self._progress.add_task(title, total=None)

    def __call__(self, progress: Progress) -> None:
        failed = f", {progress.failures} failed" if progress.failures else ""
        if progress.sample is None:  # the beginning: the speed of earlier runs is none of ours
            self._progress.reset(self._task, total=progress.total, completed=progress.done)
        for failure in progress.sample.failures if progress.sample else ():
            place = f"sample {progress.sample.sample}, attempt {failure['attempt']}"  # type: ignore[union-attr]
            self.reasons.append(f"{place}: {failure['error']}: {failure['reason']}")
        self._progress.update(
            self._task,
            description=self.title + failed,
            completed=progress.done,
            total=progress.total,
        )

    def count(self, done: int, total: int) -> None:
        """Show so many of all."""
        self._progress.update(self._task, completed=done, total=total)

    def say(self, text: str) -> None:
        """A line above the bar, on the standard output."""
        self._progress.stop()
        print(text, flush=True)
        self._progress.start()

    def __enter__(self) -> _Bar:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()
