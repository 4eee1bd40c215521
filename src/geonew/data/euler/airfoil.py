r"""Airfoils: NACA 0012 with a sharp trailing edge, deformed by a design element.

Half thickness of the usual definition, whose trailing edge is blunt, continued to where it closes
(x = 1.0089) and scaled back to chord 1:

.. math:: y_t(x) = 0.594689181\,(0.298222773 \sqrt x - 0.127125232 x - 0.357907906 x^2
          + 0.291984971 x^3 - 0.105174606 x^4).

Closing it by the last coefficient instead moves the upper shock at Mach 0.8 and 1.25 degrees aft,
by 0.003 chord (docs/data/naca.md).

The design element is the box [0, 1] x [-0.06, 0.06] around the airfoil with 4 x 2 control points,
which move vertically by :math:`d_{ab}`, a = 0..3 along the chord, b = 0 below and 1 above:

.. math:: \Delta y(x, y) = \sum_{a=0}^{3} B_a^3(x)\, \bigl[ \tfrac{1 - y/h}{2} d_{a0}
          + \tfrac{1 + y/h}{2} d_{a1} \bigr], \qquad h = 0.06,

with the cubic Bernstein polynomials B (Farin; the element of the Geo-FNO airfoils). Camber is added
and thickness multiplied by :math:`\tau(x) = 1 + \sum_a B_a^3(x) (d_{a1} - d_{a0}) / (2h)`. Identity
kept: the trailing edge stays sharp, since both surfaces have y = 0 there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from geonew.errors import ShapeError

SCALE = 0.594689181
COEFFICIENTS = (0.298222773, -0.127125232, -0.357907906, 0.291984971, -0.105174606)
BOX_HALF_HEIGHT = 0.06
# Radius of the nose: y_t^2 = 2 r x near x = 0.
NOSE_RADIUS = (SCALE * COEFFICIENTS[0]) ** 2 / 2
# Thinner than this fraction of NACA 0012 somewhere, cells at the nose are too thin to be solved on.
THINNEST = 0.1
STATIONS = np.linspace(0, 1, 201)


def half_thickness(x: Float[ndarray, "*n"]) -> Float[ndarray, "*n"]:
    """Half thickness of NACA 0012 with a closed trailing edge."""
    a, b, c, d, e = COEFFICIENTS
    return SCALE * (a * np.sqrt(x) + x * (b + x * (c + x * (d + x * e))))


def bernstein(x: Float[ndarray, "*n"]) -> Float[ndarray, "4 *n"]:
    """The four cubic Bernstein polynomials."""
    return np.stack([(1 - x) ** 3, 3 * x * (1 - x) ** 2, 3 * x**2 * (1 - x), x**3])


@dataclass(frozen=True, eq=False)
class Airfoil:
    """A deformed NACA 0012.

    Args:
        displacements: vertical displacements of the control points in chords, from the leading to
            the trailing edge; the first column moves the lower row, the second the upper one.

    """

    displacements: Float[ndarray, "4 2"]

    def __post_init__(self) -> None:
        d = np.array(self.displacements, dtype=np.float64)
        if d.shape != (4, 2) or not np.isfinite(d).all():
            raise ShapeError(
                f"displacements of the control points have shape {d.shape} or are not finite",
                "give four finite pairs (lower, upper)",
            )
        d.setflags(write=False)
        object.__setattr__(self, "displacements", d)
        if not self.is_thick_enough(d):
            raise ShapeError(
                f"the airfoil keeps only {_thickening(d, STATIONS).min():.2f} of the thickness of "
                "NACA 0012 somewhere",
                "move the upper control points less far down against the lower ones; the least "
                f"is {THINNEST}",
            )

    @staticmethod
    def is_thick_enough(displacements: Float[ndarray, "4 2"]) -> bool:
        """Whether displacements leave an airfoil that can be solved on."""
        return bool(_thickening(displacements, STATIONS).min() >= THINNEST)

    @classmethod
    def naca0012(cls) -> Airfoil:
        """The airfoil without deformation."""
        return cls(np.zeros((4, 2)))

    def camber(self, x: Float[ndarray, "*n"]) -> Float[ndarray, "*n"]:
        """Height of the image of the chord."""
        return np.tensordot(self.displacements.mean(axis=1), bernstein(x), axes=1)

    def thickening(self, x: Float[ndarray, "*n"]) -> Float[ndarray, "*n"]:
        """Factor tau(x) on the thickness of NACA 0012."""
        return _thickening(self.displacements, x)

    def surface(self, x: Float[ndarray, "*n"], side: Float[ndarray, "*n"]) -> Float[ndarray, "*n"]:
        """Height of the surface, ``side`` +1 for the upper one and -1 for the lower one."""
        return self.camber(x) + side * self.thickening(x) * half_thickness(x)

    @property
    def nose_radius(self) -> float:
        """Radius of curvature of the leading edge."""
        return NOSE_RADIUS * float(self.thickening(np.zeros(1))[0]) ** 2

    @property
    def trailing_edge(self) -> tuple[float, float]:
        """Height of the trailing edge, and the slope of the bisector of its angle."""
        d = self.displacements.mean(axis=1)
        return float(d[3]), float(3 * (d[3] - d[2]))


def _thickening(displacements: ndarray, x: ndarray) -> ndarray:
    spread = displacements[:, 1] - displacements[:, 0]
    return 1 + np.tensordot(spread, bernstein(x), axes=1) / (2 * BOX_HALF_HEIGHT)
