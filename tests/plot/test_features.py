"""Pictures of features: selection, sections of solids, every mesh of the zoo."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.image import imread

from geonew.errors import FeatureError
from geonew.features import FeatureSpec, featurise, generic_problem
from geonew.plot.features import _cut, features_figure, plot_features, select_columns
from zoo import SOLID, ZOO

SMALL = FeatureSpec(data=False, eigenpairs=6, hks_times=2)


def features_of(name: str):
    mesh = ZOO[name]()
    return featurise(mesh, generic_problem(mesh), SMALL)


def test_patterns_select_columns_in_order():
    columns = ("sdf", "hks:0", "hks:1", "|grad hks:0|")
    assert select_columns(columns, ["hks:*", "sdf"]) == ["sdf", "hks:0", "hks:1"]
    with pytest.raises(FeatureError, match="there are: sdf"):
        select_columns(columns, ["hsk:*"])


@pytest.mark.parametrize("name", ["l_shape", "needles", "cube", "slivers"])
def test_pictures_are_written_with_one_panel_per_column(name, tmp_path):
    features = features_of(name)
    columns = list(features.columns[-3:])
    figure = features_figure(features, columns, name)
    titles = [axes.get_title() for axes in figure.axes]
    assert [title for title in titles if title] == columns
    plot_features(features, columns, tmp_path / "a.png", dpi=40)
    assert np.ptp(imread(tmp_path / "a.png")[..., :3]) > 0.5


@pytest.mark.parametrize("name", [n for n in SOLID if n != "one_tetrahedron"])
def test_sections_of_solids_interpolate_linear_functions(name):
    mesh = features_of(name).operators.mesh
    section = _cut(mesh)
    assert len(section.cells) > 0
    assert np.abs(section.values(mesh.points[:, 1])).max() < 1e-14
    assert np.abs(section.values(mesh.points[:, 0]) - section.points[:, 0]).max() < 1e-14
    assert np.isfinite(section.outline).all()


def test_the_section_of_a_cube_has_its_area_and_circumference():
    mesh = features_of("cube").operators.mesh
    section = _cut(mesh)
    corners = section.points[section.cells]
    area = np.abs(np.linalg.det(corners[:, 1:] - corners[:, :1])).sum() / 2
    assert area == pytest.approx(1.0, rel=1e-12)
    rim = np.linalg.norm(section.outline[:, 1] - section.outline[:, 0], axis=1).sum()
    assert rim == pytest.approx(4.0, rel=1e-12)


def test_unwritable_pictures_and_empty_choices_are_explained(tmp_path):
    features = features_of("l_shape")
    with pytest.raises(FeatureError, match="cannot be written"):
        plot_features(features, ["sdf"], tmp_path / "no" / "a.png")
    with pytest.raises(FeatureError, match="no feature to draw"):
        features_figure(features, [])
    with pytest.raises(FeatureError, match="fewer columns"):
        features_figure(features, ["sdf"] * 61)
