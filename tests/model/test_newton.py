"""The solve: fast, always converged on untrained models, and every sample with its own fate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from geonew.model.balance import Balance
from geonew.model.batch import Batch
from geonew.model.flux.paper import PaperConfig
from geonew.model.geonew import GeoNeW, Output
from geonew.model.newton import NewtonConfig, Status, solve
from model.cases import CASES, TINY, Case, flow, prepared, tiny


def untrained(name: str, seeds: range, loud: bool, **changes) -> tuple[list[int], int]:
    """Newton steps, and number of failures, of freshly initialised models."""
    sample = prepared(name)
    steps, failures, batch = [], 0, None
    for seed in seeds:
        model = tiny(sample, seed, **changes)
        if loud:
            strengthen(model)
        batch = model.collate([sample]) if batch is None else batch
        with torch.no_grad():
            solution = model(batch).solution
        steps.append(int(solution.steps))
        failures += int(solution.status != Status.CONVERGED)
    return steps, failures


@torch.no_grad()
def strengthen(model: GeoNeW) -> None:
    """Every weight of the flux law times ten, and the law ten times as strong."""
    assert model.law is not None
    for p in model.law.parameters():
        p.mul_(10.0)
    model.law.strength.fill_(np.log(10 * TINY.structured.strength))  # type: ignore[union-attr]


@pytest.mark.parametrize("loud", [False, True], ids=["as initialised", "ten times the flux"])
@pytest.mark.parametrize("name", CASES)
def test_untrained_models_converge(name: str, loud: bool) -> None:
    for known in (True, False):
        steps, failures = untrained(name, range(8), loud, known=known)
        assert failures == 0
        assert np.median(steps) <= 5


@pytest.mark.slow
@pytest.mark.parametrize("loud", [False, True], ids=["as initialised", "ten times the flux"])
@pytest.mark.parametrize("name", CASES)
def test_five_hundred_untrained_models_converge(name: str, loud: bool) -> None:
    for known in (True, False):
        steps, failures = untrained(name, range(500), loud, known=known)
        assert failures == 0
        assert np.median(steps) <= 5


# -- every sample its own fate -------------------------------------------------------------------


def three_flows() -> list:
    case = flow()
    scaled = []
    for factor in (1.0, -0.6, 2.5):
        inlet = {"velocity": lambda x, k=factor: k * np.stack([x[:, 1] * (1 - x[:, 1]), 0 * x[:, 0]], 1)}  # noqa: E501  # fmt: skip
        scaled.append(Case(case.problem, case.mesh, {**case.boundary, "left": inlet}, case.source))
    return [one.sample() for one in scaled]


SAMPLES = three_flows()


def poisoned(batch: Batch, what: str, value: float) -> Batch:
    """The batch with one bad number in its second sample."""
    tensor = getattr(batch, what).clone()
    tensor[1].view(-1)[0] = value
    return replace(batch, **{what: tensor})


def same_mates(clean: Output, bad: Output) -> None:
    for k in (0, 2):
        scale = clean.fields[k].abs().max()
        assert (clean.fields[k] - bad.fields[k]).abs().max() <= 1e-12 * scale
        assert bad.solution.status[k] == clean.solution.status[k]
        assert bad.solution.steps[k] == clean.solution.steps[k]


@pytest.mark.parametrize("law", ["structured", "paper", "certified paper", "none"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("what", ["extension", "load", "tokens", "group_value"])
def test_bad_numbers_stay_in_their_sample(what: str, value: float, law: str) -> None:
    paper = PaperConfig(
        mode="certified" if law.startswith("certified") else "published", operator_width=3, rank=2
    )
    model = tiny(SAMPLES[0], law=law.split()[-1], paper=paper)
    batch = model.collate(SAMPLES)
    with torch.no_grad():
        clean, bad = model(batch), model(poisoned(batch, what, value))
    if law == "none" and what == "group_value":
        return  # without a law nobody reads the groups' means
    same_mates(clean, bad)
    if law != "paper":  # as published it does not promise a solution
        assert clean.solution.converged.all()
    assert bad.solution.status[1] == Status.NON_FINITE
    assert "check boundary data" in Status(int(bad.solution.status[1])).advice


@pytest.mark.parametrize("what", ["extension", "load", "tokens", "group_value"])
def test_bad_numbers_leave_gradients_alone(what: str) -> None:
    """Gradients of the good samples are those of a batch that never had the bad one."""
    model = tiny(SAMPLES[0])
    batch = model.collate(SAMPLES)

    def gradients(given: Batch) -> list[torch.Tensor]:
        model.zero_grad()
        output = model(given)
        output.fields[[0, 2]].square().mean().backward()
        return [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in model.parameters()]  # noqa: E501  # fmt: skip

    for clean, bad in zip(gradients(batch), gradients(poisoned(batch, what, np.nan)), strict=True):
        assert torch.allclose(clean, bad, rtol=0, atol=1e-10)


def field_size(step: torch.Tensor) -> torch.Tensor:
    return step.flatten(1).abs().amax(1)


def three_balances() -> Balance:
    model = tiny(SAMPLES[0])
    batch = model.collate(SAMPLES)
    with torch.no_grad():
        return model(batch).balance


def test_singular_system_is_a_status() -> None:
    balance = replace(three_balances(), flux=None)
    config = NewtonConfig()
    clean = solve(balance, config, field_size)
    matrix = balance.matrix.clone()
    matrix[1, 0] = matrix[1, :, 0] = 0.0
    bad = solve(replace(balance, matrix=matrix), config, field_size)
    assert bad.status.tolist() == [Status.CONVERGED, Status.SINGULAR, Status.CONVERGED]
    assert torch.equal(clean.u[[0, 2]], bad.u[[0, 2]])
    assert torch.isfinite(bad.u).all()
    assert "no Dirichlet data, gauge or reaction" in Status.SINGULAR.advice


def test_impossible_tolerance_is_a_status() -> None:
    balance = three_balances()
    usual = solve(balance, NewtonConfig(), field_size)
    pedantic = solve(balance, NewtonConfig(rtol=0.0, atol=0.0), field_size)
    exact = pedantic.residual == 0
    assert ((pedantic.status == Status.STAGNATED) | exact).all()
    assert (pedantic.status == Status.STAGNATED).any()
    assert (pedantic.residual <= 1e-13).all()  # the best iterate is kept
    assert (pedantic.u - usual.u).abs().max() <= 1e-6 * usual.u.abs().max()
    assert "raise rtol" in Status.STAGNATED.advice


def test_too_few_steps_are_a_status() -> None:
    solution = solve(three_balances(), NewtonConfig(rtol=1e-14, max_steps=1), field_size)
    assert (solution.status == Status.MAX_STEPS).all()
    assert (solution.steps == 1).all()
    assert "allow more steps" in Status.MAX_STEPS.advice


def test_every_failure_has_its_advice() -> None:
    assert Status.CONVERGED.advice == ""
    assert len({s.advice for s in Status}) == len(Status)


def test_prediction_reports_the_failure() -> None:
    model = tiny(SAMPLES[0], newton=NewtonConfig(rtol=0.0, atol=0.0, max_steps=1))
    prediction = model.predict_samples(SAMPLES)[1]
    assert prediction.certificate.status in ("stagnated", "max_steps")
    assert prediction.certificate.advice in prediction.summary()


def test_zero_data_have_the_zero_solution() -> None:
    case = flow()
    walls = {group: {"velocity": [0.0, 0.0]} for group in ("left", "bottom", "top", "hole")}
    zero = {**walls, "right": {"velocity": [0.0], "pressure": 0.0}}
    sample = Case(case.problem, case.mesh, zero, {"velocity": [0.0, 0.0]}).sample()
    prediction = tiny(sample, known=False).predict_samples([sample])[0]
    assert prediction.certificate.converged
    assert (prediction.components == 0).all()
