"""Galleries: one panel per sample, one scale for all."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.collections import TriMesh

from geonew.errors import InputError
from geonew.plot.samples import gallery_figure, plot_gallery
from zoo import ZOO


def test_all_samples_share_one_scale(tmp_path):
    meshes = [ZOO["square"](), ZOO["annulus"](), ZOO["cube"]()]
    values = [k + mesh.points[:, 0] for k, mesh in enumerate(meshes)]
    figure = gallery_figure(meshes, values, ["a", "b", "c"], "title", "u")
    images = [c for axes in figure.axes for c in axes.collections if isinstance(c, TriMesh)]
    assert len(images) == 3
    assert len({(image.norm.vmin, image.norm.vmax) for image in images}) == 1
    assert images[0].norm.vmin == min(v.min() for v in values)
    assert [axes.get_title() for axes in figure.axes][:3] == ["a", "b", "c, y = 0.5"]
    plot_gallery(meshes, values, ["a", "b", "c"], tmp_path / "g.png", dpi=40)
    assert (tmp_path / "g.png").stat().st_size > 3000


def test_vectors_by_length_and_mistakes():
    mesh = ZOO["square"]()
    figure = gallery_figure([mesh], [np.ones((mesh.n_nodes, 2))], ["a"])
    image = next(c for axes in figure.axes for c in axes.collections if isinstance(c, TriMesh))
    np.testing.assert_allclose(image.get_array(), np.sqrt(2))
    with pytest.raises(InputError, match="1 meshes, 0 fields"):
        gallery_figure([mesh], [], ["a"])
    with pytest.raises(InputError, match="no sample"):
        gallery_figure([], [], [])
