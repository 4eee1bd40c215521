"""The rows of the tables: which model each name stands for, from one base configuration.

Every row has the width and depth of the base configuration of its family, its features and its
batch size; what only one kind of model has (partitions, anchors, slices) is as in the base
configuration or the kind's default.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from geonew.data.euler.grid import AIRFOIL_CELLS, NORMAL_CELLS, WAKE_CELLS
from geonew.data.families.pipe import CELLS as PIPE_CELLS
from geonew.errors import ConfigError

OURS = ("learned", "known+learned")
BASELINES = ("inducing", "transolver", "gnot", "linear", "galerkin", "lamo", "deeponet")
STRUCTURED = ("geofno", "unet")
ROWS = (*OURS, *BASELINES, *STRUCTURED)
# Rows that are trained longer, with several seeds.
LEADING = ("known+learned", "learned", "inducing", "transolver", "linear")
# Settings of Geo-NeW that its encoder alone, with a linear head, has as well.
_OF_ENCODER = ("heads", "anchors", "exchanges")
_GRIDS = {
    "pipe": {"rows": PIPE_CELLS[0] + 1, "cols": PIPE_CELLS[1] + 1},
    "naca": {
        "rows": 2 * WAKE_CELLS + AIRFOIL_CELLS + 1,
        "cols": NORMAL_CELLS + 1,
        "cut": WAKE_CELLS + 1,
    },
}


def model_of(row: str, base: Mapping[str, Any], family: str) -> dict[str, Any]:
    """Plain data of a row's model.

    Args:
        row: its name.
        base: the model of the family's base configuration, a Geo-NeW.
        family: for grids.

    """
    if row == "known+learned":
        return dict(base)
    if row == "learned":
        return {**base, "known": False}
    if row not in ROWS:
        raise ConfigError(f"there is no row {row!r}", f"the rows are {', '.join(ROWS)}")
    sizes = {"kind": row, "width": base["width"]}
    if row == "unet":  # its depth counts halvings of the grid, not blocks
        if family not in _GRIDS:
            raise ConfigError(
                f"family {family!r} is no grid", f"grids are {', '.join(_GRIDS)}: leave unet out"
            )
        return {**sizes, "grid": _GRIDS[family]}
    sizes["depth"] = base["depth"]
    if row == "inducing":
        sizes |= {name: base[name] for name in _OF_ENCODER if name in base}
    return sizes


def settings_of(row: str) -> tuple[str, ...]:
    """What else of the base configuration a row changes.

    The weight decay there is for Geo-NeW, whose space carries over to longer channels by it.
    Baselines go without: with it inducing point was a little worse and Transolver as good.
    """
    return () if row in OURS else ("optimiser.weight_decay=0.0",)
