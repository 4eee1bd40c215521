"""Samples with made-up solutions, and a tiny baseline of every kind, for the tests of baselines."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from geonew.baselines import (
    BASELINES,
    Baseline,
    BaselineConfig,
    DeepONetConfig,
    GalerkinConfig,
    GeoFNOConfig,
    GNOTConfig,
    InducingConfig,
    LaMOConfig,
    LinearConfig,
    TransolverConfig,
    UNetConfig,
)
from geonew.features import FeatureSpec
from geonew.mesh import Grid, Mesh
from geonew.model.batch import Batch
from geonew.model.sample import Sample, prepare
from model.cases import flow
from zoo import ZOO

SPEC = FeatureSpec(hks_times=2, eigenpairs=6, hks_gradients=False, coordinates=True)

TINY: dict[str, BaselineConfig] = {
    "inducing": InducingConfig(16, 2, heads=2, anchors=8),
    "transolver": TransolverConfig(16, 2, heads=2, slices=6),
    "gnot": GNOTConfig(16, 2, heads=2, experts=3, expert_ratio=1),
    "linear": LinearConfig(16, 2, heads=2),
    "galerkin": GalerkinConfig(16, 2, heads=2),
    "lamo": LaMOConfig(16, 2, heads=2, latents=6, state=4),
    "deeponet": DeepONetConfig(16, 2, basis=12),
    "geofno": GeoFNOConfig(16, 2, modes=3, grid=8),
    "unet": UNetConfig(32, 2, Grid(9, 9)),
}
ALL = tuple(BASELINES)
# Those that take any mesh.
POINTS = tuple(name for name in ALL if name != "unet")
# Those whose sums over nodes are integrals.
INTEGRALS = ("galerkin", "lamo", "deeponet", "geofno")


def solution(points: np.ndarray) -> np.ndarray:
    """Smooth velocity and pressure that nobody solved for."""
    x, y = points.T
    return np.stack([np.sin(3 * x + y), x * y - 0.3, np.exp(x) * np.cos(2 * y)], axis=1)


def sample(mesh: Mesh, spec: FeatureSpec = SPEC) -> Sample:
    """The flow problem on a mesh with the sides of a square, with the made-up solution."""
    case = flow()
    data = {g: v for g, v in case.boundary.items() if g in mesh.groups}
    problem = replace(case.problem, optional_groups=("hole",))
    made = prepare(mesh, problem, data, spec=spec, source=case.source)
    return made.with_target(solution(mesh.points))


@cache
def samples() -> tuple[Sample, ...]:
    """Three samples of different sizes; the first is a 9 x 9 grid."""
    return tuple(sample(ZOO[name]()) for name in ("square", "square_with_hole", "random_delaunay"))


def fitting(name: str) -> tuple[Sample, ...]:
    """The samples a baseline can take."""
    return samples() if name != "unet" else (samples()[0], grid_sample())


@cache
def grid_sample() -> Sample:
    """Another 9 x 9 grid: obtuse where the first one is square."""
    mesh = ZOO["square"]()
    bent = mesh.points + 0.1 * np.sin(3 * mesh.points[:, ::-1])
    return sample(Mesh(bent, mesh.cells, mesh.groups))


def tiny(name: str, seed: int = 0, dtype: torch.dtype = torch.float64) -> Baseline:
    """A tiny baseline with every parameter drawn: nothing keeps its careful start."""
    torch.manual_seed(seed)
    known = fitting(name)
    model = BASELINES[name](known[0].problem, SPEC, known[0].columns, TINY[name]).to(dtype)
    model.normalise_tokens(known)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.1 * torch.randn_like(p))
    return model.eval()


NODAL = ("tokens", "mask", "mass", "fixed", "log_distance", "indicators", "extension", "load")


def gathered(batch: Batch, nodes: Tensor) -> Batch:
    """The batch with nodes taken by number, any number of times; masses and loads are shared."""
    count = torch.bincount(nodes, minlength=batch.mask.shape[1])[nodes]
    taken: dict[str, Any] = {name: getattr(batch, name)[:, nodes] for name in NODAL}
    taken["mass"] = taken["mass"] / count
    taken["load"] = taken["load"] / count[:, None]
    first = torch.full((batch.mask.shape[1],), len(nodes))
    first.scatter_reduce_(0, nodes, torch.arange(len(nodes)), "amin")
    return replace(batch, **taken, anchors=first[batch.anchors], target=None)


def rubbish_in_padding(batch: Batch) -> Batch:
    """The batch with large numbers in every float entry of padding nodes, masses excepted."""
    padding = ~batch.mask
    assert padding.any()
    changed = {}
    for f in fields(batch):
        value = getattr(batch, f.name)
        if f.name in NODAL and f.name != "mass" and value.is_floating_point():
            changed[f.name] = torch.where(
                padding.view(*padding.shape, *[1] * (value.ndim - 2)), 1e3, value
            )
    return replace(batch, **changed)


def difference(found: Tensor, wanted: Tensor) -> float:
    """Largest difference over largest value."""
    return float((found - wanted).detach().abs().max() / wanted.detach().abs().max())
