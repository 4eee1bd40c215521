"""Mistakes in declarations and data, met as users meet them: without the tests' type checker.

Run as a script it prints what each mistake leads to, as JSON; ``test_declarations.py`` reads that.
In its own interpreter annotations are not enforced, so that the library's own checks are tested.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np

from geonew.problem import (
    Derived,
    Dirichlet,
    Field,
    FrameRule,
    Neumann,
    Parameter,
    Problem,
    Term,
    resolve,
    resolve_neumann,
    resolve_parameters,
    resolve_sources,
    stokes_terms,
)
from problems import SIDES, poisson
from zoo import ZOO

Cases = list[tuple[Callable[[], object], str]]

mesh = ZOO["square"]()
walls = {"left": {"u": 0.0}, "bottom": {"u": 0.0}}

PROBLEM: Cases = [
    (lambda: Field(3), "field 3 is not a plain name"),
    (lambda: Field("two words"), "field 'two words' is not a plain name"),
    (lambda: Field("u", rank="tensor"), "rank of field 'u' is 'tensor'; it must be one of"),
    (lambda: Field("u", rank=np.zeros(2)), "rank of field 'u' is array"),
    (lambda: Field("u", level=None), "level of field 'u' is None; it must be one of"),
    (lambda: Field("u", reference="1"), "reference value of field 'u' is '1'; it must be a number"),
    (
        lambda: Field("u", reference=True),
        "reference value of field 'u' is True; it must be a number",
    ),
    (
        lambda: Field("u", reference=float("nan")),
        "reference value of field 'u' is nan; it must be finite",
    ),
    (
        lambda: Field("u", reference=10**400),
        "reference value of field 'u' is inf; it must be finite",
    ),
    (lambda: Field("u", reference=0), "reference value of field 'u' is 0.0; it must be positive"),
    (
        lambda: Field("u", reference=-1.0),
        "reference value of field 'u' is -1.0; it must be positive",
    ),
    (lambda: Field("u", labels="xy"), "labels of field 'u' are 'xy'; give a tuple"),
    (
        lambda: Field("u", labels=("x", 3)),
        "one of the labels of field 'u' is 3; it must be a printable",
    ),
    (
        lambda: Derived("w", 3, ("u",)),
        "formula of derived field 'w' is 3; it must be a printable text",
    ),
    (lambda: Derived("w", "speed", "u"), "inputs of derived field 'w' are 'u'; give a tuple"),
    (
        lambda: Derived("w", "speed", ("u",), [1]),
        "constants of derived field 'w' are [1]; give a mapping",
    ),
    (
        lambda: Derived("w", "speed", ("u",), {1: 1}),
        "constants of derived field 'w', 1 is not a plain",
    ),
    (lambda: Dirichlet("u", 3), "group of a Dirichlet condition is 3; it must be a printable text"),
    (lambda: Dirichlet(None, "left"), "field of a Dirichlet condition is None"),
    (lambda: Dirichlet("u", ""), "group of a Dirichlet condition is ''"),
    (lambda: Dirichlet("u", "left", axes=0), "on 'left' are 0; give a tuple"),
    (
        lambda: Dirichlet("u", "left", axes=(0, 0)),
        "are (0, 0); they must be different whole numbers",
    ),
    (
        lambda: Dirichlet("u", "left", axes=(0.0,)),
        "are (0.0,); they must be different whole numbers",
    ),
    (lambda: Neumann("u", ("left",)), "group of a Neumann condition is ('left',)"),
    (lambda: Neumann(1, "left"), "field of a Neumann condition is 1"),
    (lambda: Parameter("mu", support="cell"), "support of parameter 'mu' is 'cell'"),
    (lambda: Parameter("mu", rank="tensor"), "rank of parameter 'mu' is 'tensor'"),
    (lambda: Parameter("mu", reference=0), "reference value of parameter 'mu' is 0.0"),
    (lambda: Term(3, ("u",)), "form of a term is 3; it must be a printable text"),
    (lambda: Term("mass", "u"), "fields of term 'mass' are 'u'; give a tuple"),
    (
        lambda: Term("mass", ("u",), float("nan")),
        "coefficient of term 'mass' is nan; it must be finite",
    ),
    (lambda: Term("mass", ("u",), 0), "term 'mass' has coefficient 0"),
    (lambda: Term("mass", ("u",), 1, {"mu": "2"}), "mu among the powers of term 'mass' is '2'"),
    (lambda: FrameRule("tangent", "left"), "kind of frame rule is 'tangent'"),
    (lambda: FrameRule("normal", 3), "group of frame rule 'normal' is 3"),
    (lambda: FrameRule("inflow", "left"), "field of frame rule 'inflow' is ''"),
    (lambda: FrameRule("gradient", "left"), "other of frame rule 'gradient' is ''"),
    (lambda: FrameRule("normal", "left", "u"), "frame rule 'normal' has no use for field='u'"),
    (lambda: FrameRule("gradient", "a", other="a"), "frame rule 'gradient' names group 'a' twice"),
    (lambda: poisson(name=3), "name of a problem is 3; it must be a printable text"),
    (lambda: poisson(dim="2"), "dimension of problem 'poisson' is '2'"),
    (lambda: poisson(dim=True), "dimension of problem 'poisson' is True"),
    (lambda: poisson(fields=[{"name": "u"}]), "which is no Field"),
    (lambda: poisson(fields=Field("u")), "fields of problem 'poisson' are Field("),
    (lambda: poisson(dirichlet=[("u", "left")]), "which is no Dirichlet"),
    (lambda: poisson(groups="left"), "groups of problem 'poisson' are 'left'; give a tuple"),
    (lambda: poisson(groups=[1, 2]), "one of the groups of problem 'poisson' is 1"),
    (
        lambda: poisson(harmonic=["ab"]),
        "harmonic pairs of problem 'poisson' are 'ab'; give a tuple",
    ),
    (lambda: poisson(reference_length=None), "reference length of problem 'poisson' is None"),
    (lambda: stokes_terms("u", "p", None), "viscosity is None; it must be a number"),
    (lambda: stokes_terms(1, "p", 1), "one of the fields of term 'diffusion' is 1"),
]
DATA: Cases = [
    (lambda: resolve(poisson(), mesh, 3), "boundary data are 3"),
    (lambda: resolve(poisson(), mesh, {"left": 1.0}), "boundary data are {'left': 1.0}"),
    (
        lambda: resolve(poisson(), mesh, {**walls, "left": {"u": None}}),
        "are not numbers but object (None)",
    ),
    (lambda: resolve(poisson(), mesh, {**walls, "left": {"u": "3"}}), "are not numbers but <U1"),
    (
        lambda: resolve(poisson(), mesh, {**walls, "left": {"u": 1j}}),
        "are not numbers but complex128",
    ),
    (lambda: resolve(poisson(), mesh, {**walls, "left": {"u": True}}), "are not numbers but bool"),
    (lambda: resolve(poisson(), mesh, {**walls, "left": {"u": {}}}), "are not numbers but object"),
    (lambda: resolve_neumann(poisson(), mesh, {"right": 2.0}), "boundary data are {'right': 2.0}"),
    (lambda: resolve(poisson(), mesh, walls, np.eye(3)), "is no 2 x 2 orthogonal matrix"),
    (lambda: resolve(poisson(), mesh, walls, 2 * np.eye(2)), "is no 2 x 2 orthogonal matrix"),
]
INPUT: Cases = [
    (lambda: resolve_parameters(poisson(), mesh, [1]), "parameters are [1]"),
    (
        lambda: resolve_parameters(poisson(), mesh, {"kappa": None}),
        "are not numbers but object (None)",
    ),
    (lambda: resolve_sources(poisson(), mesh, {"u": "x"}), "are not numbers but <U1 ('x')"),
    (lambda: resolve_sources(poisson(), mesh, None), "sources are None"),
]
FINE: list[Callable[[], object]] = [
    lambda: poisson(fields=[Field("u", reference=3)], groups=list(SIDES)),
    lambda: Dirichlet("u", "left", axes=[1, 0]),
    lambda: Field("u", reference=np.float32(2)),
    lambda: Problem.from_json(poisson(fields=[Field("u", reference=np.float32(2))]).to_json()),
    lambda: resolve(poisson(), mesh, {"left": {"u": np.float32(1)}, "bottom": {"u": [1]}}),
]


def outcome(case: Callable[[], object]) -> tuple[str, str]:
    """Name and text of the exception, or ``fine`` and the result."""
    try:
        return "fine", repr(case())
    except Exception as error:
        return type(error).__name__, str(error)


if __name__ == "__main__":
    tables = {"ProblemError": PROBLEM, "BoundaryDataError": DATA, "InputError": INPUT}
    found = {kind: [outcome(case) for case, _ in table] for kind, table in tables.items()}
    print(json.dumps({**found, "fine": [outcome(case) for case in FINE]}))
