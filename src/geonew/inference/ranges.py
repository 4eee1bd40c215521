"""Is a sample like those a model was trained on? Sizes, data, parameters, memory.

    sample, ranges in the model's file --> sentences on what lies outside

A mesh in millimetres for a model in metres is a mistake, not an extrapolation: sizes far from all
training sizes are refused, with the factor that would mend them. So is a mesh for which the memory
of this machine does not suffice, before hours are spent on it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from geonew.errors import InputError, MeshError
from geonew.mesh import Mesh
from geonew.model.sample import Sample
from geonew.model.terms import global_parameters
from geonew.problem import Problem

# Units of length in metres, by their usual names.
UNITS = {"m": 1.0, "dm": 0.1, "cm": 1e-2, "mm": 1e-3, "um": 1e-6, "km": 1e3}
UNITS |= {"in": 0.0254, "inch": 0.0254, "ft": 0.3048}
# Sizes beyond the training range by this factor are another unit, or another world.
OTHER_WORLD = 30.0
# Parts of a range by which a number may leave it before that is mentioned; an extent is measured
# along the user's axes, so that turning a square makes it longer by up to sqrt(2).
MARGIN = 0.05
TURNED = 2**0.5
# Peak memory of a prediction at the paper's size: measured 1.1e4 bytes a node from 55 to 220
# thousand nodes on, and room for other settings.
BYTES_PER_NODE = 1.5e4
BYTES_AT_REST = 0.6e9


def check_size(mesh: Mesh, problem: Problem, ranges: Mapping[str, Any], name: str = "mesh") -> None:
    """Refuse a mesh whose unit of length cannot be the model's."""
    low, high = _span(ranges, "extent")
    size = float(np.ptp(mesh.points, axis=0).max()) / problem.reference_length
    if low <= 0 or (size <= high * OTHER_WORLD and size >= low / OTHER_WORLD):
        return
    scale = problem.reference_length
    factor = np.sqrt(low * high) / size
    near = min(UNITS, key=lambda unit: abs(np.log(UNITS[unit] / factor)))
    raise MeshError(
        f"{name} extends over {size * scale:.4g}, but the model was trained on domains of "
        f"{low * scale:.4g} to {high * scale:.4g}",
        f"if its coordinates are in another unit, give --unit (from its numbers perhaps "
        f"--unit {near}) or --scale {factor:.1g}; --any-size predicts all the same",
    )


def check_memory(mesh: Mesh, name: str = "mesh") -> None:
    """Refuse a mesh that would not fit into memory."""
    needed = BYTES_AT_REST + BYTES_PER_NODE * mesh.n_nodes
    available = available_memory()
    if available is not None and needed > available:
        fitting = max(int((available - BYTES_AT_REST) / BYTES_PER_NODE), 0)
        raise MeshError(
            f"{name} has {mesh.n_nodes:,} nodes; a prediction needs about {needed / 1e9:.1f} GB of "
            f"memory, {available / 1e9:.1f} GB are free",
            f"use a coarser mesh, here of up to about {fitting:,} nodes: the model was not trained "
            "on finer ones",
        )


def available_memory() -> float | None:
    """Bytes of memory that can be used without swapping; none where the system does not tell."""
    try:
        with open("/proc/meminfo", encoding="ascii") as stream:
            for line in stream:
                if line.startswith("MemAvailable:"):
                    return float(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):
        return None


def outside(sample: Sample, ranges: Mapping[str, Any]) -> tuple[str, ...]:
    """Sentences on the numbers of a sample that no training sample had."""
    problem, scale = sample.problem, sample.problem.reference_length
    extent = float(np.ptp(sample.mesh.points, axis=0).max()) / scale
    largest = float(np.abs(sample.values.value[sample.fixed]).max(initial=0.0))
    load = float(np.abs(sample.load.sum(axis=0)).max())
    checks = [
        ("its extent", extent * scale, _scaled(_span(ranges, "extent"), scale), TURNED - 1),
        ("its measure", sample.mesh.volume,
         _scaled(_span(ranges, "measure"), scale**problem.dim), MARGIN),
        ("the largest boundary value", largest, _span(ranges, "largest_boundary_value"), MARGIN),
        ("the total load", load, _span(ranges, "load"), MARGIN),
    ]  # fmt: skip
    spans = ranges.get("parameters", [])
    for k, name in enumerate(global_parameters(problem)[: len(spans)]):
        reference = problem.parameter(name).reference
        span = _scaled((float(spans[k][0]), float(spans[k][1])), reference)
        checks.append((f"parameter {name}", float(sample.parameters[k]) * reference, span, MARGIN))
    found = [_sentence(*check) for check in checks]
    return tuple(sentence for sentence in found if sentence)


def unit_factor(unit: str, length: str) -> float:
    """Metres (or the model's own unit) per unit of a mesh.

    Args:
        unit: of the mesh.
        length: unit of the model; ``"1"`` if dimensionless, empty if not known.

    """
    if unit not in UNITS:
        raise InputError(f"the unit {unit!r} is not known", f"use one of {', '.join(UNITS)}")
    if length == "1":
        raise InputError(
            "the model's lengths are dimensionless, so a unit has no meaning",
            "give --scale FACTOR instead",
        )
    return UNITS[unit] / UNITS.get(length, 1.0)


def _span(ranges: Mapping[str, Any], key: str) -> tuple[float, float]:
    """Least and greatest value in training; everything where the file does not tell."""
    value = ranges.get(key)
    if not isinstance(value, list) or len(value) != 2:
        return (0.0, float("inf"))
    return float(value[0]), float(value[1])


def _scaled(span: tuple[float, float], factor: float) -> tuple[float, float]:
    return span[0] * factor, span[1] * factor


def _sentence(what: str, value: float, span: tuple[float, float], margin: float) -> str:
    low, high = span
    slack = margin * max(abs(low), abs(high)) if np.isfinite(high) else 0.0
    if low - slack <= value <= high + slack:
        return ""
    return f"{what} is {value:.4g}, in training {low:.4g} to {high:.4g}"
