"""The exact sequence on learned partitions: to round-off, on every mesh, for any weights."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch

from geonew.fem import assemble
from geonew.mesh import Mesh
from geonew.model.sample import Sample, prepare
from geonew.model.space import ReducedSpace
from geonew.model.whitney import ReducedForms
from model.cases import CASES, SPEC, prepared, redraw, scalar_problem, tiny

ROUND_OFF = 1e-12


def reduced(sample: Sample, seed: int, scale: float, dtype: torch.dtype, **changes) -> ReducedSpace:
    """The space of a model with wild weights."""
    model = redraw(tiny(sample, dtype=dtype, **changes), seed, scale)
    batch = model.collate([sample])
    with torch.no_grad():
        return model.reduce(model.encode(batch), batch)


operators = cache(assemble)


@cache
def zoo_sample(mesh: Mesh) -> Sample:
    problem = scalar_problem(mesh)
    data = {d.group: {"u": 0.7 - k} for k, d in enumerate(problem.dirichlet)}
    return prepare(mesh, problem, data, spec=SPEC, source={"u": 1.0})


def check_partition(space: ReducedSpace, sample: Sample) -> None:
    rows = space.rows[0].numpy()
    assert rows.dtype == np.float64
    assert rows.min() >= 0
    assert np.abs(rows.sum(axis=-1) - 1).max() <= ROUND_OFF
    interior, cutoff = space.interior[0].numpy(), space.cutoff[0].numpy()
    assert (interior[sample.fixed] == 0).all()
    assert (cutoff[sample.fixed] == 1).all()
    assert (cutoff[:, ~sample.fixed.any(axis=0)] == 0).all()  # nothing reaches a floating field


def check_sequence(mesh: Mesh, rows: np.ndarray) -> None:
    forms = ReducedForms(operators(mesh), np.ascontiguousarray(rows.T))
    fine, W, W1 = forms.operators, forms.rows, forms.edge_rows
    assert np.abs(fine.d0 @ W.T - W1.T @ forms.d0).max() <= ROUND_OFF
    assert np.abs(forms.d1 @ forms.d0).max() == 0
    K = forms.stiffness
    # Round-off of a sum is relative to its summands, which nearly cancel on needles and slivers.
    size = (np.abs(W) @ (abs(fine.stiffness) @ np.abs(W.T))).max()
    assert np.abs(K - forms.d0.T @ forms.mass1 @ forms.d0).max() <= ROUND_OFF * size
    assert np.abs(K.sum(axis=1)).max() <= ROUND_OFF * size
    assert (K == K.T).all()
    assert np.linalg.eigvalsh(K)[0] >= -ROUND_OFF * size
    assert np.linalg.eigvalsh(forms.mass1)[0] >= -ROUND_OFF * np.abs(forms.mass1).max()
    volume = mesh.volumes.sum()
    assert abs(forms.mass0.sum() - volume) <= ROUND_OFF * volume
    assert np.abs(fine.d1 @ W1.T - forms.face_rows.T @ forms.d1).max() <= ROUND_OFF
    if mesh.dim == 3:
        assert np.linalg.eigvalsh(forms.mass2)[0] >= -ROUND_OFF * np.abs(forms.mass2).max()


def test_identities_on_every_mesh(zoo_mesh: Mesh) -> None:
    """W is promoted to float64 before anything is made of it, so float32 models lose nothing."""
    sample = zoo_sample(zoo_mesh)
    for seed, (scale, dtype) in enumerate([(0.5, torch.float64), (4.0, torch.float32)]):
        space = reduced(sample, seed, scale, dtype)
        check_partition(space, sample)
        check_sequence(zoo_mesh, space.rows[0, :, 0].numpy())


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("boundary", ["lifted", "nodal"])
def test_identities_for_every_field(name: str, boundary: str) -> None:
    sample = prepared(name)
    for dtype in (torch.float64, torch.float32):
        space = reduced(sample, 3, 1.0, dtype, boundary=boundary)
        check_partition(space, sample)
    for component in range(sample.problem.n_components):
        check_sequence(sample.mesh, space.rows[0, :, component].numpy())


def test_identities_need_the_partition_of_unity() -> None:
    """Control: rows that sum to 1 + 1e-6 are noticed."""
    sample = prepared("poisson")
    rows = reduced(sample, 0, 1.0, torch.float64).rows[0, :, 0].numpy()
    with pytest.raises(AssertionError):
        check_sequence(sample.mesh, rows * (1 + 1e-6))


def test_backbone_has_the_stiffness_of_the_forms(zoo_mesh: Mesh) -> None:
    """eps K of a learned law is the interior block of the reduced K, the lift its group columns."""
    sample = zoo_sample(zoo_mesh)
    model = redraw(tiny(sample, known=False, constitutive=False, law="none"), 4)
    batch = model.collate([sample])
    with torch.no_grad():
        output = model(batch)
    rows = output.space.rows[0, :, 0].numpy()
    fine = operators(zoo_mesh).stiffness
    K = ReducedForms(operators(zoo_mesh), np.ascontiguousarray(rows.T)).stiffness
    P = model.config.partitions
    found = output.balance.linear.matrix[0, 0, 0].numpy()
    size = (np.abs(rows.T) @ (abs(fine) @ np.abs(rows))).max()
    assert np.abs(found - K[:P, :P]).max() <= ROUND_OFF * size
    lift = output.space.lift[0, :, 0].numpy()
    load = rows[:, :P].T @ sample.load[:, 0]
    constant = rows[:, :P].T @ (fine @ lift) - load
    found = output.balance.linear.constant[0, 0].numpy()
    assert np.abs(found - constant).max() <= ROUND_OFF * (size + np.abs(load).max())
