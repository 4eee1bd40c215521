r"""Derived fields: pointwise formulas of the solved fields and their gradients, by registered name.

======================  ===================  =================================================
name                    inputs               formula
======================  ===================  =================================================
``von_mises``           displacement         sqrt(3/2 dev(sigma) : dev(sigma))
``speed``               a vector             |u|
``vorticity``           a vector             d_x u_y - d_y u_x in 2D, |curl u| in 3D
``divergence``          a vector             d_k u_k
``gradient_magnitude``  any                  sqrt(sum_ab (d_b u_a)^2)
======================  ===================  =================================================

A P1 field has one gradient :math:`g_T` per cell; at a node it is recovered as the mean by volume,

.. math:: (\nabla u)_i = \sum_{T \ni i} |T|\, g_T \Big/ \sum_{T \ni i} |T|,

the L2 projection with lumped mass, and the formula is applied to it.

Identity kept: recovery is exact for linear fields, on every mesh; for smooth ones it converges with
order 1 at least, and 2 inside uniform meshes. All formulas are invariant under proper rotations, so
that fields may be given in any frame, and use arithmetic only, so that they work on torch tensors
as well as on arrays.

More formulas join by :func:`register_formula`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from geonew.errors import ProblemError
from geonew.fem.forms import Rank
from geonew.mesh import Mesh


@dataclass(frozen=True)
class Jet:
    """Value (..., w) and gradient (..., w, d) of a field at points; [a, b] is d_b u_a."""

    value: Any
    gradient: Any

    @property
    def dim(self) -> int:
        """Dimension d of space."""
        return int(self.gradient.shape[-1])


@dataclass(frozen=True)
class Formula:
    """A scalar computed pointwise from jets of fields and constants.

    Args:
        name: how a derived field refers to it.
        ranks: rank of each field it reads.
        function: ``f(jet, ..., *, constant, ...)``; constants without a default must be given.

    """

    name: str
    ranks: tuple[Rank | Literal["any"], ...]
    function: Callable[..., Any]

    @property
    def constants(self) -> dict[str, bool]:
        """Names of the constants, and whether each must be given."""
        parameters = inspect.signature(self.function).parameters.values()
        return {p.name: p.default is p.empty for p in parameters if p.kind is p.KEYWORD_ONLY}

    def check(self, ranks: Sequence[Rank], constants: Mapping[str, float], dim: int) -> None:
        """Refuse inputs or constants the formula cannot take; tried on a zero field."""
        fitting = len(ranks) == len(self.ranks) and all(
            want in ("any", have) for want, have in zip(self.ranks, ranks, strict=True)
        )
        if not fitting:
            raise ProblemError(
                f"formula {self.name!r} reads fields of ranks {self.ranks}, not {tuple(ranks)}"
            )
        missing = sorted(n for n, needed in self.constants.items() if needed and n not in constants)
        unknown = sorted(set(constants) - set(self.constants))
        if missing or unknown:
            raise ProblemError(
                f"formula {self.name!r} has constants {sorted(self.constants)}: "
                f"missing {missing}, unknown {unknown}"
            )
        widths = [dim if rank == "vector" else 1 for rank in ranks]
        zero = [Jet(np.zeros((1, width)), np.zeros((1, width, dim))) for width in widths]
        self.function(*zero, **constants)

    def evaluate(
        self, mesh: Mesh, inputs: Sequence[Float[ndarray, "N _"]], constants: Mapping[str, float]
    ) -> Float[ndarray, "N"]:
        """Nodal values from nodal values (N, w) of the input fields, in the mesh's coordinates."""
        jets = []
        for u in inputs:
            if u.shape[0] != mesh.n_nodes:
                raise ProblemError(
                    f"formula {self.name!r} got {u.shape[0]} nodal values for {mesh.n_nodes} nodes"
                )
            jets.append(Jet(u, nodal_gradient(mesh, u)))
        ranks: list[Rank] = ["scalar" if u.shape[1] == 1 else "vector" for u in inputs]
        self.check(ranks, constants, mesh.dim)
        return self.function(*jets, **constants)


_REGISTRY: dict[str, Formula] = {}


def register_formula(
    name: str, ranks: tuple[Rank | Literal["any"], ...]
) -> Callable[[Callable[..., Any]], Formula]:
    """Decorator that adds a pointwise function of jets to the known formulas."""

    def add(function: Callable[..., Any]) -> Formula:
        if name in _REGISTRY:
            raise ProblemError(
                f"a formula named {name!r} is registered already", "choose another name"
            )
        _REGISTRY[name] = Formula(name, ranks, function)
        return _REGISTRY[name]

    return add


def known_formula(name: str) -> Formula:
    """The registered formula of that name; a :class:`ProblemError` lists the known ones."""
    if name not in _REGISTRY:
        raise ProblemError(
            f"no formula is registered under {name!r}; known are {sorted(_REGISTRY)}",
            "use one of these, or add your own with geonew.fem.derived.register_formula",
        )
    return _REGISTRY[name]


# -- recovery ------------------------------------------------------------------------------------


def cell_gradients(mesh: Mesh, u: Float[ndarray, "N w"]) -> Float[ndarray, "C w d"]:
    """Gradients of a P1 field, one per cell."""
    corners, values = mesh.points[mesh.cells], u[mesh.cells]
    along = corners[:, 1:] - corners[:, :1]  # (C, d, d), rows are edges from the first vertex
    rise = values[:, 1:] - values[:, :1]  # (C, d, w)
    return np.linalg.solve(along, rise).transpose(0, 2, 1)


def nodal_gradient(mesh: Mesh, u: Float[ndarray, "N w"]) -> Float[ndarray, "N w d"]:
    """Gradients at the nodes, the mean of the cells' by volume."""
    weighted = mesh.volumes[:, None, None] * cell_gradients(mesh, u)
    total = np.zeros((mesh.n_nodes, *weighted.shape[1:]))
    volume = np.zeros(mesh.n_nodes)
    for corner in mesh.cells.T:
        np.add.at(total, corner, weighted)
        np.add.at(volume, corner, mesh.volumes)
    return total / volume[:, None, None]


# -- the formulas --------------------------------------------------------------------------------


def lame(young: float, poisson: float, plane_stress: bool = False) -> tuple[float, float]:
    r"""Lame's :math:`\lambda, \mu`; plane stress has :math:`2\lambda\mu/(\lambda+2\mu)` and mu."""
    if not 0 < young < np.inf:
        raise ProblemError(f"Young's modulus is {young}; it must be positive and finite")
    if not -1.0 < poisson < 0.5:
        raise ProblemError(
            f"Poisson's ratio {poisson} is outside (-1, 0.5)",
            "for a nearly incompressible material take a value such as 0.49",
        )
    mu = young / (2 * (1 + poisson))
    if plane_stress:
        return young * poisson / (1 - poisson**2), mu
    return young * poisson / ((1 + poisson) * (1 - 2 * poisson)), mu


@register_formula("von_mises", ("vector",))
def _von_mises(u: Jet, *, young: float, poisson: float, plane_stress: float = 0.0) -> Any:
    r"""With :math:`\sigma = \lambda\,\mathrm{tr}\,\varepsilon\, I + 2\mu\varepsilon`; plane strain
    has :math:`\sigma_{zz} = \lambda\,\mathrm{tr}\,\varepsilon`, plane stress (1.0) none.
    """
    if plane_stress and u.dim == 3:
        raise ProblemError("von Mises stress in plane stress is a formula of 2D", "drop it in 3D")
    lam, mu = lame(young, poisson, bool(plane_stress))
    g, d = u.gradient, u.dim
    trace = sum(g[..., a, a] for a in range(d))
    normal = [lam * trace + 2 * mu * g[..., a, a] for a in range(d)]
    if d == 2:
        normal.append(0.0 * trace if plane_stress else lam * trace)
    shear = [mu * (g[..., a, b] + g[..., b, a]) for a in range(d) for b in range(a)]
    squares = sum((normal[a] - normal[b]) ** 2 for a in range(3) for b in range(a)) / 2
    return (squares + 3 * sum(s**2 for s in shear)) ** 0.5


@register_formula("speed", ("vector",))
def _speed(u: Jet) -> Any:
    return (u.value**2).sum(-1) ** 0.5


@register_formula("vorticity", ("vector",))
def _vorticity(u: Jet) -> Any:
    g = u.gradient
    if u.dim == 2:
        return g[..., 1, 0] - g[..., 0, 1]
    pairs = ((2, 1), (0, 2), (1, 0))
    return sum((g[..., a, b] - g[..., b, a]) ** 2 for a, b in pairs) ** 0.5


@register_formula("divergence", ("vector",))
def _divergence(u: Jet) -> Any:
    return sum(u.gradient[..., a, a] for a in range(u.dim))


@register_formula("gradient_magnitude", ("any",))
def _gradient_magnitude(u: Jet) -> Any:
    return (u.gradient**2).sum(-1).sum(-1) ** 0.5
