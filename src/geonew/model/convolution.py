r"""The encoder on structured meshes: convolutions, from fine to coarse and back (a U-Net).

    level 0 --convolve--> halve --convolve--> ... --> coarsest
       |                                                 |
       +--- join <-- double <-- join <-- double ... <----+

Each level has two 3 x 3 convolutions with group norm and GELU; halving is a mean over 2 x 2 places,
doubling a bilinear interpolation to the exact size of the finer level, so that sizes such as
65 x 33 and 111 x 26 need no padding. Channels double from level to level; values are replicated
beyond the rim.

Where all meshes are one grid (:mod:`geonew.mesh.grid`), neighbours in the array are neighbours in
the domain, and this sees more for its cost than anchors do, above all near small bodies. It knows
no other mesh: neither an unstructured one nor a finer grid of the same geometry.

Identities kept: on the way back every level has its own shape again; statistics are taken per
sample, so that batch mates do not matter.

Ronneberger, Fischer, Brox, "U-Net", MICCAI 2015, figure 1.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NoReturn

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, interpolate

from geonew.errors import ConfigError, InputError, MeshError
from geonew.mesh.grid import Grid
from geonew.model.encoder import Memory

# Width of a model over channels of the finest level.
WIDTH_PER_CHANNEL = 4
# Groups of the group norm.
GROUPS = 4
# Times an encoder's grid is halved.
HALVINGS = 3


def check_sizes(grid: Grid, width: int, halvings: int) -> None:
    """Refuse a width without whole groups of channels, and a grid that is too small to halve."""
    if width % (WIDTH_PER_CHANNEL * GROUPS):
        raise ConfigError(
            f"width {width} is not a multiple of {WIDTH_PER_CHANNEL * GROUPS}",
            f"convolutions have a quarter of the width in channels, in {GROUPS} groups",
        )
    if min(grid.rows, grid.cols) >> halvings < 2:
        raise ConfigError(
            f"a {grid} cannot be halved {halvings} times",
            "the coarsest level needs two rows and columns",
        )


class Level(nn.Sequential):
    """Two convolutions at one resolution."""

    def __init__(self, inputs: int, channels: int) -> None:
        layers: list[nn.Module] = []
        for before in (inputs, channels):
            layers += [
                nn.Conv2d(before, channels, 3, padding=1, padding_mode="replicate"),
                nn.GroupNorm(GROUPS, channels),
                nn.GELU(),
            ]
        super().__init__(*layers)


class Convolutions(nn.Module):
    """Down, up, and back on the nodes.

    Args:
        inputs: values per node.
        channels: of the finest level.
        halvings: how often the grid is halved.
        grid: its shape.

    """

    numbers: Int[Tensor, "rows cols"]
    places: Int[Tensor, "N"]

    def __init__(self, inputs: int, channels: int, halvings: int, grid: Grid) -> None:
        super().__init__()
        self.grid = grid
        numbers = torch.from_numpy(grid.numbers)
        self.register_buffer("numbers", numbers, persistent=False)
        self.register_buffer("places", torch.bincount(numbers.flatten()), persistent=False)
        sizes = [channels << level for level in range(halvings + 1)]
        before = [inputs, *sizes[:-1]]
        self.down = nn.ModuleList(Level(i, o) for i, o in zip(before, sizes, strict=True))
        self.up = nn.ModuleList(Level(fine + coarse, fine) for fine, coarse in pairwise(sizes))

    def forward(self, x: Float[Tensor, "B N I"]) -> Float[Tensor, "B N c"]:
        """To the grid, through the levels, and back to the nodes."""
        if x.shape[1] != len(self.places):
            raise MeshError(
                f"a batch of {x.shape[1]} nodes was given to convolutions on a {self.grid}, "
                f"which has {len(self.places)}",
                "make batches with the model's own collate, which checks every mesh",
            )
        return self.to_nodes(self.convolve(self.to_grid(x)))

    def to_grid(self, x: Float[Tensor, "B N c"]) -> Float[Tensor, "B c rows cols"]:
        """Values on nodes at the places of the grid."""
        return x[:, self.numbers].movedim(-1, 1)

    def to_nodes(self, v: Float[Tensor, "B c rows cols"]) -> Float[Tensor, "B N c"]:
        """Values at places on the nodes; the mean where a node has two."""
        rows = v.flatten(2).mT  # (B, rows cols, c)
        total = rows.new_zeros(len(rows), len(self.places), rows.shape[-1])
        return total.index_add(1, self.numbers.flatten(), rows) / self.places[:, None]

    def convolve(self, v: Float[Tensor, "B I rows cols"]) -> Float[Tensor, "B c rows cols"]:
        """Down and up."""
        levels: list[Tensor] = []
        for number, level in enumerate(self.down):
            v = level(v if number == 0 else avg_pool2d(v, 2))
            levels.append(v)
        for level, fine in reversed(list(zip(self.up, levels[:-1], strict=True))):
            v = interpolate(v, size=fine.shape[-2:], mode="bilinear", align_corners=True)
            v = level(torch.cat([fine, v], dim=1))
        return v


class GridEncoder(nn.Module):
    """Node embeddings from node tokens, as :class:`~geonew.model.encoder.AnchorTransformer`.

    Args:
        tokens: number of token columns C.
        channels: of the finest level, and width d of the embeddings.
        grid: shape of all meshes.

    """

    def __init__(self, tokens: int, channels: int, grid: Grid) -> None:
        super().__init__()
        self.convolutions = Convolutions(tokens, channels, HALVINGS, grid)

    def forward(
        self,
        tokens: Float[Tensor, "B N C"],
        anchors: Int[Tensor, "B L M"] | None = None,
        allowed: Bool[Tensor, "B 1 1 M"] | None = None,
    ) -> tuple[Float[Tensor, "B N d"], Memory]:
        """Embeddings of all nodes; anchors are not used, and nothing is remembered."""
        return self.convolutions(tokens), []

    def evaluate(
        self,
        tokens: Float[Tensor, "B N C"],
        memory: Memory,
        allowed: Bool[Tensor, "B 1 1 M"] | None = None,
    ) -> NoReturn:
        """Refused: what is seen on one grid says nothing of other nodes."""
        raise InputError(
            f"a model on a {self.convolutions.grid} cannot carry a prediction over to other meshes",
            "predict on each mesh, or train a model without `grid`, which has anchors",
        )
