"""Import: data sets of others, through a recipe, into our own format.

    recipe --reader of its kind--> Source --check every sample--> file, whole or not at all

Readers: ``simulations`` (a folder of mesh files), ``geofno-elasticity``, ``geofno-naca`` and
``geofno-pipe`` (published ``.npy`` sets), ``gnot`` (pickled clouds of points), ``holed-poisson``
and ``skewed-cavity`` (two published ``.npz`` sets).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from geonew.data.check import check_record
from geonew.data.columns import pack
from geonew.data.generate import COMMIT_SECONDS
from geonew.data.geofno import elasticity, naca, pipe
from geonew.data.gnot import gnot
from geonew.data.header import Header
from geonew.data.published import holed_poisson, skewed_cavity
from geonew.data.recipe import Recipe, Source, check_keys, read_recipe
from geonew.data.simulations import simulations
from geonew.data.writer import Writer
from geonew.errors import DataError, GeoNeWError

READERS: Mapping[str, Callable[[Recipe], Source]] = {
    "simulations": simulations,
    "geofno-elasticity": elasticity,
    "geofno-naca": naca,
    "geofno-pipe": pipe,
    "holed-poisson": holed_poisson,
    "skewed-cavity": skewed_cavity,
}
GNOT = "gnot"
PARTIAL = ".importing"


def open_source(recipe: Recipe, allow_pickle: bool = False) -> Source:
    """What a recipe describes, ready to be read."""
    check_keys({recipe.kind: None}, (*READERS, GNOT), f"{recipe.path}: kind")
    if recipe.kind == GNOT:
        return gnot(recipe, allow_pickle)
    return READERS[recipe.kind](recipe)


def import_recipe(
    path: Path,
    out: Path,
    *,
    allow_pickle: bool = False,
    overwrite: bool = False,
    on_sample: Callable[[int, int], None] | None = None,
) -> int:
    """Import what a recipe describes and return how many samples that were.

    Args:
        path: the recipe.
        out: the file to write.
        allow_pickle: whether ``.pkl`` files may be read, arrays only.
        overwrite: whether an existing file may be replaced.
        on_sample: called with the number of samples done and of all.

    """
    if out.exists() and not overwrite:
        raise DataError(f"{out}: the file exists", "give --overwrite or another name")
    recipe = read_recipe(path)
    source = open_source(recipe, allow_pickle)
    units = {**source.units, **{n: str(u) for n, u in recipe.mapping("units").items()}}
    origin = {"kind": "imported", "recipe": dict(recipe.content)}
    partial = out.with_name(out.name + PARTIAL)
    partial.unlink(missing_ok=True)
    try:
        with Writer(partial, Header(recipe.name, recipe.split, source.problem, units, origin)) as w:
            committed = time.monotonic()
            for sample in range(source.count):
                try:
                    record = source.record(sample)
                    check_record(source.problem, record)
                    w.append(pack(record))
                except GeoNeWError as error:
                    where = f"{recipe.path}: sample {sample} ({source.label(sample)})"
                    raise DataError(f"{where}: {error.what}", error.cure) from error
                if time.monotonic() - committed > COMMIT_SECONDS:
                    w.commit()
                    committed = time.monotonic()
                if on_sample:
                    on_sample(sample + 1, source.count)
            w.commit()
        os.replace(partial, out)
    finally:
        partial.unlink(missing_ok=True)
    return source.count
