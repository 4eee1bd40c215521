import numpy as np
import pytest

from geonew.mesh import Mesh
from geonew.mesh.refine import refine


def group_measures(mesh: Mesh) -> dict[str, float]:
    sizes = np.linalg.norm(mesh.boundary_normals, axis=1)
    return {name: sizes[mesh.group_index == k].sum() for k, name in enumerate(mesh.groups)}


def test_counts_volumes_and_groups(zoo_mesh):
    fine = refine(zoo_mesh)
    assert fine.n_cells == 2**fine.dim * zoo_mesh.n_cells
    assert fine.n_nodes == zoo_mesh.n_nodes + len(zoo_mesh.edges)
    assert len(fine.boundary_facets) == 2 ** (fine.dim - 1) * len(zoo_mesh.boundary_facets)
    assert fine.volume == pytest.approx(zoo_mesh.volume, rel=1e-13)
    assert list(fine.groups) == list(zoo_mesh.groups)
    assert group_measures(fine) == pytest.approx(group_measures(zoo_mesh), rel=1e-12)
    assert fine.notes == zoo_mesh.notes
    np.testing.assert_array_equal(fine.points[: zoo_mesh.n_nodes], zoo_mesh.points)


def test_children_are_equal_parts(zoo_mesh):
    fine = refine(zoo_mesh)
    expected = np.repeat(np.sort(zoo_mesh.volumes), 2**fine.dim) / 2**fine.dim
    np.testing.assert_allclose(np.sort(fine.volumes), expected, rtol=1e-9)


def test_repeated_refinement_keeps_tetrahedra_in_shape(solid_mesh):
    def worst(mesh: Mesh) -> float:
        corners = mesh.points[mesh.cells]
        sides = corners[:, :, None] - corners[:, None, :]
        longest = np.linalg.norm(sides, axis=-1).max(axis=(1, 2))
        return float((mesh.volumes / longest**3).min())

    one = Mesh(solid_mesh.points[solid_mesh.cells[0]], np.array([[0, 1, 2, 3]]))
    # Bey: the classes of shapes repeat, so the worst shape does not get worse without end.
    assert worst(refine(one, 4)) == pytest.approx(worst(refine(one, 3)), rel=1e-6)


def test_zero_times_is_the_mesh_itself(zoo_mesh):
    assert refine(zoo_mesh, 0) is zoo_mesh
