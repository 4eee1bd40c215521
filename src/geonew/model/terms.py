r"""Which fine matrices a problem's known terms need, and where each stands in the system.

A term couples components of its fields: diffusion of a vector has one block per component, all
with the same stiffness matrix; a pair such as :math:`+\int q\,\nabla\cdot u`,
:math:`-\int p\,\nabla\cdot v` has one block per velocity component, the transpose following by
itself. :func:`term_plan` lists the blocks once per problem; samples store the matrices, the model
projects them.

Identity kept: a block and its mirror image come from one array, so symmetric forms are symmetric
and skew ones skew to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
from numpy import ndarray
from scipy.sparse import csr_array

from geonew.fem import FineOperators
from geonew.fem.forms import Rank, assemble_form, known_form
from geonew.problem import Problem, Term

# Positions in every sample's tuple of matrices; after them those of the terms. Negative ones are
# the parts of the stiffness, which few models need: they are assembled when asked for.
STIFFNESS, MASS = 0, 1


@dataclass(frozen=True)
class TermBlock:
    """One block of a known term.

    Args:
        term: number of the term in ``Problem.terms``.
        test: component whose balance it enters.
        trial: component it multiplies.
        matrix: position in the samples' matrices.
        mirror: sign with which its transpose stands at (trial, test): +1 off the diagonal of a
            symmetric form, -1 for a skew one, 0 on the diagonal.

    """

    term: int
    test: int
    trial: int
    matrix: int
    mirror: int


@dataclass(frozen=True)
class TermPlan:
    """Blocks of all known terms of a problem.

    Args:
        blocks: bilinear blocks.
        sources: for each matrix beyond stiffness, mass and gradients, the term and the components
            (of the term's fields) it comes from.
        convected: numbers of quadratic terms.

    """

    blocks: tuple[TermBlock, ...]
    sources: tuple[tuple[int, int, int], ...]
    convected: tuple[int, ...] = ()


def gradient_positions(dim: int) -> range:
    """Positions of the gradient matrices G_k."""
    return range(MASS + 1, MASS + 1 + dim)


def part_positions(dim: int) -> dict[tuple[int, int], int]:
    """Positions of the stiffness's parts K_jk, j <= k."""
    pairs = combinations_with_replacement(range(dim), 2)
    return {pair: -1 - number for number, pair in enumerate(pairs)}


def term_plan(problem: Problem) -> TermPlan:
    """The blocks of a problem's known terms."""
    blocks: list[TermBlock] = []
    sources: list[tuple[int, int, int]] = []
    convected: list[int] = []
    for number, term in enumerate(problem.terms):
        form = known_form(term.form)
        if form.kind == "quadratic":
            convected.append(number)
            continue
        test, trial = problem.offset(term.fields[0]), problem.offset(term.fields[-1])
        shared = _shared_matrices(problem, term)
        per_component = form.ranks == ("any",)
        rows, columns = problem.width(term.fields[0]), problem.width(term.fields[-1])
        stored: dict[tuple[int, int], int] = {}
        for a in range(rows):
            for b in [a] if per_component else range(columns):
                if test == trial and b < a:  # the mirror image of (b, a)
                    continue
                key = (0, 0) if per_component else (a, b)
                if not shared and key not in stored:
                    stored[key] = gradient_positions(problem.dim).stop + len(sources)
                    sources.append((number, key[0], key[1]))
                matrix = shared[key[1]] if shared else stored[key]
                mirror = 0 if test + a == trial + b else -1 if form.kind == "skew" else 1
                blocks.append(TermBlock(number, test + a, trial + b, matrix, mirror))
    return TermPlan(tuple(blocks), tuple(sources), tuple(convected))


def term_matrices(
    problem: Problem, operators: FineOperators, nodal: dict[str, ndarray]
) -> tuple[csr_array, ...]:
    """The matrices of one sample, in the order of the plan.

    Args:
        problem: whose terms.
        operators: of the placed, dimensionless mesh.
        nodal: values of nodal parameters over their reference values.

    """
    plan = term_plan(problem)
    matrices = [operators.stiffness, operators.mass, *operators.gradient]
    assembled: dict[int, dict] = {}
    for number, a, b in plan.sources:
        term = problem.terms[number]
        if number not in assembled:
            ranks: tuple[Rank, ...] = tuple(problem.field(name).rank for name in term.fields)
            weight = _nodal_weight(problem, term, nodal)
            assembled[number] = dict(
                assemble_form(known_form(term.form), ranks, operators.mesh, weight)
            )
        matrices.append(csr_array(assembled[number][a, b]))
    return tuple(matrices)


def global_powers(problem: Problem, term: Term) -> dict[int, float]:
    """Exponents of a term's global parameters, by their position among the global scalars."""
    names = global_parameters(problem)
    return {names.index(name): power for name, power in term.powers.items() if name in names}


def global_parameters(problem: Problem) -> list[str]:
    """Names of the global scalar parameters, in order."""
    return [p.name for p in problem.parameters if p.support == "global" and p.rank == "scalar"]


def _shared_matrices(problem: Problem, term: Term) -> tuple[int, ...]:
    """Stiffness, mass or gradients where the term's blocks are multiples of them, by column."""
    if any(problem.parameter(name).support == "nodal" for name in term.powers):
        return ()
    gradients = tuple(gradient_positions(problem.dim))
    shared = {"diffusion": (STIFFNESS,), "stabilisation": (STIFFNESS,), "mass": (MASS,)}
    return (shared | {"divergence": gradients}).get(term.form, ())


def _nodal_weight(problem: Problem, term: Term, nodal: dict[str, ndarray]) -> ndarray | None:
    factors = [nodal[name] ** power for name, power in term.powers.items() if name in nodal]
    return np.prod(factors, axis=0) if factors else None
