"""Conservation: what the partitions balance in sum is the boundary flux and the source, no more."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from geonew.fem.loads import group_normals
from geonew.model.certificate import certify
from geonew.model.constitutive import Constitutive
from geonew.model.flux.law import edge_flux
from geonew.model.geonew import GeoNeW, Output
from geonew.model.sample import Sample
from geonew.model.terms import STIFFNESS, global_powers, gradient_positions
from model.cases import CASES, prepared, redraw, tiny


def fine_residual(model: GeoNeW, sample: Sample, field: np.ndarray) -> np.ndarray:
    """Backbone tested with every hat function, (N, F): bilinear terms of u_h minus the load."""
    problem, backbone = model.backbone.problem, model.backbone
    result = -sample.load.copy()
    batch = model.collate([sample])
    for block in backbone.plan.blocks:
        kappa = float(backbone.coefficient(block.term, batch, model.config.partitions))
        matrix = sample.matrices[block.matrix]
        result[:, block.test] += kappa * (matrix @ field[:, block.trial])
        if block.mirror:
            result[:, block.trial] += kappa * block.mirror * (matrix.T @ field[:, block.test])
    assert not any(global_powers(problem, t) for t in problem.terms)  # none in these cases
    if backbone.constitutive is not None:
        result += constitutive_residual(backbone.constitutive, sample, field)
    for f in backbone.diffused:
        result[:, f] += backbone.diffusion * (sample.matrices[0] @ field[:, f])
    for number, f in enumerate(backbone.reacting):
        r = float(torch.nn.functional.softplus(backbone.reaction[number]))
        result[:, f] += r * (sample.matrices[1] @ field[:, f])
    return result


def constitutive_residual(law: Constitutive, sample: Sample, field: np.ndarray) -> np.ndarray:
    """S and C tested with every hat function, straight from the definition."""
    with torch.no_grad():
        L, C = (x[0].numpy() for x in law.constants(torch.from_numpy(sample.parameters)[None]))
    result = (sample.matrices[STIFFNESS] @ field) @ (L @ L.T)
    for k in range(len(C)):
        G = sample.matrices[gradient_positions(sample.problem.dim)[k]]
        result += (G @ field) @ C[k].T - (G.T @ field) @ C[k]
    return result


def balances(model: GeoNeW, sample: Sample, u: torch.Tensor, output: Output) -> np.ndarray:
    """All balances at u, interior partitions first, then groups, (F, P+G)."""
    field = output.space.field(u)[0].detach().numpy()
    rows = output.space.rows[0].detach().numpy()
    with torch.no_grad():
        result = np.einsum("nfq,nf->fq", rows, fine_residual(model, sample, field))
    assert output.balance.flux is not None
    edges = edge_flux(output.balance.flux, output.balance.nodes(u))
    return result + output.balance.graph.balance(edges)[0].detach().numpy()


CONSERVED = [name for name in CASES if name != "effective"]


@pytest.mark.parametrize("known", [True, False], ids=["known", "learned"])
@pytest.mark.parametrize("name", CONSERVED)
def test_sum_of_balances_is_boundary_flux_and_source(name: str, known: bool) -> None:
    sample = prepared(name)
    model = redraw(tiny(sample, known=known), 2)
    with torch.no_grad():
        output = model(model.collate([sample]))
    problem, P = sample.problem, model.config.partitions
    for u in (output.u, torch.randn_like(output.u)):  # not at the solution alone
        every = balances(model, sample, u, output)
        inside = output.balance.residual(u)[0].numpy()
        gauged = list(model.backbone.gauged)
        free = [f for f in range(problem.n_components) if f not in gauged]
        terms = output.balance.matrix.abs() @ u.flatten(1).abs()[..., None]
        size = np.abs(every).sum() + float(terms.sum())  # of what is summed, not of the sum
        assert np.abs(every[free, :P] - inside[free]).max() <= 1e-12 * size
        field = output.space.field(u)[0].numpy()
        expected = -sample.load.sum(axis=0)
        if known and problem.name in ("flow", "cavity", "stokes3d"):
            expected[problem.offset("pressure")] += outflow(model, sample, field)
        law = model.backbone.constitutive
        if law is not None:
            _, C = law.constants(torch.from_numpy(sample.parameters)[None])
            moments = surface_moments(sample, field)[: C.shape[1]]
            expected += np.einsum("kfg,kg->f", C[0].detach().numpy(), moments)
        assert np.abs(every.sum(axis=1) - expected).max() <= 1e-12 * size


def surface_moments(sample: Sample, field: np.ndarray) -> np.ndarray:
    """Integrals of u_g n_k over the whole boundary, from the facets, (dim, F)."""
    placed = sample.frame.place(sample.mesh)
    total = np.zeros((placed.dim, field.shape[1]))
    for group in placed.groups:
        mean = field[placed.facets_of(group)].mean(axis=1)
        total += group_normals(placed, group).T @ mean
    return total


def outflow(model: GeoNeW, sample: Sample, field: np.ndarray) -> float:
    """Integral of u.n over the whole boundary, from the facets, in the model's units."""
    problem = sample.problem
    moments = surface_moments(sample, field)[:, problem.columns("velocity")]
    number = [t.form for t in problem.terms].index("divergence")
    batch = model.collate([sample])
    kappa = model.backbone.coefficient(number, batch, model.config.partitions)
    return float(np.trace(moments)) * float(kappa)


def test_control_a_flux_that_does_not_cancel_is_noticed() -> None:
    sample = prepared("poisson")
    model = redraw(tiny(sample), 2)
    with torch.no_grad():
        output = model(model.collate([sample]))
    graph = output.balance.graph
    assert output.balance.flux is not None
    edges = edge_flux(output.balance.flux, output.balance.nodes(output.u))
    one_way = edges @ graph.divergence.clamp_min(0)  # out of every tail, into nobody
    assert one_way.sum().abs() > 1e-6
    assert graph.balance(edges).sum().abs() <= 1e-13 * edges.abs().sum()


@pytest.mark.parametrize("name", CASES)
def test_every_partition_closes_within_the_tolerance(name: str) -> None:
    sample = prepared(name)
    for known in (True, False):
        model = redraw(tiny(sample, known=known), 3)
        batch = model.collate([sample])
        with torch.no_grad():
            output = model(batch)
        (certificate,) = certify(output, batch)
        assert certificate.converged
        assert certificate.balance_defect <= model.config.newton.rtol
        every = balances(model, sample, output.u, output)[:, : model.config.partitions]
        free = [f for f in range(len(every)) if f not in model.backbone.gauged]
        size = float(output.balance.scale())
        assert np.abs(every[free]).max() <= 2 * model.config.newton.rtol * size
        assert certificate.antisymmetry <= 1e-14
