"""Small problems on small meshes, and tiny models of them, for the tests of the model layer.

``CASES[name]()`` is one :class:`Case`; ``tiny(case)`` a model that solves it in milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import torch

from geonew.features import FeatureSpec
from geonew.mesh import Mesh
from geonew.model.config import ModelConfig
from geonew.model.flux.paper import PaperConfig
from geonew.model.flux.structured import StructuredConfig
from geonew.model.geonew import GeoNeW
from geonew.model.sample import Sample, prepare
from geonew.problem import (
    Dirichlet,
    Field,
    FrameRule,
    Neumann,
    Problem,
    Term,
    elasticity_terms,
    stokes_terms,
)
from zoo import ZOO

# Few columns: the tests are about what the model does with tokens, not about the tokens.
SPEC = FeatureSpec(hks_times=2, eigenpairs=6, hks_gradients=False)

TINY = ModelConfig(
    width=16,
    depth=1,
    heads=2,
    anchors=8,
    partitions=5,
    contexts=2,
    hidden=16,
    structured=StructuredConfig(channels=3, key_width=4, rank=2),
    exchanges=1,
    paper=PaperConfig(operator_width=3, rank=2),
)


@dataclass(frozen=True, eq=False)
class Case:
    """A problem, a mesh and what is prescribed on it."""

    problem: Problem
    mesh: Mesh
    boundary: Mapping[str, Mapping[str, Any]]
    source: Mapping[str, Any] = field(default_factory=dict)
    neumann: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def sample(self, boundary: Mapping[str, Mapping[str, Any]] | None = None) -> Sample:
        """The prepared sample, with its own data or others."""
        return prepare(
            self.mesh,
            self.problem,
            self.boundary if boundary is None else boundary,
            spec=SPEC,
            source=self.source,
            neumann=self.neumann,
        )


def tiny(
    sample: Sample, seed: int = 0, dtype: torch.dtype = torch.float64, **changes: Any
) -> GeoNeW:
    """A tiny model of the sample's problem, its tokens normalised by this sample."""
    torch.manual_seed(seed)
    model = GeoNeW(sample.problem, SPEC, sample.columns, replace(TINY, **changes)).to(dtype)
    model.normalise_tokens([sample])
    return model.eval()


@torch.no_grad()
def redraw(model: GeoNeW, seed: int, scale: float = 1.0) -> GeoNeW:
    """Draw every parameter anew: normal, of the usual size of its layer times ``scale``.

    Nothing keeps its careful start: what holds now holds for any weights.
    """
    generator = torch.Generator().manual_seed(seed)
    for p in model.parameters():
        fan = p.shape[-1] if p.ndim > 1 else 1.0
        noise = torch.randn(p.shape, generator=generator, dtype=torch.float64)
        p.copy_(scale * noise * fan**-0.5)
    return model


# -- problems ------------------------------------------------------------------------------------


def scalar_problem(mesh: Mesh, dirichlet: int = 2, **changes: Any) -> Problem:
    """A scalar with known diffusion; data on the mesh's first groups, the others are natural."""
    groups = tuple(mesh.groups)
    declared: dict[str, Any] = {
        "name": "scalar",
        "dim": mesh.dim,
        "fields": (Field("u", reference=3.0),),
        "groups": groups,
        "dirichlet": tuple(Dirichlet("u", g) for g in groups[:dirichlet]),
        "sources": ("u",),
        "terms": (Term("diffusion", ("u",), 0.7),),
    }
    return Problem(**{**declared, **changes})


def scalar(mesh: str, dirichlet: int = 2, **changes: Any) -> Case:
    """The scalar problem on a mesh of the zoo, a different constant on every group."""
    built = ZOO[mesh]()
    problem = scalar_problem(built, dirichlet, **changes)
    data = {d.group: {"u": 1.3 - 2.1 * k} for k, d in enumerate(problem.dirichlet)}
    return Case(problem, built, data, source={"u": 1.7} if problem.sources else {})


def poisson() -> Case:
    """Poisson's equation between two groups, two natural ones, with a source."""
    return scalar("square")


def poisson3d() -> Case:
    """The same in a brick with a notch, data on three groups that meet at edges."""
    return scalar("l_brick", dirichlet=3)


def _parabola(x: np.ndarray) -> np.ndarray:
    return np.stack([4 * x[:, 1] * (1 - x[:, 1]), 0 * x[:, 0]], axis=1)


def flow() -> Case:
    """Stokes flow around a hole: velocity on the walls, its tangent and pressure at the outlet."""
    problem = Problem(
        name="flow",
        dim=2,
        fields=(Field("velocity", "vector", reference=0.7), Field("pressure", reference=3.0)),
        groups=("left", "bottom", "top", "hole", "right"),
        dirichlet=(
            *(Dirichlet("velocity", g) for g in ("left", "bottom", "top", "hole")),
            Dirichlet("velocity", "right", axes=(1,)),
            Dirichlet("pressure", "right"),
        ),
        sources=("velocity",),
        terms=stokes_terms("velocity", "pressure", 0.15),
        frame=(FrameRule("normal", "left"),),
        harmonic=(("left", "right"),),
    )
    walls = {g: {"velocity": [0.0, 0.0]} for g in ("bottom", "top", "hole")}
    data = {"left": {"velocity": _parabola}, **walls, "right": {"velocity": [0.0], "pressure": 0.3}}
    return Case(problem, ZOO["square_with_hole"](), data, source={"velocity": [0.2, -0.5]})


def cavity() -> Case:
    """Lid-driven cavity: velocity everywhere on the boundary, the pressure has a gauge."""
    sides = ("left", "right", "bottom", "top")
    problem = Problem(
        name="cavity",
        dim=2,
        fields=(
            Field("velocity", "vector", reference=1.1),
            Field("pressure", level="gauge", reference=0.6),
        ),
        groups=sides,
        dirichlet=tuple(Dirichlet("velocity", g) for g in sides),
        terms=stokes_terms("velocity", "pressure", 0.3),
        frame=(FrameRule("normal", "top"),),
    )
    data: dict[str, Any] = {g: {"velocity": [0.0, 0.0]} for g in sides[:3]}
    return Case(problem, ZOO["square"](), {**data, "top": {"velocity": [1.0, 0.0]}})


def elastic() -> Case:
    """A plate with a hole, held at the left, pulled at the right, sliding at the bottom."""
    problem = Problem(
        name="elastic",
        dim=2,
        fields=(Field("displacement", "vector", reference=1e-3),),
        groups=("left", "bottom", "right", "top", "hole"),
        dirichlet=(
            Dirichlet("displacement", "left"),
            Dirichlet("displacement", "bottom", axes=(1,)),
        ),
        neumann=(Neumann("displacement", "right"),),
        sources=("displacement",),
        terms=elasticity_terms("displacement", 200.0, 0.3),
        frame=(FrameRule("normal", "left"),),
    )
    data = {"left": {"displacement": [1e-3, -2e-4]}, "bottom": {"displacement": [1e-4]}}
    return Case(
        problem,
        ZOO["plate"](),
        data,
        source={"displacement": [0.0, -0.3]},
        neumann={"right": {"displacement": [0.5, 0.1]}},
    )


def effective() -> Case:
    """Two scalars: one with data on two groups, one with none, kept in place by a reaction."""
    built = ZOO["l_shape"]()
    problem = scalar_problem(
        built,
        name="effective",
        fields=(Field("u", reference=3.0), Field("mach", level="reaction", reference=0.8)),
        sources=("u", "mach"),
    )
    data = {"left": {"u": 1.0}, "right": {"u": lambda x: x[:, 1] - 0.2}}
    return Case(problem, built, data, source={"u": 0.5, "mach": lambda x: np.sin(5 * x[:, 0])})


def stokes3d() -> Case:
    """Stokes flow through a cube, walls at rest."""
    walls = ("front", "back", "bottom", "top")
    problem = Problem(
        name="stokes3d",
        dim=3,
        fields=(Field("velocity", "vector", reference=1.3), Field("pressure", reference=2.0)),
        groups=("left", *walls, "right"),
        dirichlet=(
            *(Dirichlet("velocity", g) for g in ("left", *walls)),
            Dirichlet("velocity", "right", axes=(1, 2)),
            Dirichlet("pressure", "right"),
        ),
        terms=stokes_terms("velocity", "pressure", 0.4),
        frame=(FrameRule("normal", "left"), FrameRule("gradient", "bottom", other="top")),
    )

    def inflow(x: np.ndarray) -> np.ndarray:
        speed = 16 * x[:, 1] * (1 - x[:, 1]) * x[:, 2] * (1 - x[:, 2])
        return np.stack([speed, 0 * speed, 0 * speed], axis=1)

    data = {"left": {"velocity": inflow}, **{g: {"velocity": [0.0, 0.0, 0.0]} for g in walls}}
    data["right"] = {"velocity": [0.0, 0.0], "pressure": 0.0}
    return Case(problem, ZOO["cube"](), data)


CASES: dict[str, Callable[[], Case]] = {
    builder.__name__: cache(builder)
    for builder in (poisson, flow, cavity, elastic, effective, poisson3d, stokes3d)
}


@cache
def prepared(name: str) -> Sample:
    """The sample of a named case, made once."""
    return CASES[name]().sample()
