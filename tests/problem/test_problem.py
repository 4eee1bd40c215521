"""Problem: components, scales, files; every contradiction refused by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from geonew.errors import ProblemError
from geonew.fem.forms import assemble_form, known_form
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
from problems import EXAMPLES, SIDES, block, flow, poisson
from zoo import ZOO


def test_components() -> None:
    problem = flow()
    assert problem.n_components == 3
    assert problem.component_names == ("u", "v", "pressure")
    assert [problem.offset(name) for name in ("velocity", "pressure")] == [0, 2]
    assert problem.columns("velocity") == slice(0, 2)
    assert problem.references == (2.0, 2.0, 5.0)
    assert problem.dirichlet_groups(0) == ("left", "bottom", "top")
    assert problem.dirichlet_groups(2) == ()
    assert block().component_names == ("displacement_x", "displacement_y", "displacement_z")
    assert [block().dirichlet_groups(k) for k in range(3)] == [
        ("left",),
        ("left",),
        ("left", "bottom"),
    ]
    assert flow().has_vectors
    assert not poisson().has_vectors
    with pytest.raises(ProblemError, match="'flow' has no field 'mach'; it has"):
        problem.field("mach")
    with pytest.raises(ProblemError, match="'flow' has no parameter 'mach'; it has"):
        problem.parameter("mach")


def test_lists_and_whole_numbers_become_tuples_and_floats() -> None:
    problem = poisson()
    assert all(type(f.reference) is float for f in problem.fields)
    assert hash(problem) == hash(poisson())
    assert problem == poisson()
    assert problem != poisson(terms=(Term("diffusion", ("u",), 0.5, {"kappa": 2.0}),))


# -- scales --------------------------------------------------------------------------------------


def dimensionless(problem: Problem, mesh) -> dict[str, np.ndarray]:
    """Every known block as the model sees it: scale x coefficient x form on x/l."""
    placed = mesh.moved(np.eye(mesh.dim), np.zeros(mesh.dim), problem.reference_length)
    result = {}
    for term in problem.terms:
        form = known_form(term.form)
        if form.integrand is None:
            continue
        ranks = tuple(problem.field(name).rank for name in term.fields)
        scale = problem.term_scale(term) * problem.coefficient_reference(term)
        if form.kind == "stabilisation":  # times H^2, H a length in the user's units
            scale *= problem.reference_length**2
        for key, matrix in assemble_form(form, ranks, placed).items():
            result[f"{term.form}{key}"] = scale * matrix.toarray()
    return result


@pytest.mark.parametrize("a", [1e3, 1e-3, 0.3048])
def test_a_change_of_the_unit_of_length_changes_nothing(a: float) -> None:
    """Stokes with velocity in length/s, kinematic viscosity and pressure in length^2/s^2."""

    def problem(unit: float) -> Problem:
        return flow(
            fields=(
                Field("velocity", "vector", reference=2.0 * unit),
                Field("pressure", level="reaction", reference=5.0 * unit**2),
            ),
            terms=(
                *stokes_terms("velocity", "pressure", 0.3 * unit**2, reynolds=-1.0),
                Term("convection", ("velocity",)),
            ),
            derived=(),
            reference_length=0.7 * unit,
        )

    mesh = ZOO["square"]()
    large = mesh.moved(np.eye(2), np.zeros(2), 1 / a)
    before, after = dimensionless(problem(1.0), mesh), dimensionless(problem(a), large)
    assert set(before) == set(after)
    assert {name.split("(")[0] for name in before} == {"diffusion", "divergence", "stabilisation"}
    for name, block_before in before.items():
        bound = 1e-12 * np.abs(block_before).max()
        np.testing.assert_allclose(after[name], block_before, atol=bound, err_msg=name)
    convection = problem(1.0).terms[-1]
    assert problem(a).term_scale(convection) == pytest.approx(
        problem(1.0).term_scale(convection), rel=1e-12
    )
    # a body force is in length/s^2, a traction in length^2/s^2
    for scale, power in (("source_scale", 1), ("neumann_scale", 2)):
        old = getattr(problem(1.0), scale)("velocity")
        assert getattr(problem(a), scale)("velocity") * a**power == pytest.approx(old, rel=1e-12)


def test_elasticity_in_metres_and_millimetres() -> None:
    """Pascal and megapascal: with its unit given, a mesh in millimetres yields the same blocks."""
    cube = ZOO["cube"]()
    metres = block(
        reference_length=0.5, derived=(), terms=elasticity_terms("displacement", 2e11, 0.3)
    )
    millimetres = block(
        fields=(Field("displacement", "vector", reference=1.0),),
        reference_length=500.0,
        derived=(),
        terms=elasticity_terms("displacement", 2e5, 0.3),
    )
    before = dimensionless(metres, cube)
    after = dimensionless(millimetres, cube.moved(np.eye(3), np.zeros(3), 1e-3))
    for name, value in before.items():
        np.testing.assert_allclose(after[name], value, atol=1e-12 * np.abs(value).max())
    # N/m^3 = 1e-9 N/mm^3, Pa = 1e-6 MPa
    assert millimetres.source_scale("displacement") * 1e-9 == pytest.approx(
        metres.source_scale("displacement"), rel=1e-12
    )
    assert millimetres.neumann_scale("displacement") * 1e-6 == pytest.approx(
        metres.neumann_scale("displacement"), rel=1e-12
    )


def test_scales_are_congruences_and_order_one() -> None:
    problem = flow()
    diffusion, divergence, _ = problem.terms
    assert problem.coefficient_reference(diffusion) == pytest.approx(0.01)
    scaled = problem.term_scale(diffusion) * problem.coefficient_reference(diffusion)
    assert scaled == pytest.approx(1.0, rel=1e-15)
    assert problem.term_scale(divergence) == pytest.approx(2.0 * 5.0 / problem.energy_scale)
    assert problem.load_scale("velocity") == 2.0 / problem.energy_scale
    assert flow(energy=4.0).energy_scale == 4.0
    assert poisson(terms=(), parameters=()).energy_scale == pytest.approx(9.0)


def test_with_references() -> None:
    changed = flow().with_references({"pressure": 7.0})
    assert changed.references == (2.0, 2.0, 7.0)
    assert changed.with_references({"pressure": 5.0}) == flow()
    with pytest.raises(ProblemError, match="has no field 'mach'"):
        flow().with_references({"mach": 1.0})
    with pytest.raises(ProblemError, match="reference value of field 'pressure' is 0"):
        flow().with_references({"pressure": 0.0})


@given(young=st.floats(1e-3, 1e6), ratio=st.floats(-0.99, 0.49), plane_stress=st.booleans())
def test_elasticity_terms_are_positive_and_give_hookes_law(
    young: float, ratio: float, plane_stress: bool
) -> None:
    mesh = ZOO["two_triangles"]()
    if plane_stress and ratio <= -0.5:
        with pytest.raises(ProblemError, match="has no split into positive terms"):
            elasticity_terms("u", young, ratio, plane_stress=True)
        return
    terms = elasticity_terms("u", young, ratio, plane_stress=plane_stress)
    assert all(term.coefficient > 0 for term in terms)
    g = np.array([[0.3, -1.0], [0.4, 0.7]])
    u = mesh.points @ g.T
    energy = 0.0
    for term in terms:
        blocks = assemble_form(known_form(term.form), ("vector",), mesh)
        energy += term.coefficient * sum(u[:, a] @ m @ u[:, b] for (a, b), m in blocks.items())
    e = (g + g.T) / 2
    mu = young / 2 / (1 + ratio)
    lam = young * ratio / (1 + ratio) / ((1 - ratio) if plane_stress else (1 - 2 * ratio))
    exact = 2 * mu * np.sum(e * e) + lam * np.trace(e) ** 2
    assert energy == pytest.approx(exact, abs=1e-12 * (2 * mu + abs(lam)) * 4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: stokes_terms("u", "p", 0.0), "viscosity is 0"),
        (lambda: elasticity_terms("u", 1.0, 0.5), r"Poisson's ratio 0\.5 is outside"),
        (lambda: elasticity_terms("u", -1.0, 0.3), r"Young's modulus is -1\.0"),
    ],
)
def test_impossible_equations(make, message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        make()


# -- contradictions ------------------------------------------------------------------------------


def scalar_on(*groups: str) -> tuple[Dirichlet, ...]:
    return tuple(Dirichlet("u", group) for group in groups)


WRONG = {
    "dim": (lambda: poisson(dim=4), r"dimension of problem 'poisson' is 4; it must be one of"),
    "blank name": (lambda: poisson(name=" "), "name of a problem is ' '"),
    "no fields": (lambda: poisson(fields=(), dirichlet=()), "'poisson' has no fields"),
    "zero length": (lambda: poisson(reference_length=0.0), "reference length .* must be positive"),
    "infinite energy": (lambda: poisson(energy=np.inf), "energy scale .* must be finite"),
    "two fields": (lambda: poisson(fields=(Field("u"), Field("u"))), r"fields .* repeat \['u'\]"),
    "derived is a field": (
        lambda: flow(derived=(Derived("pressure", "speed", ("velocity",)),)),
        r"fields .* repeat \['pressure'\]",
    ),
    "derived is a component": (
        lambda: flow(derived=(Derived("u", "speed", ("velocity",)),)),
        r"components .* repeat \['u'\]",
    ),
    "labels": (
        lambda: poisson(fields=(Field("u", labels=("a", "b")),)),
        r"has 1 components but labels \('a', 'b'\)",
    ),
    "groups twice": (lambda: poisson(groups=(*SIDES, "left")), r"groups .* repeat \['left'\]"),
    "parameters twice": (
        lambda: poisson(parameters=(Parameter("kappa"), Parameter("kappa"))),
        r"parameters .* repeat \['kappa'\]",
    ),
    "sources twice": (lambda: poisson(sources=("u", "u")), r"sources .* repeat \['u'\]"),
    "source of nothing": (lambda: poisson(sources=("w",)), "has no field 'w'"),
    "optional group": (lambda: poisson(optional_groups=("lid",)), "refers to group 'lid'"),
    "harmonic group": (lambda: poisson(harmonic=(("left", "lid"),)), "refers to group 'lid'"),
    "harmonic pair": (lambda: poisson(harmonic=(("left", "left"),)), "must name two groups"),
    "dirichlet group": (lambda: poisson(dirichlet=scalar_on("lid")), "refers to group 'lid'"),
    "dirichlet field": (
        lambda: poisson(dirichlet=(Dirichlet("w", "left"),)),
        "has no field 'w'",
    ),
    "dirichlet twice": (
        lambda: poisson(dirichlet=scalar_on("left", "left")),
        "prescribes 'u' on 'left' twice",
    ),
    "axes apart": (
        lambda: block(dirichlet=tuple(Dirichlet("displacement", "left", (k,)) for k in range(3))),
        "prescribes 'displacement' on 'left' twice",
    ),
    "axes of a scalar": (
        lambda: poisson(dirichlet=(Dirichlet("u", "left", axes=(0,)),)),
        r"names axes \(0,\), but the field has 1 component",
    ),
    "axes out of range": (
        lambda: block(dirichlet=(Dirichlet("displacement", "left", axes=(3,)),)),
        r"names axes \(3,\), but the field has 3 component",
    ),
    "no axes": (
        lambda: block(dirichlet=(Dirichlet("displacement", "left", axes=()),)),
        r"names axes \(\), but",
    ),
    "neumann twice": (
        lambda: poisson(neumann=(Neumann("u", "right"), Neumann("u", "right"))),
        "prescribes 'u' on 'right' twice",
    ),
    "both kinds": (
        lambda: poisson(neumann=(Neumann("u", "left"),)),
        "gives field 'u' both Dirichlet and Neumann data on 'left'",
    ),
    "free level": (
        lambda: poisson(dirichlet=()),
        "component 'u' of problem 'poisson' has Dirichlet data on no group",
    ),
    "free component": (
        lambda: block(dirichlet=(Dirichlet("displacement", "left", axes=(0, 2)),)),
        "component 'displacement_y' of problem 'block' has Dirichlet data on no group",
    ),
    "needless gauge": (
        lambda: poisson(fields=(Field("u", level="gauge"),)),
        "declares a gauge but is prescribed on",
    ),
    "unknown form": (lambda: poisson(terms=(Term("curl", ("u",)),)), "no form is registered"),
    "fields of a term": (
        lambda: poisson(terms=(Term("mass", ("u", "u")),)),
        "names 2 fields; it takes 1",
    ),
    "rank of a term": (
        lambda: poisson(terms=(Term("strain", ("u",)),)),
        "needs a vector field, but 'u' is a scalar",
    ),
    "negative coefficient": (
        lambda: poisson(terms=(Term("mass", ("u",), -1.0),)),
        r"has the negative coefficient -1\.0",
    ),
    "vector factor": (
        lambda: flow(terms=(Term("mass", ("pressure",), 1.0, {"wind": 1.0}),)),
        "has the vector parameter 'wind' as factor",
    ),
    "unknown factor": (
        lambda: poisson(terms=(Term("mass", ("u",), 1.0, {"nu": 1.0}),)),
        "has no parameter 'nu'",
    ),
    "unknown formula": (
        lambda: flow(derived=(Derived("w", "mach", ("velocity",)),)),
        "no formula is registered under 'mach'",
    ),
    "inputs of a formula": (
        lambda: flow(derived=(Derived("w", "speed", ("pressure",)),)),
        "'speed' reads fields of ranks",
    ),
    "input that is no field": (
        lambda: flow(derived=(Derived("w", "speed", ("mach",)),)),
        "has no field 'mach'",
    ),
    "constants of a formula": (
        lambda: block(derived=(Derived("w", "von_mises", ("displacement",), {"young": 1.0}),)),
        r"missing \['poisson'\]",
    ),
    "values of constants": (
        lambda: block(
            derived=(Derived("w", "von_mises", ("displacement",), {"young": 1.0, "poisson": 0.5}),)
        ),
        r"Poisson's ratio 0\.5 is outside",
    ),
    "no frame": (lambda: flow(frame=()), "'flow' has vectors but no frame rule"),
    "frame group": (lambda: flow(frame=(FrameRule("normal", "lid"),)), "refers to group 'lid'"),
    "frame's other group": (
        lambda: flow(frame=(FrameRule("gradient", "left", other="lid"),)),
        "refers to group 'lid'",
    ),
    "inflow of a scalar": (
        lambda: flow(frame=(FrameRule("inflow", "left", "pressure"),)),
        "no vector prescribed there in all components",
    ),
    "inflow not prescribed": (
        lambda: flow(frame=(FrameRule("inflow", "right", "velocity"),)),
        "no vector prescribed there in all components",
    ),
    "overflow": (
        lambda: poisson(reference_length=1e200),
        "leave the range of floating point",
    ),
    "underflow": (
        lambda: poisson(fields=(Field("u", reference=1e-200),)),
        "leave the range of floating point",
    ),
    "overflow of a power": (
        lambda: poisson(terms=(Term("diffusion", ("u",), 1.0, {"kappa": 1e9}),)),
        "leave the range of floating point",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_contradictions_are_refused(case: str) -> None:
    make, message = WRONG[case]
    with pytest.raises(ProblemError, match=message):
        make()


def test_a_form_of_one_dimension(monkeypatch: pytest.MonkeyPatch) -> None:
    from geonew.fem import forms

    monkeypatch.setattr(forms, "_REGISTRY", dict(forms._REGISTRY))
    forms.register_form("turn", "skew", ("vector",), 0, dims=(2,))(
        lambda u, v, w: u[0] * v[1] - u[1] * v[0]
    )
    with pytest.raises(ProblemError, match=r"term 'turn' of problem 'block' is for dimensions"):
        block(terms=(Term("turn", ("displacement",)),))
    flow(terms=(Term("turn", ("velocity",), -1.0),))


# -- files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXAMPLES)
def test_round_trip_through_a_file(name: str, tmp_path: Path) -> None:
    problem = EXAMPLES[name]()
    problem.save(tmp_path / "problem.json")
    assert Problem.load(tmp_path / "problem.json") == problem


def test_files_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match=r"cannot read problem file .*No such file"):
        Problem.load(tmp_path / "absent.json")
    with pytest.raises(ProblemError, match=r"cannot write problem file .*Is a directory"):
        poisson().save(tmp_path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ProblemError, match="is not UTF-8 text"):
        Problem.load(tmp_path / "binary")
