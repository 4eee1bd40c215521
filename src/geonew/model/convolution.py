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

Where a grid is wrapped around bodies that are much alike (``places``), what an input says is not
its value, which is the place's own, but how it differs from that of other bodies at the same place:
by a hundredth of its spread over the grid, around airfoils. Convolutions then read

    (x - m) / s    with m and s mean and spread of the training data at each place,

and m beside it, convolved once for all samples.

Identities kept: on the way back every level has its own shape again; statistics are taken per
sample, so that batch mates do not matter.

Ronneberger, Fischer, Brox, "U-Net", MICCAI 2015, figure 1.
"""

from __future__ import annotations

from collections.abc import Iterable
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
# Spread at a place below which an input says nothing there, over its spread on the whole grid.
LEAST_SPREAD = 0.01
# Most places of a grid: a hundred times those of an airfoil's.
MOST_PLACES = 2**20


def check_sizes(grid: Grid, width: int, halvings: int) -> None:
    """Refuse a width without whole groups of channels, a grid too large, or too small to halve."""
    if width % (WIDTH_PER_CHANNEL * GROUPS):
        raise ConfigError(
            f"width {width} is not a multiple of {WIDTH_PER_CHANNEL * GROUPS}",
            f"convolutions have a quarter of the width in channels, in {GROUPS} groups",
        )
    if grid.rows * grid.cols > MOST_PLACES:
        raise ConfigError(
            f"a {grid} has more places than the {MOST_PLACES} that are possible",
            "use a coarser `grid`, or a model for unstructured meshes",
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

    def forward(
        self,
        v: Float[Tensor, "B I rows cols"],
        beside: Float[Tensor, "1 c rows cols"] | None = None,
    ) -> Float[Tensor, "B c rows cols"]:
        """Both convolutions; ``beside`` is added to the first."""
        for number, layer in enumerate(self):
            v = layer(v)
            if number == 0 and beside is not None:
                v = v + beside
        return v


class Convolutions(nn.Module):
    """Down, up, and back on the nodes.

    Args:
        inputs: values per node.
        channels: of the finest level.
        halvings: how often the grid is halved.
        grid: its shape.
        places: read deviations from the training data at each place.

    """

    numbers: Int[Tensor, "rows cols"]
    copies: Int[Tensor, "N"]
    mean: Float[Tensor, "N I"]
    spread: Float[Tensor, "N I"]

    def __init__(
        self, inputs: int, channels: int, halvings: int, grid: Grid, places: bool = False
    ) -> None:
        super().__init__()
        self.grid = grid
        numbers = torch.from_numpy(grid.numbers)
        self.register_buffer("numbers", numbers, persistent=False)
        self.register_buffer("copies", torch.bincount(numbers.flatten()), persistent=False)
        sizes = [channels << level for level in range(halvings + 1)]
        before = [inputs, *sizes[:-1]]
        self.down = nn.ModuleList(Level(i, o) for i, o in zip(before, sizes, strict=True))
        self.up = nn.ModuleList(Level(fine + coarse, fine) for fine, coarse in pairwise(sizes))
        self.steady: nn.Conv2d | None = None
        if places:
            self.steady = nn.Conv2d(
                inputs, channels, 3, padding=1, padding_mode="replicate", bias=False
            )
            self.register_buffer("mean", torch.zeros(grid.n_nodes, inputs))
            self.register_buffer("spread", torch.ones(grid.n_nodes, inputs))

    @torch.no_grad()
    def fit(self, inputs: Iterable[Float[Tensor, "N I"]]) -> None:
        """Read mean and spread at each place off the training samples, where places count."""
        if self.steady is None:
            return
        count, total, squares = 0, torch.zeros(()), torch.zeros(())
        for x in inputs:
            wide = x.double()
            count, total, squares = count + 1, total + wide, squares + wide**2
        mean = total / count
        variance = (squares / count - mean**2).clamp_min(0)
        self.mean.copy_(mean)
        self.spread.copy_((variance + LEAST_SPREAD**2).sqrt())

    def forward(self, x: Float[Tensor, "B N I"]) -> Float[Tensor, "B N c"]:
        """To the grid, through the levels, and back to the nodes."""
        if x.shape[1] != len(self.copies):
            raise MeshError(
                f"a batch of {x.shape[1]} nodes was given to convolutions on a {self.grid}, "
                f"which has {len(self.copies)}",
                "make batches with the model's own collate, which checks every mesh",
            )
        if self.steady is None:
            return self.to_nodes(self.convolve(self.to_grid(x)))
        beside = self.steady(self.to_grid(self.mean[None]))
        return self.to_nodes(self.convolve(self.to_grid((x - self.mean) / self.spread), beside))

    def to_grid(self, x: Float[Tensor, "B N c"]) -> Float[Tensor, "B c rows cols"]:
        """Values on nodes at the places of the grid."""
        return x[:, self.numbers].movedim(-1, 1)

    def to_nodes(self, v: Float[Tensor, "B c rows cols"]) -> Float[Tensor, "B N c"]:
        """Values at places on the nodes; the mean where a node has two."""
        rows = v.flatten(2).mT  # (B, rows cols, c)
        total = rows.new_zeros(len(rows), len(self.copies), rows.shape[-1])
        return total.index_add(1, self.numbers.flatten(), rows) / self.copies[:, None]

    def convolve(
        self,
        v: Float[Tensor, "B I rows cols"],
        beside: Float[Tensor, "1 c rows cols"] | None = None,
    ) -> Float[Tensor, "B c rows cols"]:
        """Down and up; ``beside`` is what the first convolution makes of the places."""
        levels: list[Tensor] = []
        for level in self.down:
            v = level(avg_pool2d(v, 2)) if levels else level(v, beside)
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
        places: read deviations from the training data at each place.

    """

    def __init__(self, tokens: int, channels: int, grid: Grid, places: bool = False) -> None:
        super().__init__()
        self.convolutions = Convolutions(tokens, channels, HALVINGS, grid, places)

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
