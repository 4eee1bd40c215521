"""The families of solved problems, by name: ``family("ns2d-c++").draw(...)``."""

from __future__ import annotations

from geonew.data.families.channel import ChannelObstacles, QuadrantObstacles
from geonew.data.families.elasticity import Elasticity
from geonew.data.families.naca import NacaEuler
from geonew.data.families.pipe import Pipe
from geonew.data.families.poisson import PolyPoisson
from geonew.data.families.reynolds import ChannelReynolds
from geonew.data.families.solids import BallPoisson, DuctStokes
from geonew.data.record import Family
from geonew.errors import InputError

FAMILIES: dict[str, Family] = {
    made.name: made
    for made in (
        PolyPoisson(),
        PolyPoisson("poly-poisson-var", drawn=True),
        QuadrantObstacles(),
        ChannelObstacles(),
        ChannelReynolds(),
        Pipe(),
        Elasticity(),
        NacaEuler(),
        BallPoisson(),
        DuctStokes(),
    )
}


def family(name: str) -> Family:
    """The family of that name; an :class:`InputError` lists the known ones."""
    if name not in FAMILIES:
        raise InputError(
            f"there is no family {name!r}", f"the families are {', '.join(sorted(FAMILIES))}"
        )
    return FAMILIES[name]


__all__ = ["FAMILIES", "family"]
