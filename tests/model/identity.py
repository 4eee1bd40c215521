"""The model with every node its own partition: then it is the finite element method itself."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor, nn

from geonew.features import FeatureSpec
from geonew.model.backbone import Backbone, LinearSystem
from geonew.model.batch import Batch
from geonew.model.config import ModelConfig
from geonew.model.geonew import GeoNeW
from geonew.model.newton import NewtonConfig
from geonew.model.sample import Sample
from geonew.model.space import ReducedSpace, Relaxation

SPEC = FeatureSpec(hks_times=0)
THETA = 1 / 12  # of linear elements


class IdentitySpace(nn.Module):
    """psi_n = the hat function of node n where it is free, zero where it is prescribed."""

    def forward(
        self,
        z: Tensor,
        context: Tensor,
        batch: Batch,
        windows: Tensor | None = None,
        relaxation: Relaxation | None = None,
    ) -> ReducedSpace:
        free = (~batch.fixed).to(torch.float64)  # (B, N, F)
        hats = torch.diag_embed(free.transpose(1, 2)).transpose(1, 2)  # (B, N, F, N)
        cutoff = 1 - free
        trial = torch.cat([hats, (cutoff * batch.extension)[..., None]], dim=-1)
        return ReducedSpace(trial, cutoff, batch.indicators)


class CompletedBackbone(Backbone):
    """The backbone with 1 on the diagonal of empty rows: prescribed nodes have no balance."""

    def forward(
        self,
        space: ReducedSpace,
        batch: Batch,
        context: torch.Tensor | None = None,
    ) -> LinearSystem:
        system = super().forward(space, batch, context)
        missing = batch.fixed.transpose(1, 2).to(torch.float64)  # (B, F, N)
        matrix = system.matrix.clone()
        for f in range(matrix.shape[1]):
            matrix[:, f, f] += torch.diag_embed(missing[:, f])
        return replace(system, matrix=matrix)


def finite_elements(sample: Sample, known: bool = True, diffusion: float = 0.0) -> GeoNeW:
    """A model of known terms alone whose reduced space is the whole P1 space of the sample."""
    config = ModelConfig(
        width=8,
        depth=1,
        anchors=4,
        partitions=sample.n_nodes,
        hidden=8,
        law="none",
        known=known,
        diffusion=diffusion,
        newton=NewtonConfig(rtol=1e-10),
    )
    torch.manual_seed(0)
    model = GeoNeW(sample.problem, SPEC, sample.columns, config).double()
    model.partition = IdentitySpace()
    model.backbone = CompletedBackbone(model.backbone.problem, diffusion, THETA).double()
    with torch.no_grad():  # the start values in float64, not rounded to float32
        model.backbone.theta.fill_(math.log(THETA / (1 - THETA)))
    return model.eval()
