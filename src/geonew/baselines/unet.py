"""U-Net: the convolutions of :mod:`geonew.model.convolution` with a linear head.

What Geo-NeW builds its space from on a grid, read off directly. It has no notion of an unstructured
mesh and refuses one (:mod:`geonew.mesh.grid`).

Ronneberger, Fischer, Brox, "U-Net", MICCAI 2015, figure 1, with group norm for its batch statistics
and replicated values beyond the rim for its valid convolutions. ``depth`` counts the halvings;
channels start at a quarter of ``width``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor, nn

from geonew.baselines.harness import Baseline, BaselineConfig
from geonew.features import FeatureSpec
from geonew.mesh.grid import Grid
from geonew.model.batch import Batch
from geonew.model.convolution import HALVINGS, WIDTH_PER_CHANNEL, Convolutions, check_sizes
from geonew.model.sample import Sample
from geonew.problem import Problem


@dataclass(frozen=True)
class UNetConfig(BaselineConfig):
    """Sizes of a U-Net.

    Args:
        grid: the shape of the meshes it takes; the pipe's by default.
        places: read deviations from the training data at each place, as Geo-NeW's encoder does.

    """

    depth: int = HALVINGS
    grid: Grid = field(default_factory=lambda: Grid(65, 33))
    places: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes(self.grid, self.width, self.depth)


class UNet(Baseline):
    """U-Net on the grid of a structured mesh."""

    config_type: ClassVar[type[BaselineConfig]] = UNetConfig
    config: UNetConfig

    def __init__(
        self,
        problem: Problem,
        spec: FeatureSpec,
        columns: Sequence[str],
        config: UNetConfig | None = None,
    ) -> None:
        super().__init__(problem, spec, columns, config)
        c = self.config.width // WIDTH_PER_CHANNEL
        depth, grid, places = self.config.depth, self.config.grid, self.config.places
        self.convolutions = Convolutions(self.input_width, c, depth, grid, places)
        self.head = nn.Linear(c, problem.n_components)

    def collate(
        self, samples: Sequence[Sample], draw: tuple[int, int, Sequence[int]] | None = None
    ) -> Batch:
        """A batch of structured meshes; others are refused."""
        for sample in samples:
            self.config.grid.check(sample.mesh)
        return super().collate(samples, draw)

    def normalise_tokens(self, samples: Sequence[Sample]) -> None:
        """Scales from training samples, and what its inputs are at each place."""
        super().normalise_tokens(samples)
        self.convolutions.fit(self.inputs(self.collate([sample]))[0] for sample in samples)

    def approximate(self, x: Float[Tensor, "B N I"], batch: Batch) -> Float[Tensor, "B N F"]:
        """Embed and read off."""
        return self.head(self.convolutions(x))
