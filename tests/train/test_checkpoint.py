"""Files of models: complete, atomic, refused when damaged, foreign or hostile."""

from __future__ import annotations

import json
import os
import resource
import struct
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import training_runs as runs
from geonew.errors import CheckpointError, ConfigError
from geonew.model.geonew import GeoNeW
from geonew.train.checkpoint import load_model, read_model, save_model
from geonew.train.config import read_config
from geonew.train.container import decode_tree, encode_tree, read_container, write_container
from geonew.train.loop import train
from geonew.train.models import MODELS
from geonew.train.state import LAST


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a short run; data files beside it."""
    folder = runs.data_files(tmp_path_factory.mktemp("run"), count=6)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GEONEW_HOME", str(folder / "home"))
        return train(read_config(runs.configuration(folder, budget={"steps": 6}))).folder


def test_a_model_comes_back_and_predicts_the_same(finished, tmp_path):
    model, about = read_model(finished / "best.safetensors")
    assert isinstance(model, GeoNeW)
    record = runs.record(77)
    source = {"u": record.sources["u"]}
    before = model.predict(record.mesh, record.boundary, source=source)
    save_model(tmp_path / "copy.safetensors", model, about)
    again = load_model(tmp_path / "copy.safetensors")
    assert isinstance(again, GeoNeW)
    after = again.predict(record.mesh, record.boundary, source=source)
    assert np.array_equal(before["u"], after["u"])


def test_a_file_says_what_a_user_needs_to_know(finished):
    _, about = read_model(finished / "best.safetensors")
    values = np.concatenate([runs.record(k).fields["u"] for k in range(6)])
    assert about.problem.field("u").reference == float(f"{np.sqrt(np.mean(values**2)):.1e}")
    deviations = about.deviations * np.array(about.problem.references)
    np.testing.assert_allclose(deviations, values.std(), rtol=1e-12)
    assert about.ranges["samples"] == 6
    assert set(about.ranges["tokens"]) == set(about.columns)
    assert len(about.data_hash) == 64
    assert about.run["batch"] == 4
    assert {"geonew", "torch", "pytorch_optimizer"} <= set(about.versions)
    assert about.extra["validation"]["combined"] > 0


def test_any_flipped_bit_is_noticed(finished, tmp_path):
    content = (finished / LAST).read_bytes()
    header = struct.unpack("<Q", content[:8])[0]
    generator = np.random.default_rng(0)
    places = [0, 9, 8 + header // 2, *generator.integers(8, len(content), 30).tolist()]
    path = tmp_path / "bad.safetensors"
    for place in places:
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(generator.integers(8))
        path.write_bytes(bytes(damaged))
        with pytest.raises(CheckpointError):
            load_model(path)


@pytest.mark.parametrize("part", [0, 7, 100, 0.5, -1])
def test_a_truncated_file_is_refused(finished, tmp_path, part):
    content = (finished / LAST).read_bytes()
    path = tmp_path / "short.safetensors"
    path.write_bytes(content[: int(part * len(content)) if isinstance(part, float) else part])
    with pytest.raises(CheckpointError):
        load_model(path)


def test_foreign_files_are_refused(tmp_path):
    foreign = tmp_path / "other.safetensors"
    save_file({"weight": torch.ones(3)}, foreign)
    with pytest.raises(CheckpointError, match="no checkpoint of geonew"):
        load_model(foreign)
    pickled = tmp_path / "pickled.pt"
    torch.save({"weight": torch.ones(3)}, pickled)
    with pytest.raises(CheckpointError):
        load_model(pickled)
    with pytest.raises(CheckpointError, match=r"nowhere\.safetensors"):
        load_model(tmp_path / "nowhere.safetensors")
    with pytest.raises(CheckpointError):
        load_model(tmp_path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("model", {"kind": "geonew", "width": 10**9}),
        ("model", {"kind": "geonew", "partitions": 10**9}),
        ("model", {"kind": "geonew", "depth": 10**9}),
        ("model", {"kind": "os.system"}),
        ("model", None),
        ("problem", "{}"),
        ("problem", 3),
        ("features", '{"hks_times": 1e9}'),
        ("columns", None),
        ("deviations", "__import__('os')"),
        ("ranges", 5),
    ],
)
def test_hostile_descriptions_are_refused(finished, tmp_path, key, value):
    tensors, document = read_container(finished / "best.safetensors")
    path = tmp_path / "hostile.safetensors"
    write_container(path, tensors, {**document, key: value})
    with pytest.raises(CheckpointError):
        load_model(path)


ABSURD = 10**9
# Sizes that no bound on a single setting catches: what they tabulate is too large.
TABULATED: dict[str, dict[str, Any]] = {
    "geonew": {"partitions": 2000},
    "geofno": {"grid": 30_000, "modes": 10_000},
    "unet": {"grid": {"rows": 40_000, "cols": 40_000}},
}


def settings_of(kind: str) -> list[str]:
    """All whole numbers among the settings of a kind, nested ones as ``newton.max_steps``."""

    def names(settings: Any) -> Iterator[str]:
        for item in fields(settings):
            value = getattr(settings, item.name)
            if is_dataclass(value):
                yield from (f"{item.name}.{inner}" for inner in names(value))
            elif type(value) is int:
                yield item.name

    return list(names(MODELS[kind].settings()))


def nested(name: str, value: object) -> dict[str, Any]:
    """Plain settings with one of them given; ``grid`` has two that are required."""
    parent, _, last = name.rpartition(".")
    sizes = {"rows": 65, "cols": 33} if parent == "grid" else {}
    return {parent: {**sizes, last: value}} if parent else {last: value}


@pytest.fixture
def exhausted() -> Iterator[None]:
    """While it lasts, the process has little more memory to take than it has now."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**28, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def described(source: Path, target: Path, **changes: object) -> Path:
    """A model file with another description."""
    tensors, document = read_container(source)
    write_container(target, tensors, {**document, **changes})
    return target


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in MODELS for name in settings_of(kind)]
)
def test_absurd_sizes_are_refused_by_name(finished, tmp_path, exhausted, kind, name):
    raw = {"kind": kind, **nested(name, ABSURD)}
    path = described(finished / "best.safetensors", tmp_path / "hostile.safetensors", model=raw)
    named = "halved" if (kind, name) == ("unet", "depth") else name.partition(".")[0]
    with pytest.raises(CheckpointError, match=named):
        load_model(path)


@pytest.mark.parametrize("kind", TABULATED)
def test_tables_that_are_too_large_are_refused(finished, tmp_path, exhausted, kind):
    tensors, document = read_container(finished / "best.safetensors")
    tensors["weights/padding"] = torch.zeros(10**6)  # enough for all weights before the tables
    path, sizes = tmp_path / "hostile.safetensors", TABULATED[kind]
    model = {**document["model"], **sizes} if kind == "geonew" else {"kind": kind, **sizes}
    columns = ["x1", "x2", *document["columns"]]
    write_container(path, tensors, {**document, "model": model, "columns": columns})
    with pytest.raises(CheckpointError, match=next(iter(sizes))):
        load_model(path)


@pytest.mark.parametrize(("kind", "sizes"), [
    ("lamo", {"latents": 60_000, "width": 60_000}),
    ("transolver", {"slices": 60_000, "width": 60_000}),
    ("inducing", {"depth": 60_000}),
    ("geonew", {"law": "paper", "contexts": 60_000, "paper": {"operator_width": 60_000}}),
])  # fmt: skip
def test_a_model_larger_than_its_file_is_not_built(finished, tmp_path, exhausted, kind, sizes):
    path = described(
        finished / "best.safetensors", tmp_path / "hostile.safetensors",
        model={"kind": kind, **sizes},
    )  # fmt: skip
    with pytest.raises(CheckpointError, match=r"more weights than the file|no model has these"):
        load_model(path)


def test_absurd_features_and_groups_are_refused(finished, tmp_path, exhausted):
    source, path = finished / "best.safetensors", tmp_path / "hostile.safetensors"
    _, document = read_container(source)
    spec, problem = json.loads(document["features"]), json.loads(document["problem"])
    for name in ("hks_times", "eigenpairs"):
        described(source, path, features=json.dumps({**spec, name: ABSURD}))
        with pytest.raises(CheckpointError, match=name):
            load_model(path)
    problem["groups"] += [f"g{k}" for k in range(4000)]
    described(source, path, problem=json.dumps(problem))
    with pytest.raises(CheckpointError, match="4002 groups"):
        load_model(path)


def test_weights_must_fit(finished, tmp_path):
    tensors, document = read_container(finished / "best.safetensors")
    name = next(n for n in tensors if n.endswith("partition.out.weight"))
    path = tmp_path / "unfit.safetensors"
    renamed = {n + "s" if n == name else n: t for n, t in tensors.items()}
    write_container(path, renamed, document)
    with pytest.raises(CheckpointError, match=r"partition\.out\.weight is missing"):
        load_model(path)


def test_an_interrupted_write_leaves_the_old_file(finished, tmp_path, monkeypatch):
    model, about = read_model(finished / "best.safetensors")
    path = tmp_path / "model.safetensors"
    save_model(path, model, about)
    before = path.read_bytes()

    def full(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(CheckpointError, match="No space left"):
        save_model(path, model, about)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_trees_of_tensors_keep_values_types_and_strides():
    tree = {
        0: {"Q": [torch.randn(4, 3).T, [], None], "betas": (0.9, 0.95), "step": 3},
        "flag": True,
        "best": float("inf"),
        "cube": torch.randn(2, 3, 4).permute(2, 0, 1),
    }
    tensors: dict[str, torch.Tensor] = {}
    text = json.dumps(encode_tree(tree, "tree", tensors))
    stored = {name: t.contiguous().clone() for name, t in tensors.items()}
    back = decode_tree(json.loads(text), stored)
    assert back[0]["betas"] == (0.9, 0.95)
    assert back[0]["Q"][1:] == [[], None]
    assert (back["flag"], back["best"], back[0]["step"]) == (True, float("inf"), 3)
    for ours, theirs in ((tree[0]["Q"][0], back[0]["Q"][0]), (tree["cube"], back["cube"])):
        assert torch.equal(ours, theirs)
        assert ours.stride() == theirs.stride()
    with pytest.raises(CheckpointError):
        decode_tree({"tensor": "missing", "order": []}, stored)
    with pytest.raises(CheckpointError):
        encode_tree(object(), "thing", {})


def test_fine_tuning_starts_from_the_given_weights(finished, tmp_path, monkeypatch):
    monkeypatch.setenv("GEONEW_HOME", str(tmp_path / "home"))
    raw = runs.configuration(finished.parent, output=str(tmp_path / "tuned"))
    raw |= {"budget": {"steps": 1}, "optimiser": {"learning_rate": 0.0, "warm_up": 0}}
    raw |= {"data": {**raw["data"], "train_limit": 4}}
    model = finished / "best.safetensors"
    tuned = train(read_config(raw), init=model)
    ours, theirs = load_model(model).state_dict(), load_model(tuned.model).state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    given, kept = (read_model(p)[1].problem for p in (model, tuned.model))
    assert kept == given, "the scales belong to the weights"

    fresh = {**raw, "output": str(tmp_path / "other")}
    with pytest.raises(CheckpointError, match=r"features\.distance"):
        train(
            read_config({**fresh, "features": {**raw["features"], "distance": False}}), init=model
        )
    with pytest.raises(CheckpointError, match=r"settings that differ.*partitions"):
        train(read_config({**fresh, "model": {**raw["model"], "partitions": 7}}), init=model)
    with pytest.raises(ConfigError, match="exclude each other"):
        train(read_config(fresh), init=model, resume=True)


def test_a_model_of_another_problem_is_refused_by_name(finished, tmp_path, monkeypatch):
    monkeypatch.setenv("GEONEW_HOME", str(tmp_path / "home"))
    tensors, document = read_container(finished / "best.safetensors")
    problem = json.loads(document["problem"])
    problem["groups"] = ["outside", "hole"]
    path = tmp_path / "other.safetensors"
    write_container(path, tensors, {**document, "problem": json.dumps(problem)})
    raw = runs.configuration(finished.parent, output=str(tmp_path / "tuned"))
    with pytest.raises(CheckpointError, match="boundary groups are"):
        train(read_config(raw), init=path)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"sources": []}, r"sources are \[\] there and \['u'\] here"),
        ({"frame": [{"kind": "normal", "group": "hole"}]}, "rules of the frame are"),
    ],
)
def test_a_model_whose_inputs_mean_something_else_is_refused(
    finished, tmp_path, monkeypatch, changes, named
):
    monkeypatch.setenv("GEONEW_HOME", str(tmp_path / "home"))
    source = finished / "best.safetensors"
    problem = json.loads(read_container(source)[1]["problem"]) | changes
    path = described(source, tmp_path / "other.safetensors", problem=json.dumps(problem))
    raw = runs.configuration(finished.parent, output=str(tmp_path / "tuned"))
    with pytest.raises(CheckpointError, match=named):
        train(read_config(raw), init=path)


def test_another_material_is_noted_and_the_scales_are_kept(finished, tmp_path, monkeypatch):
    monkeypatch.setenv("GEONEW_HOME", str(tmp_path / "home"))
    source = finished / "best.safetensors"
    problem = json.loads(read_container(source)[1]["problem"])
    problem["terms"][0]["coefficient"] = 2.5
    problem |= {"reference_length": 3.0}
    path = described(source, tmp_path / "other.safetensors", problem=json.dumps(problem))
    raw = runs.configuration(finished.parent, output=str(tmp_path / "tuned"), budget={"steps": 3})
    told: list[str] = []

    def hear(event: str, values: Mapping[str, Any]) -> None:
        if event == "note":
            told.append(values["text"])

    tuned = train(read_config(raw), init=path, observers=[hear])
    assert len(told) == 2, told
    assert "diffusion of u, is 1 in the data, 2.5 in the given model" in told[0]
    assert "reference length is 1.0 in the data, 3.0 in the given model, which keeps it" in told[1]
    kept = read_model(tuned.model)[1].problem
    assert (kept.terms[0].coefficient, kept.reference_length) == (1.0, 3.0)


def test_resuming_needs_the_same_data(finished, tmp_path, monkeypatch):
    monkeypatch.setenv("GEONEW_HOME", str(tmp_path / "home"))
    runs.data_files(tmp_path, count=5)
    raw = runs.configuration(tmp_path)
    train(read_config({**raw, "budget": {"steps": 4}}))
    (tmp_path / "train.h5").unlink()
    runs.write(tmp_path / "train.h5", [runs.record(50 + k) for k in range(5)])
    with pytest.raises(CheckpointError, match="hash differs"):
        train(read_config(raw), resume=True)
