"""Common equations as tuples of known terms."""

from __future__ import annotations

from geonew.errors import ProblemError
from geonew.fem.derived import lame
from geonew.problem.declarations import Term, positive


def stokes_terms(
    velocity: str, pressure: str, viscosity: float, **powers: float
) -> tuple[Term, ...]:
    r"""Terms of :math:`-\nu \Delta u + \nabla p = 0`, :math:`\nabla \cdot u = 0`, stabilised.

    ``powers`` are exponents of parameters in the viscosity:
    ``stokes_terms("u", "p", 1.0, reynolds=-1.0)``.
    """
    viscosity = positive("viscosity", viscosity)
    inverse = {name: -power for name, power in powers.items()}
    return (
        Term("diffusion", (velocity,), viscosity, powers),
        Term("divergence", (pressure, velocity), 1.0),
        Term("stabilisation", (pressure,), 1.0 / viscosity, inverse),
    )


def elasticity_terms(
    displacement: str, young: float, poisson: float, *, plane_stress: bool = False
) -> tuple[Term, ...]:
    r"""Terms of :math:`-\nabla \cdot (\lambda\,\mathrm{div}\,u\,I + 2\mu\,\varepsilon(u)) = f`.

    In 2D this is plane strain, or plane stress when asked for. For :math:`\nu < 0` lambda is
    negative, and only the split into shape and volume has two positive semidefinite terms,
    :math:`2\mu\,\mathrm{dev}\,\varepsilon : \mathrm{dev}\,\varepsilon +
    (\lambda + 2\mu/3) (\mathrm{div}\,u)^2`.
    """
    lam, mu = lame(young, poisson, plane_stress)
    if lam == 0:
        return (Term("strain", (displacement,), mu),)
    if lam > 0:
        return Term("strain", (displacement,), mu), Term("div_div", (displacement,), lam)
    bulk = lam + 2 * mu / 3
    if bulk <= 0:  # plane stress alone, for nu <= -1/2
        raise ProblemError(
            f"plane stress with Poisson's ratio {poisson} has no split into positive terms here",
            "use a ratio above -0.5, or plane strain",
        )
    return Term("deviatoric", (displacement,), mu), Term("div_div", (displacement,), bulk)
