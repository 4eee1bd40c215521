"""Pictures of fields: what is in them, on every mesh, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.collections import TriMesh
from matplotlib.image import imread

from geonew.errors import InputError
from geonew.mesh import Mesh
from geonew.plot.fields import OVERLAYS, Overlay, fields_figure, plot_fields
from zoo import ZOO, grid


def images(figure) -> list[TriMesh]:
    return [c for axes in figure.axes for c in axes.collections if isinstance(c, TriMesh)]


def titles(figure) -> list[str]:
    return [axes.get_title() for axes in figure.axes if axes.get_title()]


def test_every_mesh_of_the_zoo_is_drawn(zoo_mesh: Mesh):
    x = zoo_mesh.points - zoo_mesh.points.mean(axis=0)
    figure = fields_figure(zoo_mesh, {"level": x[:, 0], "motion": x})
    figure.set_dpi(30)
    figure.canvas.draw()
    assert len(images(figure)) == 2
    drawn = images(figure)[0].get_array()
    assert drawn is not None
    assert np.ptp(drawn) > 0


def test_scalars_are_drawn_as_they_are():
    mesh = ZOO["square"]()
    values = np.sin(3 * mesh.points[:, 0])
    drawn = images(fields_figure(mesh, {"u": values}))[0].get_array()
    np.testing.assert_array_equal(drawn, values)


def test_vectors_are_drawn_by_length_from_zero():
    mesh = ZOO["square"]()
    vectors = 1 + mesh.points
    image = images(fields_figure(mesh, {"v": vectors}))[0]
    np.testing.assert_allclose(image.get_array(), np.hypot(*vectors.T))
    assert image.norm.vmin == 0.0


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_overlays(overlay: Overlay):
    mesh = ZOO["square_with_hole"]()
    axes = fields_figure(mesh, {"v": np.ones((mesh.n_nodes, 2))}, overlay=overlay).axes[0]
    plain = fields_figure(mesh, {"v": np.ones((mesh.n_nodes, 2))}, overlay="none").axes[0]
    more = len(axes.get_children()) - len(plain.get_children())
    assert (more > 0) == (overlay != "none")


def test_a_vector_field_that_is_zero_has_no_direction():
    mesh = ZOO["square"]()
    axes = fields_figure(mesh, {"v": np.zeros((mesh.n_nodes, 2))}).axes[0]
    assert not axes.patches  # the arrow heads of streamlines


def test_values_that_are_not_finite_are_left_out_and_counted():
    mesh = ZOO["square"]()
    values = mesh.points[:, 0].copy()
    values[0] = np.nan
    figure = fields_figure(mesh, {"u": values})
    figure.canvas.draw()
    assert titles(figure) == ["u (1 nodes not finite)"]
    touched = (mesh.cells == 0).any(axis=1).sum()
    assert len(images(figure)[0]._triangulation.triangles) == mesh.n_cells - touched


def test_solids_have_a_surface_and_a_section():
    mesh = ZOO["cube"]()
    figure = fields_figure(mesh, {"u": mesh.points[:, 0]})
    assert titles(figure) == ["u, surface", "u, y = 0.5"]


def test_pictures_are_written(tmp_path):
    mesh = ZOO["annulus"]()
    for extension in ("png", "pdf", "svg"):
        plot_fields(mesh, {"v": mesh.points[:, ::-1]}, tmp_path / f"v.{extension}", dpi=50)
    picture = imread(tmp_path / "v.png")[..., :3]
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 50  # colours, not a blank page


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "no field"),
        ({"u": np.zeros(3)}, r"'u' has shape \(3,\)"),
        ({"u": np.zeros((25, 3))}, "has shape"),
        ({"u": np.zeros(25, dtype=complex)}, "complex"),
        ({f"u{k}": np.zeros(25) for k in range(99)}, "99 panels"),
    ],
)
def test_wrong_fields_are_explained(fields, message: str):
    points, cells = grid([np.arange(5.0), np.arange(5.0)])
    inverted = np.linalg.det(points[cells[:, 1:]] - points[cells[:, :1]]) < 0
    cells[inverted, :2] = cells[inverted, 1::-1]
    mesh = Mesh(points, cells)
    with pytest.raises(InputError, match=message):
        fields_figure(mesh, fields)
