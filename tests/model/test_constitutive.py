"""The learned constitutive law: symmetric and skew parts, its bounds, and Stokes as one of it."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from geonew.model.constitutive import GAIN, LIMIT, Constitutive
from geonew.model.geonew import GeoNeW
from geonew.model.sample import Sample
from model.cases import prepared, redraw, tiny


def drawn(components: int, directions: int, parameters: int, seed: int) -> Constitutive:
    law = Constitutive(components, directions, parameters, 1.0)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in law.parameters():
            p.copy_(3.0 * torch.randn(p.shape, generator=generator))
    return law


def linear(model: GeoNeW, sample: Sample) -> tuple[torch.Tensor, torch.Tensor]:
    batch = model.collate([sample])
    with torch.no_grad():
        system = model.backbone(model.reduce(model.encode(batch), batch), batch)
    return system.matrix, system.constant


@pytest.mark.parametrize("seed", range(5))
def test_S_is_positive_definite_and_bounded_for_any_weights(seed: int) -> None:
    law = drawn(3, 2, 2, seed)
    mu = torch.tensor([[0.0, 1.0], [-1.0, 1e-9], [50.0, 2.0]], dtype=torch.float64)
    S, C = law.constants(mu)
    assert torch.equal(S, S.mT)
    assert C.shape == (3, 2, 3, 3)
    eigenvalues = torch.linalg.eigvalsh(S.detach())
    assert (eigenvalues > 0).all()
    assert eigenvalues.max() <= 3 * 3 * math.exp(2 * LIMIT)


@pytest.mark.parametrize("name", ["flow", "elastic", "cavity", "stokes3d"])
def test_first_order_part_is_skew_to_the_last_bit(name: str) -> None:
    sample = prepared(name)
    model = redraw(tiny(sample, known=False, law="none"), 3)
    law = model.backbone.constitutive
    assert law is not None
    batch = model.collate([sample])
    with torch.no_grad():
        space = model.reduce(model.encode(batch), batch)
        full, _ = law(space, batch)
        law.base[1:].zero_()
        law.follow[:, 1:].zero_()
        second, _ = law(space, batch)
    first = full - second
    assert torch.equal(second, second.transpose(1, 2).mT)
    assert first.abs().max() > 1e-3  # there is something to be skew
    size = full.abs().max()
    assert (first + first.transpose(1, 2).mT).abs().max() <= 1e-15 * size
    symmetric = (full + full.transpose(1, 2).mT) / 2
    assert (symmetric - second).abs().max() <= 1e-15 * size


def test_a_scalar_has_no_directions() -> None:
    model = tiny(prepared("poisson"), known=False)
    law = model.backbone.constitutive
    assert law is not None
    assert law.constants(torch.ones(1, 0, dtype=torch.float64))[1].shape[1] == 0


@pytest.mark.parametrize("name", ["flow", "stokes3d"])
def test_stokes_is_one_of_these_laws(name: str) -> None:
    """With the constants of the equation the learned backbone is the known one."""
    sample = prepared(name)
    known = tiny(sample, law="none", quadratic=False)
    learned = tiny(sample, known=False, law="none")
    same = {k: v for k, v in known.state_dict().items() if not k.startswith("backbone")}
    learned.load_state_dict(same, strict=False)
    problem, law = known.backbone.problem, learned.backbone.constitutive
    assert law is not None
    batch = known.collate([sample])
    with torch.no_grad():
        for number, term in enumerate(problem.terms):
            kappa = float(known.backbone.coefficient(number, batch, known.config.partitions))
            if term.form == "divergence":
                p, v = problem.offset(term.fields[0]), problem.offset(term.fields[1])
                for k in range(problem.dim):
                    law.base[1 + k, p, v + k] = kappa / GAIN
            else:
                for f in range(problem.n_components)[problem.columns(term.fields[0])]:
                    law.base[0, f, f] = LIMIT * math.atanh(math.log(kappa) / 2 / LIMIT) / GAIN
    (A, a), (B, b) = linear(known, sample), linear(learned, sample)
    size = float(A.abs().max())
    assert np.abs((A - B).numpy()).max() <= 1e-12 * size
    assert np.abs((a - b).numpy()).max() <= 1e-12 * size


def test_constants_follow_the_parameters() -> None:
    law = drawn(2, 0, 1, 0)
    S, _ = law.constants(torch.tensor([[1.0], [2.0]], dtype=torch.float64))
    assert (S[0] - S[1]).abs().max() > 1e-6
