r"""Fourier layers on the torus: on a uniform grid, and between arbitrary points and modes.

With a half set of modes k (the last component not negative, for fields are real) and
:math:`c_k = 1` for :math:`k_d = 0`, else 2,

.. math::
    \hat v_k = \sum_n w_n\, v_n\, e^{-2\pi i k \cdot \xi_n}, \qquad
    v(\xi) = \mathrm{Re} \sum_k c_k\, \hat v_k\, e^{2\pi i k \cdot \xi}, \qquad
    \hat v_k \mapsto R_k \hat v_k .

Identities kept: at the nodes of a uniform grid with equal weights the first two are the fast
Fourier transform and its inverse; a layer on the grid is the circular convolution with the kernel
:math:`\kappa(\xi) = \mathrm{Re} \sum_k c_k R_k e^{2\pi i k \cdot \xi}`, exactly.

Li et al., "Fourier Neural Operator", ICLR 2021, equation 4; at irregular points Li, Huang, Liu,
Anandkumar, "Geo-FNO", JMLR 2023, section 3. Weights are stored as pairs of real numbers: optimisers
and checkpoints need not know complex ones.
"""

from __future__ import annotations

from math import prod

import torch
from jaxtyping import Complex, Float, Int
from torch import Tensor, nn

from geonew.errors import ConfigError

# Most nodes of a latent grid: 1024 per axis in the plane, 101 in space.
MOST_NODES = 2**20


class Modes(nn.Module):
    """A half set of modes, and the transforms onto it.

    Args:
        dim: dimension of the torus.
        modes: frequencies K per axis: 0 ... K-1 on the last, -K ... K-1 on the others.
        grid: nodes per axis of the uniform grid.

    """

    frequencies: Int[Tensor, "K dim"]
    places: Int[Tensor, "K"]
    multiplicity: Int[Tensor, "K"]

    def __init__(self, dim: int, modes: int, grid: int) -> None:
        super().__init__()
        if grid <= 2 * modes:
            raise ConfigError(
                f"a latent grid of {grid} nodes per axis does not resolve {modes} modes",
                f"use at least {2 * modes + 1} nodes, or fewer modes",
            )
        if grid**dim > MOST_NODES:
            raise ConfigError(
                f"a latent grid of {grid} nodes per axis has more nodes than the {MOST_NODES} that "
                "are possible",
                "use a coarser grid",
            )
        self.dim, self.grid, self.modes = dim, grid, modes
        both, half = torch.arange(-modes, modes), torch.arange(modes)
        k = torch.cartesian_prod(*[both] * (dim - 1), half)
        wrapped = k % grid
        place = torch.zeros(len(k), dtype=torch.int64)
        for axis in range(dim):  # position in the flattened half spectrum of ``rfftn``
            place = place * (grid if axis < dim - 1 else grid // 2 + 1) + wrapped[:, axis]
        self.register_buffer("frequencies", k, persistent=False)
        self.register_buffer("places", place, persistent=False)
        self.register_buffer("multiplicity", 1 + (k[:, -1] > 0).long(), persistent=False)

    def __len__(self) -> int:
        return len(self.frequencies)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the uniform grid."""
        return (self.grid,) * self.dim

    def waves(self, xi: Float[Tensor, "B N dim"]) -> Complex[Tensor, "B N K"]:
        """The waves ``exp(2 pi i k . xi)`` at points of the torus."""
        phase = 2 * torch.pi * (xi @ self.frequencies.to(xi.dtype).mT)
        return torch.complex(phase.cos(), phase.sin())

    def from_points(
        self,
        v: Float[Tensor, "B N c"],
        waves: Complex[Tensor, "B N K"],
        weight: Float[Tensor, "B N"],
    ) -> Complex[Tensor, "B K c"]:
        """Coefficients of values at points with quadrature weights."""
        weighted = v * weight[..., None]
        # Two real products cost half of a complex one with a real factor.
        return torch.complex(waves.real.mT @ weighted, -(waves.imag.mT @ weighted))

    def at_points(
        self, v_hat: Complex[Tensor, "B K c"], waves: Complex[Tensor, "B N K"]
    ) -> Float[Tensor, "B N c"]:
        """Values at points from coefficients."""
        v_hat = v_hat * self.multiplicity[:, None]
        return waves.real @ v_hat.real - waves.imag @ v_hat.imag

    def from_grid(self, v: Float[Tensor, "B c *grid"]) -> Complex[Tensor, "B K c"]:
        """Coefficients of values on the uniform grid, all with the same weight, their sum 1."""
        axes = tuple(range(-self.dim, 0))
        spectrum = torch.fft.rfftn(v, dim=axes, norm="forward")
        return spectrum.flatten(2)[..., self.places].mT

    def at_grid(self, v_hat: Complex[Tensor, "B K c"]) -> Float[Tensor, "B c *grid"]:
        """Values on the uniform grid from coefficients."""
        axes = tuple(range(-self.dim, 0))
        half = (*self.shape[:-1], self.grid // 2 + 1)
        empty = v_hat.new_zeros(len(v_hat), v_hat.shape[-1], prod(half))
        spectrum = empty.index_copy(2, self.places, v_hat.mT)
        return torch.fft.irfftn(spectrum.unflatten(2, half), s=self.shape, dim=axes, norm="forward")


class SpectralWeights(nn.Module):
    """One complex matrix per mode, ``v_k -> R_k v_k``.

    Args:
        modes: number of modes.
        width: channels in and out.

    """

    def __init__(self, modes: int, width: int) -> None:
        super().__init__()
        # Outputs as large as inputs: each R_k preserves the size of a random vector.
        self.matrices = nn.Parameter(torch.randn(modes, width, width, 2) * (2 * width) ** -0.5)

    def forward(self, v_hat: Complex[Tensor, "B K c"]) -> Complex[Tensor, "B K c"]:
        """The filtered coefficients."""
        matrices = torch.view_as_complex(self.matrices)
        return torch.einsum("bki,kio->bko", v_hat, matrices.to(v_hat.dtype))


class SpectralLayer(nn.Module):
    """A convolution on the uniform grid with a learned band-limited kernel."""

    def __init__(self, modes: Modes, width: int) -> None:
        super().__init__()
        self.modes = modes
        self.weights = SpectralWeights(len(modes), width)

    def forward(self, v: Float[Tensor, "B c *grid"]) -> Float[Tensor, "B c *grid"]:
        """Transform, filter, transform back."""
        return self.modes.at_grid(self.weights(self.modes.from_grid(v)))
