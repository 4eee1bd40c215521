"""A problem for a mesh nobody has declared one for: enough to look at its features."""

from __future__ import annotations

from itertools import combinations

from geonew.errors import GroupError
from geonew.mesh import Mesh
from geonew.problem import Dirichlet, Field, FrameRule, Problem

# More pairs of groups than this make a picture nobody reads; the first ones are taken.
MAX_PAIRS = 6


def generic_problem(mesh: Mesh, name: str = "generic") -> Problem:
    r"""One scalar field, prescribed on all groups; harmonic pairs and frame from them in order.

    The reference length is :math:`|\Omega|^{1/d}`, so that the unit of the mesh does not matter.
    """
    groups = tuple(mesh.groups)
    if not groups:
        raise GroupError(
            "the mesh has no boundary groups", "label its boundary, e.g. all of it as 'boundary'"
        )
    return Problem(
        name=name,
        dim=mesh.dim,
        fields=(Field("u"),),
        groups=groups,
        dirichlet=tuple(Dirichlet("u", group) for group in groups),
        frame=tuple(FrameRule("normal", group) for group in groups),
        harmonic=tuple(combinations(groups, 2))[:MAX_PAIRS],
        reference_length=mesh.volume ** (1 / mesh.dim),
    )
