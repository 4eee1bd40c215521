"""Windows: on a larger domain more functions, and every identity as before."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from geonew.features import FeatureSpec
from geonew.mesh.refine import refine
from geonew.model.certificate import certified_margin
from geonew.model.flux.law import edge_flux
from geonew.model.geonew import GeoNeW
from geonew.model.graph import FluxGraph
from geonew.model.sample import Sample, prepare
from geonew.model.windows import MOST, window_centres, window_count, window_weights
from model.cases import CASES, TINY, flow, prepared, redraw, tiny
from model.identity import SPEC as IDENTITY
from model.identity import finite_elements

K = 3


def windowed(name: str, seed: int = 0, windows: int = K, **changes) -> tuple[GeoNeW, Sample]:
    """A model with random weights that takes the sample's domain for ``windows`` times its own."""
    sample = prepared(name)
    model = redraw(tiny(sample, **changes), seed, 0.7)
    model.largest.fill_(sample.mass.sum() / windows)
    return model, sample


def test_count_grows_with_the_volume() -> None:
    assert [window_count(v, 2.0) for v in (0.1, 2.0, 2.9, 3.1, 10.0, 1e9)] == [1, 1, 1, 2, 5, MOST]
    assert window_count(7.0, np.inf) == 1  # a model that has seen nothing
    assert [window_count(v, 2.0, 2) for v in (0.1, 2.0, 2.1, 2.9, 3.1, 10.0)] == [1, 1, 1, 3, 3, 10]


def test_weights_sum_to_one_and_centres_spread() -> None:
    x = np.stack(np.meshgrid(np.linspace(0, 4, 81), np.linspace(0, 1, 21)), -1).reshape(-1, 2)
    mass = np.full(len(x), 4 / len(x))
    centres = window_centres(x, mass, np.array([0, 1, 2, 3]))  # all in one corner
    np.testing.assert_allclose(np.sort(centres[:, 0]), [0.5, 1.5, 2.5, 3.5], atol=0.15)
    chi = window_weights(
        torch.from_numpy(x)[None], torch.from_numpy(centres)[None], torch.tensor([4.0]).double()
    )
    assert (chi.sum(-1) - 1).abs().max() < 1e-14
    assert (chi.amax(1) > 0.8).all()  # each has a place where it is alone


@pytest.mark.parametrize("name", ["poisson", "flow", "poisson3d"])
def test_identities_survive(name: str) -> None:
    model, sample = windowed(name)
    batch = model.collate([sample])
    with torch.no_grad():
        output = model(batch)
    P = TINY.partitions
    assert output.u.shape[-1] == K * P
    assert output.converged.all()
    covered = torch.from_numpy(sample.fixed).any(0)
    rows = output.space.interior.sum(-1)
    rows = rows + torch.where(covered, output.space.group_rows.sum(-1), 0.0)
    assert (rows - 1).abs().max() < 1e-12
    prediction = model.predict_samples([sample])[0]
    exact = sample.lab_values
    assert (prediction.components[exact.fixed] == exact.value[exact.fixed]).all()
    flux = output.balance.flux
    assert flux is not None
    exchanged = output.balance.graph.balance(edge_flux(flux, output.balance.nodes(output.u)))
    assert exchanged.sum().abs() < 1e-12 * exchanged.abs().sum()
    neutral = flux.neutral  # type: ignore[attr-defined]
    sums = output.balance.graph.balance(neutral[:, :, 0])[..., : K * P]
    assert sums.abs().max() < 1e-12 * neutral.abs().max()


def test_a_law_without_any_term_keeps_to_one_window() -> None:
    model, sample = windowed("poisson", known=False, constitutive=False)
    assert model.windows(sample) == 1
    model, sample = windowed("poisson", known=False)
    assert model.windows(sample) > 1


@pytest.mark.parametrize("name", ["poisson", "flow"])
def test_margin_is_a_lower_bound(name: str) -> None:
    for seed in range(20):
        model, sample = windowed(name, seed)
        with torch.no_grad():
            output = model(model.collate([sample]))
            _, J = output.balance.linearise(output.u)
        lowest = torch.linalg.eigvalsh((J + J.mT) / 2)[:, 0]
        size = J.abs().sum(-1).amax(-1)
        assert ((certified_margin(output) - lowest) / size).max() < 1e-14


def test_one_window_changes_nothing() -> None:
    model, sample = windowed("flow", windows=1)
    assert model.windows(sample) == 1
    with torch.no_grad():
        here = model(model.collate([sample])).fields
        model.largest.fill_(torch.inf)
        assert torch.equal(here, model(model.collate([sample])).fields)


def test_batch_mates_do_not_matter() -> None:
    """Samples that need different windows are predicted apart."""
    model, sample = windowed("poisson", windows=1)
    case = CASES["poisson"]()
    wide = replace(case.mesh, points=case.mesh.points * 2)  # four times the area
    other = prepare(
        wide, case.problem, case.boundary, spec=model.spec, source=case.source, neumann=case.neumann
    )
    assert (model.windows(sample), model.windows(other)) == (1, 4)
    alone = [model.predict_samples([s])[0].components for s in (sample, other)]
    together = [p.components for p in model.predict_samples([other, sample, other])]
    np.testing.assert_allclose(together[1], alone[0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(together[0], alone[1], rtol=0, atol=1e-12)
    np.testing.assert_allclose(together[2], alone[1], rtol=0, atol=1e-12)


def prepare_again(sample: Sample) -> Sample:
    """The sample with the features of the finite element model."""
    case = CASES["poisson"]()
    return prepare(
        sample.mesh, case.problem, case.boundary, spec=IDENTITY, source=case.source,
        neumann=case.neumann,
    )  # fmt: skip


def test_more_windows_bring_the_known_solution_nearer() -> None:
    """Known terms alone: the Galerkin error falls as functions are added."""
    errors = []
    for windows in (1, 4, 12):
        model, sample = windowed("poisson", windows=windows, law="none")
        whole = finite_elements(prepare_again(sample))
        with torch.no_grad():
            exact = whole(whole.collate([prepare_again(sample)])).fields[0]
            found = model(model.collate([sample])).fields[0]
        errors.append(float((found - exact).norm() / exact.norm()))
    assert errors[1] < 0.7 * errors[0]
    assert errors[2] < 0.7 * errors[1]


def test_transfer_keeps_the_windows_of_the_encoded_mesh() -> None:
    case = flow()
    spec = FeatureSpec(labels=False, hks_times=0)

    def sample_on(level: int) -> Sample:
        return prepare(
            refine(case.mesh, level), case.problem, case.boundary, spec=spec, source=case.source,
            neumann=case.neumann,
        )  # fmt: skip

    coarse, fine = sample_on(0), sample_on(1)
    torch.manual_seed(0)
    model = GeoNeW(case.problem, spec, coarse.columns, TINY).double().eval()
    model.normalise_tokens([coarse])
    model.largest.fill_(coarse.mass.sum() / K)
    with torch.no_grad():
        output = model(model.collate([coarse]))
        carried = model.transfer(output, model.collate([fine]))[0, : coarse.n_nodes]
    change = (carried - output.fields[0]).norm() / output.fields[0].norm()
    assert change < 0.1  # what the tokens themselves change
    model.largest.fill_(torch.inf)
    plain = model.collate([fine])
    with pytest.raises(Exception, match="collate the other meshes with the same model"):
        model.transfer(output, plain)


def test_edges_stay_within_windows() -> None:
    graph = FluxGraph(4, 2, K)
    inside = graph.head < graph.partitions
    assert (graph.tail[inside] // 4 == graph.head[inside] // 4).all()
    assert graph.edges == K * (6 + 4 * 2)
    ones = torch.ones(1, 1, 1, graph.edges, dtype=torch.float64)
    jacobian = graph.balance_jacobian(ones, 0 * ones)[0, 0, 0]
    assert torch.equal(jacobian, graph.laplacian(ones[0, 0, 0]))
    assert (jacobian[:4, 4:] == 0).all()
