r"""Known terms: bilinear forms on the fine mesh, by registered name.

A term of a known equation is a coefficient times one of these forms, assembled with P1 elements for
each component of its fields:

====================  ===========  =====================================================  ==========
name                  kind         form                                                   fields
====================  ===========  =====================================================  ==========
``diffusion``         symmetric    int grad u . grad v                                    any
``mass``              symmetric    int u v                                                any
``strain``            symmetric    int 2 eps(u) : eps(v)                                  vector
``div_div``           symmetric    int div u div v                                        vector
``divergence``        skew pair    +int q div u, and -int p div v from the same array     scalar, vector
``stabilisation``     stabilising  int grad p . grad q, scaled by theta H^2 in the model  scalar
``convection``        quadratic    int (u . grad) u . v                                   vector
====================  ===========  =====================================================  ==========

Identity kept: a symmetric form is symmetric positive semidefinite, a skew one satisfies
A^T = -A; both are measured on a probe mesh before a form is used, and a form that is not what it
claims is refused with the defect. The certificate of a prediction rests on this.

More forms join by :func:`register_form`, whose argument is an ordinary scikit-fem integrand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import skfem
from numpy import ndarray
from scipy.sparse import csr_matrix
from skfem.helpers import ddot, div, dot, grad, sym_grad

from geonew.errors import ProblemError
from geonew.mesh import Mesh

Rank = Literal["scalar", "vector"]
Kind = Literal["symmetric", "skew", "stabilisation", "quadratic"]
Blocks = Mapping[tuple[int, int], csr_matrix]

# Largest relative defect of a declared symmetry: assembly order moves entries by a few ulp.
SYMMETRY_TOLERANCE = 1e-12


@dataclass(frozen=True)
class Form:
    """One bilinear form: its kind, the ranks of its (test, trial) fields, its order in 1/length.

    Args:
        name: how a term refers to it.
        kind: what it claims to be; see the module docstring.
        ranks: rank of each field it couples. One entry: test and trial are the same field. Two:
            the first field tests, the second is differentiated, and the transposed block with the
            opposite sign stands in the second field's rows.
        derivatives: total number of derivatives, so that lengths can be scaled out.
        integrand: ``f(u, v, w)`` as scikit-fem wants it; ``None`` for quadratic forms, which the
            model evaluates from the gradient operators.

    """

    name: str
    kind: Kind
    ranks: tuple[Rank | Literal["any"], ...]
    derivatives: int
    integrand: Callable[[Any, Any, Any], Any] | None


_REGISTRY: dict[str, Form] = {}


def register_form(
    name: str, kind: Kind, ranks: tuple[Rank | Literal["any"], ...], derivatives: int
) -> Callable[[Callable[[Any, Any, Any], Any]], Form]:
    """Decorator that adds a scikit-fem integrand to the known forms, after checking its kind."""

    def add(integrand: Callable[[Any, Any, Any], Any]) -> Form:
        form = Form(name, kind, ranks, derivatives, integrand)
        if name in _REGISTRY:
            raise ProblemError(
                f"a form named {name!r} is registered already", "choose another name"
            )
        check_kind(form)
        _REGISTRY[name] = form
        return form

    return add


def known_form(name: str) -> Form:
    """The registered form of that name; a :class:`ProblemError` lists the known ones."""
    if name not in _REGISTRY:
        raise ProblemError(
            f"no form is registered under {name!r}; known are {sorted(_REGISTRY)}",
            "use one of these, or add your own with geonew.fem.forms.register_form",
        )
    return _REGISTRY[name]


def assemble_form(
    form: Form, ranks: tuple[Rank, ...], mesh: Mesh, weight: ndarray | None = None
) -> Blocks:
    r"""Blocks :math:`A_{ab}` (N x N) of a form, a and b components of the test and trial field.

    Args:
        form: what to assemble.
        ranks: rank of the test field and of the trial field (one entry where they are the same).
        mesh: where.
        weight: nodal values of a coefficient, interpolated in P1; none means 1.

    """
    integrand = form.integrand
    if integrand is None:
        raise ProblemError(f"the quadratic form {form.name!r} has no matrix")
    skmesh = _skfem_mesh(mesh)
    per_component = form.ranks == ("any",)
    test, trial = ("scalar", "scalar") if per_component else (ranks[0], ranks[-1])
    test_basis, trial_basis = _basis(skmesh, test), _basis(skmesh, trial)
    extra = {} if weight is None else {"weight": _basis(skmesh, "scalar").interpolate(weight)}

    def weighted(u: Any, v: Any, w: Any) -> Any:
        return integrand(u, v, w) * (w["weight"] if weight is not None else 1.0)

    matrix = skfem.BilinearForm(weighted).assemble(trial_basis, test_basis, **extra).tocsr()
    if per_component:
        return {(a, a): matrix for a in range(_components(ranks[0], mesh.dim))}
    rows, columns = _components(test, mesh.dim), _components(trial, mesh.dim)
    return {
        (a, b): matrix[a::rows, b::columns].tocsr() for a in range(rows) for b in range(columns)
    }


def check_kind(form: Form) -> None:
    """Refuse a form that is not symmetric positive semidefinite, or not skew, as it claims."""
    if form.integrand is None:
        return
    for dim in (2, 3):
        defect, lowest = _defects(form, dim)
        if defect > SYMMETRY_TOLERANCE:
            raise ProblemError(
                f"the form {form.name!r} is declared {form.kind} but is not: relative defect "
                f"{defect:.2e} on a {dim}D probe mesh (allowed {SYMMETRY_TOLERANCE:.0e})",
                "declare what it is, or split it into its symmetric and its skew part",
            )
        if lowest < -SYMMETRY_TOLERANCE:
            raise ProblemError(
                f"the form {form.name!r} is declared {form.kind} but has a negative eigenvalue, "
                f"{lowest:.2e} times its largest, on a {dim}D probe mesh",
                "only positive semidefinite forms keep the solution unique; check its sign",
            )


def _defects(form: Form, dim: int) -> tuple[float, float]:
    """Relative symmetry defect, and smallest eigenvalue over the largest (0 for skew forms)."""
    if len(form.ranks) == 2:  # a pair is skew by construction: both blocks come from one array
        return 0.0, 0.0
    mesh = _probe_mesh(dim)
    rank: Rank = "vector" if form.ranks == ("vector",) else "scalar"
    blocks = assemble_form(form, (rank,), mesh)
    size = _components(rank, dim)
    dense = np.block([[blocks[a, b].toarray() for b in range(size)] for a in range(size)])
    sign = -1.0 if form.kind == "skew" else 1.0
    scale = max(float(np.abs(dense).max()), np.finfo(float).tiny)
    defect = float(np.abs(dense - sign * dense.T).max()) / scale
    if form.kind == "skew":
        return defect, 0.0
    eigenvalues = np.linalg.eigvalsh((dense + dense.T) / 2)
    return defect, float(eigenvalues[0] / max(abs(eigenvalues[-1]), scale))


@lru_cache(maxsize=2)
def _probe_mesh(dim: int) -> Mesh:
    """An irregular small mesh of a skewed box: no accidental symmetry hides a defect."""
    axis = np.array([0.0, 0.3, 0.75, 1.0])
    skew = skfem.MeshTri.init_tensor(axis, axis**2) if dim == 2 else None
    skmesh = skew if skew is not None else skfem.MeshTet.init_tensor(axis, axis**2, axis**3)
    points = skmesh.p.T @ (np.eye(dim) + 0.2 * np.triu(np.ones((dim, dim)), 1))
    cells = skmesh.t.T
    jacobian = points[cells][:, 1:] - points[cells][:, :1]
    flipped = np.where(
        (np.linalg.det(jacobian) < 0)[:, None], cells[:, [1, 0, *range(2, dim + 1)]], cells
    )
    return Mesh(points, flipped)


def _components(rank: Rank, dim: int) -> int:
    return dim if rank == "vector" else 1


def _skfem_mesh(mesh: Mesh) -> Any:
    kind = skfem.MeshTri if mesh.dim == 2 else skfem.MeshTet
    # Our vertex numbers must survive: scikit-fem sorts each cell, which P1 blocks do not notice.
    return kind(mesh.points.T.copy(), mesh.cells.T.copy())


def _basis(skmesh: Any, rank: Rank) -> Any:
    scalar = skfem.ElementTriP1() if skmesh.dim() == 2 else skfem.ElementTetP1()
    element = skfem.ElementVector(scalar) if rank == "vector" else scalar
    return skfem.Basis(skmesh, element, intorder=3)  # exact for P1 x P1 x P1 weight


@register_form("diffusion", "symmetric", ("any",), derivatives=2)
def _diffusion(u: Any, v: Any, w: Any) -> Any:
    return dot(grad(u), grad(v))


@register_form("mass", "symmetric", ("any",), derivatives=0)
def _mass(u: Any, v: Any, w: Any) -> Any:
    return u * v


@register_form("strain", "symmetric", ("vector",), derivatives=2)
def _strain(u: Any, v: Any, w: Any) -> Any:
    return 2 * ddot(sym_grad(u), sym_grad(v))


@register_form("div_div", "symmetric", ("vector",), derivatives=2)
def _div_div(u: Any, v: Any, w: Any) -> Any:
    return div(u) * div(v)


@register_form("divergence", "skew", ("scalar", "vector"), derivatives=1)
def _divergence(u: Any, v: Any, w: Any) -> Any:
    return v * div(u)


@register_form("stabilisation", "stabilisation", ("scalar",), derivatives=2)
def _stabilisation(u: Any, v: Any, w: Any) -> Any:
    return dot(grad(u), grad(v))


_REGISTRY["convection"] = Form("convection", "quadratic", ("vector",), 1, None)
