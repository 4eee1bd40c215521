"""The Galerkin residual on the nodes says what the reduced matrices say, value and gradient."""

from __future__ import annotations

import pytest
import torch

from model.cases import CASES, prepared, redraw, tiny

CHANGES = {
    "known": {},
    "known and tuned": {"tuned": True},
    "learned": {"known": False},
    "an anisotropic medium": {"known": False, "anisotropic": True},
    "sources": {"known": False, "learned_source": True, "law": "none"},
    "known and sources": {"learned_source": True},
    "a law alone": {"known": False, "constitutive": False, "diffusion": 0.0},
}


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("name", CASES)
def test_both_forms_of_the_residual_agree(name: str, changes: dict) -> None:
    sample = prepared(name)
    model = redraw(tiny(sample, **changes), 3)
    batch = model.collate([sample])
    encoding = model.encode(batch)
    space = model.reduce(encoding, batch)
    balance = model.balance(encoding, space, batch)
    assert balance.linear.galerkin is not None
    assert not balance.matrix.requires_grad
    u = torch.randn_like(balance.constant)
    size = float((balance.matrix.abs() @ u.flatten(1).abs()[..., None]).amax())
    by_nodes, by_matrix = balance.differentiable_residual(u), balance.residual(u)
    assert float((by_nodes - by_matrix).detach().abs().max()) <= 1e-12 * max(size, 1.0)


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("name", CASES)
def test_both_forms_give_the_same_gradient(name: str, changes: dict) -> None:
    sample = prepared(name)
    model = redraw(tiny(sample, **changes), 3)
    batch = model.collate([sample, sample])
    gradients = []
    for traced in (False, True):
        model.backbone.traced = traced
        model.zero_grad()
        output = model(batch)
        assert output.converged.all()
        weight = torch.linspace(-1, 1, output.fields.numel(), dtype=torch.float64)
        (output.fields * weight.view_as(output.fields)).sum().backward()
        gradients.append(
            torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
        )
    by_nodes, by_matrix = gradients
    assert float((by_nodes - by_matrix).norm()) <= 1e-7 * float(by_matrix.norm())
