"""What the page asks for: a model, a geometry, and the numbers that go with it.

Everything a client can send is declared here with its bounds; whatever is outside of them is
refused before any work is done. Lengths are in the family's unit, angles in radians (those of
obstacles) or degrees (the step).
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

MOST_OBSTACLES = 12
MOST_CORNERS = 32
# Far beyond any family's size; numbers beyond would only make round-off.
FARTHEST = 100.0

Coordinate = Annotated[float, Field(ge=-FARTHEST, le=FARTHEST, allow_inf_nan=False)]
Point = tuple[Coordinate, Coordinate]
Name = Annotated[str, StringConstraints(min_length=1, max_length=80)]
Session = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Token = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
Value = Annotated[float, Field(ge=-1e12, le=1e12, allow_inf_nan=False)]
Seed = Annotated[int, Field(ge=0, le=2**31 - 1)]


class Strict(BaseModel):
    """Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class PlacedObstacle(Strict):
    """A circle, or a square of the same area."""

    x: Coordinate
    y: Coordinate
    radius: Annotated[float, Field(gt=0.005, le=10.0, allow_inf_nan=False)]
    square: bool = False
    angle: Coordinate = 0.0


class ChannelGeometry(Strict):
    """Obstacles in a channel; its walls follow from the values."""

    kind: Literal["channel"]
    obstacles: Annotated[tuple[PlacedObstacle, ...], Field(min_length=1, max_length=MOST_OBSTACLES)]


class PolygonGeometry(Strict):
    """A cut-out by its corners."""

    kind: Literal["polygon"]
    corners: Annotated[tuple[Point, ...], Field(min_length=3, max_length=MOST_CORNERS)]


class CurveGeometry(Strict):
    """A cavity by points of its closed smooth rim."""

    kind: Literal["curve"]
    corners: Annotated[tuple[Point, ...], Field(min_length=4, max_length=MOST_CORNERS)]


class PlainGeometry(Strict):
    """Nothing to drag: the values say it all."""

    kind: Literal["plain"]


class DrawnGeometry(Strict):
    """A random shape of the model's family, by its number."""

    kind: Literal["drawn"]
    seed: Seed = 0
    outside: bool = False


class UploadedGeometry(Strict):
    """A mesh that was uploaded; its groups under other names where these differ."""

    kind: Literal["upload"]
    token: Token
    rename: Annotated[dict[Name, Name], Field(max_length=100)] = {}


Geometry = Annotated[
    ChannelGeometry
    | PolygonGeometry
    | CurveGeometry
    | PlainGeometry
    | DrawnGeometry
    | UploadedGeometry,
    Field(discriminator="kind"),
]


class Cut(Strict):
    """Which section of a solid is shown.

    Args:
        axis: 0, 1 or 2.
        part: of the way through the solid.

    """

    axis: Annotated[int, Field(ge=0, le=2)]
    part: Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]


class Scene(Strict):
    """One question.

    Args:
        model: its key in the list of models.
        geometry: the domain.
        values: numbers by the names of the model's controls; the rest are at their defaults.
        session: of the requests of one session that wait, the last alone is answered.
        partition: number of the component whose partition is wanted.
        cut: section of a solid.

    """

    model: Name
    geometry: Geometry
    values: Annotated[dict[Name, Value], Field(max_length=100)] = {}
    session: Session | None = None
    partition: Annotated[int, Field(ge=0, le=100)] | None = None
    cut: Cut | None = None
