r"""What a prediction says on the boundary and in the balances of physics, beside the truth.

Boundary error of field f with training deviation :math:`\sigma_f`: with P u the field after
prescribed values are written into it,

.. math:: b_f = \frac{1}{\sigma_f} \Big( \frac1{|D_f|} \sum_{n \in D_f} |u'_n - (P u')_n|^2
          \Big)^{1/2},

D_f the nodes at which f or a component of it is prescribed. (The paper divides by the norm of the
data; data that vanish, as pressure at an outlet does, have none.)

Mass balance of a velocity field, :math:`Q_g = \int_{\Gamma_g} u \cdot n`:

.. math:: m = \Big| \sum_g Q_g \Big| \Big/ \tfrac12 \sum_g |Q_g|,

and the divergence, as root mean square over that of the gradient. Both are taken of the piecewise
linear fields, for which even the truth, solved on a finer mesh and taken at the nodes, has no exact
balance: its own figures stand beside.

Balance of a field that known terms conserve (:mod:`geonew.model.reactions`), such as heat or the
forces on a solid: with :math:`r_n` the reactions, summed over the nodes :math:`\Gamma` of the
boundary, and :math:`L = \ell(1)` the whole load,

.. math:: d(u) = \Big| \sum_{n \in \Gamma} r_n(u) + L \Big| \Big/
          \tfrac12 \Big( \sum_{n \in \Gamma} |r_n(u^*)| + |L| \Big),

over what the truth :math:`u^*` sends through the boundary, so that no prediction makes its own
defect small by a rough boundary. Again the truth has one of its own, and it is large where the
known terms are not the whole equation. None of this is the algebraic conservation of a certificate.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from geonew.model.certificate import PhysicalBalance
from geonew.model.reactions import conserved_fields, group_nodes, nodal_reactions, total_load
from geonew.model.sample import Sample, write_prescribed
from geonew.problem import Problem

# A flow through the boundary below this part of deviation times boundary is none (a cavity).
NO_FLOW = 1e-9


def flow_fields(problem: Problem) -> tuple[str, ...]:
    """Vector fields whose divergence the equation sets to zero."""
    return tuple(t.fields[1] for t in problem.terms if t.form == "divergence")


def boundary_errors(
    sample: Sample, fields: Float[ndarray, "N F"], deviations: Float[ndarray, "F"]
) -> dict[str, float]:
    """b_f of every field that is prescribed somewhere.

    Args:
        sample: its data.
        fields: in the user's axes and units.
        deviations: of training, in the user's units.

    """
    problem = sample.problem
    defect = fields - write_prescribed(sample, fields)
    result = {}
    for f in problem.fields:
        span = problem.columns(f.name)
        nodes = sample.fixed[:, span].any(axis=1)
        if nodes.any():
            squares = (defect[nodes, span] ** 2).sum(axis=1)
            result[f.name] = float(np.sqrt(squares.mean()) / deviations[span.start])
    return result


def mass_defect(outflow: Mapping[str, float], least: float = 0.0) -> float:
    """M of one velocity field; NaN where nothing flows through the boundary.

    Args:
        outflow: group -> Q_g.
        least: a smaller flow is none.

    """
    flows = np.array(list(outflow.values()))
    through = float(np.abs(flows).sum()) / 2
    return abs(float(flows.sum())) / through if through > least else float("nan")


def flow_balances(
    sample: Sample, physical: PhysicalBalance, deviations: Float[ndarray, "F"]
) -> dict[str, tuple[float, float]]:
    """Velocity field -> (mass defect, divergence)."""
    problem, mesh = sample.problem, sample.mesh
    size = mesh.volume ** (1 - 1 / mesh.dim)
    return {
        name: (
            mass_defect(
                physical.outflow[name], NO_FLOW * float(deviations[problem.offset(name)]) * size
            ),
            float(physical.divergence[name]),
        )
        for name in flow_fields(problem)
        if name in physical.outflow
    }


def reaction_defects(
    sample: Sample, truth: Float[ndarray, "N F"], fields: Float[ndarray, "N F"]
) -> dict[str, tuple[float, float]]:
    """Conserved field -> d of the prediction and of the truth, where anything passes the boundary.

    Args:
        sample: its data.
        truth: in the user's axes and units.
        fields: the prediction, likewise; one that is not finite has no defect.

    """
    names = conserved_fields(sample)
    if not names:
        return {}
    boundary = group_nodes(sample)
    true = nodal_reactions(sample, truth)
    mine = {name: np.full_like(forces, np.nan) for name, forces in true.items()}
    if np.isfinite(fields).all():
        mine = nodal_reactions(sample, fields)
    result = {}
    for name in names:
        load = total_load(sample, name)
        through = np.linalg.norm(true[name][boundary], axis=1).sum()
        size = float(through + np.linalg.norm(load)) / 2
        if size > 0:
            found, own = (
                np.linalg.norm(r[name][boundary].sum(axis=0) + load) for r in (mine, true)
            )
            result[name] = (float(found) / size, float(own) / size)
    return result
