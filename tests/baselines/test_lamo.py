"""The latent operator: its scan is the recurrence, its encoder an average by mass."""

from __future__ import annotations

import torch

from baselines.cases import difference
from geonew.baselines.lamo import BidirectionalScan, LatentEncoder, Scan, scan


def recurrence(log_decay, b, c, x):
    """The state-space model, one step after the other."""
    state = x.new_zeros(*x.shape[:2], b.shape[-1], x.shape[-1])  # (B, h, n, p)
    outputs = []
    for t in range(x.shape[2]):
        decay = log_decay[:, :, t].exp()[..., None, None]
        state = decay * state + b[:, None, t, :, None] * x[:, :, t, None, :]
        outputs.append((c[:, None, t, :, None] * state).sum(2))
    return torch.stack(outputs, dim=2)


def test_the_dual_form_is_the_recurrence():
    torch.manual_seed(0)
    log_decay = -torch.rand(2, 3, 20).double()
    b, c = torch.randn(2, 2, 20, 4).double()
    x = torch.randn(2, 3, 20, 5).double()
    found, wanted = scan(log_decay, b, c, x), recurrence(log_decay, b, c, x)
    assert difference(found, wanted) < 1e-13


def test_strong_decay_neither_overflows_nor_spoils_gradients():
    torch.manual_seed(0)
    log_decay = torch.full((1, 1, 50), -100.0, requires_grad=True)
    b, c = torch.randn(2, 1, 50, 4)
    found = scan(log_decay, b, c, torch.randn(1, 1, 50, 5))
    found.sum().backward()
    assert found.isfinite().all()
    assert log_decay.grad is not None
    assert log_decay.grad.isfinite().all()


def test_one_scan_is_causal_and_both_together_are_not():
    torch.manual_seed(0)
    z = torch.randn(1, 9, 8).double()
    moved = z.clone()
    moved[:, 5] += 1.0
    one, x = Scan(8, 2, 4).double(), torch.ones(1, 2, 9, 4).double()
    change = (one(moved, x) - one(z, x)).abs().amax((0, 1, 3))
    assert (change[:5] == 0).all()
    assert (change[5:] > 0).all()
    both = BidirectionalScan(8, 2, 4).double()
    assert ((both(moved) - both(z)).abs().amax((0, 2)) > 0).all()


def test_both_directions_are_treated_alike():
    """With the same weights in both, the reversed sequence gives the reversed result."""
    torch.manual_seed(0)
    both = BidirectionalScan(8, 2, 4).double()
    both.back.load_state_dict(both.ahead.state_dict())
    z = torch.randn(2, 9, 8).double()
    assert difference(both(z.flip(1)), both(z).flip(1)) < 1e-13


def test_latent_tokens_are_averages_weighted_by_mass():
    torch.manual_seed(0)
    encoder = LatentEncoder(8, 2, 5).double()
    x, mass = torch.randn(1, 7, 8).double(), torch.rand(1, 7).double()
    k, v = encoder.key_value(x).unflatten(-1, (2, 2, 4)).permute(2, 0, 3, 1, 4)
    weights = mass[:, None, None] * torch.exp(encoder.query @ k.mT / 2)
    weights = weights / weights.sum(-1, keepdim=True)
    wanted = encoder.out((weights @ v).transpose(1, 2).flatten(-2))
    assert difference(encoder(x, mass.log()), wanted) < 1e-13
