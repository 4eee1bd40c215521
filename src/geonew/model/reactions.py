r"""Reactions: the known equation tested with the hat functions of the fine mesh.

.. math:: r_n(u) = \sum_t \kappa_t\, a_t(u, \varphi_n) - \ell(\varphi_n),

:math:`\ell` the sources and Neumann data. Of a solution on this mesh r vanishes inside the domain
and where Neumann data are given; on a part with prescribed values its sum is the flux (of a scalar)
or the force (of a vector) that holds them. Stabilising terms are no part of the equation and are
left out; with a quadratic term there is none of this.

A field is *conserved* if no term resists a constant, :math:`\sum_n a_t(\cdot, \varphi_n) = 0`:
diffusion, elasticity, the force of a pressure; not a mass term, nor the divergence that tests with
a pressure. Then, with :math:`\Gamma` the nodes of all groups, each taken once,

.. math:: \sum_{n \in \Gamma} r_n + \ell(1) = -\sum_{n \notin \Gamma} r_n,

which vanishes of a solution: what goes in by sources goes out through the boundary.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from geonew.model.sample import Sample, to_frame
from geonew.model.terms import TermBlock, global_powers, term_plan

# Largest sum of a column, over the matrix's largest entry, that is round-off.
ROUND_OFF = 1e-9


def nodal_reactions(
    sample: Sample, fields: Float[ndarray, "N F"]
) -> dict[str, Float[ndarray, "N _"]]:
    """Field -> r_n by component, for the fields that a known term tests with.

    Args:
        sample: its data.
        fields: in the user's axes and units; so is the result.

    """
    problem = sample.problem
    plan = term_plan(problem)
    if plan.convected:
        return {}
    u = to_frame(sample, fields)
    residual = -sample.load.copy()
    for block in _equation(sample):
        term = problem.terms[block.term]
        kappa = problem.term_scale(term) * problem.coefficient_reference(term)
        for position, power in global_powers(problem, term).items():
            kappa *= sample.parameters[position] ** power
        matrix = sample.matrices[block.matrix]
        residual[:, block.test] += kappa * (matrix @ u[:, block.trial])
        if block.mirror:
            residual[:, block.trial] += kappa * block.mirror * (matrix.T @ u[:, block.test])
    tested = {b.test for b in plan.blocks} | {b.trial for b in plan.blocks if b.mirror}
    return {
        f.name: _in_user_units(sample, f.name, residual)
        for f in problem.fields
        if problem.offset(f.name) in tested
    }


def total_load(sample: Sample, name: str) -> Float[ndarray, "_"]:
    """Load of a field on the whole domain, l(1) by component, in the user's axes and units."""
    return _in_user_units(sample, name, sample.load).sum(axis=0)


def group_nodes(sample: Sample) -> Int[ndarray, "_"]:
    """Nodes of all groups, each once: groups share their corners."""
    mesh = sample.mesh
    return np.unique(np.concatenate([mesh.nodes_of(group) for group in mesh.groups]))


def conserved_fields(sample: Sample) -> tuple[str, ...]:
    """Fields of which no known term resists a constant."""
    problem = sample.problem
    if term_plan(problem).convected:
        return ()
    resisted: set[int] = set()
    tested: set[int] = set()
    for block in _equation(sample):
        matrix = sample.matrices[block.matrix]
        least = ROUND_OFF * float(np.abs(matrix.data).max(initial=0.0))
        rows = [(block.test, 0)] + ([(block.trial, 1)] if block.mirror else [])
        for component, axis in rows:
            tested.add(component)
            if np.abs(matrix.sum(axis=axis)).max() > least:
                resisted.add(component)
    spans = {f.name: problem.columns(f.name) for f in problem.fields}
    return tuple(
        name
        for name, span in spans.items()
        if span.start in tested and not resisted & set(range(span.start, span.stop))
    )


def _equation(sample: Sample) -> list[TermBlock]:
    """Blocks of the terms that the equation has, stabilising ones left out."""
    problem = sample.problem
    blocks = term_plan(problem).blocks
    return [b for b in blocks if problem.terms[b.term].form != "stabilisation"]


def _in_user_units(
    sample: Sample, name: str, loads: Float[ndarray, "N F"]
) -> Float[ndarray, "N _"]:
    problem = sample.problem
    forces = loads[:, problem.columns(name)] / problem.load_scale(name)
    return sample.frame.to_lab(forces) if problem.field(name).rank == "vector" else forces
