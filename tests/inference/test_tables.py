"""Profiles from CSV files: linear between rows, refused where they do not reach."""

from __future__ import annotations

import numpy as np
import pytest

from geonew.errors import InputError
from geonew.inference.tables import read_profile


def write(path, rows, head="x,y,value"):
    path.write_text("\n".join([head, *(",".join(map(str, r)) for r in rows)]) + "\n")
    return path


def test_linear_along_a_curve(tmp_path):
    angle = np.linspace(0, 1.9 * np.pi, 400)
    rows = np.column_stack([np.cos(angle), np.sin(angle), angle, 2 * angle])
    profile = read_profile(write(tmp_path / "p.csv", rows, "x,y,a,b"), 2, 2)
    between = angle[:-1] + np.diff(angle) / 3
    found = profile(np.column_stack([np.cos(between), np.sin(between)]))
    np.testing.assert_allclose(found, np.column_stack([between, 2 * between]), atol=1e-3)
    np.testing.assert_array_equal(profile(rows[:, :2]), rows[:, 2:])


def test_linear_over_a_plane(tmp_path):
    generator = np.random.default_rng(1)
    flat = np.vstack([generator.uniform(size=(80, 2)), [[0, 0], [1, 0], [0, 1], [1, 1]]])
    rows = np.column_stack([np.full(84, 2.0), flat, 3 * flat[:, 0] - flat[:, 1]])
    profile = read_profile(write(tmp_path / "p.csv", rows, "x,y,z,v"), 3, 1)
    inside = np.column_stack([np.full(20, 2.0), generator.uniform(0.1, 0.9, size=(20, 2))])
    np.testing.assert_allclose(profile(inside)[:, 0], 3 * inside[:, 1] - inside[:, 2], atol=1e-12)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "has no rows"),
        ([(0, 0)], "row 1 is '0,0'"),
        ([(0, 0, 1), (0, 1, "nan")], "row 2 is"),
        ([(0, 0, 1), ("a", 1, 2)], "row 2 is"),
    ],
)
def test_bad_tables(tmp_path, rows, message):
    with pytest.raises(InputError, match=message):
        read_profile(write(tmp_path / "p.csv", rows), 2, 1)


def test_missing_files_and_reach(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read_profile(tmp_path / "no.csv", 2, 1)
    profile = read_profile(write(tmp_path / "p.csv", [(0, 0, 1), (0, 0.5, 2)]), 2, 1)
    with pytest.raises(InputError, match="does not cover the boundary"):
        profile(np.array([[0.0, 2.0]]))
    with pytest.raises(InputError, match="the mesh is 3D"):
        profile(np.zeros((1, 3)))
