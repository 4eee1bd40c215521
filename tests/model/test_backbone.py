"""Coefficients of the backbone: those of the equation, and tuned ones."""

from __future__ import annotations

import pytest
import torch

from geonew.fem.forms import known_form
from geonew.model.certificate import certify
from model.cases import CASES, prepared, redraw, tiny


def symmetric_terms(model) -> list[int]:
    return [n for n, t in enumerate(model.problem.terms) if known_form(t.form).kind == "symmetric"]


@pytest.mark.parametrize("name", CASES)
def test_tuned_coefficients_start_as_the_equation_has_them(name: str) -> None:
    sample = prepared(name)
    plain, tuned = tiny(sample), tiny(sample, tuned=True)
    tuned.load_state_dict(plain.state_dict(), strict=False)
    batch = plain.collate([sample])
    with torch.no_grad():
        assert torch.equal(plain(batch).fields, tuned(batch).fields)


def test_a_factor_scales_its_term_and_no_other() -> None:
    sample = prepared("flow")
    model = redraw(tiny(sample, tuned=True), 3)
    batch = model.collate([sample, sample])
    context = model.encode(batch).context
    chosen = symmetric_terms(model)
    assert chosen
    for term in range(len(model.problem.terms)):
        given = model.backbone.coefficient(term, batch, 5)
        tuned = model.backbone.coefficient(term, batch, 5, context)
        ratio = torch.as_tensor(tuned) / torch.as_tensor(given)
        assert (ratio > 0).all()
        assert bool((ratio != 1).all()) == (term in chosen)


def test_a_load_moves_a_softer_body_further() -> None:
    """The solution of a linear problem without Dirichlet data is proportional to 1/kappa."""
    sample = prepared("poisson")
    model = tiny(sample, tuned=True, law="none")
    batch = model.collate([sample])
    load_only = batch.extension * 0
    batch = type(batch)(**{**vars(batch), "extension": load_only})
    with torch.no_grad():
        before = model(batch).fields
        model.backbone.tuning.bias.fill_(-5.0)
        after = model(batch).fields
    factor = torch.exp(torch.tanh(torch.tensor(0.05, dtype=torch.float64)))
    assert torch.allclose(after, before * factor, rtol=1e-9, atol=1e-12)
    assert before.abs().max() > 0


@pytest.mark.parametrize("name", ["poisson", "elastic", "cavity"])
def test_tuned_models_stay_certified(name: str) -> None:
    sample = prepared(name)
    model = redraw(tiny(sample, tuned=True), 4)
    batch = model.collate([sample])
    with torch.no_grad():
        output = model(batch)
    (certificate,) = certify(output, batch)
    assert certificate.converged
    assert certificate.uniqueness == "unique"
