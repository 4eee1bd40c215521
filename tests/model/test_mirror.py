"""Mirror images: the mirrored geometry has the mirrored prediction, whatever the weights."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch

from geonew.errors import ConfigError
from geonew.mesh import Grid, Mesh
from geonew.model.geonew import GeoNeW
from geonew.model.mirror import is_odd
from geonew.model.sample import Sample
from geonew.problem import Dirichlet, Field, FrameRule, Problem
from model.cases import CASES, Case, redraw, tiny
from zoo import build, grid

SHAPE = Grid(17, 19)


def tunnel(height: float) -> Mesh:
    """A channel along x whose upper side bulges; rows run across it."""
    points, cells = grid([np.linspace(-1, 1, SHAPE.rows), np.linspace(0, 3, SHAPE.cols)])
    y, x = points.T
    bulging = np.stack([x, y + height * (1 + y) * np.sin(x) ** 2], axis=1)
    return build(
        bulging, cells, {"inlet": lambda m: m[:, 0] < 1e-9, "wall": lambda m: m[:, 0] >= 0}
    )


def mirrored(mesh: Mesh) -> Mesh:
    """The mirror image, its nodes numbered along rows as those of every grid."""
    image = SHAPE.mirrored
    turned = {name: image[facets] for name, facets in mesh.groups.items()}
    return Mesh((mesh.points * [1, -1])[image], image[mesh.cells][:, [0, 2, 1]], turned)


@cache
def sample(height: float, turned: bool = False) -> Sample:
    problem = Problem(
        name="tunnel",
        dim=2,
        fields=(Field("u"),),
        groups=("inlet", "wall"),
        dirichlet=(Dirichlet("u", "inlet"), Dirichlet("u", "wall")),
        frame=(FrameRule("normal", "inlet"),),
    )
    mesh = tunnel(height)
    data = {"inlet": {"u": 1.0}, "wall": {"u": -0.5}}
    return Case(problem, mirrored(mesh) if turned else mesh, data).sample()


def model(**changes: object) -> GeoNeW:
    settings = {"known": False, "learned_source": True, "law": "none", "mirror": True, **changes}
    made = redraw(tiny(sample(0.2), grid=SHAPE, **settings), 6, 0.5)
    made.normalise_tokens([sample(h) for h in (-0.1, 0.1, 0.2)])
    return made.eval()


@pytest.mark.parametrize("places", [False, True])
def test_a_mirrored_geometry_has_the_mirrored_prediction(places: bool):
    made = model(places=places)
    straight, turned = sample(0.2), sample(0.2, turned=True)
    assert not np.allclose(straight.tokens, turned.tokens[SHAPE.mirrored])  # some are odd
    with torch.no_grad():
        one, other = (made(made.collate([s])).fields[0].numpy() for s in (straight, turned))
    assert np.abs(one - other[SHAPE.mirrored]).max() <= 1e-8 * np.abs(one).max()
    assert np.abs(one - one[SHAPE.mirrored]).max() > 1e-3  # which is not the prediction itself


def test_without_it_the_two_differ():
    made = model(mirror=False)
    with torch.no_grad():
        one, other = (
            made(made.collate([s])).fields[0].numpy()
            for s in (sample(0.2), sample(0.2, turned=True))
        )
    assert np.abs(one - other[SHAPE.mirrored]).max() > 1e-3


@torch.no_grad()
def test_training_sees_one_image_of_each_sample_drawn_by_the_seed_of_the_step():
    made = model().train()
    batch = made.collate([sample(h) for h in (-0.1, 0.1, 0.2, 0.15)])
    plain = made.encoder(made.scaling(batch.tokens))[0]
    mirror = made.mirror
    image = made.encoder(made.scaling(batch.tokens[:, mirror.image] * mirror.sign))[0]
    image = image[:, mirror.image]
    turned = []
    for seed in range(12):
        torch.manual_seed(seed)
        first, again = made.encode(batch).nodes, made.encode(batch).nodes
        assert torch.equal(first, again)
        for k in range(batch.size):
            is_plain, is_image = (
                float((first[k] - other[k]).abs().max()) <= 1e-9 for other in (plain, image)
            )
            assert is_plain != is_image
            turned.append(is_image)
    assert 12 < sum(turned) < 36


def test_components_along_the_second_axis_are_odd():
    columns = ("x1", "x2", "d1 sdf", "d2 sdf", "hks:2", "parameter:stream:1", "parameter:stream:2")
    assert [name for name in columns if is_odd(name)] == ["x2", "d2 sdf", "parameter:stream:2"]
    assert "d2 sdf" in sample(0.2).columns


def test_a_grid_whose_rows_run_along_the_channel_is_refused():
    points, cells = grid([np.linspace(0, 3, SHAPE.rows), np.linspace(-1, 1, SHAPE.cols)])
    sides = {"inlet": lambda m: m[:, 0] < 1e-9, "wall": lambda m: m[:, 0] >= 0}
    mesh = build(points, cells, sides)
    along = Case(sample(0.2).problem, mesh, {"inlet": {"u": 1.0}, "wall": {"u": -0.5}}).sample()
    with pytest.raises(ConfigError, match="'label:inlet' lies elsewhere"):
        tiny(along, grid=SHAPE, mirror=True)


def test_vector_fields_are_refused():
    flow = CASES["flow"]().sample()
    with pytest.raises(ConfigError, match="is for scalar fields"):
        tiny(flow, grid=SHAPE, mirror=True)
