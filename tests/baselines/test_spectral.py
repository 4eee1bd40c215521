"""Fourier layers: transforms at points and on the grid agree, layers are exact convolutions."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from baselines.cases import difference
from geonew.baselines.spectral import Modes, SpectralLayer, SpectralWeights
from geonew.errors import ConfigError


def grid_points(modes: Modes) -> torch.Tensor:
    ticks = [torch.arange(n).double() / n for n in modes.shape]
    return torch.stack(torch.meshgrid(*ticks, indexing="ij"), dim=-1).flatten(0, -2)


@pytest.mark.parametrize(("dim", "grid"), [(2, 9), (2, 10), (3, 7), (3, 8)])
def test_transforms_at_grid_points_are_those_of_the_grid(dim: int, grid: int):
    torch.manual_seed(0)
    modes = Modes(dim, 3, grid)
    assert len(modes) == 6 ** (dim - 1) * 3
    v = torch.randn(2, 4, *modes.shape).double()
    points = grid_points(modes)
    waves = modes.waves(points[None].expand(2, -1, -1))
    weight = torch.full((2, len(points)), 1 / len(points), dtype=torch.float64)
    rows = v.flatten(2).mT
    v_hat = modes.from_points(rows, waves, weight)
    assert difference(v_hat, modes.from_grid(v)) < 1e-12
    back = modes.at_grid(v_hat)
    assert difference(modes.at_points(v_hat, waves), back.flatten(2).mT) < 1e-12


def test_band_limited_fields_survive_the_way_to_modes_and_back():
    modes = Modes(2, 4, 11)
    x = grid_points(modes)
    v = (
        1.3
        + torch.cos(2 * torch.pi * (3 * x[:, 0] - 2 * x[:, 1]))
        + torch.sin(2 * torch.pi * (x[:, 0] + 3 * x[:, 1]))
    )
    v = v.reshape(1, 1, 11, 11)
    assert difference(modes.at_grid(modes.from_grid(v)), v) < 1e-13
    anywhere = torch.rand(1, 50, 2).double()
    t, s = anywhere[0].T
    wanted = 1.3 + torch.cos(2 * torch.pi * (3 * t - 2 * s)) + torch.sin(2 * torch.pi * (t + 3 * s))
    found = modes.at_points(modes.from_grid(v), modes.waves(anywhere))
    assert difference(found[0, :, 0], wanted) < 1e-12


@pytest.mark.parametrize(("dim", "grid"), [(2, 7), (2, 8), (3, 5)])
def test_a_layer_is_the_circular_convolution_with_its_kernel(dim: int, grid: int):
    torch.manual_seed(0)
    modes = Modes(dim, 2, grid)
    layer = SpectralLayer(modes, 2).double()
    v = torch.randn(1, 2, *modes.shape).double()
    matrices = torch.view_as_complex(layer.weights.matrices)  # (K, in, out)
    phase = 2 * torch.pi * grid_points(modes) @ modes.frequencies.double().mT
    kernel = torch.einsum(
        "xk,k,kio->xio", torch.exp(1j * phase), modes.multiplicity + 0j, matrices
    ).real.reshape(*modes.shape, 2, 2)
    wanted = torch.zeros_like(v)
    axes = tuple(range(dim))
    for place in product(range(grid), repeat=dim):
        moved = kernel.roll(place, dims=axes)  # kappa(x - place)
        wanted += torch.einsum("...io,bi->bo...", moved, v[(slice(None), slice(None), *place)])
    assert difference(layer(v), wanted / grid**dim) < 1e-12


def test_a_layer_commutes_with_translations():
    torch.manual_seed(0)
    layer = SpectralLayer(Modes(2, 3, 8), 3).double()
    v = torch.randn(2, 3, 8, 8).double()
    assert difference(layer(v.roll((3, 5), (2, 3))), layer(v).roll((3, 5), (2, 3))) < 1e-12


def test_weights_are_real_numbers_and_one_matrix_per_mode():
    weights = SpectralWeights(5, 3)
    assert not weights.matrices.is_complex()
    v_hat = torch.randn(2, 5, 3, dtype=torch.complex64)
    changed = v_hat.clone()
    changed[:, 2] += 1
    moved = (weights(changed) - weights(v_hat)).abs().amax((0, 2))
    assert torch.nonzero(moved)[:, 0].tolist() == [2]


def test_a_grid_too_coarse_for_its_modes_is_refused():
    with pytest.raises(ConfigError, match=r"grid of 8 nodes per axis does not resolve 4 modes"):
        Modes(2, 4, 8)
