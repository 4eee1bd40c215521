r"""What a family prescribes on every mesh of its problem, as far as it is fixed.

    family, mesh --> boundary values, parameters, sources, Neumann data that never vary

A mesh of a known family needs no data from a user: cut-outs are at 1, walls do not slip, the inlet
has the profile

.. math:: u = U \prod_k 4 s_k (1 - s_k)\; e_1,

:math:`e_1` the inward normal and :math:`s_k` in [0, 1] along the inlet's sides. That is a statement
about straight (in space: rectangular) inlets; on any other inlet there is no default. What a family
draws per sample has none either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from geonew.data.families import FAMILIES
from geonew.data.families.channel import SPEED
from geonew.data.families.elasticity import PULL
from geonew.data.families.naca import MACH
from geonew.features.frame import find_frame
from geonew.fem.loads import group_normals
from geonew.mesh import Mesh
from geonew.problem import Problem
from geonew.problem.values import Value

# The inlet's measure over that of the box around it: below this it is bent, or has gaps.
STRAIGHT = 0.999
# Peak velocity at the inlet where it is fixed.
_SPEEDS = {"ns2d-c": SPEED, "ns2d-c++": SPEED, "pipe": 1.0, "duct-stokes": 1.0}
_RESTING = ("ns2d-c", "ns2d-c++", "ns2d-re", "pipe", "duct-stokes")


@dataclass(frozen=True, eq=False)
class Prescribed:
    """The fixed data of a family on one mesh.

    Args:
        boundary: group -> field -> value.
        parameters: name -> value.
        sources: field -> value.
        neumann: group -> field -> value.
        length: unit of lengths, ``"1"`` where they are dimensionless.
        no_profile: why the inlet of a flow has no profile here, as the end of a sentence about it.

    """

    boundary: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    parameters: Mapping[str, Value] = field(default_factory=dict)
    sources: Mapping[str, Value] = field(default_factory=dict)
    neumann: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    length: str = ""
    no_profile: str = ""


def prescribed(problem: Problem, mesh: Mesh) -> Prescribed:
    """The fixed data of the family that a problem is named after; nothing for other problems."""
    name = problem.name
    if name not in FAMILIES or FAMILIES[name].problem.groups != problem.groups:
        return Prescribed()
    length = FAMILIES[name].units["length"]
    if name == "poly-poisson":
        values = {"cutout": {"u": 1.0}, "circle": {"u": 0.0}}
        return Prescribed(values, sources={"u": 1.0}, length=length)
    if name == "ball-poisson":
        values = {"cavity": {"u": 1.0}, "sphere": {"u": 0.0}}
        return Prescribed(values, sources={"u": 1.0}, length=length)
    if name == "elasticity":
        return Prescribed(
            {"bottom": {"displacement": [0.0, 0.0]}},
            neumann={"top": {"displacement": [0.0, PULL]}},
            length=length,
        )
    if name == "naca":
        stream = [MACH, 0.0]
        return Prescribed({"farfield": {"mach": MACH}}, {"stream": stream}, length=length)
    if name in _RESTING:
        values = _flow(problem, mesh)
        why = ""
        if "inlet" not in values:
            fixed = name in _SPEEDS
            why = "is defined on straight inlets only" if fixed else "varies from sample to sample"
        return Prescribed(values, length=length, no_profile=why)
    return Prescribed(length=length)


def _flow(problem: Problem, mesh: Mesh) -> dict[str, dict[str, Value]]:
    """Walls without slip, an outlet at pressure 0, the profile where the inlet is straight."""
    rest = [0.0] * problem.dim
    values: dict[str, dict[str, Value]] = {
        group: {"velocity": rest} for group in problem.groups if group not in ("inlet", "outlet")
    }
    values["outlet"] = {"velocity": [0.0] * (problem.dim - 1), "pressure": 0.0}
    profile = _profile(problem, mesh) if problem.name in _SPEEDS else None
    if profile is not None:
        values["inlet"] = {"velocity": profile}
    return {group: data for group, data in values.items() if group in mesh.groups}


def _profile(problem: Problem, mesh: Mesh) -> Float[ndarray, "n d"] | None:
    """Velocity on the nodes of a straight inlet; none for another one."""
    if "inlet" not in mesh.groups:
        return None
    frame, _ = find_frame(mesh, problem)
    normals = group_normals(mesh, "inlet")
    measure = float(np.linalg.norm(normals, axis=1).sum())
    sides = frame.to_frame(mesh.points[mesh.nodes_of("inlet")])[:, 1:]
    low, extent = sides.min(axis=0), np.ptp(sides, axis=0)
    flat = np.linalg.norm(normals.sum(axis=0)) >= STRAIGHT * measure
    if not (frame.canonical and flat and measure >= STRAIGHT * float(np.prod(extent))):
        return None
    s = (sides - low) / extent
    speed = _SPEEDS[problem.name] * np.prod(4 * s * (1 - s), axis=1)
    return speed[:, None] * frame.rotation[0]
