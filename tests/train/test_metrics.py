"""The metric: by its definition, invariant under units and rotation, honest about small fields."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from geonew.problem import Dirichlet, Field, FrameRule, Problem, stokes_terms
from geonew.train.metrics import column_names, gather, measure
from geonew.train.objective import relative_errors

PROBLEM = Problem(
    name="cavity",
    dim=2,
    fields=(Field("velocity", "vector", labels=("u", "v")), Field("pressure", level="gauge")),
    groups=("wall",),
    dirichlet=(Dirichlet("velocity", "wall"),),
    terms=stokes_terms("velocity", "pressure", 1.0),
    frame=(FrameRule("normal", "wall"),),
)
GENERATOR = np.random.default_rng(0)
TRUTH, DEFECT = GENERATOR.normal(size=(2, 40, 3))
MASS = GENERATOR.uniform(0.5, 2.0, size=40)
DEVIATIONS = np.array([0.7, 0.7, 3.0])


def by_name(truth=TRUTH, defect=DEFECT, mass=MASS, deviations=DEVIATIONS) -> dict[str, np.ndarray]:
    figures = measure(PROBLEM, deviations, truth, truth + defect, mass)
    return dict(zip(column_names(PROBLEM), figures.T, strict=True))


def centred(values: np.ndarray) -> np.ndarray:
    return values - MASS @ values / MASS.sum()


def test_columns_by_their_definition():
    errors = by_name()
    assert list(errors) == ["combined", "velocity", "pressure", "u", "v"]
    norm = np.linalg.norm
    assert errors["u"][0] == pytest.approx(norm(DEFECT[:, 0]) / norm(TRUTH[:, 0]), rel=1e-14)
    velocity = norm(DEFECT[:, :2]) / norm(TRUTH[:, :2])
    assert errors["velocity"][0] == pytest.approx(velocity, rel=1e-14)
    pressure = norm(centred(DEFECT[:, 2])) / norm(centred(TRUTH[:, 2]))
    assert errors["pressure"][0] == pytest.approx(pressure, rel=1e-14)
    assert errors["u"][2] == pytest.approx(np.sqrt(np.mean(DEFECT[:, 0] ** 2)), rel=1e-14)
    truth = np.column_stack([TRUTH[:, :2], centred(TRUTH[:, 2])]) / DEVIATIONS
    defect = np.column_stack([DEFECT[:, :2], centred(DEFECT[:, 2])]) / DEVIATIONS
    assert errors["combined"][0] == pytest.approx(norm(defect) / norm(truth), rel=1e-14)
    root = np.sqrt(MASS)[:, None]
    assert errors["combined"][1] == pytest.approx(norm(root * defect) / norm(root * truth))


def test_a_level_without_meaning_costs_nothing():
    shifted = DEFECT + np.array([0.0, 0.0, 17.0])
    for name, figures in by_name(defect=shifted).items():
        np.testing.assert_allclose(figures, by_name()[name], rtol=1e-10)


def test_units_and_axes_change_nothing():
    units = np.array([3.0, 3.0, 0.1])
    c, s = np.cos(0.7), np.sin(0.7)
    turn = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
    moved = by_name(TRUTH @ turn.T * units, DEFECT @ turn.T * units, 5.0 * MASS, DEVIATIONS * units)
    for name in ("combined", "velocity", "pressure"):
        np.testing.assert_allclose(moved[name][:2], by_name()[name][:2], rtol=1e-12)
    assert abs(moved["u"][0] / by_name()["u"][0] - 1) > 1e-2, "components do turn"


def test_fields_that_all_but_vanish_report_the_absolute_error():
    truth = TRUTH * [1.0, 1e-5, 1.0]
    v = by_name(truth)["v"]
    assert np.isnan(v[:2]).all()
    assert v[2] == pytest.approx(np.sqrt(np.mean(DEFECT[:, 1] ** 2)))
    assert np.isfinite(by_name(truth)["velocity"]).all()


def test_means_are_over_samples_and_skip_what_vanishes():
    rows = [
        measure(PROBLEM, DEVIATIONS, scale * TRUTH, scale * TRUTH + DEFECT, MASS)
        for scale in (1.0, 2.0, 1e-6)
    ]
    errors = gather(PROBLEM, rows)
    assert np.isnan(errors.relative)[:, 0].tolist() == [False, False, True]
    assert errors.combined == pytest.approx(0.75 * rows[0][0, 0])
    assert errors.mean_absolute()["u"] == pytest.approx(rows[0][2, 3])
    assert gather(PROBLEM, rows[2:]).combined == np.inf


def test_a_failed_prediction_is_infinitely_wrong():
    broken = DEFECT.copy()
    broken[3, 0] = np.nan
    errors = by_name(defect=broken)
    assert errors["combined"][0] == np.inf
    assert np.isfinite(errors["pressure"]).all()


def test_the_loss_is_the_metric():
    class Padded:
        target = torch.zeros(1, 50, 3, dtype=torch.float64)
        mask = torch.arange(50)[None] < 40
        mass = torch.zeros(1, 50, dtype=torch.float64)
        volume = torch.tensor([MASS.sum()])

    truth = np.column_stack([TRUTH[:, :2], centred(TRUTH[:, 2])])
    Padded.target[0, :40] = torch.from_numpy(truth)
    Padded.mass[0, :40] = torch.from_numpy(MASS)
    fields = Padded.target + 5.0  # whatever stands on padding
    fields[0, :40] = torch.from_numpy(truth + DEFECT)
    unchecked = getattr(relative_errors, "__wrapped__", relative_errors)
    loss = unchecked(PROBLEM, fields, Padded, torch.from_numpy(DEVIATIONS))
    assert loss.item() == pytest.approx(by_name()["combined"][0], rel=1e-12)
