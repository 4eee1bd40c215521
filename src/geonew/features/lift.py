r"""The lift: what the reduced space needs to meet Dirichlet data exactly.

For each component f with fixed nodes, over the groups g that own them:

.. math:: h_g \ge 0,\ \sum_g h_g = 1 \text{ (harmonic indicators)},\qquad
          E = \sum_g E_g \text{ (harmonic extension of the data)},\qquad
          d = \operatorname{dist}(\cdot, \text{Dirichlet part}).

A component without fixed nodes has h = 0, E = 0 and no distance (infinity): it has no lift.
Components with the same Dirichlet set share one factorisation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from geonew.features.distance import group_distance
from geonew.features.harmonic import data_extension, group_indicators
from geonew.fem import SolverPool
from geonew.mesh import Mesh
from geonew.problem import BoundaryValues, Problem


@dataclass(frozen=True)
class Lift:
    """Extensions of the boundary into the domain, per component.

    Args:
        indicators: h_g.
        extensions: E_g, in units of the component's reference value.
        distance: d, in reference lengths.

    """

    indicators: Float[ndarray, "N F G"]
    extensions: Float[ndarray, "N F G"]
    distance: Float[ndarray, "N F"]


def boundary_lift(mesh: Mesh, problem: Problem, values: BoundaryValues, pool: SolverPool) -> Lift:
    """The lift on a placed mesh, values resolved in its frame."""
    shape = (mesh.n_nodes, problem.n_components, len(problem.groups))
    indicators, extensions = np.zeros(shape), np.zeros(shape)
    distance = np.full(shape[:2], np.inf)
    known: dict[bytes, tuple[ndarray, ndarray]] = {}
    for component, reference in enumerate(problem.references):
        owner = values.owner[:, component]
        if (owner < 0).all():
            continue
        key = owner.tobytes()
        if key not in known:
            far = group_distance(mesh, problem.dirichlet_groups(component))
            assert far is not None
            known[key] = group_indicators(pool, owner, shape[2]), far
        indicators[:, component], distance[:, component] = known[key]
        scaled = values.value[:, component] / reference
        extensions[:, component] = data_extension(pool, owner, scaled, shape[2])
    return Lift(indicators, extensions, distance)
