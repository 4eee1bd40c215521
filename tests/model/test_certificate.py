"""The certificate of whole models: never more than the truth, for any weights, on any mesh."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from geonew.model.backbone import CONDUCTANCE, flatten_blocks
from geonew.model.certificate import certified_margin, certify, field_margin
from geonew.model.flux import structured
from geonew.model.flux.paper import PaperConfig
from geonew.model.geonew import GeoNeW, Output
from geonew.model.newton import NewtonConfig
from geonew.model.sample import Sample
from model.cases import CASES, TINY, prepared, redraw, scalar, tiny

SCALES = (0.3, 1.0, 3.0, 10.0)


def jacobian(output: Output, u: Tensor) -> Tensor:
    """J(u), with the slopes of the structured law's channels as they are.

    The model takes what they have lost off those at rest; where they are saturated that costs more
    digits than a margin may differ by.
    """
    balance, flux = output.balance, output.balance.flux
    _, J = balance.linearise(u)
    if not isinstance(flux, structured.StructuredFlux) or balance.convection:
        return J
    B, F, E = flux.mask.shape
    plain = flux.linear[..., None] * (flux.weighted_mask[:, :, None] * flux.mask[:, None])

    def assembled(root: Tensor) -> Tensor:
        slopes = (flux._outer @ root**3).view(B, F, 2 * F, E) * flux._gate
        by_difference, by_mean = plain + slopes[:, :, :F], flux.neutral + slopes[:, :, F:]
        edges = balance.graph.balance_jacobian(by_difference, by_mean)
        return flatten_blocks(balance.linear.matrix + edges)

    arguments = flux._arguments(balance.nodes(u))
    exact = assembled(torch.rsqrt(1 + arguments**2))
    unsaturated = assembled(torch.ones_like(arguments))  # what the model subtracts from
    assert (exact - J).abs().max() <= 1e-13 * unsaturated.abs().max()
    return exact


def lowest(J: Tensor) -> Tensor:
    """Smallest eigenvalue of the symmetric part."""
    return torch.linalg.eigvalsh((J + J.mT) / 2)[:, 0]


def excess(output: Output, states: int = 3, seed: int = 0) -> float:
    """Largest margin - lambda_min(sym J(u)), over the size of J, at several states."""
    generator = torch.Generator().manual_seed(seed)
    margin = certified_margin(output)
    J = jacobian(output, output.u)
    size = J.abs().sum(-1).amax(-1)
    worst = float(((margin - lowest(J)) / size).max())
    for k in range(states):
        u = 10.0**k * torch.randn(output.u.shape, generator=generator, dtype=torch.float64)
        worst = max(worst, float(((margin - lowest(jacobian(output, u))) / size).max()))
    return worst


def worst_of(samples: list[Sample], seeds: range, **changes) -> tuple[float, float, int]:
    """Largest excess, smallest margin, number not certified unique, over draws of all weights."""
    model = tiny(samples[0], **changes)
    batch = model.collate(samples)
    worst, smallest, uncertified = -np.inf, np.inf, 0
    for seed in seeds:
        redraw(model, seed, SCALES[seed % len(SCALES)])
        with torch.no_grad():
            output = model(batch)
            worst = max(worst, excess(output, seed=seed))
            if SCALES[seed % len(SCALES)] == max(SCALES):
                continue  # where round-off of a huge law may swallow a tiny margin
            smallest = min(smallest, float(certified_margin(output).min()))
            uncertified += sum(c.uniqueness != "unique" for c in certify(output, batch))
    return worst, smallest, uncertified


ROUND_OFF = 1e-14


@pytest.mark.parametrize("known", [True, False], ids=["known", "learned"])
@pytest.mark.parametrize("name", CASES)
def test_margin_is_a_lower_bound(name: str, known: bool) -> None:
    worst, smallest, uncertified = worst_of([prepared(name)], range(12), known=known)
    assert worst <= ROUND_OFF
    assert smallest > 0
    assert uncertified == 0


@pytest.mark.parametrize("known", [True, False], ids=["known", "learned"])
@pytest.mark.parametrize("name", CASES)
def test_margin_is_a_lower_bound_with_a_learned_state(name: str, known: bool) -> None:
    changes = {"known": known, "learned_source": True}
    worst, smallest, uncertified = worst_of([prepared(name)], range(12), **changes)
    assert worst <= ROUND_OFF
    assert smallest > 0
    assert uncertified == 0


@pytest.mark.slow
@pytest.mark.parametrize("known", [True, False], ids=["known", "learned"])
@pytest.mark.parametrize("name", CASES)
def test_margin_is_a_lower_bound_in_a_thousand_draws(name: str, known: bool) -> None:
    worst, _, uncertified = worst_of([prepared(name)], range(1000), known=known)
    assert worst <= ROUND_OFF
    assert uncertified == 0


def test_margin_on_many_meshes_at_once() -> None:
    """One set of weights, six geometries side by side."""
    names = ("square", "obtuse", "random_delaunay", "graded", "two_triangles", "needles")
    samples = [scalar(mesh).sample() for mesh in names]
    worst, smallest, uncertified = worst_of(samples, range(20))
    assert worst <= ROUND_OFF
    assert smallest > 0
    assert uncertified == 0


def ascent(name: str, steps: int, **changes) -> float:
    """Gradient ascent of margin - lambda_min over all weights and a state; the largest seen."""
    sample = prepared(name)
    model = redraw(tiny(sample, **changes), 0, 0.5)
    model.backbone.traced = True  # here the matrices themselves are differentiated
    batch = model.collate([sample])
    u = torch.randn(1, sample.problem.n_components, TINY.partitions, dtype=torch.float64)
    u.requires_grad_(True)
    optimiser = torch.optim.Adam([*model.parameters(), u], lr=0.03)
    worst = -np.inf
    for _ in range(steps):
        optimiser.zero_grad()
        encoding = model.encode(batch)
        space = model.reduce(encoding, batch)
        balance = model.balance(encoding, space, batch)
        with torch.no_grad():
            output = model(batch)
        output = replace(output, balance=balance)
        margin, found = certified_margin(output), lowest(jacobian(output, u))
        _, J = balance.linearise(u)
        gap = (margin - found) / J.detach().abs().sum(-1).amax(-1)
        worst = max(worst, float(gap.detach().max()))
        (-gap.sum()).backward()
        optimiser.step()
    return worst


def test_margin_withstands_gradient_ascent() -> None:
    assert ascent("effective", 60) <= ROUND_OFF


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_margin_withstands_long_gradient_ascent(name: str) -> None:
    for known in (True, False):
        assert ascent(name, 200, known=known) <= ROUND_OFF


def test_control_unprojected_coupling_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(structured, "project_neutral", lambda skew, partitions: skew)
    assert worst_of([prepared("flow")], range(8), known=False)[0] > 1e-6


def test_control_contraction_above_one_is_noticed() -> None:
    config = replace(TINY.structured, contraction=30.0)
    worst, _, uncertified = worst_of(
        [prepared("flow")], range(12), structured=config, known=False, diffusion=1e-3
    )
    assert worst <= ROUND_OFF  # true still, but no longer a promise
    assert uncertified > 0


@pytest.mark.parametrize("name", CASES)
def test_paper_law_certified(name: str) -> None:
    """Where partitions all but coincide lambda_min is round-off, and the certificate says so."""
    paper = replace(TINY.paper, mode="certified")
    for known in (True, False):
        given = {"law": "paper", "paper": paper, "known": known}
        assert worst_of([prepared(name)], range(4), **given)[0] <= ROUND_OFF
        model = tiny(prepared(name), **given)
        assert model.predict_samples([prepared(name)])[0].certificate.uniqueness == "unique"


def test_paper_law_published_says_so() -> None:
    sample = prepared("flow")
    model = tiny(sample, law="paper", paper=PaperConfig(operator_width=3, rank=2))
    batch = model.collate([sample])
    with torch.no_grad():
        output = model(batch)
    (certificate,) = certify(output, batch)
    assert certificate.uniqueness == "not certified"
    flux = output.balance.flux
    assert flux is not None
    tau = float(flux.tau(output.balance.linear.dense()))  # type: ignore[attr-defined]
    assert f"tau up to {tau:.3g}" in certificate.reason
    # tau = C_L |A^-1 d0^T|, every factor measured here
    A = output.balance.linear.dense()[0].numpy()
    d0 = output.balance.graph.divergence[:, : TINY.partitions].numpy()
    wide = np.kron(np.eye(sample.problem.n_components), d0)
    exact = float(flux.lipschitz) * np.linalg.norm(np.linalg.solve(A, wide.T), 2)  # type: ignore[attr-defined]
    assert abs(tau - exact) <= 1e-8 * exact


# -- one solution --------------------------------------------------------------------------------


def from_many_starts(model: GeoNeW, sample: Sample, count: int = 20) -> tuple[Tensor, Output]:
    """Fields reached from random starts of all sizes, and the batch's output."""
    batch = model.collate([sample] * count)
    generator = torch.Generator().manual_seed(0)
    shape = (count, sample.problem.n_components, model.config.partitions)
    size = torch.logspace(-2, 2, count, dtype=torch.float64)[:, None, None]
    start = size * torch.randn(shape, generator=generator, dtype=torch.float64)
    with torch.no_grad():
        output = model(batch, start=start)
    return output.fields[:, : sample.n_nodes], output


@pytest.mark.parametrize("known", [True, False], ids=["known", "learned"])
@pytest.mark.parametrize("name", CASES)
def test_twenty_starts_reach_one_solution(name: str, known: bool) -> None:
    sample = prepared(name)
    newton = NewtonConfig(rtol=1e-13, atol=1e-14, field_tolerance=1e-13, max_steps=100)
    model = redraw(tiny(sample, known=known, newton=newton), 1)
    fields, output = from_many_starts(model, sample)
    assert (output.solution.residual < 1e-11).all()
    # Against the largest component: all are dimensionless, and one may be next to nothing.
    assert (fields - fields[:1]).abs().max() <= 1e-10 * fields.abs().max()


# -- margin of the field -------------------------------------------------------------------------


@pytest.mark.parametrize("known", [True, False], ids=["known", "learned"])
@pytest.mark.parametrize("name", ["poisson", "flow", "elastic", "cavity", "stokes3d"])
def test_field_margin_is_a_lower_bound_for_every_field(name: str, known: bool) -> None:
    sample = prepared(name)
    model = redraw(tiny(sample, known=known, law="none", quadratic=False), 5)
    batch = model.collate([sample])
    with torch.no_grad():
        output = model(batch)
        A = output.balance.linear.dense()
        margin = float(field_margin((A + A.mT) / 2, output.space, batch)[0])
        (certificate,) = certify(output, batch)
    assert certificate.field_margin == margin > 0
    assert certificate.uniqueness == "unique"
    generator = torch.Generator().manual_seed(0)
    weight = batch.mass[0] / batch.volume[0]
    for _ in range(200):
        v = torch.randn(output.u.shape, generator=generator, dtype=torch.float64)
        field = (output.space.field(v) - output.space.lift)[0]
        mean_square = float((weight[:, None] * field**2).sum())
        energy = float(v.flatten() @ A[0] @ v.flatten())
        assert energy >= margin * mean_square * (1 - 1e-10)


def test_dependent_functions_do_not_hide_uniqueness() -> None:
    """Two equal functions leave the matrix the conductance alone, but there is still one field."""
    sample = prepared("poisson")
    model = redraw(tiny(sample, law="none"), 5)
    with torch.no_grad():
        out = model.partition.out
        weight = out.weight.view(model.problem.n_components, -1, out.in_features)
        bias = out.bias.view(model.problem.n_components, -1)
        weight[:, 1], bias[:, 1] = weight[:, 0], bias[:, 0]
        batch = model.collate([sample])
        output = model(batch)
        (certificate,) = certify(output, batch)
        A = output.balance.linear.dense()
        negative = field_margin(-(A + A.mT) / 2, output.space, batch)
    assert certificate.margin <= CONDUCTANCE
    assert certificate.field_margin > 1e6 * CONDUCTANCE
    assert certificate.uniqueness == "unique"
    assert negative[0] < 0  # it can say no
