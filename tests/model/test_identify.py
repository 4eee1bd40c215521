"""Constants from solutions: the law that made the data is found, and taken over."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from geonew.errors import ConfigError
from geonew.model import identify as module
from geonew.model.constitutive import Constitutive
from geonew.model.identify import Medium, identify
from geonew.model.sample import Sample
from geonew.problem.equations import lame
from model.cases import prepared, redraw, tiny

NOTHING = torch.zeros(1, 0, dtype=torch.float64)


def fresh(sample: Sample, *, anisotropic: bool) -> Constitutive:
    law = tiny(sample, known=False, anisotropic=anisotropic).backbone.constitutive
    assert law is not None
    gauged = law.gauged
    size = (law.components, law.directions, 0, law.diffusion, gauged)
    return Constitutive(*size, anisotropic=anisotropic, identified=True).double()


def medium_of(law: Constitutive) -> tuple[np.ndarray, np.ndarray]:
    with torch.no_grad():
        L, C = law.constants(NOTHING)
        S = L @ L.mT
        if law.tensor is not None:
            tensor = law.anisotropy(NOTHING)
            size = law.components * law.directions
            S = torch.einsum("bfa,bkalc,bgc->bkflg", L, tensor, L).reshape(1, size, size)
    return S[0].numpy(), C[0].numpy()


def solved(sample: Sample, law: Constitutive, seed: int, *, loaded: bool = True) -> Sample:
    """The sample with random data and the vertices' solution of the law."""
    rng = np.random.default_rng(seed)
    n, F = sample.n_nodes, law.components
    A = np.zeros((n, F, n, F))
    with torch.no_grad():
        for c in law.couplings(NOTHING):
            matrix, factor = sample.matrix(c.matrix).toarray(), c.factor[0].numpy()
            A += np.einsum("ij,fg->ifjg", matrix, factor)
            A += c.mirror * np.einsum("ji,gf->ifjg", matrix, factor)
    load = rng.standard_normal((n, F)) * sample.mass[:, None] * loaded
    u = rng.standard_normal((n, F))
    free = ~sample.fixed.ravel()
    free[np.flatnonzero(~sample.fixed.any(axis=0))] = False  # a level, where there is none
    dense, flat = A.reshape(n * F, n * F), u.ravel()
    rest = load.ravel() - dense[:, ~free] @ flat[~free]
    flat[free] = np.linalg.solve(dense[np.ix_(free, free)], rest[free])
    return replace(sample, load=load, target=flat.reshape(n, F))


@pytest.mark.parametrize(
    ("name", "anisotropic"),
    [("poisson3d", False), ("flow", False), ("elastic", True), ("stokes3d", False)],
)
def test_the_law_behind_the_data_is_found(name: str, anisotropic: bool, monkeypatch) -> None:
    sample = prepared(name)
    truth = fresh(sample, anisotropic=anisotropic)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for p in truth.parameters():
            p.copy_(0.3 / truth.gain * torch.randn(p.shape, generator=generator))
    S, C = medium_of(truth)
    data = [solved(sample, truth, seed) for seed in range(3)]
    monkeypatch.setattr(module, "PRIOR", 1e-14)
    found = identify(fresh(sample, anisotropic=anisotropic), data)
    assert found.residual < 1e-5
    assert np.abs(found.S - S).max() < 1e-6 * np.abs(S).max()
    # Where both components are prescribed in the same places, C^k and its transpose act alike.
    assert np.abs(found.C + found.C.swapaxes(1, 2) - C - C.swapaxes(1, 2)).max(initial=0.0) < 1e-6
    law = fresh(sample, anisotropic=anisotropic)
    law.start_at(torch.from_numpy(found.S), torch.from_numpy(found.C))
    taken, coupled = medium_of(law)
    assert np.abs(taken - found.S).max() < 1e-12 * np.abs(S).max()
    assert np.array_equal(coupled, found.C)


def test_without_loads_the_start_sets_the_scale() -> None:
    sample = prepared("elastic")
    truth = redraw_law(fresh(sample, anisotropic=False), 2)
    data = [solved(sample, truth, seed, loaded=False) for seed in range(3)]
    found, (S, C) = identify(fresh(sample, anisotropic=False), data), medium_of(truth)
    assert np.isnan(found.residual)
    start = sample.problem.n_components * truth.diffusion
    assert np.trace(found.S) == pytest.approx(start)
    scale = start / np.trace(S)
    assert np.abs(found.S - scale * S).max() < 0.02 * start
    assert np.abs(found.C - scale * C).max() < 0.02 * start


def redraw_law(law: Constitutive, seed: int) -> Constitutive:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        law.base.copy_(0.3 / law.gain * torch.randn(law.base.shape, generator=generator))
    return law


def test_a_model_begins_with_what_its_training_data_say() -> None:
    """Hooke's law from displacements alone."""
    sample = prepared("elastic")
    known = tiny(sample, law="none")
    hooke = np.zeros((2, 2, 2, 2))
    lam, mu = lame(200.0, 0.3)
    scale = float(known.backbone.coefficient(0, known.collate([sample]), 4)) / mu
    unit = np.eye(2)
    hooke += lam * np.einsum("kf,lg->kflg", unit, unit)
    hooke += mu * (np.einsum("kl,fg->kflg", unit, unit) + np.einsum("kg,fl->kflg", unit, unit))
    hooke = scale * hooke.reshape(4, 4) + 1e-3 * scale * mu * np.eye(4)
    truth = fresh(sample, anisotropic=True)
    truth.start_at(torch.from_numpy(hooke), torch.zeros(2, 2, 2, dtype=torch.float64))
    data = [solved(sample, truth, seed) for seed in range(3)]
    model = tiny(sample, known=False, law="none", anisotropic=True)
    assert not any("given" in name for name in model.state_dict())
    config = replace(model.config, identified=True)
    begun = type(model)(sample.problem, model.spec, sample.columns, config).double()
    begun.normalise_tokens(data)
    assert begun.backbone.constitutive is not None
    S, C = medium_of(begun.backbone.constitutive)
    assert np.abs(S - hooke).max() < 0.01 * hooke.max()
    assert np.abs(C).max() < 0.01 * hooke.max()
    # what was found is a part of the model, not of its weights
    again = type(model)(sample.problem, model.spec, sample.columns, config).double()
    again.load_state_dict(begun.state_dict())
    assert again.backbone.constitutive is not None
    assert np.array_equal(medium_of(again.backbone.constitutive)[0], S)
    batch = begun.collate([sample])
    with torch.no_grad():
        assert redraw(begun, 1)(batch).converged.all()


def test_what_was_found_is_said() -> None:
    medium = Medium(np.array([[0.123456, 0.0], [0.0, 12.3456]]), np.ones((1, 2, 2)), 0.0375)
    assert str(medium) == (
        "constants found in the training data: S = [[0.1, 0.0], [0.0, 12.3]], "
        "C1 = [[1.0, 1.0], [1.0, 1.0]]; 3.8 % of the load are left unexplained"
    )
    assert str(replace(medium, residual=np.nan)).endswith("(no load: up to a factor)")


def test_solutions_are_needed() -> None:
    sample = prepared("elastic")
    with pytest.raises(ConfigError, match="there are no solutions"):
        tiny(replace(sample, target=None), known=False, identified=True)
    tiny(sample, known=True, identified=True)  # nothing to identify where the terms are known


def test_data_that_no_diffusion_makes_are_refused() -> None:
    sample = prepared("poisson3d")
    law = fresh(sample, anisotropic=False)
    right = solved(sample, law, 0)
    with pytest.raises(ConfigError, match="no diffusive law"):
        identify(law, [replace(right, load=-right.load)])


def test_the_residual_tells_how_much_is_explained() -> None:
    sample = prepared("poisson3d")
    law = fresh(sample, anisotropic=False)
    assert right(law, sample).residual < 1e-3
    noise = np.random.default_rng(9).standard_normal(sample.load.shape)
    spoiled = solved(sample, law, 0)
    spoiled = replace(spoiled, load=spoiled.load + noise * sample.mass[:, None])
    assert identify(law, [spoiled]).residual > 0.3


def right(law: Constitutive, sample: Sample) -> Medium:
    return identify(law, [solved(sample, law, 0)])
