"""Known convection: exact Jacobian, consistent with the weak form, unique only locally."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import skfem
import torch
from numpy import ndarray
from skfem.helpers import ddot, grad

from geonew.mesh import Mesh
from geonew.model.certificate import certify
from geonew.model.prediction import Prediction
from geonew.model.sample import prepare
from geonew.problem import Term
from model.cases import CASES, redraw, tiny
from model.identity import SPEC, finite_elements
from model.test_known_physics import (
    Reference,
    channel_data,
    channel_fixed,
    channel_problem,
    stabilisation,
    stokes_matrix,
)
from structured import order
from zoo import ZOO, build, grid

DENSITY = 1.3


def with_convection(problem: Any, density: float = DENSITY) -> Any:
    return replace(problem, terms=(*problem.terms, Term("convection", ("velocity",), density)))


@pytest.mark.parametrize("law", ["structured", "paper", "none"])
@pytest.mark.parametrize("name", ["flow", "stokes3d"])
def test_jacobian_is_the_derivative(name: str, law: str) -> None:
    case = CASES[name]()
    sample = replace(case, problem=with_convection(case.problem)).sample()
    model = redraw(tiny(sample, law=law), 4)
    batch = model.collate([sample])
    encoding = model.encode(batch)
    space = model.reduce(encoding, batch)
    balance = model.balance(encoding, space, batch)
    assert len(balance.convection) == 1
    generator = torch.Generator().manual_seed(1)
    shape = balance.linear.constant.shape
    u = torch.randn(shape, generator=generator, dtype=torch.float64)
    residual, J = balance.linearise(u)
    torch.testing.assert_close(residual, balance.residual(u), rtol=1e-12, atol=1e-12)
    exact = torch.autograd.functional.jacobian(balance.residual, u)
    exact = exact.reshape(u.numel(), u.numel())
    torch.testing.assert_close(J[0], exact, rtol=1e-10, atol=1e-10 * float(exact.abs().max()))
    # Quadratic: the third difference of the term vanishes, the second does not.
    (term,) = balance.convection
    zero = torch.zeros_like(u)
    with torch.no_grad():
        at = [term.add_residual(zero, k * u) for k in range(4)]
    third = at[3] - 3 * at[2] + 3 * at[1] - at[0]
    second = at[2] - 2 * at[1] + at[0]
    assert float(third.abs().max()) < 1e-11 * float(second.abs().max())


def channel(n: int) -> Mesh:
    """The unit square with smooth, uneven spacing."""
    line = np.linspace(0, 1, n + 1)
    return build(
        *grid([line + 0.1 * np.sin(np.pi * line) ** 2, line]),
        {
            "left": lambda x: x[:, 0] < 1e-9,
            "right": lambda x: x[:, 0] > 1 - 1e-9,
            "bottom": lambda x: x[:, 1] < 1e-9,
            "top": lambda x: x[:, 1] > 1 - 1e-9,
        },
    )


def model_flow(mesh: Mesh, reynolds: float, density: float = DENSITY) -> Prediction:
    problem = with_convection(channel_problem(mesh), density)
    data, traction = channel_data(problem, 0.4)
    data["left"] = {"velocity": lopsided}
    sample = prepare(
        mesh, problem, data, spec=SPEC, parameters={"reynolds": reynolds}, neumann=traction
    )
    (prediction,) = finite_elements(sample).predict_samples([sample])
    assert prediction.certificate.converged
    return prediction


def lopsided(x: ndarray) -> ndarray:
    """An inflow that convection carries on: not a developed profile."""
    speed = 20 * x[:, 1] ** 2 * (1 - x[:, 1])
    return np.stack([speed, 0 * speed], axis=1)


def reference_flow(mesh: Mesh, reynolds: float, lumped: bool) -> ndarray:
    """Newton on the same Stokes matrix; the transporting velocity nodal, or integrated exactly."""
    reference = Reference(mesh)
    n, viscosity = reference.vector.N, 8.0 / reynolds
    matrix = stokes_matrix(reference, viscosity, stabilisation(mesh, viscosity))
    fixed, values = channel_fixed(mesh, reference, 0.4)
    nodes = mesh.nodes_of("left")
    inner = ~np.isin(nodes, np.concatenate([mesh.nodes_of("bottom"), mesh.nodes_of("top")]))
    values[reference.vector.nodal_dofs[:, nodes[inner]]] = lopsided(mesh.points[nodes[inner]]).T
    load = np.zeros(len(values))
    normal = skfem.LinearForm(lambda v, w: -0.4 * (w.n[0] * v[0] + w.n[1] * v[1]))
    load[:n] = normal.assemble(reference.facets("right", vector=True))
    state = reference.solve(matrix, load, fixed, values)
    slopes = [
        skfem.BilinearForm(lambda u, v, w, k=k: grad(u)[k] * v).assemble(reference.scalar)
        for k in range(2)
    ]
    transport = skfem.LinearForm(
        lambda v, w: sum(w["u"].grad[i, j] * w["u"][j] * v[i] for i in range(2) for j in range(2))
    )

    def convection(x: ndarray) -> ndarray:
        result = np.zeros_like(x)
        if lumped:
            u = reference.as_nodes(x[:n])
            for f in range(2):
                moved = sum(u[:, k] * (slopes[k] @ u[:, f]) for k in range(2))
                result[reference.vector.nodal_dofs[f]] = moved
        else:
            result[:n] = transport.assemble(reference.vector, u=reference.vector.interpolate(x[:n]))
        return DENSITY * result

    for _ in range(80):  # Picard on the load: slow and simple, another road than the library's
        new = reference.solve(matrix, load - convection(state), fixed, values)
        change = np.abs(new - state).max()
        state = new
        if change < 1e-13 * np.abs(state).max():
            break
    else:
        pytest.fail("the reference did not converge")
    return state


def test_the_model_solves_its_own_discretisation() -> None:
    mesh, reynolds = channel(8), 4.0
    prediction = model_flow(mesh, reynolds)
    reference = Reference(mesh)
    n = reference.vector.N
    state = reference_flow(mesh, reynolds, lumped=True)
    for name, wanted in (("velocity", reference.as_nodes(state[:n])), ("pressure", state[n:])):
        assert np.abs(prediction[name] - wanted).max() < 1e-8 * np.abs(wanted).max()


def test_nodal_transport_is_consistent_with_the_weak_form() -> None:
    """Against exact integration the error falls under refinement, and is small beside the term."""
    errors, effects = [], []
    for n in (3, 6, 12):
        mesh, reynolds = channel(n), 4.0
        reference = Reference(mesh)
        state = reference_flow(mesh, reynolds, lumped=False)
        wanted = reference.as_nodes(state[: reference.vector.N])
        without = model_flow(mesh, reynolds, 1e-9)["velocity"]
        found = model_flow(mesh, reynolds)["velocity"]
        errors.append(float(np.sqrt(np.mean((found - wanted) ** 2))))
        effects.append(float(np.sqrt(np.mean((without - wanted) ** 2))))
    assert order(errors) > 1.0
    assert errors[-1] < 0.03 * effects[-1]


def test_the_certificate_says_local_and_gives_the_lowest_eigenvalue() -> None:
    case = CASES["flow"]()
    sample = replace(case, problem=with_convection(case.problem, 0.2)).sample()
    model = tiny(sample)
    batch = model.collate([sample])
    output = model(batch)
    (certificate,) = certify(output, batch)
    with torch.no_grad():
        _, J = output.balance.linearise(output.u)
    lowest = float(torch.linalg.eigvalsh((J + J.mT)[0] / 2)[0])
    assert certificate.margin == pytest.approx(lowest, rel=1e-9)
    assert lowest > 0
    assert certificate.uniqueness == "local"
    assert "quadratic" in certificate.reason
    (prediction,) = model.predict_samples([sample])
    assert "local" in prediction.summary()


def test_a_strong_current_is_not_certified() -> None:
    """Where the symmetric part is indefinite at the solution nothing is claimed."""
    case = CASES["flow"]()
    found = []
    for density in (0.0, 500.0):
        problem = with_convection(case.problem, density) if density else case.problem
        sample = replace(case, problem=problem).sample()
        model = tiny(sample, law="none")
        batch = model.collate([sample])
        (certificate,) = certify(model(batch), batch)
        found.append((certificate.uniqueness, certificate.margin > 0))
    assert found[0] == ("unique", True)
    assert found[1] == ("not certified", False)


def test_reference_and_laplacian_agree_on_the_zoo() -> None:
    """The gradient of a vector in scikit-fem is contracted as the model's diffusion is."""
    reference = Reference(ZOO["square"]())
    form = skfem.BilinearForm(lambda u, v, w: ddot(grad(u), grad(v))).assemble(reference.vector)
    single = skfem.BilinearForm(lambda u, v, w: grad(u)[0] * grad(v)[0] + grad(u)[1] * grad(v)[1])
    first = reference.vector.nodal_dofs[0]
    block = form[first][:, first]
    assert abs(block - single.assemble(reference.scalar)).max() < 1e-13
