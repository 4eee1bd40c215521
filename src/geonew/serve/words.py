"""The certificate in plain words, each statement with what it rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from geonew.calibrate.calibration import Calibration, Familiarity
from geonew.evaluate.physics import mass_defect
from geonew.model.certificate import Certificate

# Fluxes cancel and balances close to this part of their size where the solve has converged.
CLOSED = 1e-6

Light = Literal["good", "fair", "bad", "unknown"]


@dataclass(frozen=True)
class Statement:
    """One line of the panel.

    Args:
        title: two or three words.
        light: how it looks.
        text: the sentence, with its numbers.

    """

    title: str
    light: Light
    text: str

    def to_plain(self) -> dict[str, Any]:
        """As JSON data."""
        return asdict(self)


def statements(c: Certificate, flows: Sequence[str]) -> list[Statement]:
    """What holds for one prediction, then what is measured of its ``flows``."""
    made = [
        Statement(
            "Converged" if c.converged else "Not converged",
            "good" if c.converged else "bad",
            f"Newton's method ended after {c.steps} steps with a residual of {c.residual:.0e} of "
            f"the data{'.' if c.converged else f' ({c.status}): {c.advice}.'}",
        ),
        _uniqueness(c),
        Statement(
            "Conserved",
            "good" if max(c.antisymmetry, c.balance_defect) <= CLOSED else "bad",
            "What leaves one partition enters its neighbours: fluxes cancel "
            f"{_to(c.antisymmetry)}, every balance closes {_to(c.balance_defect)}.",
        ),
        Statement(
            "Boundary exact",
            "good",
            "Prescribed values hold to the last bit "
            f"({c.boundary_defect:.0f} units in the last place before they are written).",
        ),
    ]
    return made + [_flow(name, c.physical.outflow[name], c) for name in flows]


def _to(defect: float) -> str:
    return f"to {defect:.0e}" if defect else "exactly"


def _uniqueness(c: Certificate) -> Statement:
    if c.uniqueness == "unique":
        text = (
            f"One and only one solution exists: proved, with a margin of {c.decisive_margin:.1e}."
        )
        return Statement("Unique", "good", text)
    if c.uniqueness == "local":
        text = (
            "No other solution lies nearby: convection is quadratic, so the statement is local; "
            f"the margin at the solution is {c.decisive_margin:.1e}."
        )
        return Statement("Locally unique", "good", text)
    text = f"Uniqueness is not certified here ({c.reason}; margin {c.decisive_margin:.1e})."
    return Statement("Not certified", "fair", text)


def _flow(name: str, outflow: Mapping[str, float], c: Certificate) -> Statement:
    """The balance of the field itself: measured, not guaranteed."""
    defect = mass_defect(outflow)
    if not np.isfinite(defect):
        text = f"Nothing flows through the boundary with {name}."
        return Statement("Measured", "unknown", text)
    text = (
        f"The {name} field itself loses {100 * defect:.2g} % of what flows through; its divergence "
        f"is {100 * c.physical.divergence[name]:.2g} % of its gradient. Measured, not guaranteed."
    )
    return Statement("Measured", "unknown", text)


def familiar(seen: Familiarity | None, calibration: Calibration | None) -> Statement:
    """Whether the geometry is like those of training."""
    if seen is None or calibration is None:
        return Statement(
            "Not calibrated",
            "unknown",
            "Whether this shape is like those of training is not known: run geonew calibrate.",
        )
    numbers = (
        f"Distance {seen.distance:.2f} from the training shapes (1 is their edge); "
        f"{100 * seen.p_value:.0f} % of {len(calibration.distances)} shapes kept for calibration "
        "are as far."
    )
    if seen.is_outside():
        return Statement("Unlike the training shapes", "bad", f"{numbers} Errors may be larger.")
    if seen.p_value <= 0.2:
        return Statement("At the edge of the training shapes", "fair", numbers)
    return Statement("Like the training shapes", "good", numbers)
