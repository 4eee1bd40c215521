"""The family ``naca``: draws, records, repeatability, accuracy."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from geonew.data.check import check_record
from geonew.data.families.naca import DEFORMATION, DEFORMATION_OOD, NacaEuler
from geonew.errors import InputError, SolverError
from geonew.mesh import Mesh
from geonew.problem import check_groups

FAMILY = NacaEuler()


def draw(split, seed=0, **options):
    return FAMILY.draw(split, np.random.default_rng(seed), **options)


@pytest.fixture(scope="module")
def record():
    return FAMILY.solve(draw("train"), "coarse")


def test_draws_stay_in_their_ranges():
    for seed in range(50):
        inside, outside = draw("test", seed), draw("ood", seed)
        assert float(inside.axes["deformation"]) <= DEFORMATION
        assert DEFORMATION_OOD[0] < float(outside.axes["deformation"]) <= DEFORMATION_OOD[1]
        assert outside.axes["mach"] == 0.8


@pytest.mark.parametrize(("axis", "value"), [("deformation", 0.03), ("mach", 0.75), ("angle", 1.0)])
def test_a_sweep_fixes_its_axis_alone(axis, value):
    case, plain = draw("test", 4, axis=(axis, value)), draw("test", 4)
    assert case.axes[axis] == pytest.approx(value, rel=1e-12)
    others = {"mach", "angle"} - {axis}
    assert all(case.axes[k] == plain.axes[k] for k in others)
    if axis != "deformation":
        assert case.shape == plain.shape


def test_impossible_requests_are_refused(record):
    with pytest.raises(InputError, match="axis"):
        draw("test", axis=("chord", 1.0))
    with pytest.raises(InputError, match="swap"):
        draw("test", swap=True)
    with pytest.raises(InputError, match="multiple"):
        FAMILY.solve(record.case, "medium", truth=3)


def test_a_record_is_a_solved_sample(record):
    check_record(FAMILY.problem, record)
    check_groups(FAMILY.problem, record.mesh)
    assert isinstance(record.mesh, Mesh)
    assert record.mesh.n_nodes == 2867
    assert set(record.fields) == {"mach", "density", "velocity", "pressure"}
    assert record.info["residual"] <= 1e-8
    assert record.info["mass_balance"] < 1e-9
    assert record.info["farfield_defect"] < 5e-3
    mach, inner = record.fields["mach"], np.ones(record.mesh.n_nodes, dtype=bool)
    inner[record.mesh.nodes_of("farfield")] = False
    speed = np.linalg.norm(record.fields["velocity"], axis=1)
    sound = np.sqrt(1.4 * record.fields["pressure"] / record.fields["density"])
    assert np.abs(mach - speed / sound)[inner].max() < 1e-14
    assert mach.max() > 1.1  # transonic
    assert np.linalg.norm(record.parameters["stream"]) == pytest.approx(0.8)


def test_the_same_case_gives_the_same_bits(record):
    again = FAMILY.solve(draw("train"), "coarse")
    for name, values in record.fields.items():
        assert np.array_equal(values, again.fields[name])
    assert record.mesh.digest == again.mesh.digest


def test_reading_needs_no_compiler():
    code = "import sys, geonew.data.families.naca; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_solving_without_the_compiler_says_what_to_install(monkeypatch):
    for name in [n for n in sys.modules if n.startswith("geonew.data.euler.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(SolverError, match="numba"):
        FAMILY.solve(draw("train"), "coarse")


@pytest.mark.slow
@pytest.mark.parametrize("split", ["train", "ood"])
def test_truth_is_within_one_percent_of_the_twice_finer_grid(split):
    case = draw(split, 1)
    stored, finer = FAMILY.solve(case, "coarse"), FAMILY.solve(case, "coarse", truth=4)
    gap = np.linalg.norm(stored.fields["mach"] - finer.fields["mach"])
    assert gap < 0.01 * np.linalg.norm(finer.fields["mach"])


@pytest.mark.slow
def test_medium_and_coarse_agree_at_their_common_nodes():
    case = draw("train", 2)
    coarse = FAMILY.solve(case, "coarse", truth=4)
    medium = FAMILY.solve(case, "medium")
    order = {tuple(x): k for k, x in enumerate(medium.mesh.points)}
    at = [order[tuple(x)] for x in coarse.mesh.points]
    assert np.array_equal(medium.fields["mach"][at], coarse.fields["mach"])
