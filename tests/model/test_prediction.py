"""Predictions: fields by name, derived, at points, in files; wrong input is named."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from vtkmodules.util.numpy_support import vtk_to_numpy
from vtkmodules.vtkIOXML import vtkXMLUnstructuredGridReader

from geonew.errors import FeatureError, InputError, MeshFileError
from geonew.features import FeatureSpec
from geonew.fem.derived import known_formula
from geonew.model.prediction import Prediction
from geonew.model.sample import Sample, prepare
from geonew.problem import Derived
from model.cases import CASES, SPEC, prepared, redraw, tiny


@pytest.fixture(scope="module", params=list(CASES))
def prediction(request: pytest.FixtureRequest) -> Prediction:
    sample = prepared(request.param)
    return redraw(tiny(sample), 1, 0.5).predict_samples([sample])[0]


def sample_of(prediction: Prediction) -> Sample:
    """The prepared sample a prediction was made from."""
    return next(
        s
        for s in map(prepared, CASES)
        if s.mesh is prediction.mesh and s.problem is prediction.problem
    )


def elastic_with_stress() -> tuple:
    case = CASES["elastic"]()
    constants = {"young": 200.0, "poisson": 0.3}
    stress = Derived("stress", "von_mises", ("displacement",), constants)
    case = replace(case, problem=replace(case.problem, derived=(stress,)))
    sample = case.sample()
    return sample, tiny(sample).predict_samples([sample])[0]


# -- fields --------------------------------------------------------------------------------------


def test_fields_by_name(prediction: Prediction) -> None:
    problem, n = prediction.problem, prediction.mesh.n_nodes
    assert list(prediction.fields) == [f.name for f in problem.fields]
    for f in problem.fields:
        shape = (n, problem.dim) if f.rank == "vector" else (n,)
        assert prediction[f.name].shape == shape
        assert np.isfinite(prediction[f.name]).all()
    for k, name in enumerate(problem.component_names):
        np.testing.assert_array_equal(prediction[name], prediction.components[:, k])
    with pytest.raises(InputError, match="no field 'temperature'") as caught:
        prediction["temperature"]
    assert problem.fields[0].name in str(caught.value)


def test_prescribed_values_are_exact(prediction: Prediction) -> None:
    sample = sample_of(prediction)
    problem = sample.problem
    by_axes = {problem.groups.index(d.group) for d in problem.dirichlet if d.axes}
    for f in problem.fields:
        span = problem.columns(f.name)
        owner = sample.values.owner[:, span]
        whole = (owner >= 0).all(axis=1) & ~np.isin(owner, list(by_axes)).any(axis=1)
        np.testing.assert_array_equal(
            prediction.components[whole, span], sample.lab_values.value[whole, span]
        )
    assert prediction.certificate.boundary_defect < 32


def test_gauged_fields_have_zero_mean(prediction: Prediction) -> None:
    for k, owner in enumerate(prediction.problem.component_fields):
        if owner.level == "gauge":
            mass = sample_of(prediction).mass
            values = prediction.components[:, k]
            assert np.abs(values).max() > 0
            assert abs(mass @ values) < 1e-12 * mass.sum() * np.abs(values).max()


def test_derived_fields_come_last() -> None:
    sample, prediction = elastic_with_stress()
    assert list(prediction.fields) == ["displacement", "stress"]
    formula = known_formula("von_mises")
    wanted = formula.evaluate(
        sample.mesh, [prediction["displacement"]], {"young": 200.0, "poisson": 0.3}
    )
    np.testing.assert_array_equal(prediction["stress"], wanted)
    assert prediction["stress"].min() >= 0
    assert prediction["stress"].max() > 0


def test_rows_and_fluxes_have_their_structure(prediction: Prediction) -> None:
    covered = prediction.rows[..., -len(prediction.problem.groups) :].any(axis=(0, 2))
    total = prediction.rows.sum(axis=-1)[:, covered]
    assert np.abs(total - 1).max() < 1e-12
    assert prediction.rows.min() >= 0
    np.testing.assert_array_equal(prediction.fluxes, -prediction.fluxes.transpose(0, 2, 1))
    assert np.abs(prediction.fluxes).max() > 0
    assert prediction.partition.shape == prediction.components.shape
    assert prediction.partition.max() < prediction.rows.shape[-1]


# -- at points -----------------------------------------------------------------------------------


def test_at_points_inside_and_outside(prediction: Prediction) -> None:
    mesh = prediction.mesh
    middle = mesh.points[mesh.cells[::7]].mean(axis=1)
    outside = np.full((1, mesh.dim), 40.0)
    found = prediction.at(np.concatenate([middle, outside]))
    assert list(found) == list(prediction.fields)
    for name, values in prediction.fields.items():
        wanted = values[mesh.cells[::7]].mean(axis=1)
        assert np.abs(found[name][:-1] - wanted).max() < 1e-10 * np.abs(values).max()
        assert np.isnan(found[name][-1]).all()


def test_points_of_another_dimension_are_refused(prediction: Prediction) -> None:
    wrong = 5 - prediction.mesh.dim
    for points in (np.zeros((4, wrong)), np.zeros(prediction.mesh.dim), [0.5, 0.5], []):
        with pytest.raises(InputError, match="points have shape"):
            prediction.at(points)


# -- files ---------------------------------------------------------------------------------------


def test_vtu_holds_fields_and_certificate(prediction: Prediction, tmp_path: Path) -> None:
    path = tmp_path / "fields.vtu"
    prediction.write(path)
    reader = vtkXMLUnstructuredGridReader()
    reader.SetFileName(str(path))
    reader.Update()
    grid = reader.GetOutput()
    mesh = prediction.mesh
    points = vtk_to_numpy(grid.GetPoints().GetData())
    np.testing.assert_array_equal(points[:, : mesh.dim], mesh.points)
    assert not points[:, mesh.dim :].any()
    for name, values in prediction.fields.items():
        stored = vtk_to_numpy(grid.GetPointData().GetArray(name))
        if values.ndim == 2:
            np.testing.assert_array_equal(stored[:, : mesh.dim], values)
        else:
            np.testing.assert_array_equal(stored, values)
    data, certificate = grid.GetFieldData(), prediction.certificate

    def number(name: str) -> float:
        return float(vtk_to_numpy(data.GetArray(f"certificate_{name}"))[0])

    assert number("margin") == certificate.margin
    assert number("residual") == certificate.residual
    assert number("steps") == certificate.steps
    assert number("converged") == float(certificate.converged)
    assert number("unique") == float(certificate.uniqueness == "unique")
    with pytest.raises(MeshFileError):
        prediction.write(path)
    prediction.write(path, overwrite=True)


def test_derived_fields_are_written(tmp_path: Path) -> None:
    _, prediction = elastic_with_stress()
    prediction.write(tmp_path / "stress.vtu")
    reader = vtkXMLUnstructuredGridReader()
    reader.SetFileName(str(tmp_path / "stress.vtu"))
    reader.Update()
    stored = vtk_to_numpy(reader.GetOutput().GetPointData().GetArray("stress"))
    np.testing.assert_array_equal(stored, prediction["stress"])


def test_summary_and_json_say_what_holds(prediction: Prediction) -> None:
    text, certificate = prediction.summary(), prediction.certificate
    for word in ("solve", "uniqueness", "conservation", "boundary", "partition"):
        assert f"\n{word}" in "\n" + text
    assert certificate.status in text
    assert f"{certificate.margin:.2e}" in text
    for note in prediction.notes:
        assert note in text
    stored = json.loads(prediction.certificate_json())
    assert stored["margin"] == certificate.margin
    assert stored["physical"]["outflow"] == certificate.physical.outflow


# -- predict -------------------------------------------------------------------------------------


def test_predict_takes_one_mesh_or_several() -> None:
    case, sample = CASES["elastic"](), prepared("elastic")
    model = tiny(sample)
    one = model.predict(case.mesh, case.boundary, source=case.source, neumann=case.neumann)
    assert isinstance(one, Prediction)
    other = {**case.boundary, "left": {"displacement": [0.0, 0.0]}}
    both = model.predict(
        [case.mesh, case.mesh],
        [case.boundary, other],
        source=[case.source, case.source],
        neumann=case.neumann,  # one for all
    )
    assert len(both) == 2
    near = 1e-8 * np.abs(one.components).max()  # to the solver's tolerance
    np.testing.assert_allclose(both[0].components, one.components, rtol=0, atol=near)
    assert np.abs(both[1].components - one.components).max() > 1e-5
    assert model.predict([], []) == []


def test_more_meshes_than_one_batch_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = [prepared("poisson")] * 5
    model = tiny(samples[0])
    (alone,) = model.predict_samples(samples[:1])
    monkeypatch.setattr(type(model), "PREDICT_BATCH", 2)
    predictions = model.predict_samples(samples)
    assert len(predictions) == 5
    for prediction in predictions:
        np.testing.assert_allclose(prediction.components, alone.components, rtol=1e-11)


def test_predict_leaves_the_model_as_it_was() -> None:
    sample = prepared("poisson")
    model = tiny(sample).train()
    (first,) = model.predict_samples([sample])
    assert model.training
    (second,) = model.predict_samples([sample])
    np.testing.assert_array_equal(first.components, second.components)
    assert all(p.grad is None for p in model.parameters())


def test_wrong_number_of_inputs() -> None:
    case, sample = CASES["poisson"](), prepared("poisson")
    model = tiny(sample)
    with pytest.raises(InputError, match="boundary_data has 3 entries for 2 meshes") as caught:
        model.predict([case.mesh] * 2, [case.boundary] * 3, source=case.source)
    assert "one each" in str(caught.value)
    with pytest.raises(InputError, match="source has 1 entries for 2 meshes"):
        model.predict([case.mesh] * 2, case.boundary, source=[case.source])
    with pytest.raises(InputError, match="sources do not match"):
        model.predict(case.mesh, case.boundary)


def test_samples_with_other_columns_are_refused() -> None:
    case, sample = CASES["poisson"](), prepared("poisson")
    model = tiny(sample)
    other = prepare(
        case.mesh, case.problem, case.boundary, source=case.source,
        spec=FeatureSpec(hks_times=1, eigenpairs=6, hks_gradients=False, group_distances=True),
    )  # fmt: skip
    with pytest.raises(FeatureError, match=r"missing \['hks:1'\], extra \['distance:left'"):
        model.predict_samples([other])


def test_a_sample_that_does_not_converge_says_so() -> None:
    sample = prepared("poisson")
    model = tiny(sample)
    with torch.no_grad():
        model.partition.out.weight.fill_(torch.nan)
    (prediction,) = model.predict_samples([sample])
    assert not prediction.certificate.converged
    assert prediction.certificate.uniqueness == "not certified"
    assert "advice" in prediction.summary()
    assert prediction.certificate.advice in prediction.summary()


def test_spec_of_the_model_is_used_by_predict() -> None:
    case = CASES["poisson"]()
    model = tiny(prepared("poisson"))
    assert model.spec == SPEC
    prediction = model.predict(case.mesh, case.boundary, source=case.source)
    (direct,) = model.predict_samples([prepared("poisson")])
    np.testing.assert_array_equal(prediction.components, direct.components)
