"""The encoders: padding and batch mates do not matter, numbering only permutes, mass weighs."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from geonew.errors import ConfigError
from geonew.mesh import Grid
from geonew.model.batch import Batch
from geonew.model.config import ModelConfig
from geonew.model.encoder import ContextPooling
from geonew.model.geonew import Encoding, GeoNeW
from model.cases import redraw, scalar, tiny

# From 4 to 441 nodes: the smallest has fewer nodes than there are anchors.
MESHES = ("square", "two_triangles", "random_delaunay", "needles")
SAMPLES = [scalar(mesh).sample() for mesh in MESHES]
KINDS = ("anchors", "integrals")


def model_of(dtype: torch.dtype = torch.float64, **changes) -> GeoNeW:
    return redraw(tiny(SAMPLES[0], dtype=dtype, depth=2, **changes), 0)


@torch.no_grad()
def encoded(model: GeoNeW, batch: Batch) -> Encoding:
    return model.encode(batch)


def close(one: torch.Tensor, two: torch.Tensor, tolerance: float) -> bool:
    return bool((one - two).abs().max() <= tolerance * (1 + two.abs().max()))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-4)])
def test_batch_mates_do_not_matter(dtype: torch.dtype, tolerance: float, kind: str) -> None:
    model = model_of(dtype, encoder=kind)
    together = encoded(model, model.collate(SAMPLES))
    for k, sample in enumerate(SAMPLES):
        alone = encoded(model, model.collate([sample]))
        assert close(together.nodes[k, : sample.n_nodes], alone.nodes[0], tolerance)
        for name in ("context", "flux_context", "source_context"):
            assert close(getattr(together, name)[k], getattr(alone, name)[0], tolerance)


def test_random_anchors_do_not_depend_on_batch_mates() -> None:
    """Drawn by (seed, epoch, sample): the same wherever the sample stands."""
    model = model_of()
    together = encoded(model, model.collate(SAMPLES, draw=(3, 1, [10, 11, 12, 13])))
    for k, sample in enumerate(SAMPLES):
        alone = encoded(model, model.collate([sample], draw=(3, 1, [10 + k])))
        assert close(together.nodes[k, : sample.n_nodes], alone.nodes[0], 1e-12)
    other = encoded(model, model.collate(SAMPLES, draw=(3, 2, [10, 11, 12, 13])))
    assert not close(together.nodes[0], other.nodes[0], 1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_padding_does_not_matter(kind: str) -> None:
    model = model_of(encoder=kind)
    batch = model.collate(SAMPLES)
    garbage = torch.where(batch.mask[..., None], batch.tokens, 1e6)
    assert not torch.equal(garbage, batch.tokens)
    clean, dirty = encoded(model, batch), encoded(model, replace(batch, tokens=garbage))
    assert torch.equal(clean.nodes[batch.mask], dirty.nodes[batch.mask])
    for name in ("context", "flux_context", "source_context"):
        assert close(getattr(clean, name), getattr(dirty, name), 1e-13)
    with torch.no_grad():
        one, two = model(batch), model(replace(batch, tokens=garbage))
    assert close(one.fields[batch.mask], two.fields[batch.mask], 1e-12)


def test_control_anchors_that_do_not_exist_are_masked() -> None:
    """Without their mask the smallest mesh would notice its mates."""
    model = model_of()
    batch = model.collate(SAMPLES)
    assert batch.anchor_exists is not None
    small = MESHES.index("two_triangles")
    n = SAMPLES[small].n_nodes
    wrong = encoded(model, replace(batch, anchor_exists=None))
    assert not close(wrong.nodes[small, :n], encoded(model, batch).nodes[small, :n], 1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_numbering_permutes_embeddings(kind: str) -> None:
    model = model_of(encoder=kind)
    batch = model.collate([SAMPLES[0]])
    order = torch.randperm(SAMPLES[0].n_nodes, generator=torch.Generator().manual_seed(0))
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order))
    moved = replace(
        batch,
        tokens=batch.tokens[:, order],
        mass=batch.mass[:, order],
        anchors=place[batch.anchors],
    )
    one, two = encoded(model, batch), encoded(model, moved)
    assert close(one.nodes[:, order], two.nodes, 1e-12)
    assert close(one.flux_context, two.flux_context, 1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_every_node_hears_an_anchor(kind: str) -> None:
    """Control of the tests above: embeddings do depend on other nodes of the same mesh."""
    model = model_of(encoder=kind)
    batch = model.collate([SAMPLES[0]])
    anchor = int(batch.anchors[0, 0, 0])
    tokens = batch.tokens.clone()
    tokens[0, anchor] += 1.0
    changed = encoded(model, replace(batch, tokens=tokens)).nodes - encoded(model, batch).nodes
    assert (changed.abs().amax(-1) > 1e-9).all()


def test_pooling_is_an_integral() -> None:
    """A node split in two of half the mass changes nothing; unweighted pooling would notice."""
    torch.manual_seed(0)
    pooling = ContextPooling(6, (1, 2)).double()
    z, mass = torch.randn(1, 9, 6, dtype=torch.float64), torch.rand(1, 9, dtype=torch.float64)
    split = torch.cat([z, z[:, :3]], dim=1)
    half = torch.cat([mass[:, :3] / 2, mass[:, 3:], mass[:, :3] / 2], dim=1)
    with torch.no_grad():
        for one, two in zip(pooling(z, mass.log()), pooling(split, half.log()), strict=True):
            assert close(one, two, 1e-13)
        plain, doubled = pooling(z, 0 * mass), pooling(split, 0 * half)
    assert not close(plain[0], doubled[0], 1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_memory_embeds_the_same_nodes_alike(kind: str) -> None:
    """Evaluated on its own nodes, the encoder gives what it gave; also with missing anchors."""
    model = model_of(encoder=kind)
    batch = model.collate(SAMPLES)
    with torch.no_grad():
        output = model(batch)
        again = model.transfer(output, batch)
    assert close(again[batch.mask], output.fields[batch.mask], 1e-12)


def test_an_encoder_by_integrals_reads_the_mesh_as_a_quadrature() -> None:
    """A node split in two of half the mass changes nothing; a plain mean would notice."""
    encoder = redraw(model_of(encoder="integrals"), 1).encoder
    generator = torch.Generator().manual_seed(0)
    columns = len(SAMPLES[0].columns)
    x = torch.randn(1, 9, columns, generator=generator, dtype=torch.float64)
    mass = torch.rand(1, 9, generator=generator, dtype=torch.float64)
    mass = mass / mass.sum()
    split = torch.cat([x, x[:, :3]], dim=1)
    half = torch.cat([mass[:, :3] / 2, mass[:, 3:], mass[:, :3] / 2], dim=1)
    with torch.no_grad():
        whole, parts = encoder(x, mass)[0], encoder(split, half)[0]
        plain = encoder(split, torch.full_like(half, 1 / 12))[0]
    assert close(parts[:, :9], whole, 1e-12)
    assert close(parts[:, 9:], whole[:, :3], 1e-12)
    assert not close(plain[:, :9], whole, 1e-3)


@pytest.mark.parametrize("law", ["structured", "none"])
def test_guarantees_hold_with_an_encoder_by_integrals(law: str) -> None:
    model = model_of(encoder="integrals", law=law)
    batch = model.collate(SAMPLES)
    with torch.no_grad():
        output = model(batch)
    assert output.converged.all()
    assert float((output.fields - batch.extension)[batch.fixed].abs().max()) <= 1e-14
    r = output.balance.residual(output.u)
    assert bool((r.flatten(1).norm(dim=1) <= 1e-8 * output.balance.scale()).all())


def test_a_grid_has_its_own_encoder() -> None:
    with pytest.raises(ConfigError, match="convolutions are the encoder"):
        ModelConfig(grid=Grid(17, 21), encoder="integrals")
