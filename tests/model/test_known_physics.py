"""With W the identity and known terms alone, the model is the finite element method.

The references are assembled here with scikit-fem, in the user's coordinates and units, and share
nothing with the library but the mesh.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import skfem
from numpy import ndarray
from skfem.helpers import ddot, div, dot, grad, sym_grad

from geonew.fem import forms
from geonew.fem.forms import register_form
from geonew.mesh import Mesh
from geonew.model.prediction import Prediction
from geonew.model.sample import prepare
from geonew.problem import (
    Derived,
    Dirichlet,
    Field,
    FrameRule,
    Neumann,
    Parameter,
    Problem,
    Term,
    elasticity_terms,
    stokes_terms,
)
from model.identity import SPEC, THETA, finite_elements
from zoo import ZOO

EXACT = 1e-8  # relative, over the size of each field


def predicted(
    mesh: Mesh, problem: Problem, boundary: Mapping[str, Any], **given: Any
) -> Prediction:
    sample = prepare(mesh, problem, boundary, spec=SPEC, **given)
    (prediction,) = finite_elements(sample).predict_samples([sample])
    assert prediction.certificate.converged
    return prediction


class Reference:
    """Scikit-fem's P1 space on a mesh: assembly, facets of a group, Dirichlet data by nodes."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        kind = skfem.MeshTri if mesh.dim == 2 else skfem.MeshTet
        scalar = skfem.ElementTriP1() if mesh.dim == 2 else skfem.ElementTetP1()
        self.fem = kind(np.ascontiguousarray(mesh.points.T), np.ascontiguousarray(mesh.cells.T))
        self.scalar = skfem.Basis(self.fem, scalar, intorder=4)
        self.vector = skfem.Basis(self.fem, skfem.ElementVector(scalar), intorder=4)
        self._element = scalar

    def facets(self, group: str, vector: bool = False) -> Any:
        wanted = {tuple(sorted(f)) for f in self.mesh.facets_of(group).tolist()}
        own = np.array(
            [k for k, f in enumerate(self.fem.facets.T) if tuple(sorted(f.tolist())) in wanted]
        )
        element = skfem.ElementVector(self._element) if vector else self._element
        return skfem.FacetBasis(self.fem, element, facets=own, intorder=4)

    def as_nodes(self, dofs: ndarray) -> ndarray:
        """(N, d) from scikit-fem's interleaved vector."""
        return dofs[self.vector.nodal_dofs].T

    def solve(self, matrix: Any, load: ndarray, fixed: ndarray, values: ndarray) -> ndarray:
        """Solve with prescribed unknowns."""
        full = np.where(fixed, values, 0.0)
        return skfem.solve(*skfem.condense(matrix, load, x=full, D=np.flatnonzero(fixed)))


def dirichlet(mesh: Mesh, groups: Mapping[str, Callable]) -> tuple[ndarray, dict[int, ndarray]]:
    """Nodes and their values; the first group named wins."""
    values: dict[int, ndarray] = {}
    for group, function in groups.items():
        nodes = mesh.nodes_of(group)
        for node, value in zip(nodes, np.atleast_1d(function(mesh.points[nodes])), strict=True):
            values.setdefault(int(node), value)
    return np.array(sorted(values)), values


def close(found: ndarray, wanted: ndarray) -> None:
    scale = np.abs(wanted).max()
    assert scale > 0
    assert np.abs(found - wanted).max() < EXACT * scale


# -- Poisson -------------------------------------------------------------------------------------


def wave(x: ndarray) -> ndarray:
    return np.sin(3 * x[:, 0]) + x[:, 1] ** 2


def conductivity(x: ndarray) -> ndarray:
    return 1.5 + np.cos(2 * x[:, 0] + x[:, 1])


def heating(x: ndarray) -> ndarray:
    return 2 + 5 * x[:, 0] * x[:, -1]


def flux(x: ndarray) -> ndarray:
    return 1 - 2 * x[:, 1]


def heat_problem(mesh: Mesh, **changes: Any) -> Problem:
    groups = tuple(mesh.groups)
    declared: dict[str, Any] = {
        "name": "heat",
        "dim": mesh.dim,
        "fields": (Field("u", reference=3.0),),
        "groups": groups,
        "dirichlet": (Dirichlet("u", groups[0]),),
        "neumann": (Neumann("u", groups[1]),),
        "sources": ("u",),
        "parameters": (
            Parameter("kappa", "nodal", reference=2.0),
            Parameter("rate", reference=50.0),
        ),
        "terms": (
            Term("diffusion", ("u",), 0.5, {"kappa": 1.0}),
            Term("mass", ("u",), 3.0, {"rate": -0.5}),
        ),
        "reference_length": 0.7,
    }
    return Problem(**{**declared, **changes})


def heat_reference(mesh: Mesh, rate: float) -> ndarray:
    reference = Reference(mesh)
    basis, (first, second) = reference.scalar, list(mesh.groups)[:2]
    kappa = basis.interpolate(conductivity(mesh.points))
    stiffness = skfem.BilinearForm(lambda u, v, w: 0.5 * w["k"] * dot(grad(u), grad(v)))
    mass = skfem.BilinearForm(lambda u, v, w: 3 * rate**-0.5 * u * v)
    matrix = stiffness.assemble(basis, k=kappa) + mass.assemble(basis)
    tested = skfem.LinearForm(lambda v, w: w["f"] * v)
    side = reference.facets(second)
    load = tested.assemble(basis, f=basis.interpolate(heating(mesh.points)))
    load = load + tested.assemble(side, f=side.interpolate(flux(mesh.points)))
    nodes, values = dirichlet(mesh, {first: wave})
    fixed, prescribed = np.zeros(mesh.n_nodes, bool), np.zeros(mesh.n_nodes)
    fixed[nodes], prescribed[nodes] = True, [values[n] for n in nodes]
    return reference.solve(matrix, load, fixed, prescribed)


@pytest.mark.parametrize(
    "name", ["square", "plate", "random_delaunay", "obtuse", "cube", "l_brick"]
)
def test_poisson_with_everything(name: str) -> None:
    """Variable conductivity, a power of a global parameter, source, flux and data."""
    mesh = ZOO[name]()
    first, second = list(mesh.groups)[:2]
    prediction = predicted(
        mesh,
        heat_problem(mesh),
        {first: {"u": wave}},
        parameters={"kappa": conductivity, "rate": 80.0},
        source={"u": heating},
        neumann={second: {"u": flux}},
    )
    close(prediction["u"], heat_reference(mesh, 80.0))
    assert prediction.certificate.uniqueness == "unique"


def test_units_change_nothing() -> None:
    """The same body in millimetres and millikelvin: the same field."""
    mesh = ZOO["plate"]()
    first, second = list(mesh.groups)[:2]
    metre = heat_problem(mesh)
    base = predicted(
        mesh, metre, {first: {"u": wave}}, parameters={"kappa": conductivity, "rate": 80.0},
        source={"u": heating}, neumann={second: {"u": flux}},
    )  # fmt: skip
    large = mesh.moved(np.eye(2), np.zeros(2), 1e-3)  # the same numbers of metres, in millimetres

    def metres(function: Callable) -> Callable:
        return lambda x: function(x / 1e3)

    # kappa [W/m/K], u [mK], x [mm]: sources per mm^2, mass term per mm^2, flux per mm.
    terms = (
        Term("diffusion", ("u",), 0.5, {"kappa": 1.0}),
        Term("mass", ("u",), 3.0e-6, {"rate": -0.5}),
    )
    fields = (Field("u", reference=3.0e3),)
    small = replace(metre, fields=fields, terms=terms, reference_length=0.7e3)
    turned = predicted(
        large,
        small,
        {first: {"u": lambda x: 1e3 * wave(x / 1e3)}},
        parameters={"kappa": metres(conductivity), "rate": 80.0},
        source={"u": lambda x: 1e-3 * heating(x / 1e3)},
        neumann={second: {"u": metres(flux)}},
    )
    assert np.abs(turned["u"] / 1e3 - base["u"]).max() < 1e-10 * np.abs(base["u"]).max()


def test_a_form_of_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forms, "_REGISTRY", dict(forms._REGISTRY))

    def stretched(u: Any, v: Any, w: Any) -> Any:
        return 4 * grad(u)[0] * grad(v)[0] + (1 + w.x[0]) * grad(u)[1] * grad(v)[1]

    # It sees the placed mesh: the coordinates of the frame, here those of the unit square.
    register_form("stretched", "symmetric", ("scalar",), 2, dims=(2,))(stretched)
    mesh = ZOO["square"]()
    shift = np.full(2, 0.5)
    problem = heat_problem(
        mesh, terms=(Term("stretched", ("u",), 2.0),), parameters=(), neumann=(),
        reference_length=1.0,
    )  # fmt: skip
    prediction = predicted(mesh, problem, {"left": {"u": wave}}, source={"u": heating})
    reference = Reference(mesh.moved(np.eye(2), shift))
    load = skfem.LinearForm(lambda v, w: w["f"] * v).assemble(
        reference.scalar, f=reference.scalar.interpolate(heating(mesh.points))
    )
    fixed, values = np.zeros(mesh.n_nodes, bool), np.zeros(mesh.n_nodes)
    nodes = mesh.nodes_of("left")
    fixed[nodes], values[nodes] = True, wave(mesh.points[nodes])
    basis = skfem.Basis(reference.fem, skfem.ElementTriP1(), intorder=3)
    matrix = 2 * skfem.BilinearForm(stretched).assemble(basis)
    close(prediction["u"], reference.solve(matrix, load, fixed, values))


def test_artificial_diffusion_is_a_laplacian_where_nothing_is_known() -> None:
    mesh = ZOO["l_shape"]()
    problem = heat_problem(mesh, terms=(), parameters=(), neumann=(), sources=())
    sample = prepare(mesh, problem, {"left": {"u": wave}}, spec=SPEC)
    (prediction,) = finite_elements(sample, diffusion=0.3).predict_samples([sample])
    reference = Reference(mesh)
    matrix = skfem.BilinearForm(lambda u, v, w: dot(grad(u), grad(v))).assemble(reference.scalar)
    fixed, values = np.zeros(mesh.n_nodes, bool), np.zeros(mesh.n_nodes)
    nodes = mesh.nodes_of("left")
    fixed[nodes], values[nodes] = True, wave(mesh.points[nodes])
    close(prediction["u"], reference.solve(matrix, np.zeros(mesh.n_nodes), fixed, values))


# -- elasticity ----------------------------------------------------------------------------------

YOUNG, RATIO = 210.0, 0.3
LAMBDA, MU = YOUNG * RATIO / ((1 + RATIO) * (1 - 2 * RATIO)), YOUNG / (2 + 2 * RATIO)


@pytest.mark.parametrize("name", ["plate", "square", "cube", "torus_block"])
def test_elasticity_with_traction_and_weight(name: str) -> None:
    """Held at the left, pulled at the right, under its own weight, in a turned position."""
    base = ZOO[name]()
    d = base.dim
    rotation = turn(d)
    mesh = base.moved(rotation, np.full(d, 0.3))
    traction, weight = np.arange(1.0, d + 1) / 3, -np.arange(d, 0.0, -1)
    other = "top" if d == 2 else "back"
    problem = Problem(
        name="solid",
        dim=d,
        fields=(Field("displacement", "vector", reference=0.01),),
        groups=tuple(mesh.groups),
        dirichlet=(Dirichlet("displacement", "left"),),
        neumann=(Neumann("displacement", "right"), Neumann("displacement", other)),
        sources=("displacement",),
        terms=elasticity_terms("displacement", YOUNG, RATIO),
        derived=(
            Derived("stress", "von_mises", ("displacement",), {"young": YOUNG, "poisson": RATIO}),
        ),
        frame=(FrameRule("normal", "left"), FrameRule("normal", "bottom")),
        reference_length=2.0,
    )
    data = {"left": {"displacement": lambda x: 0.01 * x}}
    pressed = {"right": {"displacement": traction}, other: {"displacement": 0.7}}  # along normal
    prediction = predicted(mesh, problem, data, source={"displacement": weight}, neumann=pressed)
    reference = Reference(mesh)
    basis = reference.vector
    matrix = skfem.BilinearForm(
        lambda u, v, w: 2 * MU * ddot(sym_grad(u), sym_grad(v)) + LAMBDA * div(u) * div(v)
    ).assemble(basis)

    def constant(force: ndarray) -> Any:
        return skfem.LinearForm(lambda v, w: sum(force[k] * v[k] for k in range(d)))

    load = constant(weight).assemble(basis)
    load = load + constant(traction).assemble(reference.facets("right", vector=True))
    normal = skfem.LinearForm(lambda v, w: 0.7 * dot(w.n, v))
    load = load + normal.assemble(reference.facets(other, vector=True))
    fixed, values = np.zeros(basis.N, bool), np.zeros(basis.N)
    nodes = mesh.nodes_of("left")
    for k in range(d):
        dofs = basis.nodal_dofs[k, nodes]
        fixed[dofs], values[dofs] = True, 0.01 * mesh.points[nodes, k]
    wanted = reference.as_nodes(reference.solve(matrix, load, fixed, values))
    close(prediction["displacement"], wanted)
    assert prediction["stress"].shape == (mesh.n_nodes,)
    # Reaction forces: what the support carries is what the loads bring.
    carried = np.array(prediction.certificate.physical.reaction["displacement"]["left"])
    full = matrix @ reference.solve(matrix, load, fixed, values) - load
    brought = full[basis.nodal_dofs[:, nodes]].sum(axis=1)
    np.testing.assert_allclose(carried, brought, rtol=1e-7, atol=1e-8 * np.abs(brought).max())


def turn(d: int) -> ndarray:
    """A rotation about no special axis."""
    q, r = np.linalg.qr(np.random.default_rng(d).normal(size=(d, d)))
    q = q * np.sign(np.diag(r))
    return q if np.linalg.det(q) > 0 else q[:, [1, 0, *range(2, d)]]


# -- Stokes --------------------------------------------------------------------------------------


def stokes_matrix(reference: Reference, viscosity: float, delta: float) -> Any:
    """Velocity first: nu (grad u, grad v) - (p, div v); (q, div u) + delta (grad p, grad q)."""
    laplacian = skfem.BilinearForm(lambda u, v, w: viscosity * ddot(grad(u), grad(v)))
    pairing = skfem.BilinearForm(lambda u, q, w: q * div(u))
    smoothing = skfem.BilinearForm(lambda p, q, w: delta * dot(grad(p), grad(q)))
    B = pairing.assemble(reference.vector, reference.scalar)
    return skfem.utils.bmat(
        [
            [laplacian.assemble(reference.vector), -B.T],
            [B, smoothing.assemble(reference.scalar)],
        ],
        "csr",
    )


def stabilisation(mesh: Mesh, viscosity: float) -> float:
    """theta H^2 / nu with theta at its start and one partition per node."""
    return THETA * (mesh.volume / mesh.n_nodes) ** (2 / mesh.dim) / viscosity


def channel_problem(mesh: Mesh, **changes: Any) -> Problem:
    """Inflow left, open right with a given pressure, walls elsewhere; viscosity 8 / Re."""
    d = mesh.dim
    walls = tuple(g for g in mesh.groups if g not in ("left", "right"))
    declared: dict[str, Any] = {
        "name": "channel",
        "dim": d,
        "fields": (Field("velocity", "vector", reference=2.0), Field("pressure", reference=5.0)),
        "groups": ("left", *walls, "right"),
        "dirichlet": (
            *(Dirichlet("velocity", g) for g in ("left", *walls)),
            Dirichlet("pressure", "right"),
        ),
        "neumann": (Neumann("velocity", "right"),),
        "parameters": (Parameter("reynolds", reference=100.0),),
        "terms": stokes_terms("velocity", "pressure", 8.0, reynolds=-1.0),
        "frame": (FrameRule("normal", "left"), FrameRule("normal", "bottom")),
        "reference_length": 0.5,
    }
    return Problem(**{**declared, **changes})


def inflow(x: ndarray) -> ndarray:
    speed = np.prod([4 * x[:, k] * (1 - x[:, k]) for k in range(1, x.shape[1])], axis=0)
    return np.stack([speed, *[0 * speed] * (x.shape[1] - 1)], axis=1)


def channel_data(problem: Problem, outlet: float) -> tuple[dict, dict]:
    d = problem.dim
    data = {g: {"velocity": [0.0] * d} for g in problem.groups[1:-1]}
    data = {"left": {"velocity": inflow}, **data, "right": {"pressure": outlet}}
    return data, {"right": {"velocity": -outlet}}  # the traction -p n, along the normal


def channel_fixed(mesh: Mesh, reference: Reference, outlet: float) -> tuple[ndarray, ndarray]:
    n = reference.vector.N
    fixed, values = np.zeros(n + mesh.n_nodes, bool), np.zeros(n + mesh.n_nodes)
    for group in [*(g for g in mesh.groups if g not in ("left", "right")), "left"]:
        nodes = mesh.nodes_of(group)
        dofs = reference.vector.nodal_dofs[:, nodes]
        fixed[dofs] = True
        values[dofs] = inflow(mesh.points[nodes]).T if group == "left" else 0.0
    nodes = mesh.nodes_of("right")
    fixed[n + nodes], values[n + nodes] = True, outlet
    return fixed, values


@pytest.mark.parametrize("name", ["square", "square_with_hole", "cube"])
def test_stokes_with_an_outlet_pressure(name: str) -> None:
    mesh = ZOO[name]()
    problem, reynolds, outlet = channel_problem(mesh), 40.0, 1.7
    viscosity = 8.0 / reynolds
    data, traction = channel_data(problem, outlet)
    prediction = predicted(mesh, problem, data, parameters={"reynolds": reynolds}, neumann=traction)
    reference = Reference(mesh)
    n = reference.vector.N
    matrix = stokes_matrix(reference, viscosity, stabilisation(mesh, viscosity))
    normal = skfem.LinearForm(lambda v, w: -outlet * dot(w.n, v))
    load = np.zeros(n + mesh.n_nodes)
    load[:n] = normal.assemble(reference.facets("right", vector=True))
    solved = reference.solve(matrix, load, *channel_fixed(mesh, reference, outlet))
    close(prediction["velocity"], reference.as_nodes(solved[:n]))
    close(prediction["pressure"], solved[n:])
    # The pressure's level is the outlet's: raising it by 3 raises the pressure by 3, no more.
    data, traction = channel_data(problem, outlet + 3)
    raised = predicted(mesh, problem, data, parameters={"reynolds": reynolds}, neumann=traction)
    close(raised["pressure"], prediction["pressure"] + 3)
    close(raised["velocity"], prediction["velocity"])


def test_a_closed_cavity_has_a_pressure_of_mean_zero() -> None:
    mesh = ZOO["random_delaunay"]()
    sides = tuple(mesh.groups)
    problem = Problem(
        name="cavity",
        dim=2,
        fields=(
            Field("velocity", "vector", reference=1.3),
            Field("pressure", level="gauge", reference=0.4),
        ),
        groups=sides,
        dirichlet=tuple(Dirichlet("velocity", g) for g in sides),
        terms=stokes_terms("velocity", "pressure", 0.3),
        frame=(FrameRule("normal", "top"),),
    )
    data: dict[str, Any] = {g: {"velocity": [0.0, 0.0]} for g in sides if g != "top"}
    lid = lambda x: np.stack([x[:, 0] * (1 - x[:, 0]), 0 * x[:, 0]], axis=1)  # noqa: E731
    prediction = predicted(mesh, problem, {**data, "top": {"velocity": lid}})
    reference = Reference(mesh)
    n = reference.vector.N
    fixed, values = np.zeros(n + mesh.n_nodes, bool), np.zeros(n + mesh.n_nodes)
    fixed[reference.vector.nodal_dofs[:, mesh.boundary_nodes]] = True
    top = mesh.nodes_of("top")
    values[reference.vector.nodal_dofs[:, top]] = lid(mesh.points[top]).T
    fixed[n] = True  # any level
    matrix = stokes_matrix(reference, 0.3, stabilisation(mesh, 0.3))
    solved = reference.solve(matrix, np.zeros(n + mesh.n_nodes), fixed, values)
    weight = skfem.LinearForm(lambda v, w: 1.0 * v).assemble(reference.scalar)
    pressure = solved[n:] - weight @ solved[n:] / weight.sum()
    close(prediction["velocity"], reference.as_nodes(solved[:n]))
    close(prediction["pressure"], pressure)
    assert abs(weight @ prediction["pressure"]) < 1e-12 * np.abs(pressure).max()


def test_a_reaction_holds_a_field_without_data() -> None:
    """-Laplace u + r u = f with natural boundary everywhere; r starts at log 2 per unit area."""
    mesh = ZOO["disc"]()
    problem = Problem(
        name="effective",
        dim=2,
        fields=(Field("u", level="reaction", reference=2.0),),
        groups=("rim",),
        dirichlet=(),
        sources=("u",),
        terms=(Term("diffusion", ("u",), 0.5),),
        reference_length=0.7,
    )
    prediction = predicted(mesh, problem, {}, source={"u": heating})
    reference = Reference(mesh)
    basis, r = reference.scalar, np.log(2.0) * 0.5 / 0.7**2
    matrix = skfem.BilinearForm(lambda u, v, w: 0.5 * dot(grad(u), grad(v)) + r * u * v)
    load = skfem.LinearForm(lambda v, w: w["f"] * v).assemble(
        basis, f=basis.interpolate(heating(mesh.points))
    )
    close(prediction["u"], skfem.solve(matrix.assemble(basis), load))
