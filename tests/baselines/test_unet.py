"""The U-Net: node values to the grid and back, odd sizes, structured meshes only."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from baselines.cases import SPEC, difference, fitting, samples, tiny
from geonew.baselines import UNet, UNetConfig
from geonew.errors import ConfigError, MeshError
from geonew.mesh import Grid
from geonew.model.convolution import LEAST_SPREAD, Convolutions


def unet(grid: Grid, width: int = 16, depth: int = 1) -> Convolutions:
    torch.manual_seed(0)
    s = samples()[0]
    return UNet(s.problem, SPEC, s.columns, UNetConfig(width, depth, grid)).double().convolutions


@pytest.mark.parametrize("grid", [Grid(9, 9), Grid(7, 4), Grid(21, 6, cut=5)])
def test_values_come_back_from_the_grid_as_they_went(grid: Grid):
    model = unet(grid)
    x = torch.randn(2, grid.n_nodes, 3).double()
    v = model.to_grid(x)
    assert v.shape == (2, 3, grid.rows, grid.cols)
    assert torch.equal(model.to_nodes(v), x)
    if grid.cut:  # both sides of the cut show the same nodes
        rows = torch.arange(grid.cut)
        assert torch.equal(v[:, :, rows, 0], v[:, :, grid.rows - 1 - rows, 0])


def test_rows_of_the_grid_are_rows_of_the_array():
    model = unet(Grid(7, 4))
    x = torch.arange(28.0).double()[None, :, None]
    assert torch.equal(model.to_grid(x)[0, 0], torch.arange(28.0).double().reshape(7, 4))


@pytest.mark.parametrize(
    ("grid", "depth"), [(Grid(65, 33), 4), (Grid(111, 26, cut=19), 3), (Grid(5, 7), 1)]
)
def test_odd_sizes_keep_their_shape(grid: Grid, depth: int):
    model = unet(grid, depth=depth)
    inputs = model.down[0][0].in_channels
    x = torch.randn(1, grid.n_nodes, inputs).double()
    v = model.convolve(model.to_grid(x))
    assert v.shape == (1, 4, grid.rows, grid.cols)
    assert model(x).shape == (1, grid.n_nodes, 4)


def test_a_node_is_seen_by_all_others_through_the_coarse_levels():
    model = tiny("unet")
    batch = model.collate(fitting("unet")[:1])
    x = model.inputs(batch).requires_grad_()
    model.approximate(x, batch)[0, 0].sum().backward()
    assert (x.grad.abs().sum((0, 2)) > 0).all()


def test_places_are_those_of_all_its_inputs():
    pair = fitting("unet")
    config = UNetConfig(16, 1, Grid(9, 9), places=True)
    model = UNet(pair[0].problem, SPEC, pair[0].columns, config).double()
    model.normalise_tokens(pair)
    x = model.inputs(model.collate(pair))
    assert difference(model.convolutions.mean, x.mean(0)) < 1e-12
    spread = (x.var(0, correction=0) + LEAST_SPREAD**2).sqrt()
    assert difference(model.convolutions.spread, spread) < 1e-9


def test_unstructured_meshes_are_refused():
    model = tiny("unet")
    for s in samples()[1:]:
        with pytest.raises(MeshError, match=r"is no 9 x 9 grid"):
            model.collate([s])
    foreign = tiny("linear").collate(samples()[1:2])
    with pytest.raises(MeshError, match=r"given to convolutions on a 9 x 9 grid, which has 81"):
        model(foreign)


def test_bad_sizes_are_refused():
    with pytest.raises(ConfigError, match=r"width 24 is not a multiple of 16"):
        UNetConfig(width=24)
    with pytest.raises(ConfigError, match=r"111 x 26 grid cannot be halved 4 times"):
        UNetConfig(depth=4, grid=Grid(111, 26))


def test_normalisation_is_per_sample():
    model = tiny("unet")
    first, second = fitting("unet")
    loud = replace(second, tokens=1e3 * second.tokens)
    quiet = model(model.collate([first, second])).fields[0]
    assert difference(model(model.collate([first, loud])).fields[0], quiet) < 1e-12
