"""The work behind the page: models in memory, predictions, truths, files.

    Scene --situation, prepare, predict--> Prediction --> arrays and words for the browser

Runs in a process of its own (:mod:`geonew.serve.worker`), one request at a time. The last few
predictions are kept: asking for their partition, another section or a file costs nothing more.
"""

from __future__ import annotations

import math
import tempfile
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from geonew import weights
from geonew.calibrate.calibration import KEY, Calibration, Familiarity, user_deviations
from geonew.errors import GeoNeWError, InputError
from geonew.evaluate.physics import flow_fields
from geonew.mesh import Mesh
from geonew.model.geonew import GeoNeW
from geonew.model.prediction import Prediction
from geonew.model.sample import Sample, prepare
from geonew.plot.view import View, plane_view, section
from geonew.serve.controls import Editor
from geonew.serve.editors import DrawnEditor, editor_of
from geonew.serve.meshes import unpack_mesh
from geonew.serve.scene import Scene, UploadedGeometry
from geonew.serve.situation import Situation
from geonew.serve.wire import pack
from geonew.serve.words import familiar, statements
from geonew.train.checkpoint import ModelFile, about_model
from geonew.train.metrics import column_names, measure

# Predictions kept; a drag makes many and asks again for the last few at most.
KEPT = 8
# Sections stay this part of the way inside the solid, whose ends have no area.
INSIDE = 0.02
TITLES = {
    "ns2d-c": "Flow past four obstacles",
    "ns2d-c++": "Flow past obstacles",
    "ns2d-re": "Flow at any Reynolds number",
    "poly-poisson": "Poisson around a polygon",
    "poly-poisson-var": "Poisson, all data free",
    "elasticity": "Elastic cell with a cavity",
    "pipe": "Flow through a bent pipe",
    "ball-poisson": "Poisson in a ball",
    "duct-stokes": "Stokes flow in a duct",
    "naca": "Transonic airfoils",
}


@dataclass(frozen=True, eq=False)
class Served:
    """One model on offer.

    Args:
        key: in requests.
        model: ready to predict.
        about: what its file says.
        calibration: where there is one.
        editor: of its problem.
        card: for people, Markdown; of shipped models.

    """

    key: str
    model: GeoNeW
    about: ModelFile
    calibration: Calibration | None
    editor: Editor
    card: str = ""

    def to_plain(self) -> dict[str, Any]:
        """What the page needs to know, as JSON data."""
        problem, units = self.about.problem, self.editor.units
        flows = flow_fields(problem)
        return {
            "key": self.key,
            "title": TITLES.get(problem.name, problem.name),
            "problem": problem.name,
            "dim": problem.dim,
            "kind": self.editor.kind,
            "controls": [control.to_plain() for control in self.editor.controls],
            "fields": [
                {"name": f.name, "rank": f.rank, "unit": _unit(units, f.name)}
                for f in problem.fields
            ]
            + [
                {"name": d.name, "rank": "scalar", "unit": _unit(units, d.name)}
                for d in problem.derived
            ],
            "components": list(problem.component_names),
            "groups": list(problem.groups),
            "optional_groups": list(problem.optional_groups),
            "flow": flows[0] if flows else "",
            "focus": self.editor.focus if isinstance(self.editor, DrawnEditor) else None,
            "length_unit": _unit(units, "length"),
            "calibrated": self.calibration is not None,
            "parameters": sum(p.numel() for p in self.model.parameters()),
            "card": self.card,
        }


@dataclass(frozen=True, eq=False)
class Made:
    """A prediction with everything that was made on the way.

    Args:
        situation: mesh and data.
        sample: as the model saw it.
        prediction: fields and certificate.
        seen: how familiar the geometry is.
        bands: radius of the error band by field.
        seconds: by stage.

    """

    situation: Situation
    sample: Sample
    prediction: Prediction
    seen: Familiarity | None
    bands: Mapping[str, Float[ndarray, "N"]]
    seconds: Mapping[str, float]


class Workshop:
    """Models in memory and what is asked of them; one request at a time.

    Args:
        sources: names of shipped models, checkpoints, or folders of training runs.

    """

    def __init__(self, sources: Sequence[str]) -> None:
        self.models: dict[str, Served] = {}
        for source in sources:
            made = self._load(source)
            self.models[made.key] = made
        self._made: OrderedDict[str, Made] = OrderedDict()

    def catalogue(self) -> list[dict[str, Any]]:
        """The models, as JSON data."""
        return [served.to_plain() for served in self.models.values()]

    def draw(self, key: str, seed: int, outside: bool) -> dict[str, Any]:
        """A random draft for a model."""
        return self._served(key).editor.draw(np.random.default_rng(seed), outside).to_plain()

    def predict(self, scene: Scene, uploaded: bytes = b"") -> bytes:
        """Fields, certificate, familiarity and times, for the browser."""
        served = self._served(scene.model)
        made = self._predicted(served, scene, uploaded)
        view = _view(made.situation.mesh, scene)
        prediction = made.prediction
        arrays = {
            "points": view.points.astype("<f4"),
            "triangles": view.triangles.astype("<u4"),
            "outline": view.outline.astype("<u4"),
        }
        for name, values in prediction.fields.items():
            arrays[f"field:{name}"] = view.values(values).astype("<f4")
        for name, radius in made.bands.items():
            arrays[f"band:{name}"] = view.values(radius).astype("<f4")
        if scene.partition is not None:
            count = prediction.rows.shape[1]
            if scene.partition >= count:
                raise InputError(
                    f"there is no component {scene.partition}", f"there are {count}, from 0"
                )
            arrays["rows"] = view.values(prediction.rows[:, scene.partition]).astype("<f4")
        mesh = made.situation.mesh
        said = statements(prediction.certificate, flow_fields(served.about.problem))
        head = {
            "nodes": mesh.n_nodes,
            "cells": mesh.n_cells,
            "axes": list(view.axes),
            "where": view.where,
            "bounds": [mesh.points.min(axis=0).tolist(), mesh.points.max(axis=0).tolist()],
            "partitions": int(prediction.coefficients.shape[1]),
            "statements": [s.to_plain() for s in said],
            "familiar": familiar(made.seen, served.calibration).to_plain(),
            "level": served.calibration.level if served.calibration else None,
            "seconds": dict(made.seconds),
            "notes": list(prediction.notes)[:20],
        }
        return pack(head, arrays)

    def reference(self, scene: Scene, uploaded: bytes = b"") -> bytes:
        """The truth on the same mesh, the errors, and the times of both."""
        served = self._served(scene.model)
        made = self._predicted(served, scene, uploaded)
        start = perf_counter()
        truth = made.situation.solve()
        seconds = perf_counter() - start
        view = _view(made.situation.mesh, scene)
        fields = made.prediction.fields
        arrays = {
            f"truth:{name}": view.values(np.asarray(truth[name])).astype("<f4")
            for name in fields
            if name in truth
        }
        head = {
            "errors": {n: _finite(v) for n, v in _errors(served, made, truth).items()},
            "seconds": {"reference": seconds, "prediction": sum(made.seconds.values())},
        }
        return pack(head, arrays)

    def export(self, scene: Scene, uploaded: bytes = b"") -> bytes:
        """The prediction as the content of a ``.vtu`` file."""
        made = self._predicted(self._served(scene.model), scene, uploaded)
        with tempfile.TemporaryDirectory(prefix="geonew-") as folder:
            path = Path(folder) / "prediction.vtu"
            made.prediction.write(path)
            return path.read_bytes()

    # -- parts -----------------------------------------------------------------------------------

    def _load(self, source: str) -> Served:
        model = weights.load(source)
        about = about_model(model)
        calibration = Calibration.from_file(about) if KEY in about.extra else None
        shipped = source in weights.names()
        key = name = source if shipped else about.problem.name
        number = 2
        while key in self.models:
            key, number = f"{name} ({number})", number + 1
        try:
            card = weights.card(source) if shipped else ""
        except GeoNeWError:  # a card is for people; a model without one predicts as well
            card = ""
        return Served(key, model, about, calibration, editor_of(about.problem), card)

    def _served(self, key: str) -> Served:
        if key not in self.models:
            raise InputError(
                f"there is no model {key!r}", f"the models are {', '.join(self.models)}"
            )
        return self.models[key]

    def _predicted(self, served: Served, scene: Scene, uploaded: bytes) -> Made:
        asked = scene.model_dump_json(include={"model", "geometry", "values"})
        if asked in self._made:
            self._made.move_to_end(asked)
            return self._made[asked]
        made = _make(served, scene, uploaded)
        self._made[asked] = made
        while len(self._made) > KEPT:
            self._made.popitem(last=False)
        return made


def _make(served: Served, scene: Scene, uploaded: bytes) -> Made:
    start = perf_counter()
    if isinstance(scene.geometry, UploadedGeometry):
        mesh = unpack_mesh(uploaded)
        mesh = mesh.renamed(scene.geometry.rename) if scene.geometry.rename else mesh
        situation = served.editor.on_mesh(mesh, scene.values)
    else:
        situation = served.editor.situation(scene.geometry, scene.values)
    meshed = perf_counter()
    sample = prepare(
        situation.mesh,
        served.about.problem,
        situation.boundary,
        spec=served.about.spec,
        parameters=situation.parameters,
        source=situation.source,
        neumann=situation.neumann,
    )
    prepared = perf_counter()
    prediction = served.model.predict_samples([sample])[0]
    solved = perf_counter()
    seen = served.calibration.familiarity(sample) if served.calibration else None
    bands = served.calibration.bands(sample) if served.calibration else {}
    seconds = {"mesh": meshed - start, "features": prepared - meshed, "solve": solved - prepared}
    return Made(situation, sample, prediction, seen, bands, seconds)


def _view(mesh: Mesh, scene: Scene) -> View:
    if mesh.dim == 2 or scene.cut is None:
        return plane_view(mesh)
    low, high = (getattr(mesh.points, end)(axis=0)[scene.cut.axis] for end in ("min", "max"))
    part = INSIDE + (1 - 2 * INSIDE) * scene.cut.part
    return section(mesh, scene.cut.axis, float(low + part * (high - low)))


def _errors(served: Served, made: Made, truth: Mapping[str, ndarray]) -> dict[str, float]:
    """Relative errors over the nodes, combined first."""
    problem = served.about.problem
    missing = [f.name for f in problem.fields if f.name not in truth]
    if missing:
        raise InputError(f"the reference has no field {missing}", "compare other fields")
    exact = np.column_stack([truth[f.name].reshape(len(truth[f.name]), -1) for f in problem.fields])
    found = measure(
        problem,
        user_deviations(served.about),
        exact,
        made.prediction.components,
        made.sample.mass,
    )[0]
    errors = dict(zip(column_names(problem), found.tolist(), strict=True))
    for derived in problem.derived:
        if derived.name in truth:
            defect = made.prediction[derived.name] - truth[derived.name]
            size = float(np.linalg.norm(truth[derived.name]))
            errors[derived.name] = float(np.linalg.norm(defect)) / size if size else math.nan
    return errors


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _unit(units: Mapping[str, str], name: str) -> str:
    unit = units.get(name, "")
    return "" if unit == "1" else unit
