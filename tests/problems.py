"""Problems that tests share, by name: a scalar one, a flow, an elastic solid."""

from __future__ import annotations

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

SIDES = ("left", "right", "bottom", "top")


def poisson(**changes) -> Problem:
    """One scalar with a source, a flux and a nodal conductivity."""
    declared = {
        "name": "poisson",
        "dim": 2,
        "fields": (Field("u", reference=3.0),),
        "groups": SIDES,
        "dirichlet": (Dirichlet("u", "left"), Dirichlet("u", "bottom")),
        "neumann": (Neumann("u", "right"),),
        "sources": ("u",),
        "parameters": (Parameter("kappa", "nodal", reference=2.0),),
        "terms": (Term("diffusion", ("u",), 0.5, {"kappa": 1.0}),),
        "harmonic": (("left", "right"),),
        "reference_length": 0.7,
    }
    return Problem(**{**declared, **changes})


def flow(**changes) -> Problem:
    """Stokes flow from left to right, pressure prescribed at the outlet as a traction."""
    declared = {
        "name": "flow",
        "dim": 2,
        "fields": (
            Field("velocity", "vector", reference=2.0, labels=("u", "v")),
            Field("pressure", level="reaction", reference=5.0),
        ),
        "groups": SIDES,
        "dirichlet": tuple(Dirichlet("velocity", group) for group in ("left", "bottom", "top")),
        "neumann": (Neumann("velocity", "right"),),
        "sources": ("velocity",),
        "parameters": (
            Parameter("reynolds", reference=100.0),
            Parameter("wind", rank="vector"),
            Parameter("force", "nodal", "vector"),
        ),
        "terms": stokes_terms("velocity", "pressure", 1.0, reynolds=-1.0),
        "derived": (Derived("speed", "speed", ("velocity",)),),
        "frame": (FrameRule("inflow", "left", "velocity"), FrameRule("normal", "left")),
    }
    return Problem(**{**declared, **changes})


def block(**changes) -> Problem:
    """Elasticity in 3D, held at the left, sliding at the bottom, pulled at the right."""
    declared = {
        "name": "block",
        "dim": 3,
        "fields": (Field("displacement", "vector", reference=1e-3),),
        "groups": ("left", "right", "front", "back", "bottom", "top"),
        "dirichlet": (
            Dirichlet("displacement", "left"),
            Dirichlet("displacement", "bottom", axes=(2,)),
        ),
        "neumann": (Neumann("displacement", "right"),),
        "terms": elasticity_terms("displacement", 210e3, 0.3),
        "derived": (
            Derived("von_mises", "von_mises", ("displacement",), {"young": 210e3, "poisson": 0.3}),
        ),
        "frame": (FrameRule("normal", "left"), FrameRule("gradient", "bottom", other="top")),
    }
    return Problem(**{**declared, **changes})


EXAMPLES = {"poisson": poisson, "flow": flow, "block": block}
