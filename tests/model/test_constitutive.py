"""The learned constitutive law: symmetric and skew parts, its bounds, and Stokes as one of it."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from geonew.model.backbone import flatten_blocks
from geonew.model.constitutive import GAIN, LIMIT, Constitutive
from geonew.model.geonew import GeoNeW
from geonew.model.sample import Sample
from model.cases import prepared, redraw, tiny


def drawn(
    components: int, directions: int, parameters: int, seed: int, *, anisotropic: bool = False
) -> Constitutive:
    law = Constitutive(components, directions, parameters, 1.0, anisotropic=anisotropic)
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
    L, C = law.constants(mu)
    S = L @ L.mT
    assert torch.equal(S, S.mT)
    assert C.shape == (3, 2, 3, 3)
    eigenvalues = torch.linalg.eigvalsh(S.detach())
    assert (eigenvalues > 0).all()
    assert eigenvalues.max() <= 3 * 3 * math.exp(2 * LIMIT)


@pytest.mark.parametrize("seed", range(5))
def test_anisotropic_media_are_positive_definite_and_bounded(seed: int) -> None:
    law = drawn(3, 2, 2, seed, anisotropic=True)
    mu = torch.tensor([[0.0, 1.0], [-1.0, 1e-9], [50.0, 2.0]], dtype=torch.float64)
    tensor = law.anisotropy(mu).detach().reshape(3, 6, 6)
    eigenvalues = torch.linalg.eigvalsh(tensor)
    assert (tensor - tensor.mT).abs().max() <= 1e-13 * tensor.abs().max()
    assert eigenvalues.min() > 0.99 * math.exp(-2 * LIMIT)
    assert eigenvalues.max() < 1.01 * math.exp(2 * LIMIT)
    assert (tensor[0] - tensor[2]).abs().max() > 1e-6  # it follows the parameters


def test_an_elastic_medium_is_one_of_these() -> None:
    """With Hooke's tensor the learned backbone is the known one, up to A's bound."""
    sample = prepared("elastic")
    known = tiny(sample, law="none")
    learned = tiny(sample, known=False, law="none", anisotropic=True)
    same = {k: v for k, v in known.state_dict().items() if not k.startswith("backbone")}
    learned.load_state_dict(same, strict=False)
    law, problem = learned.backbone.constitutive, sample.problem
    assert law is not None
    assert law.tensor is not None
    d = problem.dim
    unit = np.eye(d)
    hooke = np.zeros((d, d, d, d))  # k, f, l, g
    for number, term in enumerate(problem.terms):
        kappa = float(known.backbone.coefficient(number, known.collate([sample]), 4))
        if term.form == "div_div":
            hooke += kappa * np.einsum("kf,lg->kflg", unit, unit)
        else:
            assert term.form == "strain"
            hooke += kappa * np.einsum("kl,fg->kflg", unit, unit)
            hooke += kappa * np.einsum("kg,fl->kflg", unit, unit)
    sizes, modes = np.linalg.eigh(hooke.reshape(d * d, d * d))
    spins = sizes < 1e-12
    assert spins.sum() == d * (d - 1) / 2  # rotations cost nothing
    logs = np.log(np.where(spins, 1e-3, sizes))
    A = (modes * logs) @ modes.T
    A = A / np.sqrt(1 - (np.linalg.norm(A) / (2 * LIMIT)) ** 2)
    with torch.no_grad():
        law.tensor.copy_(torch.from_numpy(A / GAIN)[None])
    (K, a), (B, b) = linear(known, sample), linear(learned, sample)
    stiff = float(K.abs().max())
    assert 0 < (K - B).abs().max() <= 1e-3 * stiff
    assert (a - b).abs().max() <= 1e-3 * stiff


@pytest.mark.parametrize("anisotropic", [False, True], ids=["isotropic", "anisotropic"])
@pytest.mark.parametrize("name", ["flow", "elastic", "cavity", "stokes3d"])
def test_first_order_part_is_skew_to_the_last_bit(name: str, anisotropic: bool) -> None:
    sample = prepared(name)
    model = redraw(tiny(sample, known=False, law="none", anisotropic=anisotropic), 3)
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
    energies = torch.linalg.eigvalsh(flatten_blocks(second)[0])
    assert energies.min() >= -1e-13 * energies.max()


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
    L, _ = law.constants(torch.tensor([[1.0], [2.0]], dtype=torch.float64))
    assert (L[0] - L[1]).abs().max() > 1e-6
