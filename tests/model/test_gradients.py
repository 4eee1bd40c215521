"""Gradients of a prediction: exact in weights, data, parameters and loads, once or twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

from geonew.errors import SolverError
from geonew.features import FeatureSpec
from geonew.model.batch import Batch
from geonew.model.flux.paper import PaperConfig
from geonew.model.geonew import GeoNeW
from geonew.model.newton import NewtonConfig
from geonew.model.sample import Sample, prepare
from geonew.problem import Parameter, Term, stokes_terms
from model.cases import CASES, SPEC, prepared, redraw, tiny

# Tighter than a user needs: finite differences amplify what a solve leaves over by 1e6.
TIGHT = NewtonConfig(rtol=1e-11, field_tolerance=1e-9)
KINDS = {
    "poisson, known and learned": ("poisson", {}),
    "flow, known and learned": ("flow", {}),
    "flow, learned": ("flow", {"known": False}),
    "cavity with a gauge": ("cavity", {}),
    "cavity with a state": ("cavity", {"learned_source": True}),
    "effective field with a reaction": ("effective", {"learned_source": True}),
    "elasticity, nodal boundary": ("elastic", {"boundary": "nodal"}),
    "flow, paper's law": ("flow", {"law": "paper", "known": False}),
    "poisson, paper's law certified": (
        "poisson",
        {"law": "paper", "paper": PaperConfig("certified", operator_width=3, rank=2)},
    ),
    "three dimensions": ("stokes3d", {}),
    "convection": ("navier_stokes", {}),
}
Inputs = dict[str, Tensor]


@cache
def sample_of(name: str) -> Sample:
    if name != "navier_stokes":
        return prepared(name)
    case = CASES["flow"]()
    terms = (*case.problem.terms, Term("convection", ("velocity",), 0.8))
    problem = replace(case.problem, terms=terms)
    return replace(case, problem=problem).sample()


def model_of(name: str, seed: int = 3, **changes) -> tuple[GeoNeW, Batch]:
    """A model with generic weights (nothing at its start value), and its batch."""
    sample = sample_of(name)
    model = redraw(tiny(sample, newton=TIGHT, partitions=4, **changes), seed, 0.7)
    return model, model.collate([sample])


def weights_of(model: GeoNeW, prefix: str = "") -> Inputs:
    return {
        name: p.detach().clone().requires_grad_()
        for name, p in model.named_parameters()
        if name.startswith(prefix) and p.numel()
    }


def by_weights(model: GeoNeW, batch: Batch, names: list[str], order: int = 1) -> Callable:
    def fields(*weights: Tensor) -> Tensor:
        given = dict(zip(names, weights, strict=True))
        output = functional_call(model, given, (batch,), {"order": order})
        assert output.converged.all()
        return output.fields

    return fields


def by_flat_weights(model: GeoNeW, batch: Batch, weights: Inputs) -> Callable:
    """The fields as a function of one vector of weights."""
    sizes = [p.numel() for p in weights.values()]
    inner = by_weights(model, batch, list(weights))

    def fields(flat: Tensor) -> Tensor:
        parts = flat.split(sizes)
        return inner(*(v.view_as(p) for v, p in zip(parts, weights.values(), strict=True)))

    return fields


def by_batch(model: GeoNeW, batch: Batch, names: tuple[str, ...], order: int = 1) -> Callable:
    def fields(*tensors: Tensor) -> Tensor:
        output = model(replace(batch, **dict(zip(names, tensors, strict=True))), order=order)
        assert output.converged.all()
        return output.fields

    return fields


def leaves(batch: Batch, names: tuple[str, ...]) -> list[Tensor]:
    return [getattr(batch, name).clone().requires_grad_() for name in names]


def check(function: Callable, inputs: list[Tensor], tolerance: float, step: float = 1e-6) -> None:
    """Reverse-mode derivatives against central differences, each tensor along a random line.

    As gradcheck's fast mode, but a failure names the tensor at once.
    """
    generator = torch.Generator().manual_seed(0)
    value = function(*inputs)
    probe = torch.randn(value.shape, generator=generator, dtype=value.dtype)
    gradients = torch.autograd.grad((probe * value).sum(), inputs, allow_unused=True)
    found, wanted = [], []
    for k, (x, gradient) in enumerate(zip(inputs, gradients, strict=True)):
        line = torch.randn(x.shape, generator=generator, dtype=x.dtype)
        ends = []
        for sign in (1, -1):
            moved = [y.detach().requires_grad_() for y in inputs]
            moved[k] = (moved[k] + sign * step * line).detach().requires_grad_()
            ends.append(float((probe * function(*moved)).sum().detach()))
        wanted.append((ends[0] - ends[1]) / (2 * step))
        found.append(0.0 if gradient is None else float((gradient * line).sum()))
    scale = max(np.abs(wanted).max(), float(value.detach().abs().max()))
    assert scale > 0
    error = np.abs(np.array(found) - wanted) / (np.abs(wanted) + 1e-2 * scale)
    assert error.max() < tolerance, f"input {error.argmax()}: {found} against {wanted}"


def gradient_of(function: Callable) -> Callable:
    """The gradient of a quadratic functional, as a function that can be differentiated."""

    def gradient(*inputs: Tensor) -> Tensor:
        value = function(*inputs).square().sum()
        parts = torch.autograd.grad(value, inputs, create_graph=True, allow_unused=True)
        return torch.cat([p.flatten() for p in parts if p is not None])

    return gradient


# -- first derivatives ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_weights(kind: str) -> None:
    name, changes = KINDS[kind]
    model, batch = model_of(name, **changes)
    for module in ("encoder", "pooling", "partition", "law", "backbone", "source"):
        weights = weights_of(model, module + ".")
        if weights:
            flat = torch.cat([p.detach().flatten() for p in weights.values()]).requires_grad_()
            check(by_flat_weights(model, batch, weights), [flat], 1e-5)


def test_every_weight_matters_and_none_is_forgotten() -> None:
    """The law's weights enter through h, and h enters rho: no parameter has a zero gradient."""
    model, batch = model_of("flow", learned_source=True)
    model(batch).fields.square().sum().backward()
    silent = [n for n, p in model.named_parameters() if p.numel() and not (p.grad != 0).any()]
    assert silent == []


@pytest.mark.parametrize(
    "prefix", ["law.weight_bias", "law.strength", "law.shares", "law.keys.bias", "backbone.theta"]
)
def test_weights_that_set_the_bound_entry_by_entry(prefix: str) -> None:
    """The bound rho follows from h: dropping its derivative would show here."""
    model, batch = model_of("flow")
    weights = weights_of(model, prefix)
    assert weights
    function = by_weights(model, batch, list(weights))
    assert gradcheck(function, tuple(weights.values()), atol=1e-7, rtol=1e-5)


def test_the_bound_itself_has_the_derivative_of_the_weights() -> None:
    model, batch = model_of("flow")
    names = ["law.keys.weight", "law.weight_bias"]
    weights = {n: p for n, p in weights_of(model).items() if n in names}

    def bound(*given: Tensor) -> Tensor:
        output = functional_call(model, dict(zip(weights, given, strict=True)), (batch,))
        assert output.balance.flux is not None
        return output.balance.flux.allowed

    check(bound, list(weights.values()), 1e-6)
    model.zero_grad()
    bound(*weights.values()).sum().backward()
    assert all((p.grad != 0).any() for p in weights.values())


@pytest.mark.parametrize("kind", KINDS)
def test_boundary_data_loads_and_tokens(kind: str) -> None:
    name, changes = KINDS[kind]
    model, batch = model_of(name, **changes)
    names = ("extension", "group_value", "load", "tokens")
    # A token that hardly varies has a small scale: a step of 1e-6 takes it far out of its range.
    check(by_batch(model, batch, names), leaves(batch, names), 1e-5, step=1e-7)


def with_parameter(name: str) -> Sample:
    case = CASES[name]()
    terms = {
        "poisson": (Term("diffusion", ("u",), 0.7, {"mu": 1.5}), Term("mass", ("u",), 1.0)),
        "flow": stokes_terms("velocity", "pressure", 3.0, mu=-1.0),
    }[name]
    problem = replace(case.problem, terms=terms, parameters=(Parameter("mu", reference=4.0),))
    return prepare(
        case.mesh, problem, case.boundary, spec=SPEC, source=case.source, parameters={"mu": 7.0}
    )


@pytest.mark.parametrize("law", ["structured", "paper", "none"])
@pytest.mark.parametrize("name", ["poisson", "flow"])
def test_parameters_in_known_terms(name: str, law: str) -> None:
    sample = with_parameter(name)
    model = redraw(tiny(sample, newton=TIGHT, law=law), 5, 0.7)
    batch = model.collate([sample])
    function = by_batch(model, batch, ("parameters",))
    assert gradcheck(function, leaves(batch, ("parameters",)), atol=1e-7, rtol=1e-5)


def test_a_users_boundary_value_from_end_to_end() -> None:
    """dE and d(group value) taken together are the derivative by the number the user gives."""
    case = CASES["flow"]()
    spec = FeatureSpec(hks_times=2, eigenpairs=6, hks_gradients=False, data=False)

    def sample(t: float) -> Sample:
        data = {**case.boundary, "hole": {"velocity": [0.3 * t, 0.1 * t * t]}}
        return prepare(case.mesh, case.problem, data, spec=spec, source=case.source)

    base, up, down = (sample(t) for t in (1.0, 1.0 + 1e-5, 1.0 - 1e-5))
    model = redraw(tiny(base, newton=TIGHT), 2, 0.7)
    batches = [model.collate([s]) for s in (up, down)]
    with torch.no_grad():
        difference = (model(batches[0]).fields - model(batches[1]).fields) / 2e-5
    slopes = [
        (getattr(batches[0], n) - getattr(batches[1], n)) / 2e-5
        for n in ("extension", "group_value")
    ]
    batch = model.collate([base])
    function = by_batch(model, batch, ("extension", "group_value"))
    given = tuple(leaves(batch, ("extension", "group_value")))
    probe = torch.randn(difference.shape, dtype=torch.float64)
    gradients = torch.autograd.grad((probe * function(*given)).sum(), given)
    found = sum(float((g * s).sum()) for g, s in zip(gradients, slopes, strict=True))
    wanted = float((probe * difference).sum())
    assert abs(wanted) > 1e-3
    assert found == pytest.approx(wanted, rel=1e-6)


# -- Taylor remainders ---------------------------------------------------------------------------


def remainder_slope(function: Callable[[Tensor], Tensor], order: int, longest: float) -> float:
    """Fitted order in h of f(h) minus its Taylor polynomial of degree ``order``."""
    steps = [longest * 2.0**-k for k in range(5)]
    t = torch.zeros((), dtype=torch.float64, requires_grad=True)
    value = function(t)
    derivatives = [value]
    for _ in range(order):
        (next_one,) = torch.autograd.grad(derivatives[-1], t, create_graph=True)
        derivatives.append(next_one)
    left = []
    for h in steps:
        taylor = value + h * derivatives[1] + (h * h / 2 * derivatives[2] if order == 2 else 0)
        left.append(float((function(torch.tensor(h, dtype=torch.float64)) - taylor).abs().detach()))
    return float(np.polyfit(np.log(steps), np.log(left), 1)[0])


def along(model: GeoNeW, batch: Batch, order: int, seed: int) -> Callable[[Tensor], Tensor]:
    """A functional of the prediction along a random line through weights, data and load."""
    generator = torch.Generator().manual_seed(seed)

    def noise(x: Tensor) -> Tensor:
        return torch.randn(x.shape, generator=generator, dtype=x.dtype)

    weights = {n: (p, 0.1 * noise(p)) for n, p in weights_of(model).items()}
    names = ("extension", "group_value", "load")
    data = {n: (getattr(batch, n), noise(getattr(batch, n))) for n in names}
    probe = noise(batch.extension)

    def functional(t: Tensor) -> Tensor:
        moved = {n: x + t * d for n, (x, d) in data.items()}
        given = {n: p + t * d for n, (p, d) in weights.items()}
        output = functional_call(model, given, (replace(batch, **moved),), {"order": order})
        assert output.converged.all()
        return (probe * output.fields**2).sum()

    return functional


@pytest.mark.parametrize("kind", KINDS)
def test_first_order_remainder_is_of_order_two(kind: str) -> None:
    name, changes = KINDS[kind]
    model, batch = model_of(name, **changes)
    # The paper's norms are maxima over rows: smooth only up to the next change of the largest.
    longest = 1e-3 if changes.get("law") == "paper" else 0.02
    slope = remainder_slope(along(model, batch, 1, seed=11), 1, longest)
    assert slope == pytest.approx(2, abs=0.1)


@pytest.mark.parametrize("kind", ["flow, known and learned", "cavity with a gauge", "convection"])
def test_second_order_remainder_is_of_order_three(kind: str) -> None:
    name, changes = KINDS[kind]
    model, batch = model_of(name, **changes)
    with sdpa_kernel(SDPBackend.MATH):  # the fused attention has no second derivative
        slope = remainder_slope(along(model, batch, 2, seed=13), 2, longest=0.02)
    assert slope == pytest.approx(3, abs=0.3)


# -- second derivatives --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_second_derivatives_with_order_two(kind: str) -> None:
    name, changes = KINDS[kind]
    model, batch = model_of(name, **changes)
    names = ("extension", "group_value", "load")
    check(gradient_of(by_batch(model, batch, names, order=2)), leaves(batch, names), 1e-5)
    weights = {
        n: p
        for n, p in weights_of(model).items()
        if n.startswith(("law.", "backbone.", "partition."))
    }
    check(gradient_of(by_weights(model, batch, list(weights), 2)), list(weights.values()), 1e-4)


def test_second_derivatives_entry_by_entry() -> None:
    sample = with_parameter("poisson")
    model = redraw(tiny(sample, newton=TIGHT, partitions=3), 5, 0.7)
    batch = model.collate([sample])
    names = ("parameters", "group_value")
    function = by_batch(model, batch, names, order=2)
    assert gradgradcheck(function, leaves(batch, names), atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("law", ["structured", "paper", "none"])
def test_double_backward_raises_without_order_two(law: str) -> None:
    model, batch = model_of("poisson", law=law)
    (load,) = leaves(batch, ("load",))
    fields = by_batch(model, batch, ("load",))(load)
    (gradient,) = torch.autograd.grad(fields.square().sum(), load, create_graph=True)
    with pytest.raises(SolverError, match="order=2"):
        torch.autograd.grad(gradient.square().sum(), load)


def test_double_backward_raises_where_other_paths_exist() -> None:
    """The fields depend on weights through basis and solution: the first alone would be wrong."""
    model, batch = model_of("flow")
    weights = list(model.partition.parameters())
    for functional in (torch.sum, lambda f: f.square().sum()):
        value = functional(model(batch).fields)
        gradients = torch.autograd.grad(value, weights, create_graph=True)
        with pytest.raises(SolverError, match="order=2"):
            torch.autograd.grad(sum(g.square().sum() for g in gradients), weights)


# -- samples that did not converge ---------------------------------------------------------------


def test_unsolved_samples_have_no_gradient_and_spoil_none() -> None:
    model, _ = model_of("poisson")
    good = sample_of("poisson")
    alone = torch.autograd.grad(
        model(model.collate([good])).fields.square().sum(), list(model.parameters()),
        allow_unused=True,
    )  # fmt: skip
    start = torch.zeros(2, 1, model.config.partitions, dtype=torch.float64)
    start[1] = torch.nan
    output = model(model.collate([good, good]), start=start)
    assert output.converged.tolist() == [True, False]
    together = torch.autograd.grad(
        output.fields[output.converged].square().sum(), list(model.parameters()), allow_unused=True
    )
    for a, b in zip(alone, together, strict=True):
        if a is None or b is None:
            assert a is None
            continue
        assert torch.isfinite(b).all()
        torch.testing.assert_close(b, a, rtol=1e-7, atol=1e-9 * float(a.abs().max()) + 1e-12)
    assert not torch.isnan(output.fields[0]).any()
