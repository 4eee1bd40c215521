"""Evaluation: the metric of record, boundary, balances, certificates, for any model."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import flow_runs
import training_runs
from geonew.data.store import DataSet
from geonew.errors import CheckpointError, DataError
from geonew.evaluate import runtime
from geonew.evaluate.physics import flow_fields, mass_defect
from geonew.evaluate.predictions import predict_all
from geonew.evaluate.report import evaluate, write_json
from geonew.evaluate.tables import markdown
from geonew.evaluate.testset import distinct_names, read_test
from geonew.train.checkpoint import read_model
from geonew.train.distributed import Team
from geonew.train.validation import validate


@pytest.fixture(scope="module")
def report(flows):
    models = [flows / run / "best.safetensors" for run in ("ours-0", "ours-1", "direct")]
    return evaluate(models, [flows / "test.h5", flows / "ood.h5"], where=[("cells", 6.0)])


def of(report, model, split):
    (row,) = [r for r in report.rows if r.model.startswith(model) and r.evaluation.split == split]
    return row.evaluation


def test_the_error_is_that_of_validation(flows, report):
    for run in ("ours-0", "direct"):
        model, about = read_model(flows / run / "best.safetensors")
        tested = read_test(flows / "test.h5", about)
        deviations = about.deviations * np.array(about.problem.references)
        team = Team(0, 1, torch.device("cpu"))
        errors, solved = validate(model, about.problem, tested.samples, deviations, team, 4)
        found = of(report, run, "test")
        assert found.converged.mean() == solved
        np.testing.assert_allclose(found.errors.relative, errors.relative, rtol=1e-6)
        np.testing.assert_allclose(found.errors.weighted, errors.weighted, rtol=1e-6)
        assert found.combined == pytest.approx(errors.combined, rel=1e-6)


def test_the_error_is_the_plain_one_of_the_predicted_fields(flows, report):
    model, _ = read_model(flows / "ours-0" / "best.safetensors")
    found = of(report, "ours-0", "ood")
    with DataSet(flows / "ood.h5") as data:
        for k, record in enumerate(data):
            made = model.predict(record.mesh, record.boundary)
            defect = made["velocity"] - record.fields["velocity"]
            size = np.linalg.norm(record.fields["velocity"])
            column = found.errors.names.index("velocity")
            assert found.errors.relative[k, column] == pytest.approx(
                np.linalg.norm(defect) / size, rel=1e-6
            )


def test_our_boundary_is_exact_and_a_baselines_is_not(report):
    for split in ("test", "ood"):
        ours, direct = of(report, "ours-0", split), of(report, "direct", split)
        assert set(ours.boundary) == set(direct.boundary) == {"velocity", "pressure"}
        for values in ours.boundary.values():
            assert np.max(values) < 1e-14
        assert all(np.min(values) > 1e-3 for values in direct.boundary.values())


def test_balances_stand_beside_those_of_the_truth(report):
    ours, direct = of(report, "ours-0", "test"), of(report, "direct", "test")
    assert flow_fields(flow_runs.PROBLEM) == ("velocity",)
    np.testing.assert_array_equal(ours.true_mass["velocity"], direct.true_mass["velocity"])
    assert np.max(ours.true_mass["velocity"]) < 0.05
    assert np.min(direct.mass["velocity"]) > 1e-6
    assert np.all(ours.divergence["velocity"] > 0)


def test_forces_are_balanced_beside_those_of_the_truth(report):
    """Slow flow conserves momentum; the pressure, with which the divergence is tested, nothing."""
    ours, direct = of(report, "ours-0", "test"), of(report, "direct", "test")
    assert set(ours.reaction) == set(ours.true_reaction) == {"velocity"}
    np.testing.assert_array_equal(ours.true_reaction["velocity"], direct.true_reaction["velocity"])
    assert np.all(ours.true_reaction["velocity"] > 0)
    assert np.mean(direct.reaction["velocity"]) > np.mean(direct.true_reaction["velocity"])
    plain = ours.to_plain()
    mean = plain["reaction_defect"]["velocity"]["mean"]
    assert mean == pytest.approx(np.mean(ours.reaction["velocity"]))
    own = plain["truth"]["reaction_defect"]["velocity"]["mean"]
    assert f"| {mean:.2g} ({own:.2g}) |" in markdown(report)
    assert "| reaction defect (truth) |" in markdown(report)
    assert len(plain["each"]["reaction"]) == len(plain["each"]["true_reaction"]) == 6
    by_group = plain["each"]["reaction"][0]["velocity"]
    assert set(by_group) == {"inlet", "outlet", "wall"}
    assert ours.certificates[0].physical.reaction["velocity"] == {
        group: tuple(values) for group, values in by_group.items()
    }


def test_mass_defect_by_its_definition():
    assert mass_defect({"in": -2.0, "wall": 0.0, "out": 1.0}) == pytest.approx(1 / 1.5)
    assert mass_defect({"in": -2.0, "out": 2.0}) == 0.0
    assert np.isnan(mass_defect({"lid": 1e-18, "wall": -1e-18}, least=1e-9))


def test_certificates_are_summarised_for_models_that_solve(report):
    summary = of(report, "ours-0", "ood").certificate_summary()
    assert summary is not None
    assert summary["converged"] == summary["unique"] == 1.0
    assert summary["margin"]["least"] > 0
    assert summary["worst_antisymmetry"] < 1e-12
    assert summary["worst_balance_defect"] < 1e-6
    assert of(report, "direct", "ood").certificate_summary() is None


def test_samples_are_grouped_along_the_axes(report):
    found = of(report, "direct", "test")
    by_axis = found.by_axis()
    assert "kind" not in by_axis, "one value tells nothing"
    counts = [v["combined"]["relative"]["count"] for v in by_axis["cells"].values()]
    assert sum(counts) == found.samples == 6
    for label, figures in by_axis["cells"].items():
        mine = np.array(found.axes["cells"]) == int(label)
        expected = found.errors.relative[mine, 0].mean()
        assert figures["combined"]["relative"]["mean"] == pytest.approx(expected)
    which = found.where["cells=6"]
    assert which.tolist() == [c == 6 for c in found.axes["cells"]]


def test_seeds_are_summarised(report):
    groups = {(g.rows[0].about.choice.kind, len(g.rows)) for g in report.seeds()}
    assert groups == {("geonew", 2), ("inducing", 1)}
    group = next(g for g in report.seeds() if len(g.rows) == 2)
    means = [r.evaluation.combined for r in group.rows]
    assert {r.seed for r in group.rows} == {0, 1}
    assert group.mean("combined") == pytest.approx((np.mean(means), np.std(means, ddof=1)))


def test_files_of_one_name_are_different_data(flows):
    """Other samples in another folder: neither a second seed, nor the same axes."""
    model = flows / "ours-0" / "best.safetensors"
    here = flows / "test.h5"
    there = flow_runs.write(flows / "other" / "test.h5", 1, "test", first=50)
    found = evaluate([model], [here, there, str(there)], runtime=False)
    assert [r.evaluation.samples for r in found.rows] == [6, 1], "what is given twice counts once"
    assert [len(group.rows) for group in found.seeds()] == [1, 1]
    assert found.to_plain()["seeds"] == []
    one, two = (row.evaluation for row in found.rows)
    assert (one.file, two.file) == (f"{flows.name}/test.h5", "other/test.h5")
    text = markdown(found)
    assert "2 seeds" not in text
    assert f"| boxes test, {flows.name}/test.h5 |" in text
    assert "| boxes test, other/test.h5 |" in text
    assert "by cells, boxes test" in text
    both = evaluate([model, flows / "ours-1" / "best.safetensors"], [here, there], runtime=False)
    assert [len(group.rows) for group in both.seeds()] == [2, 2]
    assert markdown(both).count("2 seeds") == 2
    first, second = both.to_plain()["seeds"]
    assert first["data_hash"] == one.data_hash != second["data_hash"]


def test_names_are_as_long_as_they_have_to_be():
    assert distinct_names(["cpu/a/test.h5", "cpu/a/ood.h5"]) == {
        "cpu/a/test.h5": "test.h5", "cpu/a/ood.h5": "ood.h5"
    }  # fmt: skip
    files = ["cpu/a/test.h5", "gpu/a/test.h5", "cpu/b/test.h5", "test.h5", "/test.h5"]
    names = distinct_names(files)
    assert list(names.values()) == [
        "cpu/a/test.h5", "gpu/a/test.h5", "b/test.h5", "test.h5", "/test.h5"
    ]  # fmt: skip


def test_the_peak_of_a_gpu_is_counted_anew_and_that_of_a_process_is_called_so(
    flows, report, monkeypatch
):
    forgotten: list[str] = []
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda d: forgotten.append(str(d)))
    runtime.forget_peak(torch.device("cpu"))
    runtime.forget_peak(torch.device("cuda"))
    assert forgotten == ["cuda"]
    model, about = read_model(flows / "direct" / "best.safetensors")
    monkeypatch.setattr(runtime, "forget_peak", lambda d: forgotten.append(f"before {d}"))
    found = runtime.measure_runtime(model, read_test(flows / "test.h5", about))
    assert forgotten == ["cuda", "before cpu"]
    assert found.peak_of == "process so far"
    assert "| peak MB of the process so far |" in markdown(report)


def test_predictions_do_not_depend_on_the_batch(flows):
    for run in ("ours-0", "direct"):
        model, about = read_model(flows / run / "best.safetensors")
        tested = read_test(flows / "ood.h5", about)
        one, many = (predict_all(model, tested.samples, batch=size) for size in (1, 5))
        again = predict_all(model, tested.samples, batch=5)
        for a, b, c in zip(one, many, again, strict=True):
            np.testing.assert_allclose(a.fields, b.fields, atol=1e-4 * np.abs(b.fields).max())
            np.testing.assert_array_equal(b.fields, c.fields)


def test_the_cost_is_split_into_stages(report):
    ours, direct = of(report, "ours-0", "test").runtime, of(report, "direct", "test").runtime
    assert ours is not None
    assert direct is not None
    stages = ["features", "encoder", "partitions", "projection", "solve", "reconstruction"]
    assert list(ours.stages) == stages
    assert all(value > 0 for value in ours.stages.values())
    assert list(direct.stages) == ["features", "network"]
    assert direct.forward == direct.stages["network"]
    assert ours.peak_megabytes is None or ours.peak_megabytes > 50


def test_the_json_is_complete_and_valid(flows, report, tmp_path):
    path = tmp_path / "new" / "out.json"
    report.write(path)
    found = json.loads(path.read_text())
    assert len(found["results"]) == 6
    one = found["results"][0]
    assert one["family"] == "boxes"
    assert len(one["each"]["error"]["combined"]) == one["samples"] == 6
    assert one["error"]["u"]["weighted"]["mean"] > 0
    assert one["data_hash"] != found["results"][1]["data_hash"]
    assert [len(s["models"]) for s in found["seeds"]] == [2, 2]
    assert not list(path.parent.glob(".*")), "no temporary file is left"
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "bad.json", {"x": float("nan")})
    assert not list(tmp_path.glob("*bad*"))


def test_derived_fields_are_measured(tmp_path, monkeypatch):
    """Von Mises stress of a plate, which is the field of record of elasticity."""
    from geonew.data.families import family
    from geonew.data.generate import generate
    from geonew.data.request import Request
    from geonew.train.config import read_config
    from geonew.train.loop import train

    monkeypatch.setenv("GEONEW_HOME", str(tmp_path / "home"))
    for split in ("train", "test"):
        generate(family("elasticity"), Request("elasticity", split, 1, 0), tmp_path / f"{split}.h5")
    raw = training_runs.configuration(tmp_path, data={"train": str(tmp_path / "train.h5")})
    outcome = train(read_config({**raw, "budget": {"steps": 3}}))
    found = evaluate([outcome.model], [tmp_path / "test.h5"], runtime=False).rows[0].evaluation
    name = next(n for n in found.errors.names if "mises" in n)
    with DataSet(tmp_path / "test.h5") as data:
        made = read_model(outcome.model)[0].predict(
            data[0].mesh, data[0].boundary, neumann=data[0].neumann
        )
        truth = data[0].fields[name]
    expected = np.linalg.norm(made[name] - truth) / np.linalg.norm(truth)
    assert found.column(name).mean == pytest.approx(expected, rel=1e-6)
    assert set(found.reaction) == {"displacement"}, "forces on the plate are balanced"
    assert found.true_reaction["displacement"][0] < 0.2


def test_another_problem_is_refused(flows, tmp_path):
    other = training_runs.write(tmp_path / "holes.h5", [training_runs.record(0, "test")], "test")
    with pytest.raises(CheckpointError, match="fields are"):
        evaluate([flows / "ours-0" / "best.safetensors"], [other])


def test_an_unknown_axis_is_refused(flows):
    with pytest.raises(DataError, match="no axis 'length'"):
        evaluate(
            [flows / "direct" / "best.safetensors"], [flows / "test.h5"], where=[("length", 1.0)]
        )
