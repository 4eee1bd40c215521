"""The flux laws by themselves: antisymmetry, oddness, derivatives, guaranteed monotonicity."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
import torch
import torch.distributed as dist
from scipy.linalg import eigh
from torch import Tensor

from geonew.model.backbone import LinearSystem
from geonew.model.balance import Balance, assemble_balance
from geonew.model.flux import structured
from geonew.model.flux.law import Flux, Partitions, edge_flux
from geonew.model.flux.paper import PaperConfig, PaperLaw
from geonew.model.flux.structured import StructuredConfig, StructuredLaw
from geonew.model.graph import FluxGraph
from model.cases import prepared, tiny

WIDTH, CONTEXTS, P, G, F, B = 6, 2, 5, 3, 3, 4
CONFIG = StructuredConfig(channels=3, key_width=4, rank=2)
# Which component has data on which group, per sample; the third one floats in two of them.
LIVE = torch.tensor(
    [
        [[1, 1, 1], [1, 1, 1], [1, 1, 1]],
        [[1, 1, 0], [1, 1, 0], [0, 0, 1]],
        [[1, 1, 0], [0, 1, 0], [0, 0, 0]],
        [[1, 0, 0], [1, 0, 0], [0, 0, 0]],
    ],
    dtype=torch.float64,
)


def partitions_of(embedding: Tensor) -> Partitions:
    live = torch.cat([torch.ones(B, F, P, dtype=torch.float64), LIVE], dim=-1)
    floating = (LIVE.sum(-1) == 0).double()
    return Partitions(embedding, live, floating, FluxGraph(P, G))


class Wild:
    """A structured law with wild weights and free embeddings: more than an encoder feeds it."""

    def __init__(self, seed: int, scale: float = 1.0, config: StructuredConfig = CONFIG) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.law = StructuredLaw(WIDTH, CONTEXTS, F, config).double()
        with torch.no_grad():
            for p in self.law.parameters():
                p.copy_(scale * torch.randn(p.shape, generator=generator, dtype=torch.float64))
        self.embedding = torch.randn(B, P + G, WIDTH, generator=generator, dtype=torch.float64)
        self.context = torch.randn(B, CONTEXTS, WIDTH, generator=generator, dtype=torch.float64)
        self.u = torch.randn(B, F, P, generator=generator, dtype=torch.float64)

    def flux(self) -> Flux:
        return self.law.condition(self.context, partitions_of(self.embedding), nothing())

    def balance(self) -> Balance:
        group = torch.linspace(-1, 2, B * F * G, dtype=torch.float64).view(B, F, G)
        flux = self.flux()
        return assemble_balance(nothing(), flux, flux.partitions.graph, group * LIVE)


def nothing() -> LinearSystem:
    """A backbone that is zero: the law stands alone."""
    return LinearSystem(
        torch.zeros(B, F, F, P, P, dtype=torch.float64), torch.zeros(B, F, P, dtype=torch.float64)
    )


def paper_law(
    mode: Literal["published", "certified"], scale: float = 1.0, seed: int = 0
) -> tuple[PaperLaw, Flux, Balance]:
    generator = torch.Generator().manual_seed(seed)
    graph = FluxGraph(P, G)
    config = PaperConfig(mode=mode, operator_width=3, rank=2)
    law = PaperLaw(WIDTH, CONTEXTS, F, graph, config, 1.0).double()
    with torch.no_grad():
        for p in law.parameters():
            p.copy_(scale * torch.randn(p.shape, generator=generator, dtype=torch.float64))
    eye = torch.eye(F, dtype=torch.float64)[:, :, None, None]
    root = torch.randn(B, 1, 1, P, P, generator=generator, dtype=torch.float64)
    linear = LinearSystem(
        eye * (root @ root.mT + 0.1 * torch.eye(P)), torch.ones(B, F, P, dtype=torch.float64)
    )
    embedding = torch.randn(B, P + G, WIDTH, generator=generator, dtype=torch.float64)
    context = torch.randn(B, CONTEXTS, WIDTH, generator=generator, dtype=torch.float64)
    partitions = replace(partitions_of(embedding), graph=graph)
    law.average(graph, linear)
    flux = law.condition(context, partitions, linear)
    group = torch.randn(B, F, G, generator=generator, dtype=torch.float64) * LIVE
    return law, flux, assemble_balance(linear, flux, graph, group)


# -- form of the flux ----------------------------------------------------------------------------


def test_flux_is_antisymmetric() -> None:
    """Renumbering the partitions turns edges around: F_ji must be -F_ij for every such edge.

    R is left out: it takes the mean with the sign of the edge's orientation, and is odd instead.
    """
    wild = Wild(0)
    with torch.no_grad():
        wild.law.shares.fill_(-100.0)
    order = torch.cat([torch.randperm(P, generator=torch.Generator().manual_seed(1)),
                       torch.arange(P, P + G)])  # fmt: skip
    nodes = torch.randn(B, F, P + G, dtype=torch.float64)
    graph = FluxGraph(P, G)

    def matrix(embedding: Tensor, u: Tensor) -> Tensor:
        flux = wild.law.condition(wild.context, partitions_of(embedding), nothing())
        edges = edge_flux(flux, u)
        full = u.new_zeros(B, F, P + G, P + G)
        full[..., graph.tail, graph.head] = edges
        full[..., graph.head, graph.tail] = -edges
        return full

    one = matrix(wild.embedding, nodes)
    two = matrix(wild.embedding[:, order], nodes[..., order])
    assert (one[..., order, :][..., order] - two).abs().max() <= 1e-12 * one.abs().max()
    assert one.abs().max() > 1e-2


def test_structured_law_is_odd() -> None:
    for seed in range(5):
        flux = Wild(seed, 2.0).flux()
        u = torch.randn(B, F, P + G, dtype=torch.float64)
        assert (edge_flux(flux, u) + edge_flux(flux, -u)).abs().max() <= 1e-13 * 100
        assert edge_flux(flux, u).abs().max() > 1e-2


def test_constant_states_are_in_balance() -> None:
    """Every component at its own level: T carries fluxes, but no interior balance sees them."""
    for seed in range(5):
        flux = Wild(seed).flux()
        level = torch.randn(B, F, 1, dtype=torch.float64)
        states = level * flux.partitions.live
        edges = edge_flux(flux, states)
        balance = FluxGraph(P, G).balance(edges)
        assert balance[..., :P].abs().max() <= 1e-13 * edges.abs().sum((1, 2)).max()
        assert edges.abs().max() > 1e-2


def test_dead_edges_carry_nothing() -> None:
    flux = Wild(0).flux()
    edges = edge_flux(flux, torch.randn(B, F, P + G, dtype=torch.float64))
    dead = flux.partitions.edge_mask() == 0
    assert dead.any()
    assert (edges[dead] == 0).all()
    assert (edges[~dead] != 0).all()


def test_fluxes_cancel_in_pairs() -> None:
    for flux in (Wild(0).flux(), paper_law("published")[1]):
        edges = edge_flux(flux, torch.randn(B, F, P + G, dtype=torch.float64))
        net = FluxGraph(P, G).balance(edges).sum(-1)
        assert net.abs().max() <= 1e-14 * edges.abs().sum(-1).max()


# -- derivatives ---------------------------------------------------------------------------------


def check_jacobian(balance: Balance, u: Tensor) -> None:
    value, J = balance.linearise(u)
    assert (value - balance.residual(u)).abs().max() <= 1e-12 * value.abs().max()
    full = torch.func.jacrev(balance.residual)(u)  # (B, F, P, B, F, P)
    assert isinstance(full, Tensor)
    exact = torch.stack([full[k, :, :, k].reshape(F * P, F * P) for k in range(B)])
    assert (J - exact).abs().max() <= 1e-10 * exact.abs().max()
    mixed = full.abs().sum((1, 2, 4, 5))
    assert (mixed - torch.diag(mixed.diagonal())).max() == 0  # samples do not see each other


@pytest.mark.parametrize("size", [0.1, 1.0, 10.0])
def test_structured_jacobian_is_exact(size: float) -> None:
    for seed in range(3):
        wild = Wild(seed)
        check_jacobian(wild.balance(), size * wild.u)


@pytest.mark.parametrize("mode", ["published", "certified"])
def test_paper_jacobian_is_exact(mode: Literal["published", "certified"]) -> None:
    for seed in range(3):
        _, _, balance = paper_law(mode, seed=seed)
        check_jacobian(balance, torch.randn(B, F, P, dtype=torch.float64))


# -- projection of T and the bound q -------------------------------------------------------------


def test_neutral_part_sums_to_zero_inside() -> None:
    generator = torch.Generator().manual_seed(0)
    raw = torch.randn(B, F, F, P + G, P + G, generator=generator, dtype=torch.float64)
    raw = raw - raw.mT
    raw = raw + raw.transpose(1, 2)
    partitions = partitions_of(torch.zeros(B, P + G, WIDTH, dtype=torch.float64))
    T = structured.project_neutral(raw, partitions)
    assert T.sum(-1)[..., :P].abs().max() <= 1e-13
    assert raw.sum(-1)[..., :P].abs().max() > 1  # control: it was not so before
    assert (T + T.mT).abs().max() <= 1e-14
    assert (T - T.transpose(1, 2)).abs().max() <= 1e-14
    both = partitions.live[:, :, None] * partitions.live[:, None]
    assert (T[(both[..., :, None] * both[..., None, :]) == 0] == 0).all()
    again = structured.project_neutral(T, partitions)
    assert (again - T).abs().max() <= 1e-13  # a projection


def to_matrix(graph: FluxGraph, weight: torch.Tensor) -> torch.Tensor:
    """Edge weights as a symmetric matrix."""
    full = weight.new_zeros(*weight.shape[:-1], P + G, P + G)
    full[..., graph.tail, graph.head] = weight
    return full + full.mT


@pytest.mark.parametrize(("spread", "median", "most"), [(0.3, 0.01, 0.05), (1.0, 0.02, 0.1)])
def test_ground_ratio_bounds_the_exact_one(spread: float, median: float, most: float) -> None:
    graph = FluxGraph(P, G)
    partitions = partitions_of(torch.zeros(B, P + G, WIDTH, dtype=torch.float64))
    excess = []
    for seed in range(50):
        generator = torch.Generator().manual_seed(seed)
        noise = torch.randn(B, graph.edges, generator=generator, dtype=torch.float64)
        weight = 0.01 + torch.nn.functional.softplus(spread * noise)
        q = structured.ground_ratio(partitions, to_matrix(graph, weight))
        laplacians = graph.laplacian(weight[:, None] * partitions.edge_mask())
        for b in range(B):
            for f in range(F):
                if partitions.floating[b, f]:
                    assert q[b, f] == 1  # its mean never enters R
                    continue
                L = laplacians[b, f].numpy()
                exact = np.sqrt(0.75 + 0.5 * eigh(np.diag(np.diag(L)), L, eigvals_only=True)[-1])
                excess.append(float(q[b, f]) / exact - 1)
    assert min(excess) >= -1e-12
    assert np.median(excess) <= median
    assert max(excess) <= most


def test_ground_ratio_survives_weights_of_any_size() -> None:
    """Groups held by a thread: the exact gap is below round-off, and q is large but finite."""
    graph = FluxGraph(P, G)
    partitions = partitions_of(torch.zeros(B, P + G, WIDTH, dtype=torch.float64))
    generator = torch.Generator().manual_seed(0)
    weight = torch.exp(4 * torch.randn(B, graph.edges, generator=generator, dtype=torch.float64))
    weight = torch.where(graph.head >= P, 1e-16 * weight, weight)
    q = structured.ground_ratio(partitions, to_matrix(graph, weight))
    assert torch.isfinite(q).all()
    assert q[0].min() > 1e6


# -- monotonicity --------------------------------------------------------------------------------


def slack(balance: Balance, u: Tensor) -> Tensor:
    """Smallest eigenvalue of sym J(u) - Q per sample, over the size of J: negative is a breach."""
    assert balance.flux is not None
    _, J = balance.linearise(u)
    Q = balance.flux.monotonicity(balance.linear.dense()).form
    rest = (J + J.mT) / 2 - torch.stack([torch.block_diag(*forms) for forms in Q])
    return torch.linalg.eigvalsh(rest)[:, 0] / J.abs().sum(-1).amax(-1)


def guaranteed(balance: Balance) -> Tensor:
    """Smallest eigenvalue of Q over its size, on components that have data somewhere."""
    assert balance.flux is not None
    Q = balance.flux.monotonicity(balance.linear.dense()).form
    lowest = torch.linalg.eigvalsh(Q)[..., 0] / Q.abs().amax((-1, -2))
    return torch.where(balance.flux.partitions.floating > 0, torch.inf, lowest)


ROUND_OFF = 1e-13


def draws(count: int, config: StructuredConfig = CONFIG) -> tuple[float, float]:
    """Worst breach and weakest guarantee over random weights of many sizes, and random states."""
    worst, weakest = np.inf, np.inf
    for seed in range(count):
        wild = Wild(seed, 10.0 ** (seed % 5 / 2 - 1), config)
        with torch.no_grad():
            balance = wild.balance()
            weakest = min(weakest, float(guaranteed(balance).min()))
            for size in (0.0, 3.0):
                worst = min(worst, float(slack(balance, size * wild.u).min()))
    return worst, weakest


def attack(steps: int, seed: int = 0, config: StructuredConfig = CONFIG) -> float:
    """Gradient descent of the slack over weights, embeddings, context and state; the worst seen."""
    wild = Wild(seed, 0.3, config)
    with torch.no_grad():  # start where R opposes the monotone part as strongly as it may
        wild.law._views(wild.law.hyper.bias)["linear"].copy_(-2.0 * torch.eye(F))
        wild.law.shares.fill_(3.0)
    free = [*wild.law.parameters(), wild.embedding, wild.context, wild.u]
    for tensor in free:
        tensor.requires_grad_(True)
    optimiser = torch.optim.Adam(free, lr=0.05)
    worst = np.inf
    for _ in range(steps):
        optimiser.zero_grad()
        lowest = slack(wild.balance(), wild.u)
        worst = min(worst, float(lowest.detach().min()))
        lowest.sum().backward()
        optimiser.step()
    return worst


def test_guarantee_holds_for_a_thousand_draws() -> None:
    worst, weakest = draws(1000)
    assert worst >= -ROUND_OFF
    assert weakest > 0


def test_guarantee_withstands_an_attack() -> None:
    assert attack(200) >= -ROUND_OFF


@pytest.mark.slow
def test_guarantee_withstands_many_attacks() -> None:
    for seed in range(1, 20):
        assert attack(300, seed) >= -ROUND_OFF


def test_control_unprojected_coupling_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(structured, "project_neutral", lambda skew, partitions: skew)
    assert draws(15)[0] < -1e-3


def test_control_masking_last_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Masked after the projection, T is no longer neutral (DESIGN, section 5)."""
    project = structured.project_neutral

    def masked_last(skew: Tensor, partitions: Partitions) -> Tensor:
        everywhere = replace(partitions, live=torch.ones_like(partitions.live))
        both = partitions.live[:, :, None] * partitions.live[:, None]
        return project(skew, everywhere) * both[..., :, None] * both[..., None, :]

    monkeypatch.setattr(structured, "project_neutral", masked_last)
    assert draws(15)[0] < -1e-3


def test_control_too_small_a_ratio_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = structured.ground_ratio
    monkeypatch.setattr(structured, "ground_ratio", lambda *given: 0.1 * exact(*given))
    assert attack(40) < -1e-3


def test_control_contraction_above_one_is_noticed() -> None:
    """The bound stays true, but it no longer promises anything."""
    worst, weakest = draws(15, replace(CONFIG, contraction=3.0))
    assert worst >= -ROUND_OFF
    assert weakest < 0


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
def test_certified_paper_law_keeps_its_guarantee(scale: float) -> None:
    for seed in range(10):
        _, flux, balance = paper_law("certified", scale, seed)
        A = balance.linear.dense()
        lowest = torch.linalg.eigvalsh((A + A.mT) / 2)[:, 0]
        guarantee = flux.monotonicity(A)
        assert guarantee.certified
        assert (lowest + guarantee.form[:, 0, 0, 0] >= 0.49 * lowest).all()  # kappa = 1/2
        for size in (0.0, 1.0, 30.0):
            u = size * torch.randn(B, F, P, dtype=torch.float64)
            _, J = balance.linearise(u)
            rest = (J + J.mT) / 2 - (A + A.mT) / 2
            found = torch.linalg.eigvalsh(rest)[:, 0]
            assert (found >= guarantee.form[:, 0, 0, 0] - ROUND_OFF).all()


# -- the published bound, over several processes ---------------------------------------------------


class Mates:
    """Other processes, whose sums and counts are known; counts how often they are asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, total: float = 0.0, count: int = 0) -> None:
        self.theirs, self.calls = (total, count), 0
        monkeypatch.setattr(dist, "is_initialized", lambda: True)
        monkeypatch.setattr(dist, "all_reduce", self.add)

    def add(self, shared: Tensor) -> None:
        self.calls += 1
        shared += torch.tensor(self.theirs, dtype=shared.dtype)


def one_bound(size: float) -> tuple[PaperLaw, FluxGraph, LinearSystem]:
    """A law with a backbone whose smallest eigenvalue is ``size`` in all samples."""
    law = paper_law("published")[0]
    matrix = size * torch.eye(F * P, dtype=torch.float64).view(F, P, F, P).transpose(1, 2)
    linear = LinearSystem(matrix.expand(B, F, F, P, P), torch.zeros(B, F, P, dtype=torch.float64))
    law.averaging.fill_(False)
    return law, FluxGraph(P, G), linear


def test_the_published_bound_is_the_mean_over_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    law, graph, linear = one_bound(2.0)
    law.average(graph, linear)
    alone = float(law.zeta)
    reach = float(torch.linalg.matrix_norm(graph.divergence[:, :P], 2))
    assert alone == pytest.approx(0.5 * 2.0 / reach, rel=1e-14)

    Mates(monkeypatch, total=3 * B * 4.0 / reach, count=3 * B)  # thrice as many, twice as large
    law.averaging.fill_(False)
    law.average(graph, linear)
    assert float(law.zeta) == pytest.approx(alone * (1 + 3 * 2) / 4, rel=1e-14)
    law.average(graph, None)  # this process has no samples, the others have
    assert float(law.zeta) == pytest.approx(alone * (0.99 * 7 / 4 + 0.01 * 2), rel=1e-14)


def test_every_process_is_asked_once_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    sample = prepared("poisson")
    model = tiny(sample, law="paper")
    law = model.law
    assert isinstance(law, PaperLaw)
    batch = model.collate([sample, sample])
    lost = torch.tensor([False, True])[:, None, None]
    some, none = (
        replace(batch, tokens=torch.where(which, torch.nan, batch.tokens))
        for which in (lost, torch.ones_like(lost))
    )
    mates = Mates(monkeypatch)
    model.train()
    for step, given in enumerate((batch, some, none), 1):
        before = float(law.zeta.mul_(0.9))
        output = model(given)
        assert mates.calls == step
        assert output.converged.tolist() == [given is not none, given is batch]
        assert (float(law.zeta) == before) == (given is none)
    model.sit_out()
    assert mates.calls == 4
    model.eval()
    model(batch)
    model.sit_out()
    assert mates.calls == 4, "a prediction shares nothing"
