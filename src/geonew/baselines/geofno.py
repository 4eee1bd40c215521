r"""Geo-FNO: a Fourier neural operator on a torus into which the domain is deformed.

    x_n --deformation--> xi_n in the unit torus
    v_n = lift(x_n) --Fourier at xi_n, mass weights--> modes --filter--> uniform latent grid
        --Fourier layers--> modes --filter, Fourier at xi_n--> nodes --> fields

.. math::
    \xi_n = \tfrac18 + \tfrac34\, \frac{x_n - a}{b - a} + D(\text{inputs}_n), \qquad
    \hat v_k = \frac{1}{|\Omega|} \sum_n m_n\, v_n\, e^{-2\pi i k \cdot \xi_n}

[a, b] is the box of the training geometries in the frame and D a network that starts at 0. The box
takes three quarters of the torus, so that opposite sides of a domain are not neighbours.

Identities kept: everything between the nodes' transforms lives on a fixed grid, O(N) in the nodes;
the first transform is a quadrature, so coincident nodes that share their mass are one node. A
geometry longer than the training box wraps around the torus: the method has no answer to that.

Li, Huang, Liu, Anandkumar, "Fourier Neural Operator with Learned Deformations for PDEs on General
Geometries", JMLR 2023, section 3 and its point-cloud variant. Deviations: lumped masses for its
plain sums over points; D reads all node inputs (they describe the geometry) and is bounded by
nothing; the pointwise path of the last layer reads node inputs besides positions, since much of
what a node knows does not pass through a few modes. Channels are a quarter of ``width``: a mode has
a matrix of its own, and the paper's 32 channels with 12 modes belong to an embedding width of
128.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import gelu

from geonew.baselines.harness import Baseline, BaselineConfig
from geonew.baselines.spectral import Modes, SpectralLayer, SpectralWeights
from geonew.errors import ConfigError
from geonew.features import FeatureSpec
from geonew.model.batch import Batch
from geonew.model.integrals import mass_measure
from geonew.model.sample import Sample
from geonew.problem import Problem

# Embedding width over channels.
WIDTH_PER_CHANNEL = 4
# Where the training box begins in the torus, and how much of it it fills.
MARGIN, SPAN = 1 / 8, 3 / 4


@dataclass(frozen=True)
class GeoFNOConfig(BaselineConfig):
    """Sizes of a Geo-FNO; ``depth`` counts the steps from one set of modes to the next.

    Args:
        modes: frequencies per axis in the plane.
        grid: nodes per axis of the latent grid in the plane.
        modes_in_space, grid_in_space: the same in three dimensions, where modes are many.

    """

    modes: int = 12
    grid: int = 40
    modes_in_space: int = 4
    grid_in_space: int = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width % WIDTH_PER_CHANNEL:
            raise ConfigError(
                f"width {self.width} is not a multiple of {WIDTH_PER_CHANNEL}",
                "a Geo-FNO has a quarter of the width in channels",
            )


class GridLayer(nn.Module):
    """Convolution, pointwise map and position bias on the latent grid."""

    def __init__(self, modes: Modes, width: int) -> None:
        super().__init__()
        self.convolve = SpectralLayer(modes, width)
        self.pointwise = nn.Linear(width, width)
        self.position = nn.Linear(modes.dim, width, bias=False)

    def forward(
        self, v: Float[Tensor, "B c *grid"], places: Float[Tensor, "*grid dim"]
    ) -> Float[Tensor, "B c *grid"]:
        """The next values on the grid."""
        local = self.pointwise(v.movedim(1, -1)) + self.position(places)
        return gelu(self.convolve(v) + local.movedim(-1, 1))


class GeoFNO(Baseline):
    """Fourier neural operator with a learned deformation."""

    config_type: ClassVar[type[BaselineConfig]] = GeoFNOConfig
    config: GeoFNOConfig
    axes: Int[Tensor, "dim"]
    box: Float[Tensor, "2 dim"]
    places: Float[Tensor, "*grid dim"]

    def __init__(
        self,
        problem: Problem,
        spec: FeatureSpec,
        columns: Sequence[str],
        config: GeoFNOConfig | None = None,
    ) -> None:
        super().__init__(problem, spec, columns, config)
        own, dim, I = self.config, problem.dim, self.input_width  # noqa: E741
        c = own.width // WIDTH_PER_CHANNEL
        self.register_buffer("axes", self.coordinate_columns(), persistent=False)
        self.register_buffer("box", torch.tensor([[-1.0], [1.0]]).expand(2, dim).clone())
        sizes = (own.modes, own.grid) if dim == 2 else (own.modes_in_space, own.grid_in_space)
        self.modes = Modes(dim, *sizes)
        ticks = [torch.arange(n) / n for n in self.modes.shape]
        places = torch.stack(torch.meshgrid(*ticks, indexing="ij"), dim=-1)
        self.register_buffer("places", places, persistent=False)
        deform = nn.Linear(own.width, dim)
        nn.init.zeros_(deform.weight)
        nn.init.zeros_(deform.bias)
        self.deformation = nn.Sequential(nn.Linear(I, own.width), nn.GELU(), deform)
        self.lift = nn.Sequential(nn.Linear(I, own.width), nn.GELU(), nn.Linear(own.width, c))
        self.enter = SpectralWeights(len(self.modes), c)
        self.enter_position = nn.Linear(dim, c)
        self.layers = nn.ModuleList(GridLayer(self.modes, c) for _ in range(own.depth - 1))
        self.leave = SpectralWeights(len(self.modes), c)
        self.skip = nn.Linear(I + dim, c)
        self.head = nn.Sequential(
            nn.Linear(c, own.width), nn.GELU(), nn.Linear(own.width, problem.n_components)
        )

    def normalise_tokens(self, samples: Sequence[Sample]) -> None:
        """Scales, and the box of the training geometries."""
        super().normalise_tokens(samples)
        axes = self.axes.cpu().numpy()
        low = np.min([s.tokens[:, axes].min(axis=0) for s in samples], axis=0)
        high = np.max([s.tokens[:, axes].max(axis=0) for s in samples], axis=0)
        self.box.copy_(torch.from_numpy(np.stack([low, high])))

    def torus(self, x: Float[Tensor, "B N I"]) -> Float[Tensor, "B N dim"]:
        """Where each node is in the torus."""
        place = x[..., self.axes] * self.scaling.scale[self.axes] + self.scaling.mean[self.axes]
        unit = (place - self.box[0]) / (self.box[1] - self.box[0])
        return MARGIN + SPAN * unit + self.deformation(x)

    def approximate(self, x: Float[Tensor, "B N I"], batch: Batch) -> Float[Tensor, "B N F"]:
        """Nodes to modes to the grid, through the layers, and back to the nodes."""
        with torch.autocast(x.device.type, enabled=False):  # transforms have no half precision
            xi, modes = self.torus(x), self.modes
            waves = modes.waves(xi)
            v_hat = modes.from_points(self.lift(x), waves, mass_measure(batch))
            bias = self.enter_position(self.places).movedim(-1, 0)
            v = gelu(modes.at_grid(self.enter(v_hat)) + bias)
            for layer in self.layers:
                v = layer(v, self.places)
            v = modes.at_points(self.leave(modes.from_grid(v)), waves)
            return self.head(gelu(v + self.skip(torch.cat([x, xi], dim=-1))))
