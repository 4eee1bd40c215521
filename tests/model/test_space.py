"""Boundary values: exact to the last bit for data of any sign, no jumps, constants reproduced."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from geonew.model.geonew import GeoNeW
from geonew.model.sample import Sample
from geonew.problem import BoundaryData
from model.cases import CASES, SPEC, Case, flow, poisson, redraw, scalar, tiny
from zoo import ZOO


def varied(case: Case, kind: str) -> BoundaryData:
    """Data of one sign or another on every group, in the user's axes; different at corners."""
    rng = np.random.default_rng(0)
    data: dict[str, dict[str, Any]] = {}
    for condition in case.problem.dirichlet:
        vector = case.problem.field(condition.field).rank == "vector"
        width = len(condition.axes) if condition.axes else case.mesh.dim if vector else 1
        reference = case.problem.field(condition.field).reference
        shape = (case.mesh.n_nodes, width) if vector else (case.mesh.n_nodes,)
        value = reference * rng.uniform(0.1, 1.0, shape)
        value = value * {"zero": 0.0, "positive": 1.0, "negative": -1.0}.get(kind, 1.0)
        if kind == "mixed":
            value *= rng.choice([-1.0, 0.0, 1.0], shape)
        data.setdefault(condition.group, {})[condition.field] = value
    return data


def prescribed(case: Case, data: BoundaryData) -> np.ndarray:
    """What the user asked for, node by node: NaN where nothing, or along frame axes only."""
    wanted = np.full((case.mesh.n_nodes, case.problem.n_components), np.nan)
    owned = np.zeros((case.mesh.n_nodes, len(case.problem.fields)), dtype=bool)
    for group in case.problem.groups:  # in the order of priority
        nodes = case.mesh.nodes_of(group)
        for k, f in enumerate(case.problem.fields):
            given = [c for c in case.problem.dirichlet if (c.group, c.field) == (group, f.name)]
            if not given or given[0].axes is not None:
                continue
            free = nodes[~owned[nodes, k]]
            owned[nodes, k] = True
            value = np.asarray(data[group][f.name]).reshape(case.mesh.n_nodes, -1)
            wanted[free, case.problem.columns(f.name)] = value[free]
    return wanted


def turned(case: Case) -> Case:
    """The same case, its mesh turned and shifted, so that the frame is not the user's."""
    dim = case.mesh.dim
    random = np.linalg.qr(np.random.default_rng(1).standard_normal((dim, dim)))[0]
    rotation = random if np.linalg.det(random) > 0 else random[::-1]
    return replace(case, mesh=case.mesh.moved(rotation, np.arange(1.0, dim + 1.0), 1.7))


def model_of(sample: Sample, **changes) -> GeoNeW:
    return redraw(tiny(sample, **changes), 5)


@pytest.mark.parametrize("kind", ["zero", "positive", "negative", "mixed"])
@pytest.mark.parametrize("name", ["poisson", "flow", "elastic", "poisson3d", "stokes3d"])
def test_boundary_values_are_exact(name: str, kind: str) -> None:
    case = turned(CASES[name]())
    data = varied(case, kind)
    sample = case.sample(data)
    wanted = prescribed(case, data)
    known = np.isfinite(wanted)
    assert known.any()
    for dtype in (torch.float32, torch.float64):
        for boundary in ("lifted", "nodal"):
            model = model_of(sample, dtype=dtype, boundary=boundary)
            (prediction,) = model.predict_samples([sample])
            assert np.array_equal(prediction.components[known], wanted[known])
            assert prediction.certificate.boundary_defect <= 4
            # components along frame axes: turned to the user's axes and back, a few ulp
            for f in case.problem.fields:
                span = case.problem.columns(f.name)
                found = prediction.components[:, span]
                found = sample.frame.to_frame(found) if f.rank == "vector" else found
                fixed = sample.values.fixed[:, span]
                size = np.abs(prediction.components[:, span]).max()
                error = np.abs(found - sample.values.value[:, span])[fixed]
                assert error.max(initial=0.0) <= 8 * np.finfo(float).eps * size


def test_control_boundary_defect_sees_an_error() -> None:
    case = poisson()
    sample = case.sample()
    model = model_of(sample)
    batch = model.collate([sample])
    with torch.no_grad():
        output = model(batch)
    from geonew.model.certificate import certify

    assert certify(output, batch)[0].boundary_defect <= 4
    wrong = replace(output, fields=output.fields * (1 + 1e-14))
    assert certify(wrong, batch)[0].boundary_defect > 4


# -- no jumps ------------------------------------------------------------------------------------


def largest_jump(case: Case, scaled, boundary: str, steps: int) -> float:
    """Largest jump of the prediction along t -> data(t), over its largest value.

    The path is sampled in ``steps`` intervals; the two beside its sharpest bend are
    halved 24 times, always towards the half in which it moves more. A continuous path moves ever
    less; a jump stays what it is.
    """
    times = np.linspace(-1.0, 2.0, steps + 1)  # through 0, and from 0.5 to 2
    first = case.sample(scaled(1.0))
    model = model_of(first, boundary=boundary)

    def at(several: list[float]) -> np.ndarray:
        samples = [case.sample(scaled(t)) for t in several]
        return np.stack([p.components for p in model.predict_samples(samples)])

    path = at(list(times))
    size = np.abs(path).max(axis=(0, 1))
    curvature = (np.abs(np.diff(path, 2, axis=0)) / size).max(axis=(1, 2))
    worst = 0.0
    for k in {int(curvature.argmax()), int(curvature.argmax()) + 1}:
        (low, high), (left, right) = times[k : k + 2], path[k : k + 2]
        for _ in range(24):
            middle = (low + high) / 2
            (value,) = at([middle])
            if (np.abs(value - left) / size).max() >= (np.abs(right - value) / size).max():
                high, right = middle, value
            else:
                low, left = middle, value
        worst = max(worst, float((np.abs(right - left) / size).max()))
    return worst


def poisson_path(t: float) -> BoundaryData:
    return {"left": {"u": 2.0 * t}, "right": {"u": lambda x: t * (x[:, 1] - 0.3)}}


def flow_path(t: float) -> BoundaryData:
    case = flow()
    inlet = case.boundary["left"]["velocity"]
    return {
        **case.boundary,
        "left": {"velocity": lambda x: t * inlet(x)},
        "right": {"velocity": [0.1 * t], "pressure": 0.3 * t},
    }


def test_no_jump_when_data_are_scaled() -> None:
    assert largest_jump(poisson(), poisson_path, "lifted", 200) <= 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("boundary", ["lifted", "nodal"])
def test_no_jump_when_data_of_a_flow_are_scaled(boundary: str) -> None:
    assert largest_jump(flow(), flow_path, boundary, 200) <= 1e-6


def test_control_a_jump_is_noticed() -> None:
    """Data that switch sign at t = 1/3 by a tiny amount."""

    def switching(t: float) -> BoundaryData:
        return poisson_path(t + (1e-4 if t > 1 / 3 else 0.0))

    assert largest_jump(poisson(), switching, "lifted", 4) > 1e-6


# -- constants -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mesh", ["square", "obtuse", "random_delaunay", "graded", "cube", "ball", "slivers"]
)
@pytest.mark.parametrize("boundary", ["lifted", "nodal"])
def test_constant_data_return_the_constant(mesh: str, boundary: str) -> None:
    """Also where the indicators are clamped: obtuse triangles and most tetrahedra."""
    case = scalar(mesh, sources=())
    constant = -2.7
    sample = case.sample({d.group: {"u": constant} for d in case.problem.dirichlet})
    for known in (True, False):
        for dtype in (torch.float64, torch.float32):
            model = model_of(sample, boundary=boundary, known=known, dtype=dtype)
            (prediction,) = model.predict_samples([sample])
            assert prediction.certificate.converged
            assert np.abs(prediction.components - constant).max() <= 1e-12 * abs(constant)


def test_clamped_meshes_are_among_them() -> None:
    from geonew.fem import assemble
    from geonew.fem.dirichlet import has_positive_couplings

    assert all(has_positive_couplings(assemble(ZOO[m]()).stiffness) for m in ("obtuse", "slivers"))
    assert SPEC.data  # the data are among the tokens: the paths above go through the encoder too
