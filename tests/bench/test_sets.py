"""Data that only the campaign needs."""

from __future__ import annotations

import os
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
    (made,) = sets.sets()["data/ood-l1"]
    assert isinstance(made, sets.Generated)
    for sample in range(12):
        case = made.made_of.draw("ood", made.request.generator(sample, 0))
        assert case.axes["length"] == 1.0
        assert 4 <= case.axes["obstacles"] <= 6
        assert 0 < case.axes["squares"] <= 1
        assert 0 < case.axes["angle"] <= 30


def test_the_heat_map_visits_every_place():
    (made,) = sets.sets()["data/heat-map"]
    assert isinstance(made, sets.Generated)
    places = made.made_of.places  # type: ignore[attr-defined]
    assert len(places) == len(sets.LENGTHS) * len(sets.COUNTS) * len(sets.ANGLES)
    numbers = [made.request.axis_of(k)[1] for k in range(made.request.samples)]  # type: ignore[index]
    assert sorted(numbers) == sorted([*range(len(places))] * sets.PER_PLACE)
    for sample in (0, 17, 44, 89, 91):
        axis = made.request.axis_of(sample)
        case = made.made_of.draw("ood", made.request.generator(sample, 0), axis)
        found = (case.axes["length"], case.axes["obstacles"], case.axes["angle"])
        assert found == places[sample % len(places)]
    with pytest.raises(DataError, match="place"):
        made.made_of.draw("ood", np.random.default_rng(0))


def test_such_samples_are_solved():
    (made,) = sets.sets()["data/ood-l1"]
    assert isinstance(made, sets.Generated)
    outcome = produce(made.made_of, made.request, 0)
    assert outcome.columns is not None, outcome.fatal


def test_levels_are_the_same_shapes():
    files = sets.sets()["data/levels"]
    cases = []
    for made in files:
        assert isinstance(made, sets.Generated)
        cases.append(made.made_of.draw("test", made.request.generator(3, 0)))
    assert all(a.shape == b.shape for a, b in pairwise(cases))


def test_swapped_shapes_are_the_test_shapes():
    (made,) = sets.sets()["data/swap"]
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
    few = {"val": ("train", 80, 82, 3), "test": ("train", 80, 82, 1)}
    monkeypatch.setattr(sets, "CAVITIES", few)
    for split in ("val", "test"):
        cavity = sets.Cavity(split)
        assert not cavity.is_complete()
        cavity.make()
        assert cavity.is_complete()
    with DataSet(sets.Cavity("val").path()) as thin, DataSet(sets.Cavity("test").path()) as whole:
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
        sets.Cavity("val").make()
