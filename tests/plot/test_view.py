"""Plane views: sections of solids carry linear fields exactly and have the right area."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy import ndarray

from geonew.errors import InputError, MeshFileError
from geonew.mesh import Mesh
from geonew.plot.view import (
    DIVERGING,
    SEQUENTIAL,
    View,
    colours_of,
    new_figure,
    plane_view,
    rasterise,
    save_figure,
    section,
)
from zoo import ZOO


def area(view: View) -> float:
    corners = view.points[view.triangles]
    return float(np.abs(np.linalg.det(corners[:, 1:] - corners[:, :1])).sum() / 2)


def linear(points: ndarray) -> ndarray:
    return points @ np.arange(1.0, points.shape[1] + 1) + 0.5


def test_a_plane_mesh_is_its_own_view(planar_mesh: Mesh):
    view = plane_view(planar_mesh)
    values = linear(planar_mesh.points)
    np.testing.assert_array_equal(view.values(values), values)
    assert area(view) == pytest.approx(planar_mesh.volume, rel=1e-12)
    assert len(view.outline) == len(planar_mesh.boundary_facets)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_sections_carry_linear_fields_exactly(solid_mesh: Mesh, axis: int):
    low, high = solid_mesh.points[:, axis].min(), solid_mesh.points[:, axis].max()
    level = 0.6 * low + 0.4 * high
    view = section(solid_mesh, axis, float(level))
    space = view.values(solid_mesh.points)
    scale = np.abs(solid_mesh.points).max()
    np.testing.assert_allclose(space[:, axis], level, atol=1e-13 * scale)
    np.testing.assert_array_equal(space[:, view.axes], view.points)
    np.testing.assert_allclose(
        view.values(linear(solid_mesh.points)), linear(space), atol=1e-12 * scale
    )
    assert (view.weight >= 0).all()
    assert (view.weight <= 1).all()


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_volume_is_the_integral_of_section_areas(solid_mesh: Mesh, axis: int):
    # Between two heights of nodes the section's area is quadratic: three Gauss points are exact.
    heights = np.unique(solid_mesh.points[:, axis].round(12))
    nodes, weights = np.polynomial.legendre.leggauss(3)
    total = 0.0
    for a, b in pairwise(heights):
        if b - a < 1e-9:
            continue
        levels = (a + b) / 2 + (b - a) / 2 * nodes
        total += (
            (b - a)
            / 2
            * sum(
                w * area(section(solid_mesh, axis, float(t)))
                for w, t in zip(weights, levels, strict=True)
            )
        )
    assert total == pytest.approx(solid_mesh.volume, rel=1e-8)


def test_a_section_through_nodes_and_facets_is_whole():
    mesh = ZOO["cube"]()  # its middle plane holds nodes, edges and whole facets
    levels = np.unique(mesh.points[:, 1].round(12))
    for level in levels[1:]:
        view = section(mesh, 1, float(level))
        assert area(view) == pytest.approx(1.0, rel=1e-12)
        ends = view.points[view.outline]
        on_edge = np.isclose(ends, 0).all(axis=1) | np.isclose(ends, 1).all(axis=1)
        assert on_edge.any(axis=1).all()  # no seam inside


def test_a_plane_that_misses_the_mesh_is_refused():
    with pytest.raises(InputError, match="z = 7 does not cut"):
        section(ZOO["cube"](), 2, 7.0)


@pytest.mark.parametrize(
    ("values", "cmap", "limits"),
    [
        ([-2.0, 1.0], DIVERGING, (-2.0, 2.0)),
        ([-0.01, 1.0], SEQUENTIAL, (-0.01, 1.0)),
        ([3.0, 3.0], SEQUENTIAL, (1.5, 4.5)),
        ([0.0, 0.0], SEQUENTIAL, (-0.5, 0.5)),
        ([np.nan, 1.0, 2.0], SEQUENTIAL, (1.0, 2.0)),
        ([np.nan, np.inf], SEQUENTIAL, (-0.5, 0.5)),
    ],
)
def test_scales(values: list[float], cmap: str, limits: tuple[float, float]):
    name, norm = colours_of(np.array(values))
    assert name == cmap
    assert (norm.vmin, norm.vmax) == limits


@pytest.mark.parametrize("name", ["missing/picture.png", "picture.unknown"])
def test_unwritable_pictures_are_explained(tmp_path, name: str):
    with pytest.raises(MeshFileError, match="cannot be written"):
        save_figure(new_figure(1.0, 1.0), tmp_path / name, 50)


def test_rasters_carry_linear_fields_exactly(planar_mesh: Mesh):
    view = plane_view(planar_mesh)
    raster = rasterise(view, 50)
    scale = np.abs(planar_mesh.points).max()
    values = raster.values(view.values(linear(planar_mesh.points)))
    np.testing.assert_allclose(values, linear(raster.points), atol=1e-9 * scale)
    # As many grid points inside as the area says, up to a share of those along the boundary.
    cell = (raster.x[1] - raster.x[0]) * (raster.y[1] - raster.y[0])
    length = np.linalg.norm(planar_mesh.boundary_normals, axis=1).sum()
    slack = length * np.sqrt(cell) + 4 * cell
    assert abs(raster.inside.sum() * cell - planar_mesh.volume) < slack
