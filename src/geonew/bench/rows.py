"""The rows of the tables: which model each name stands for, from one base configuration.

Every row has the width and depth of the base configuration of its family, its features and its
batch size; what only one kind of model has (partitions, anchors, slices) is as in the base
configuration or the kind's default.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from geonew.errors import ConfigError

OURS = ("learned", "known+learned")
BASELINES = ("inducing", "transolver", "gnot", "linear", "galerkin", "lamo", "deeponet")
STRUCTURED = ("geofno", "unet")
ROWS = (*OURS, *BASELINES, *STRUCTURED)
# Rows that are trained longer, with several seeds.
LEADING = ("known+learned", "learned", "inducing", "transolver", "linear")
# Settings of Geo-NeW that its encoder alone, with a linear head, has as well.
_OF_ENCODER = ("heads", "anchors", "exchanges")
_OF_CONVOLUTIONS = ("grid", "places")


def model_of(row: str, base: Mapping[str, Any]) -> dict[str, Any]:
    """Plain data of a row's model.

    Args:
        row: its name.
        base: the model of the family's base configuration, a Geo-NeW.

    """
    if row == "known+learned":
        return dict(base)
    if row == "learned":
        return {**base, "known": False}
    if row not in ROWS:
        raise ConfigError(f"there is no row {row!r}", f"the rows are {', '.join(ROWS)}")
    sizes = {"kind": row, "width": base["width"]}
    if row == "unet":  # its depth counts halvings of the grid, not blocks
        if "grid" not in base:
            raise ConfigError(
                "a U-Net needs a grid, and the base configuration has none",
                "leave unet out, or give `model.grid` if all meshes of the family are one",
            )
        return sizes | {name: base[name] for name in _OF_CONVOLUTIONS if name in base}
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
