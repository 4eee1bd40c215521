"""Samples: dimensionless, in the frame, and back again to the last bit; bad input is named."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from geonew.cache import Cache
from geonew.errors import BoundaryDataError, GroupError, InputError
from geonew.model.sample import FAR, Sample, prepare, to_frame, to_lab, write_prescribed
from geonew.problem import FrameRule, Neumann, Parameter
from model.cases import CASES, SPEC, prepared, scalar_problem
from zoo import ZOO


@pytest.fixture(params=list(CASES))
def sample(request: pytest.FixtureRequest) -> Sample:
    return prepared(request.param)


def test_arrays_fit_and_are_finite(sample: Sample) -> None:
    n, F, G = sample.n_nodes, sample.problem.n_components, len(sample.problem.groups)
    assert sample.tokens.shape == (n, len(sample.columns))
    assert sample.indicators.shape == (n, F, G)
    assert sample.group_value.shape == sample.live.shape == (F, G)
    for name in ("tokens", "mass", "log_distance", "indicators", "extension", "load"):
        assert np.isfinite(getattr(sample, name)).all(), name
    assert sample.mass.min() > 0
    volume = sample.mesh.volume / sample.problem.reference_length**sample.problem.dim
    assert sample.mass.sum() == pytest.approx(volume, rel=1e-12)


def test_lift_meets_the_data(sample: Sample) -> None:
    reference = np.array(sample.problem.references)
    fixed = sample.fixed
    exact = sample.values.value / reference
    assert np.abs((sample.extension - exact)[fixed]).max() <= 1e-14 * np.abs(exact).max()
    covered = fixed.any(axis=0)
    total = sample.indicators.sum(axis=2)
    assert np.abs(total[:, covered] - 1).max() < 1e-12
    assert not total[:, ~covered].any()
    assert (sample.log_distance[fixed] == -FAR).all()
    assert (sample.log_distance[:, ~covered] == FAR).all()
    assert (sample.log_distance[~fixed] > -FAR).all()


def test_group_values_are_means_over_the_group(sample: Sample) -> None:
    problem = sample.problem
    for f, reference in enumerate(problem.references):
        for g in range(len(problem.groups)):
            own = sample.values.owner[:, f] == g
            assert sample.live[f, g] == own.any()
            if own.any():
                values = sample.values.value[own, f] / reference
                low, high = values.min(), values.max()
                slack = 1e-12 * np.abs(values).max()
                assert low - slack <= sample.group_value[f, g] <= high + slack


def test_to_frame_and_back(sample: Sample) -> None:
    fields = np.random.default_rng(0).normal(size=sample.fixed.shape)
    back = to_lab(sample, to_frame(sample, fields))
    assert np.abs(back - fields).max() < 1e-14 * 10
    with_target = sample.with_target(fields)
    assert with_target.target is not None
    assert np.abs(to_lab(sample, with_target.target) - fields).max() < 1e-13
    assert sample.target is None


def test_prescribed_values_are_written_to_the_last_bit(sample: Sample) -> None:
    fields = np.random.default_rng(1).normal(size=sample.fixed.shape)
    written = write_prescribed(sample, fields)
    problem = sample.problem
    for f in problem.fields:
        span = problem.columns(f.name)
        fixed = sample.fixed[:, span]
        whole = fixed.all(axis=1)
        by_axes = {problem.groups.index(d.group) for d in problem.dirichlet if d.axes}
        plain = whole & ~np.isin(sample.values.owner[:, span], list(by_axes)).any(axis=1)
        np.testing.assert_array_equal(written[plain, span], sample.lab_values.value[plain, span])
        free = ~fixed.any(axis=1)
        np.testing.assert_array_equal(written[free, span], fields[free, span])
    again = to_frame(sample, written) * np.array(problem.references)
    size = np.abs(sample.values.value).max()
    assert np.abs((again - sample.values.value)[sample.fixed]).max() < 1e-14 * size


def test_a_part_of_a_vector_keeps_its_free_component() -> None:
    """Sliding along a wall: only the component along the frame's axis is replaced."""
    sample = prepared("elastic")
    rng = np.random.default_rng(2)
    fields = rng.normal(size=sample.fixed.shape)
    written = write_prescribed(sample, fields)
    sliding = sample.fixed.any(axis=1) & ~sample.fixed.all(axis=1)
    assert sliding.any()
    before, after = (sample.frame.to_frame(x[sliding]) for x in (fields, written))
    np.testing.assert_allclose(after[:, 0], before[:, 0], atol=1e-14)
    np.testing.assert_allclose(after[:, 1], 1e-4, atol=1e-15)


def test_parameters_become_columns() -> None:
    case = CASES["flow"]()
    problem = replace(
        case.problem,
        parameters=(
            Parameter("mu", reference=4.0),
            Parameter("wind", rank="vector", reference=2.0),
            Parameter("rough", "nodal"),
        ),
    )
    rough = case.mesh.points[:, 0] ** 2
    sample = prepare(
        case.mesh,
        problem,
        case.boundary,
        spec=SPEC,
        source=case.source,
        parameters={"mu": 6.0, "wind": [3.0, -1.0], "rough": rough},
    )
    names = ("parameter:mu", "parameter:wind:1", "parameter:wind:2", "parameter:rough")
    assert sample.columns[-4:] == names
    turned = sample.frame.to_frame(np.array([3.0, -1.0])) / 2.0
    np.testing.assert_allclose(sample.tokens[:, -4], 1.5)
    np.testing.assert_allclose(sample.tokens[:, -3:-1], np.tile(turned, (len(rough), 1)))
    np.testing.assert_allclose(sample.tokens[:, -1], rough)
    np.testing.assert_allclose(sample.parameters, [1.5])


def test_without_a_frame_a_vector_parameter_is_its_length() -> None:
    mesh = ZOO["disc"]()
    problem = scalar_problem(
        mesh,
        dirichlet=1,
        parameters=(Parameter("wind", rank="vector"),),
        frame=(FrameRule("normal", "rim"),),  # a closed curve has no mean normal
    )
    sample = prepare(
        mesh, problem, {"rim": {"u": 1.0}}, spec=SPEC, source={"u": 1.0},
        parameters={"wind": [3.0, -4.0]},
    )  # fmt: skip
    assert any("no canonical frame" in note for note in sample.notes)
    assert sample.columns[-1] == "|parameter:wind|"
    np.testing.assert_allclose(sample.tokens[:, -1], 5.0)


def test_the_cache_returns_the_same_sample(tmp_path) -> None:
    case = CASES["flow"]()
    cache = Cache(tmp_path, limit=10**8)
    first, second = (
        prepare(case.mesh, case.problem, case.boundary, spec=SPEC, source=case.source, cache=cache)
        for _ in range(2)
    )
    for name in ("tokens", "extension", "indicators", "log_distance", "load", "anchor_key"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    assert first.columns == second.columns


# -- refusals ------------------------------------------------------------------------------------


def test_a_gauged_field_needs_balanced_data() -> None:
    case = CASES["cavity"]()
    leak = {**case.boundary, "top": {"velocity": [0.0, 1.0]}}
    with pytest.raises(InputError, match=r"net flow of .* balance of 'pressure'") as caught:
        case.sample(leak)
    assert "inflow equals their outflow" in str(caught.value)
    through = {g: {"velocity": [1.0, 0.5]} for g in ("left", "right", "bottom", "top")}
    assert case.sample(through).n_nodes == case.mesh.n_nodes  # as much out as in


def test_wrong_inputs_are_named() -> None:
    case = CASES["poisson"]()
    missing = {"left": {"u": 1.0}}
    with pytest.raises(BoundaryDataError, match="missing"):
        case.sample(missing)
    with pytest.raises(BoundaryDataError, match="not finite"):
        case.sample({**case.boundary, "left": {"u": np.nan}})
    with pytest.raises(InputError, match="sources do not match"):
        prepare(case.mesh, case.problem, case.boundary, spec=SPEC)
    with pytest.raises(InputError, match="parameters do not match"):
        prepare(
            case.mesh, case.problem, case.boundary, spec=SPEC, source=case.source,
            parameters={"mu": 1.0},
        )  # fmt: skip
    with pytest.raises(BoundaryDataError, match="Neumann data for field 'u'"):
        prepare(
            case.mesh, case.problem, case.boundary, spec=SPEC, source=case.source,
            neumann={"top": {"u": 1.0}},
        )  # fmt: skip
    with pytest.raises(GroupError, match="do not match"):
        replace(case, mesh=ZOO["disc"]()).sample()
    with pytest.raises(GroupError, match="2D, the mesh is 3D"):
        replace(case, mesh=ZOO["cube"]()).sample()


def test_loads_scale_with_the_energy() -> None:
    """Twice the coefficient and twice the load: the same dimensionless load."""
    case = CASES["poisson"]()
    (term,) = case.problem.terms
    problem = replace(
        case.problem, terms=(replace(term, coefficient=2 * term.coefficient),),
        neumann=(Neumann("u", "top"),),
    )  # fmt: skip
    doubled = prepare(case.mesh, problem, case.boundary, spec=SPEC, source={"u": 2 * 1.7})
    np.testing.assert_allclose(doubled.load, prepared("poisson").load, rtol=1e-13)
