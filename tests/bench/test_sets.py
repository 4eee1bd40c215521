"""Data that only the campaign needs."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from geonew.bench import sets
from geonew.data.generate import produce
from geonew.data.store import DataSet
from geonew.errors import DataError

SHARED = Path(os.environ.get("GEONEW_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data"))
needs_cavities = pytest.mark.skipif(
    not (SHARED / sets.CAVITY_FILE).exists(), reason="GEONEW_SHARED_DATA has no skewed cavities"
)


def test_unit_length_is_out_of_distribution_in_all_else():
    (made,) = sets.sets("cpu")["data/ood-l1"]
    assert isinstance(made, sets.Generated)
    for sample in range(12):
        case = made.made_of.draw("ood", made.request.generator(sample, 0))
        assert case.axes["length"] == 1.0
        assert 4 <= case.axes["obstacles"] <= 6
        assert 0 < case.axes["squares"] <= 1
        assert 0 < case.axes["angle"] <= 30


def test_the_heat_map_visits_every_place():
    (made,) = sets.sets("cpu")["data/heat-map"]
    assert isinstance(made, sets.Generated)
    places = sets.AMOUNTS["cpu"].places
    assert len(set(places)) == 5 * 6 * 3
    numbers = [made.request.axis_of(k)[1] for k in range(made.request.samples)]  # type: ignore[index]
    assert sorted(numbers) == sorted([*range(len(places))] * 2)
    for sample in (0, 17, 44, 89, 91):
        axis = made.request.axis_of(sample)
        case = made.made_of.draw("ood", made.request.generator(sample, 0), axis)
        found = (case.axes["length"], case.axes["obstacles"], case.axes["angle"])
        assert found == places[sample % len(places)]
    with pytest.raises(DataError, match="place"):
        made.made_of.draw("ood", np.random.default_rng(0))


def test_steps_are_the_only_thing_out_of_distribution():
    (made,) = sets.sets("cpu")["data/angles"]
    assert isinstance(made, sets.Generated)
    seen = []
    for sample in range(14):
        axis = made.request.axis_of(sample)
        case = made.made_of.draw("ood", made.request.generator(sample, 0), axis)
        assert case.axes["length"] == 1.0
        assert 1 <= case.axes["obstacles"] <= 3
        assert case.axes["squares"] == 0
        seen.append(case.axes["angle"])
    assert seen == [0, 5, 10, 15, 20, 25, 30] * 2


def test_the_small_suite_has_the_same_sets():
    full, few = sets.sets("cpu"), sets.sets("smoke")
    assert list(full) == list(few)
    paths = [made.path() for group in (full, few) for files in group.values() for made in files]
    assert len(paths) == len(set(paths)), "they do not overwrite each other"
    with pytest.raises(DataError, match="no sets"):
        sets.sets("gpu")


def test_such_samples_are_solved():
    (made,) = sets.sets("cpu")["data/ood-l1"]
    assert isinstance(made, sets.Generated)
    outcome = produce(made.made_of, made.request, 0)
    assert outcome.columns is not None, outcome.fatal


def test_levels_are_the_same_shapes():
    files = sets.sets("cpu")["data/levels"]
    cases = []
    for made in files:
        assert isinstance(made, sets.Generated)
        cases.append(made.made_of.draw("test", made.request.generator(3, 0)))
    assert all(a.shape == b.shape for a, b in pairwise(cases))


def test_swapped_shapes_are_the_test_shapes():
    (made,) = sets.sets("cpu")["data/swap"]
    assert isinstance(made, sets.Generated)
    generator = made.request.generator(1, 0)
    swapped = made.made_of.draw("test", generator, None, made.request.swap)
    plain = made.made_of.draw("test", made.request.generator(1, 0))
    assert swapped.axes == plain.axes
    assert swapped.parameters == {**plain.parameters, "swap": 1}


@needs_cavities
def test_cavities_are_thinned_and_keep_their_values(tmp_path, monkeypatch):
    monkeypatch.setenv("GEONEW_SHARED_DATA", str(SHARED))
    monkeypatch.setenv("GEONEW_HOME", str(tmp_path))
    few = replace(
        sets.AMOUNTS["smoke"],
        cavities={"val": ("train", 80, 82, 3), "test": ("train", 80, 82, 1)},
    )
    for split in few.cavities:
        cavity = sets.Cavity(split, few)
        assert not cavity.is_complete()
        cavity.make()
        assert cavity.is_complete()
    paths = [sets.Cavity(split, few).path() for split in ("val", "test")]
    with DataSet(paths[0]) as thin, DataSet(paths[1]) as whole:
        assert thin.header.split == "val"
        for coarse, fine in zip(thin, whole, strict=True):
            assert (coarse.mesh.n_nodes, fine.mesh.n_nodes) == (34**2, 100**2)
            assert coarse.mesh.volume == pytest.approx(fine.mesh.volume)
            numbers = np.arange(100**2).reshape(100, 100)[::3, ::3].ravel()
            np.testing.assert_array_equal(coarse.mesh.points, fine.mesh.points[numbers])
            np.testing.assert_array_equal(
                coarse.fields["velocity"], fine.fields["velocity"][numbers]
            )
            shift = coarse.fields["pressure"] - fine.fields["pressure"][numbers]
            assert np.ptp(shift) < 1e-12
            assert np.all(coarse.boundary["lid"]["velocity"] == [1.0, 0.0])


def test_a_missing_publication_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("GEONEW_SHARED_DATA", str(tmp_path))
    with pytest.raises(DataError, match="GEONEW_SHARED_DATA"):
        sets.Cavity("val", sets.AMOUNTS["smoke"]).make()
