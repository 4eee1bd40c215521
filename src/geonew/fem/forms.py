r"""Known terms: bilinear forms on the fine mesh, by registered name.

A term of a known equation is a coefficient times one of these forms, assembled with P1 elements for
each component of its fields:

==================  ===========  ==================================================  ==============
name                kind         form                                                fields
==================  ===========  ==================================================  ==============
``diffusion``       symmetric    int grad u . grad v                                 any
``mass``            symmetric    int u v                                             any
``strain``          symmetric    int 2 eps(u) : eps(v)                               vector
``deviatoric``      symmetric    int 2 eps(u) : eps(v) - (2/3) div u div v           vector
``div_div``         symmetric    int div u div v                                     vector
``divergence``      skew pair    +int q div u, and -int p div v from one array       scalar, vector
``stabilisation``   stabilising  int grad p . grad q, times theta H^2 in the model   scalar
``convection``      quadratic    int (u . grad) u . v                                vector
==================  ===========  ==================================================  ==============

Identity kept: a symmetric form is symmetric positive semidefinite, a skew one satisfies
A^T = -A; both are measured on a probe mesh before a form is used, and a form that is not what it
claims is refused with the defect. What assembly then leaves of a few ulp is averaged away, so that
the matrices are symmetric or skew to the last bit. The certificate of a prediction rests on this.

More forms join by :func:`register_form`, whose argument is an ordinary scikit-fem integrand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import skfem
from jaxtyping import Float
from numpy import ndarray
from scipy.sparse import csr_array
from skfem.helpers import ddot, div, sym_grad
from skfem.helpers import dot as _dot
from skfem.helpers import grad as _grad

from geonew.errors import ProblemError
from geonew.fem.bridge import p1_element, skfem_mesh
from geonew.mesh import Mesh

Rank = Literal["scalar", "vector"]
Kind = Literal["symmetric", "skew", "stabilisation", "quadratic"]
Integrand = Callable[[Any, Any, Any], Any]
Blocks = Mapping[tuple[int, int], csr_array]

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
        derivatives: total number of derivatives, so that lengths can be scaled out. A length the
            model multiplies with (H of the stabilisation) is one in the user's units.
        integrand: ``f(u, v, w)`` as scikit-fem wants it; ``None`` for quadratic forms, which the
            model evaluates from the gradient operators.
        dims: dimensions of space in which it makes sense.

    """

    name: str
    kind: Kind
    ranks: tuple[Rank | Literal["any"], ...]
    derivatives: int
    integrand: Integrand | None
    dims: tuple[int, ...] = (2, 3)

    def __post_init__(self) -> None:
        if len(self.ranks) not in (1, 2):
            raise ProblemError(f"the form {self.name!r} couples {len(self.ranks)} fields; 1 or 2")
        if len(self.ranks) == 2 and (self.kind != "skew" or "any" in self.ranks):
            raise ProblemError(
                f"the form {self.name!r} couples two fields as {self.kind} with ranks {self.ranks}",
                "a pair is skew, with the rank of either field given as scalar or vector; write a "
                "symmetric coupling as a form of one vector field",
            )


_REGISTRY: dict[str, Form] = {}


def register_form(
    name: str,
    kind: Kind,
    ranks: tuple[Rank | Literal["any"], ...],
    derivatives: int,
    dims: tuple[int, ...] = (2, 3),
) -> Callable[[Integrand], Form]:
    """Decorator that adds a scikit-fem integrand to the known forms, after checking its kind."""

    def add(integrand: Integrand) -> Form:
        form = Form(name, kind, ranks, derivatives, integrand, dims)
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


# -- assembly ------------------------------------------------------------------------------------


def assemble_form(
    form: Form, ranks: tuple[Rank, ...], mesh: Mesh, weight: Float[ndarray, "N"] | None = None
) -> Blocks:
    r"""Blocks :math:`A_{ab}` (N x N) of a form, a and b components of the test and trial field.

    Args:
        form: what to assemble.
        ranks: rank of the test field and of the trial field (one entry where they are the same).
        mesh: where.
        weight: nodal values of a coefficient, interpolated in P1; none means 1. Not negative for a
            symmetric form, which would lose its sign.

    """
    if weight is not None and form.kind in ("symmetric", "stabilisation") and weight.min() < 0:
        raise ProblemError(
            f"the coefficient of the {form.kind} form {form.name!r} is {weight.min():.6g} at node "
            f"{int(weight.argmin())}",
            "a coefficient that changes sign makes the form indefinite; give values >= 0",
        )
    matrix = _matrix(form, ranks, mesh, weight)
    if len(form.ranks) == 1:  # a few ulp from the order of summation
        matrix = csr_array((matrix + _sign(form) * matrix.T) / 2)
    if form.ranks == ("any",):
        return {(a, a): matrix for a in range(_components(ranks[0], mesh.dim))}
    rows, columns = (_components(form_rank, mesh.dim) for form_rank in (ranks[0], ranks[-1]))
    return {
        (a, b): csr_array(matrix[a::rows, b::columns]) for a in range(rows) for b in range(columns)
    }


def _matrix(
    form: Form, ranks: tuple[Rank, ...], mesh: Mesh, weight: ndarray | None = None
) -> csr_array:
    """The form as scikit-fem assembles it, components interleaved node by node."""
    integrand = form.integrand
    if integrand is None:
        raise ProblemError(
            f"the quadratic form {form.name!r} has no matrix",
            "it is evaluated at a state, from the gradient operators",
        )
    if len(ranks) not in (1, len(form.ranks)) or any(
        declared not in ("any", given)
        for declared, given in zip(form.ranks, (ranks[0], ranks[-1]), strict=False)
    ):
        raise ProblemError(
            f"the form {form.name!r} takes fields of ranks {form.ranks}, not {ranks}"
        )
    per_component = form.ranks == ("any",)
    test, trial = ("scalar", "scalar") if per_component else (ranks[0], ranks[-1])
    extra = {} if weight is None else {"weight": _basis(mesh, "scalar").interpolate(weight)}

    def weighted(u: Any, v: Any, w: Any) -> Any:
        return integrand(u, v, w) * (1.0 if weight is None else w["weight"])

    form_of_basis = skfem.BilinearForm(weighted)
    return csr_array(form_of_basis.assemble(_basis(mesh, trial), _basis(mesh, test), **extra))


def _basis(mesh: Mesh, rank: Rank) -> Any:
    scalar = p1_element(mesh)
    element = skfem.ElementVector(scalar) if rank == "vector" else scalar
    return skfem.Basis(skfem_mesh(mesh), element, intorder=3)  # exact for P1 x P1 x P1 weight


def _components(rank: Rank, dim: int) -> int:
    return dim if rank == "vector" else 1


def _sign(form: Form) -> float:
    return -1.0 if form.kind == "skew" else 1.0


# -- the declared kind ---------------------------------------------------------------------------


def check_kind(form: Form) -> None:
    """Refuse a form that is not symmetric positive semidefinite, or not skew, as it claims."""
    if form.integrand is None:
        return
    for dim in form.dims:
        matrix = _probe(form, dim)
        scale = float(np.abs(matrix).max())
        if not np.isfinite(matrix).all() or scale == 0:
            raise ProblemError(
                f"the form {form.name!r} has entries of size {scale} on a {dim}D probe mesh",
                "its integrand must be finite and not vanish identically",
            )
        if len(form.ranks) == 2:  # a pair is skew by construction: both blocks come from one array
            continue
        defect = float(np.abs(matrix - _sign(form) * matrix.T).max()) / scale
        if defect > SYMMETRY_TOLERANCE:
            raise ProblemError(
                f"the form {form.name!r} is declared {form.kind} but is not: relative defect "
                f"{defect:.2e} on a {dim}D probe mesh (allowed {SYMMETRY_TOLERANCE:.0e})",
                "declare what it is, or split it into its symmetric and its skew part",
            )
        if form.kind == "skew":
            continue
        eigenvalues = np.linalg.eigvalsh((matrix + matrix.T) / 2)
        lowest = float(eigenvalues[0] / np.abs(eigenvalues).max())
        if lowest < -SYMMETRY_TOLERANCE:
            raise ProblemError(
                f"the form {form.name!r} is declared {form.kind} but has a negative eigenvalue, "
                f"{lowest:.2e} times its largest, on a {dim}D probe mesh",
                "only positive semidefinite forms keep the solution unique; check its sign",
            )


def _probe(form: Form, dim: int) -> ndarray:
    """The dense matrix of a form on the probe mesh."""
    ranks: list[Rank] = ["vector" if rank == "vector" else "scalar" for rank in form.ranks]
    try:
        return _matrix(form, tuple(ranks), _probe_mesh(dim)).toarray()
    except Exception as error:  # the integrand is the user's code
        raise ProblemError(
            f"the integrand of form {form.name!r} failed on a {dim}D probe mesh: {error}",
            "it takes (u, v, w) as scikit-fem passes them; restrict it with dims=(2,) or dims=(3,) "
            "if it belongs to one dimension",
        ) from error


@lru_cache(maxsize=2)
def _probe_mesh(dim: int) -> Mesh:
    """An irregular small mesh of a skewed box: no accidental symmetry hides a defect."""
    axis = np.array([0.0, 0.3, 0.75, 1.0])
    kind = skfem.MeshTri if dim == 2 else skfem.MeshTet
    box = kind.init_tensor(*(axis**power for power in range(1, dim + 1)))
    points = box.p.T @ (np.eye(dim) + 0.2 * np.triu(np.ones((dim, dim)), 1))
    cells = box.t.T
    inverted = np.linalg.det(points[cells][:, 1:] - points[cells][:, :1]) < 0
    swapped = cells[:, [1, 0, *range(2, dim + 1)]]
    return Mesh(points, np.where(inverted[:, None], swapped, cells))


# -- the forms -----------------------------------------------------------------------------------


def dot(u: Any, v: Any) -> Any:
    """Contraction over the first index; scikit-fem's, which is typed too narrowly for gradients."""
    return _dot(u, v)


def grad(u: Any) -> Any:
    """Gradient; scikit-fem's, without its Optional."""
    return _grad(u)


@register_form("diffusion", "symmetric", ("any",), derivatives=2)
def _diffusion(u: Any, v: Any, w: Any) -> Any:
    return dot(grad(u), grad(v))


@register_form("mass", "symmetric", ("any",), derivatives=0)
def _mass(u: Any, v: Any, w: Any) -> Any:
    return u * v


@register_form("strain", "symmetric", ("vector",), derivatives=2)
def _strain(u: Any, v: Any, w: Any) -> Any:
    return 2 * ddot(sym_grad(u), sym_grad(v))


@register_form("deviatoric", "symmetric", ("vector",), derivatives=2)
def _deviatoric(u: Any, v: Any, w: Any) -> Any:
    return 2 * ddot(sym_grad(u), sym_grad(v)) - 2 / 3 * div(u) * div(v)


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
