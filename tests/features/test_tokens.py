"""Tokens follow rigid motions, units and numberings; the zoo; refinement; settings; the cache."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geonew.cache import Cache
from geonew.errors import FeatureError, GroupError
from geonew.features import FeatureSpec, featurise, generic_problem
from geonew.fem import assemble
from geonew.mesh import Mesh
from geonew.problem import Dirichlet, Field, FrameRule, Problem
from structured import box, nested_nodes, trapezium
from zoo import ZOO, build, grid

FOLLOWS = 1e-8
FULL = FeatureSpec(coordinates=True, group_distances=True, eigenpairs=24)


# -- two problems with vectors -------------------------------------------------------------------


def flow(dim: int, length: float = 1.0) -> Problem:
    """Velocity on inlet and walls, pressure at the outlet."""
    second = (FrameRule("normal", "floor"),) if dim == 3 else ()
    walls = ("wall",) if dim == 2 else ("floor", "wall")
    return Problem(
        "flow",
        dim,
        (Field("velocity", "vector"), Field("pressure")),
        ("inlet", *walls, "outlet"),
        (
            *(Dirichlet("velocity", g) for g in ("inlet", *walls)),
            Dirichlet("pressure", "outlet"),
        ),
        frame=(FrameRule("normal", "inlet"), *second),
        harmonic=(("inlet", "outlet"), ("inlet", "wall")),
        reference_length=length,
    )


def flow_mesh(dim: int) -> Mesh:
    if dim == 2:
        return trapezium(24).renamed({"bottom": "wall", "top": "wall"})
    points, cells = grid([np.linspace(0, 1, 7), np.linspace(0, 1, 6), np.linspace(0, 1, 6)])
    x, y, z = points.T
    points = np.stack([x * (1.5 + 0.3 * y), y + 0.2 * x * z, z * (1 + 0.2 * x)], axis=1)
    labels = {
        "inlet": lambda m: m[:, 0] < 1e-9,
        "floor": lambda m: m[:, 2] < 1e-9,
        "outlet": lambda m: m[:, 0] > 1.5 + 0.3 * (m[:, 1] - 0.2 * m[:, 2]) - 0.1,
        "wall": lambda m: np.ones(len(m), dtype=bool),
    }
    return build(points, cells, labels)


def flow_data(mesh: Mesh, dim: int, turn: np.ndarray) -> dict:
    """An inlet profile that is attached to the nodes, and turned with the mesh."""
    local = mesh.points[mesh.nodes_of("inlet")]
    profile = 1 + np.sin(3 * local.sum(axis=1))
    velocity = np.zeros((mesh.n_nodes, dim))
    velocity[mesh.nodes_of("inlet")] = profile[:, None] * np.arange(1.0, dim + 1)
    data = {
        group: {"velocity": (velocity if group == "inlet" else 0 * velocity) @ turn.T}
        for group in ("inlet", "floor", "wall")
        if group in mesh.groups
    }
    return {**data, "outlet": {"pressure": 0.5}}


def rotation(dim: int, seed: int, determinant: float) -> np.ndarray:
    q = np.linalg.qr(np.random.default_rng(seed).standard_normal((dim, dim)))[0]
    q[0] *= determinant * np.sign(np.linalg.det(q))
    return q


def assert_close(got: np.ndarray, expected: np.ndarray, columns, bound: float = FOLLOWS) -> None:
    scale = np.maximum(np.abs(expected).max(axis=0), 1e-3)
    worst = np.abs(got - expected).max(axis=0) / scale
    bad = {columns[k]: worst[k] for k in np.flatnonzero(~(worst < bound))}
    assert not bad, bad


motions = given(
    seed=st.integers(0, 2**31),
    shift=st.floats(-10, 10),
    unit=st.sampled_from([1e-3, 0.0254, 1.0, 1e3]),
)


@pytest.mark.parametrize("dim", [2, 3])
@settings(max_examples=6)
@motions
def test_vector_tokens_follow_rotation_translation_and_unit(dim, seed, shift, unit):
    mesh, turn = flow_mesh(dim), rotation(dim, seed, 1.0)
    before = featurise(mesh, flow(dim), FULL, flow_data(mesh, dim, np.eye(dim)))
    moved = mesh.moved(turn, np.full(dim, shift), unit)
    after = featurise(moved, flow(dim, 1 / unit), FULL, flow_data(mesh, dim, turn))
    assert before.frame.canonical
    assert after.columns == before.columns
    assert_close(after.tokens, before.tokens, before.columns)
    assert_close(after.lift.indicators[:, 0], before.lift.indicators[:, 0], flow(dim).groups)
    vectors = np.random.default_rng(0).standard_normal((5, dim))
    assert (
        np.abs(after.frame.to_lab(before.frame.to_frame(vectors)) - vectors @ turn.T).max() < 1e-12
    )


@pytest.mark.parametrize("dim", [2, 3])
@settings(max_examples=4)
@given(seed=st.integers(0, 2**31))
def test_reflection_changes_only_the_sign_along_the_last_axis(dim, seed):
    mesh, turn = flow_mesh(dim), rotation(dim, seed, -1.0)
    before = featurise(mesh, flow(dim), FULL, flow_data(mesh, dim, np.eye(dim)))
    moved = mesh.moved(turn, np.zeros(dim))
    after = featurise(moved, flow(dim), FULL, flow_data(mesh, dim, turn))
    last_component = "velocity_" + "xyz"[dim - 1]

    def sign(name: str) -> int:
        turns = name.startswith((f"d{dim} ", f"x{dim}")) + name.endswith(last_component)
        return (-1) ** turns

    signs = np.array([sign(name) for name in before.columns])
    assert_close(after.tokens * signs, before.tokens, before.columns)
    assert (signs < 0).sum() >= 5


@pytest.mark.parametrize("dim", [2, 3])
@settings(max_examples=4)
@given(seed=st.integers(0, 2**31))
def test_tokens_follow_the_numbering(dim, seed):
    mesh, rng = flow_mesh(dim), np.random.default_rng(seed)
    data = flow_data(mesh, dim, np.eye(dim))
    before = featurise(mesh, flow(dim), FULL, data)
    new_of_old = rng.permutation(mesh.n_nodes)
    old_of_new = np.argsort(new_of_old)
    even = [np.roll(np.arange(3), rng.integers(3)).tolist() + [3] * (dim == 3)][0]
    shuffled = Mesh(
        mesh.points[old_of_new],
        new_of_old[mesh.cells[rng.permutation(mesh.n_cells)][:, even]],
        {name: new_of_old[facets] for name, facets in mesh.groups.items()},
    )
    renumbered = {
        group: {name: v[old_of_new] if np.ndim(v) else v for name, v in by_field.items()}
        for group, by_field in data.items()
    }
    after = featurise(shuffled, flow(dim), FULL, renumbered)
    assert_close(after.tokens[new_of_old], before.tokens, before.columns)


@settings(max_examples=6)
@given(
    name=st.sampled_from(
        ["plate", "random_delaunay", "obtuse", "annulus", "slit", "ball", "l_brick"]
    ),
    seed=st.integers(0, 2**31),
    reflect=st.booleans(),
)
def test_invariant_tokens_follow_any_isometry(name, seed, reflect):
    """Without a frame nothing may change, under reflections neither."""
    mesh = ZOO[name]()
    turn = rotation(mesh.dim, seed, -1.0 if reflect else 1.0)
    spec = FeatureSpec(data=False, eigenpairs=12, group_distances=True)
    problem = frameless(mesh)
    before = featurise(mesh, problem, spec)
    after = featurise(mesh.moved(turn, np.ones(mesh.dim)), problem, spec)
    assert not before.frame.canonical
    assert_close(after.tokens, before.tokens, before.columns)


def frameless(mesh: Mesh) -> Problem:
    full = generic_problem(mesh)
    return Problem(
        "frameless", mesh.dim, full.fields, full.groups, full.dirichlet, harmonic=full.harmonic
    )


# -- refinement ----------------------------------------------------------------------------------


def test_tokens_of_one_shape_agree_under_refinement():
    """RMS difference to a four times finer mesh, relative to the column's RMS, shrinks with h."""
    spec = FeatureSpec(eigenpairs=12, group_distances=True)
    sizes, finest = (12, 24, 48), 96

    def tokens(n: int):
        mesh = trapezium(n).renamed({"bottom": "wall", "top": "wall"})
        data = {
            "inlet": {
                "velocity": lambda x: np.stack([x[:, 1] * (1 - x[:, 1]), 0 * x[:, 0]], axis=1)
            },
            "wall": {"velocity": [0.0, 0.0]},
            "outlet": {"pressure": 0.0},
        }
        return featurise(mesh, flow(2), spec, data)

    fine = tokens(finest)
    errors = []
    for n in sizes:
        coarse = tokens(n)
        assert coarse.columns == fine.columns
        expected = fine.tokens[nested_nodes(n, finest // n)]
        mass = coarse.operators.lumped
        difference = np.sqrt(mass @ (coarse.tokens - expected) ** 2 / mass.sum())
        size = np.sqrt(mass @ expected**2 / mass.sum())
        errors.append(np.where(size > 1e-8, difference / np.maximum(size, 1e-8), difference))
    for k, name in enumerate(fine.columns):
        at = [float(e[k]) for e in errors]
        assert at[-1] < (0.10 if name.startswith(("d", "|grad", "grad")) else 0.01), (name, at)
        if at[0] > 1e-8:
            assert at[-1] < 0.5 * at[0], (name, at)


# -- the zoo, settings, refusals -----------------------------------------------------------------


def test_every_mesh_has_features(zoo_mesh):
    problem = generic_problem(zoo_mesh)
    data = {group: {"u": float(k)} for k, group in enumerate(zoo_mesh.groups)}
    features = featurise(zoo_mesh, problem, FeatureSpec(eigenpairs=8, hks_times=4), data)
    assert np.isfinite(features.tokens).all()
    assert len(set(features.columns)) == len(features.columns)
    assert features.operators.mesh.volume == pytest.approx(1.0, rel=1e-9)
    labels = features.tokens[:, : len(zoo_mesh.groups)]
    assert (labels.sum(axis=1) > 0).sum() == len(zoo_mesh.boundary_nodes)
    if len(zoo_mesh.boundary_nodes) == zoo_mesh.n_nodes:
        assert any("no interior node" in note for note in features.notes)


def test_closed_groups_have_no_frame_and_say_so():
    mesh = ZOO["annulus"]()
    features = featurise(mesh, generic_problem(mesh), FeatureSpec(data=False, eigenpairs=8))
    assert not features.frame.canonical
    assert any("not well defined" in note for note in features.notes)
    assert any("no canonical frame" in note for note in features.notes)
    assert not any(name.startswith(("d1", "x1")) for name in features.columns)


def test_frame_rules_are_tried_in_order():
    mesh = flow_mesh(2)
    data = {
        "inlet": {"velocity": [0.6, 0.8]},
        "wall": {"velocity": [0.0, 0.0]},
        "outlet": {"pressure": 0.0},
    }
    by = {}
    for rule in (
        FrameRule("normal", "inlet"),
        FrameRule("inflow", "inlet", "velocity"),
        FrameRule("gradient", "outlet", other="inlet"),
    ):
        p = flow(2)
        problem = Problem(
            p.name, 2, p.fields, p.groups, p.dirichlet, frame=(rule,), harmonic=p.harmonic
        )
        by[rule.kind] = featurise(mesh, problem, FeatureSpec(eigenpairs=8), data).frame.rotation[0]
    assert np.abs(by["normal"] - [1, 0]).max() < 1e-14
    assert np.abs(by["inflow"] - [0.6, 0.8]).max() < 1e-14
    assert by["gradient"][0] > 0.9


def test_a_closed_group_falls_through_to_the_next_rule():
    """On an annulus the rim's normal vanishes; the data's mean fixes the frame."""
    mesh = ZOO["annulus"]()
    problem = Problem(
        "far field",
        2,
        (Field("velocity", "vector"),),
        ("inner", "outer"),
        (Dirichlet("velocity", "inner"), Dirichlet("velocity", "outer")),
        frame=(
            FrameRule("normal", "outer"),
            FrameRule("gradient", "outer", other="inner"),
            FrameRule("inflow", "outer", "velocity"),
        ),
        harmonic=(("outer", "inner"),),
    )
    data = {"inner": {"velocity": [0.0, 0.0]}, "outer": {"velocity": [0.0, 2.0]}}
    features = featurise(mesh, problem, FeatureSpec(eigenpairs=8), data)
    assert np.abs(features.frame.rotation - [[0, 1], [-1, 0]]).max() < 1e-12
    assert len(features.notes) == 2
    assert features.column("data:velocity_x").max() == pytest.approx(2.0)


def test_gradients_stay_bounded_where_groups_touch():
    """The lid's data jump at its corners: grad E grows like 1/h, d grad E does not."""
    largest = []
    for n in (8, 16, 32):
        mesh = box(n, 2)
        middle = mesh.points[mesh.boundary_facets].mean(axis=1)
        lid = middle[:, 1] > 1 - 1e-9
        mesh = mesh.with_groups(
            {"lid": mesh.boundary_facets[lid], "wall": mesh.boundary_facets[~lid]}
        )
        problem = Problem(
            "heat",
            2,
            (Field("u"),),
            ("lid", "wall"),
            (Dirichlet("u", "lid"), Dirichlet("u", "wall")),
            frame=(FrameRule("normal", "lid"),),
            harmonic=(("lid", "wall"),),
        )
        data = {"lid": {"u": 1.0}, "wall": {"u": 0.0}}
        features = featurise(mesh, problem, FeatureSpec(hks_times=0), data)
        raw = features.operators.nodal_gradient(features.column("data:u"))
        assert np.abs(raw).max() > 0.4 * n
        names = [
            name for name in features.columns if name.startswith("d") and "torsion" not in name
        ]
        largest.append(
            max(np.abs(features.column(n)).max() for n in names if not n.endswith("sdf"))
        )
    assert max(largest) < 1.3
    assert largest[-1] < 1.1 * largest[0]


def test_missing_optional_groups_keep_the_columns():
    mesh = flow_mesh(2)
    p = flow(2)
    problem = Problem(
        "flow", 2, p.fields, (*p.groups, "obstacle"),
        (*p.dirichlet, Dirichlet("velocity", "obstacle")),
        frame=p.frame, harmonic=(*p.harmonic, ("inlet", "obstacle")), optional_groups=("obstacle",),
    )  # fmt: skip
    features = featurise(mesh, problem, FULL, flow_data(mesh, 2, np.eye(2)))
    assert (features.column("label:obstacle") == 0).all()
    assert (features.column("harmonic:inlet-obstacle") == 0).all()
    distance = features.column("distance:obstacle")
    assert np.ptp(distance) == 0
    assert distance[0] > features.column("distance:inlet").max()
    assert sum("obstacle" in note for note in features.notes) == 2


def test_lift_meets_data_and_partition_of_unity():
    mesh = flow_mesh(3)
    features = featurise(mesh, flow(3), FULL, flow_data(mesh, 3, np.eye(3)))
    lift, values = features.lift, features.values
    assert np.abs(lift.indicators.sum(axis=2) - 1).max() < 1e-13
    assert lift.indicators.min() >= 0
    total = lift.extensions.sum(axis=2)
    assert (np.abs(total - values.value)[values.fixed] == 0).all()
    assert ((lift.distance == 0) == values.fixed).all()


def test_a_component_without_data_has_no_lift():
    mesh = ZOO["square"]()
    problem = Problem(
        "two",
        2,
        (Field("u"), Field("p", level="gauge")),
        tuple(mesh.groups),
        (Dirichlet("u", "left"),),
    )
    features = featurise(mesh, problem, FeatureSpec(eigenpairs=4), {"left": {"u": 1.0}})
    assert (features.lift.indicators[:, 1] == 0).all()
    assert np.isinf(features.lift.distance[:, 1]).all()
    assert np.abs(features.column("data:u") - 1).max() < 1e-12


def test_reference_values_scale_the_data():
    mesh = flow_mesh(2)
    data = flow_data(mesh, 2, np.eye(2))
    plain = featurise(mesh, flow(2), FULL, data)
    scaled = featurise(mesh, flow(2).with_references({"velocity": 2.0}), FULL, data)
    assert (
        np.abs(2 * scaled.column("data:velocity_x") - plain.column("data:velocity_x")).max() < 1e-14
    )


def test_settings_are_checked_and_survive_json():
    spec = FeatureSpec(torsion=False, eigenpairs=10)
    assert FeatureSpec.from_json(spec.to_json()) == spec
    with pytest.raises(FeatureError, match="unknown keys"):
        FeatureSpec.from_json('{"eigenpair": 3}')
    with pytest.raises(FeatureError, match="must be a bool"):
        FeatureSpec.from_json('{"torsion": 1}')
    with pytest.raises(FeatureError, match="at least"):
        FeatureSpec(eigenpairs=0)
    with pytest.raises(FeatureError, match="JSON"):
        FeatureSpec.from_json("{")
    with pytest.raises(FeatureError, match="object"):
        FeatureSpec.from_json("[]")


def test_columns_can_be_switched_off():
    mesh = flow_mesh(2)
    nothing = FeatureSpec(
        labels=False, distance=False, harmonic=False, torsion=False, data=False, hks_times=0
    )
    assert featurise(mesh, flow(2), nothing).tokens.shape == (mesh.n_nodes, 0)


def test_missing_data_and_foreign_groups_are_refused():
    mesh = flow_mesh(2)
    with pytest.raises(FeatureError, match="no data were given"):
        featurise(mesh, flow(2))
    with pytest.raises(GroupError, match="do not match"):
        featurise(ZOO["square"](), flow(2))
    features = featurise(mesh, flow(2), FeatureSpec(data=False, eigenpairs=4))
    with pytest.raises(FeatureError, match="no feature"):
        features.column("nonsense")


# -- cache ---------------------------------------------------------------------------------------


def test_cached_features_are_the_same_to_the_bit(tmp_path):
    cache, mesh = Cache(tmp_path, 10**9), flow_mesh(2)
    data = flow_data(mesh, 2, np.eye(2))
    first = featurise(mesh, flow(2), FULL, data, cache)
    size = cache.size()
    assert size > first.tokens.nbytes
    second = featurise(mesh, flow(2), FULL, data, cache)
    assert cache.size() == size
    assert second.columns == first.columns
    assert second.notes == first.notes
    assert (second.tokens == first.tokens).all()
    assert (second.lift.indicators == first.lift.indicators).all()
    assert (second.lift.extensions == first.lift.extensions).all()


def test_the_key_covers_mesh_groups_problem_settings_and_data(tmp_path):
    cache, mesh = Cache(tmp_path, 10**9), flow_mesh(2)
    small = FeatureSpec(eigenpairs=4, hks_times=2)
    data = flow_data(mesh, 2, np.eye(2))
    other_data = {**data, "outlet": {"pressure": 0.7}}
    nudged = Mesh(mesh.points * (1 + 1e-9), mesh.cells, mesh.groups)
    swapped = mesh.renamed({"inlet": "outlet", "outlet": "inlet"})
    calls = [
        (mesh, flow(2), small, data),
        (nudged, flow(2), small, data),
        (mesh, flow(2, length=2.0), small, data),
        (mesh, flow(2), FeatureSpec(eigenpairs=5, hks_times=2), data),
        (mesh, flow(2), small, other_data),
        (swapped, flow(2), small, flow_data(swapped, 2, np.eye(2))),
    ]
    for count, call in enumerate(calls, start=1):
        featurise(*call, cache)
        assert len(list(tmp_path.glob("??/*"))) == count


def test_operators_of_features_are_those_of_the_placed_mesh():
    mesh = flow_mesh(2)
    features = featurise(mesh, flow(2, 2.0), FeatureSpec(data=False, eigenpairs=4))
    placed = features.frame.place(mesh)
    assert (features.operators.mesh.points == placed.points).all()
    assert abs(features.operators.stiffness - assemble(placed).stiffness).max() == 0
    assert placed.volume == pytest.approx(mesh.volume / 4)
