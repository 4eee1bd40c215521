r"""A prediction with everything a user should know about it, and its comparison with a reference.

    model, mesh, data --complete, check--> sample --predict--> fields, certificate
                      --calibration--> bands, familiarity  --> Answer --> file, picture, summary

The certificate says what holds for sure; the distance from the training data and the 90 % bands say
what may be expected, where the model is calibrated; nothing is said where nothing is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from numpy.typing import ArrayLike

from geonew.cache import Cache
from geonew.calibrate.calibration import KEY, Calibration, Familiarity
from geonew.errors import CheckpointError
from geonew.inference.inputs import Inputs, complete
from geonew.inference.ranges import check_memory, check_size, outside
from geonew.inference.reference import ReferenceSolution, solve_reference
from geonew.mesh import Mesh, write_mesh
from geonew.model.certificate import Certificate
from geonew.model.geonew import GeoNeW
from geonew.model.prediction import Prediction
from geonew.model.sample import Sample, prepare
from geonew.problem import BoundaryData
from geonew.problem.values import Value
from geonew.train.checkpoint import ModelFile, about_model
from geonew.train.descriptor import Reference
from geonew.train.metrics import column_names, measure
from geonew.weights import load

# Sums that should vanish do so to this part of their summands: solver accuracy, not round-off.
CLOSED = 1e-6
# Without calibration a geometry is called unfamiliar when it is this many times as far from the
# training data as nine tenths of these are.
FAR = 1.5


@dataclass(frozen=True, eq=False)
class Answer:
    """Fields on the user's mesh, and how far they can be trusted.

    Args:
        prediction: fields with their certificate.
        sample: what the model saw.
        inputs: the data, with what was assumed.
        unusual: sentences on what lies outside the training ranges.
        distance: of the geometry from the training data, 1 at their edge; none if unknown.
        familiarity: the same by calibration; none without.
        bands: field -> radius of the band on the nodes; empty without calibration.
        level: of the bands.
        seconds: processor time of features and model.

    """

    prediction: Prediction
    sample: Sample
    inputs: Inputs
    unusual: tuple[str, ...]
    distance: float | None
    familiarity: Familiarity | None
    bands: Mapping[str, Float[ndarray, "N"]]
    level: float
    seconds: float

    @property
    def mesh(self) -> Mesh:
        """The user's mesh."""
        return self.prediction.mesh

    @property
    def fields(self) -> dict[str, Float[ndarray, "N *d"]]:
        """Fields by name: (N,) for scalars, (N, d) for vectors."""
        return self.prediction.fields

    @property
    def certificate(self) -> Certificate:
        """What holds for sure."""
        return self.prediction.certificate

    @property
    def inside(self) -> bool | None:
        """Whether the sample is like the training data; none where nothing is known."""
        if self.familiarity is not None:
            near = not self.familiarity.is_outside()
        elif self.distance is not None:
            near = self.distance <= FAR
        else:
            return None
        return near and not self.unusual

    def __getitem__(self, name: str) -> Float[ndarray, "N *d"]:
        return self.prediction[name]

    def at(self, points: ArrayLike) -> dict[str, Float[ndarray, "n *d"]]:
        """All fields at arbitrary points; NaN outside the mesh."""
        return self.prediction.at(points)

    def write(self, path: str | PathLike[str], *, overwrite: bool = False) -> None:
        """Fields, partitions, bands, fluxes and certificate as ``.vtu`` or ``.vtk``."""
        nodal, numbers = self.prediction.arrays()
        nodal |= {f"band_{name}": radius for name, radius in self.bands.items()}
        if self.distance is not None:
            numbers["familiarity_distance"] = self.distance
        if self.familiarity is not None:
            numbers["familiarity_p_value"] = self.familiarity.p_value
        if self.inside is not None:
            numbers["familiarity_inside"] = float(self.inside)
        write_mesh(path, self.mesh, nodal, field_data=numbers, overwrite=overwrite)

    def plot(self, path: str | PathLike[str], names: tuple[str, ...] | None = None) -> None:
        """A picture of the components, or of the named fields."""
        self.prediction.plot(path, names)

    def summary(self) -> str:
        """A few lines for people: converged, unique, conserved, boundary, familiar."""
        return "\n".join(f"{key:<13} {text}" for key, text in self._lines())

    def _lines(self) -> list[tuple[str, str]]:
        c = self.certificate
        steps = f"{c.steps} Newton steps, residual {c.residual:.1e}"
        lines = [("converged", f"yes, {steps}" if c.converged else f"NO ({c.status}), {steps}")]
        if c.advice:
            lines.append(("advice", c.advice))
        unique = {"unique": "yes", "local": "locally", "not certified": "not certified"}
        lines.append(
            ("unique", f"{unique[c.uniqueness]}, margin {c.decisive_margin:.1e} ({c.reason})")
        )
        closed = max(c.antisymmetry, c.balance_defect) <= CLOSED
        lines.append(
            ("conserved", ("yes" if closed else "NO") + f", fluxes cancel to {c.antisymmetry:.0e}, "
             f"balances close to {c.balance_defect:.0e}")
        )  # fmt: skip
        groups = [g for g in self.inputs.boundary if g in self.mesh.groups]
        lines.append(("boundary", f"exact on {', '.join(groups)}" if groups else "none prescribed"))
        lines.append(("range", self._familiar()))
        lines += [("", sentence) for sentence in self.unusual]
        for name, radius in self.bands.items():
            free = radius[radius > 0] if (radius > 0).any() else radius
            lines.append(
                (f"{100 * self.level:g} % band", f"{name} +-{np.median(free):.2g} (median), "
                 f"+-{free.max():.2g} at most")
            )  # fmt: skip
        if self.inputs.assumed:
            lines.append(("assumed", f"{'; '.join(self.inputs.assumed)} (the family's own values)"))
        lines += [("note", sentence) for sentence in self.prediction.notes]
        return lines

    def _familiar(self) -> str:
        if self.inside is None:
            return "unknown: the model's file says nothing about its training data"
        verdict = "inside the training range" if self.inside else "OUTSIDE the training range"
        details = [] if self.distance is None else [f"distance {self.distance:.2g}, edge at 1"]
        if self.familiarity is not None:
            share = 100 * self.familiarity.p_value
            details.append(f"{share:.0f} % of calibration samples are as far")
        else:
            details.append("the model is not calibrated: no error bands")
        return f"{verdict} ({'; '.join(details)})"

    def to_dict(self) -> dict[str, Any]:
        """The summary as plain data."""
        return {
            "problem": self.prediction.problem.name,
            "nodes": self.mesh.n_nodes,
            "seconds": self.seconds,
            "certificate": self.certificate.to_dict(),
            "inside": self.inside,
            "unusual": list(self.unusual),
            "distance": self.distance,
            "p_value": None if self.familiarity is None else self.familiarity.p_value,
            "bands": {
                name: {
                    "level": self.level,
                    "median": float(np.median(r)),
                    "largest": float(r.max()),
                }
                for name, r in self.bands.items()
            },
            "assumed": list(self.inputs.assumed),
            "notes": list(self.prediction.notes),
        }


def predict(
    model: GeoNeW | str | Path,
    mesh: Mesh,
    boundary: BoundaryData | None = None,
    *,
    parameters: Mapping[str, Value] | None = None,
    source: Mapping[str, Value] | None = None,
    neumann: BoundaryData | None = None,
    any_size: bool = False,
    cache: Cache | None = None,
) -> Answer:
    """Predict on a mesh; data not given are the family's own where it has fixed ones.

    Args:
        model: a model, the name of a shipped one, or a checkpoint.
        mesh: in the model's unit of length, with the problem's groups.
        boundary: group -> field -> value.
        parameters: name -> value.
        source: field -> value.
        neumann: group -> field -> value.
        any_size: predict on meshes of sizes far from all training sizes too.
        cache: where features are kept.

    """
    model = model if isinstance(model, GeoNeW) else load(model)
    about = _about(model)
    ranges: Mapping[str, Any] = {} if about is None else about.ranges
    inputs = complete(model.problem, mesh, boundary, parameters, source, neumann)
    if not any_size:
        check_size(mesh, model.problem, ranges, "the mesh")
    check_memory(mesh, "the mesh")
    start = process_time()
    sample = prepare(
        mesh,
        model.problem,
        inputs.boundary,
        spec=model.spec,
        parameters=inputs.parameters,
        source=inputs.source,
        neumann=inputs.neumann,
        cache=cache,
    )
    (prediction,) = model.predict_samples([sample])
    seconds = process_time() - start
    calibration = None if about is None or KEY not in about.extra else Calibration.from_file(about)
    return Answer(
        prediction,
        sample,
        inputs,
        outside(sample, ranges),
        _distance(sample, ranges),
        None if calibration is None else calibration.familiarity(sample),
        {} if calibration is None else calibration.bands(sample),
        0.0 if calibration is None else calibration.level,
        seconds,
    )


@dataclass(frozen=True, eq=False)
class Comparison:
    """A prediction beside the reference solution on the same mesh.

    Args:
        reference: the solution.
        errors: column -> relative L2 error over the nodes; ``combined`` first.
        speed_up: time of the reference over that of features and model.

    """

    reference: ReferenceSolution
    errors: Mapping[str, float] = field(default_factory=dict)
    speed_up: float = 0.0

    def __str__(self) -> str:
        shown = ", ".join(f"{name} {100 * error:.2g} %" for name, error in self.errors.items())
        ratio = self.speed_up if self.speed_up >= 1 else 1 / self.speed_up
        pace = "faster" if self.speed_up >= 1 else "slower"
        return (
            f"reference     {self.reference.method}, {self.reference.seconds:.2f} s of processor "
            f"time; the prediction is {ratio:.1f} times {pace}\n"
            f"difference    {shown} (relative L2, from the reference on this mesh)"
        )


def compare(answer: Answer) -> Comparison:
    """Solve the reference problem on the same mesh with the same data."""
    problem, inputs = answer.prediction.problem, answer.inputs
    reference = solve_reference(
        problem, answer.mesh, inputs.boundary, inputs.parameters, inputs.source, inputs.neumann
    )
    row = measure(
        problem,
        np.array(problem.references),
        reference.components,
        answer.prediction.components,
        answer.sample.mass,
    )[0]
    errors = {
        name: float(value)
        for name, value in zip(column_names(problem), row, strict=True)
        if np.isfinite(value)
    }
    return Comparison(reference, errors, reference.seconds / max(answer.seconds, 1e-9))


def _about(model: GeoNeW) -> ModelFile | None:
    """What the model's file says; none for a model that came from no file."""
    try:
        return about_model(model)
    except CheckpointError:
        return None


def _distance(sample: Sample, ranges: Mapping[str, Any]) -> float | None:
    raw = ranges.get("geometry")
    return None if raw is None else Reference.from_plain(raw).distance(sample)
