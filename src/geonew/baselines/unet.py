r"""U-Net: convolutions on structured meshes, from fine to coarse and back.

    level 0 --convolve--> halve --convolve--> ... --> coarsest
       |                                                 |
       +--- join <-- double <-- join <-- double ... <----+

Each level has two 3 x 3 convolutions with group norm and GELU; halving is a mean over 2 x 2 places,
doubling a bilinear interpolation to the exact size of the finer level, so that sizes such as
65 x 33 and 111 x 26 need no padding. Channels double from level to level.

Identities kept: on the way back every level has its own shape again; statistics are taken per
sample, so that batch mates do not matter. It has no notion of an unstructured mesh and refuses one
(:mod:`geonew.baselines.grid`).

Ronneberger, Fischer, Brox, "U-Net", MICCAI 2015, figure 1, with group norm for its batch statistics
and replicated values beyond the rim for its valid convolutions. ``depth`` counts the halvings;
channels start at a quarter of ``width``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, interpolate

from geonew.baselines.grid import Grid
from geonew.baselines.harness import Baseline, BaselineConfig
from geonew.errors import ConfigError, MeshError
from geonew.features import FeatureSpec
from geonew.model.batch import Batch
from geonew.model.sample import Sample
from geonew.problem import Problem

# Embedding width over channels of the finest level.
WIDTH_PER_CHANNEL = 4
# Groups of the group norm.
GROUPS = 4


@dataclass(frozen=True)
class UNetConfig(BaselineConfig):
    """Sizes of a U-Net.

    Args:
        grid: the shape of the meshes it takes; the pipe's by default.

    """

    depth: int = 3
    grid: Grid = field(default_factory=lambda: Grid(65, 33))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width % (WIDTH_PER_CHANNEL * GROUPS):
            raise ConfigError(
                f"width {self.width} is not a multiple of {WIDTH_PER_CHANNEL * GROUPS}",
                f"a U-Net has a quarter of the width in channels, in {GROUPS} groups",
            )
        coarsest = min(self.grid.rows, self.grid.cols) >> self.depth
        if coarsest < 2:
            raise ConfigError(
                f"a {self.grid} cannot be halved {self.depth} times",
                "choose a smaller depth: the coarsest level needs two rows and columns",
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


class UNet(Baseline):
    """U-Net on the grid of a structured mesh."""

    config_type: ClassVar[type[BaselineConfig]] = UNetConfig
    config: UNetConfig
    numbers: Int[Tensor, "rows cols"]
    places: Int[Tensor, "N"]

    def __init__(
        self,
        problem: Problem,
        spec: FeatureSpec,
        columns: Sequence[str],
        config: UNetConfig | None = None,
    ) -> None:
        super().__init__(problem, spec, columns, config)
        depth, c = self.config.depth, self.config.width // WIDTH_PER_CHANNEL
        numbers = torch.from_numpy(self.config.grid.numbers)
        self.register_buffer("numbers", numbers, persistent=False)
        self.register_buffer("places", torch.bincount(numbers.flatten()), persistent=False)
        sizes = [c << level for level in range(depth + 1)]
        before = [self.input_width, *sizes[:-1]]
        self.down = nn.ModuleList(Level(i, o) for i, o in zip(before, sizes, strict=True))
        self.up = nn.ModuleList(Level(fine + coarse, fine) for fine, coarse in pairwise(sizes))
        self.head = nn.Conv2d(c, problem.n_components, 1)

    def collate(
        self, samples: Sequence[Sample], draw: tuple[int, int, Sequence[int]] | None = None
    ) -> Batch:
        """A batch of structured meshes; others are refused."""
        for sample in samples:
            self.config.grid.check(sample.mesh)
        return super().collate(samples, draw)

    def to_grid(self, x: Float[Tensor, "B N c"]) -> Float[Tensor, "B c rows cols"]:
        """Values on nodes at the places of the grid."""
        return x[:, self.numbers].movedim(-1, 1)

    def to_nodes(self, v: Float[Tensor, "B c rows cols"]) -> Float[Tensor, "B N c"]:
        """Values at places on the nodes; the mean where a node has two."""
        rows = v.flatten(2).mT  # (B, rows cols, c)
        total = rows.new_zeros(len(rows), len(self.places), rows.shape[-1])
        return total.index_add(1, self.numbers.flatten(), rows) / self.places[:, None]

    def approximate(self, x: Float[Tensor, "B N I"], batch: Batch) -> Float[Tensor, "B N F"]:
        """To the grid, through the levels, and back to the nodes."""
        if x.shape[1] != len(self.places):
            raise MeshError(
                f"a batch of {x.shape[1]} nodes was given to a U-Net on a {self.config.grid}, "
                f"which has {len(self.places)}",
                "make batches with the model's own collate, which checks every mesh",
            )
        return self.to_nodes(self.convolve(self.to_grid(x)))

    def convolve(self, v: Float[Tensor, "B I rows cols"]) -> Float[Tensor, "B F rows cols"]:
        """Down, up, read off."""
        levels: list[Tensor] = []
        for number, level in enumerate(self.down):
            v = level(v if number == 0 else avg_pool2d(v, 2))
            levels.append(v)
        for level, fine in reversed(list(zip(self.up, levels[:-1], strict=True))):
            v = interpolate(v, size=fine.shape[-2:], mode="bilinear", align_corners=True)
            v = level(torch.cat([fine, v], dim=1))
        return self.head(v)
