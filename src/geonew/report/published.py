"""Figures that others published, for columns of their own beside ours.

They are of large models trained to convergence on GPUs, with other data of the same kind; ours are
of small models trained for minutes on one core. The two may be compared by their ratios alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from geonew.bench.rows import OURS

# (family, test) -> row -> relative L2 error in percent. Standard data sets: Transolver's own table
# for Geo-FNO, GNOT and Transolver (the Geo-NeW paper repeats it with shifted columns and a rerun),
# the Geo-NeW paper for U-Net, DeepONet, Galerkin and itself, LaMO's paper for LaMO, FLARE's figure.
# "learned" is the paper's Geo-NeW, whose law is learned as a whole.
PERCENT: Mapping[tuple[str, str], Mapping[str, float]] = {
    ("elasticity", "id"): {
        "learned": 0.35, "transolver": 0.64, "gnot": 0.86, "galerkin": 2.40, "lamo": 0.50,
        "deeponet": 9.65, "geofno": 2.29, "unet": 2.35, "FLARE (2026)": 0.34,
    },
    ("naca", "id"): {
        "learned": 0.82, "transolver": 0.53, "gnot": 0.76, "galerkin": 1.18, "lamo": 0.41,
        "deeponet": 3.85, "geofno": 1.38, "unet": 0.79, "FLARE (2026)": 0.42,
        "LRSA (2026)": 0.42, "LinearNO (2026)": 0.49,
    },
    ("pipe", "id"): {
        "learned": 0.11, "transolver": 0.33, "gnot": 0.47, "galerkin": 0.98, "lamo": 0.38,
        "deeponet": 0.97, "geofno": 0.67, "unet": 0.65, "FLARE (2026)": 0.28,
        "LRSA (2026)": 0.23, "LinearNO (2026)": 0.24,
    },
    ("poly-poisson", "id"): {
        "learned": 0.033, "inducing": 0.054, "transolver": 0.064, "gnot": 0.074, "linear": 0.055,
    },
    ("poly-poisson", "ood"): {
        "learned": 2.14, "inducing": 8.90, "transolver": 7.04, "gnot": 5.24, "linear": 4.60,
    },
    ("ns2d-c", "id"): {
        "learned": 1.10, "inducing": 1.82, "transolver": 0.63, "gnot": 0.93, "linear": 0.66,
    },
    ("ns2d-c++", "id"): {
        "learned": 1.93, "inducing": 4.47, "transolver": 4.04, "gnot": 5.30, "linear": 3.11,
    },
    ("ns2d-c++", "ood"): {
        "learned": 42.2, "transolver": 91.40, "gnot": 83.08, "linear": 91.84,
    },
    # The paper names its strongest baseline here by its figure alone.
    ("ns2d-c++", "ood_L1"): {"learned": 7.87, "the paper's strongest baseline": 13.1},
}  # fmt: skip

# Boundary error on NS2d-c, normalised L2, by field as the paper has them.
BOUNDARY: Mapping[str, Mapping[str, float]] = {
    "learned": {"u": 0.0, "v": 0.0, "p": 0.0},
    "inducing": {"u": 2.22e-3, "v": 2.99e-3, "p": 7.58e-3},
}
# Point cloud and mesh features on NS2d-c++ after 300 epochs, percent.
ENCODING: Mapping[str, tuple[float, float]] = {"learned": (6.76, 5.17), "inducing": (8.82, 7.21)}
# By encoder depth on an H200: milliseconds per sample, seconds per epoch; COMSOL on a processor.
DEPTHS = (2, 4, 6)
INFERENCE: Mapping[str, tuple[float, ...]] = {
    "learned": (5.2, 6.6, 7.9),
    "inducing": (1.4, 2.8, 4.0),
}
TRAINING: Mapping[str, tuple[float, ...]] = {
    "learned": (3.9, 4.5, 5.0),
    "inducing": (1.3, 1.6, 1.9),
}
COMSOL = 640.0

REMARK = (
    "Published columns show large models trained to convergence on GPUs, on data of the same kind, "
    "all others small models trained on one core for the budget stated: compare ratios only."
)


def published_error(family: str, test: str, row: str) -> float | None:
    """What was published for a row, as a fraction."""
    value = PERCENT.get((family, test), {}).get(row)
    return None if value is None else value / 100


def published_ratio(family: str, test: str) -> float | None:
    """The paper's Geo-NeW over the best other published figure."""
    found = PERCENT.get((family, test), {})
    others = [value for row, value in found.items() if row not in OURS]
    return found["learned"] / min(others) if others and "learned" in found else None
