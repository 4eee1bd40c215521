r"""DeepONet: a basis from the node, coefficients from the whole.

.. math:: u_f(x_n) = \frac{1}{\sqrt p} \sum_{k=1}^{p} b_{fk}(s)\, t_k(x_n) + \beta_f

The trunk t reads the inputs of one node; the branch b reads a summary s of fixed size, in place of
sensors at fixed places, which varying geometries do not have: means and standard deviations of all
inputs over the domain, its extent and size, and the mean data of every boundary group.

Identity kept: s consists of integrals (lumped masses on nodes, boundary measure on groups) and
extents, so it belongs to the geometry and not to the mesh: coincident nodes that share their mass
are one node. Nodes do not talk to each other but through s: O(N).

Lu, Jin, Pang, Zhang, Karniadakis, "Learning nonlinear operators via DeepONet", Nature Machine
Intelligence 2021, equation 2 (unstacked, with bias). Both networks are residual feed-forward
stacks; the 1/sqrt(p) keeps outputs of order one at the start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from geonew.baselines.harness import Baseline, BaselineConfig
from geonew.features import FeatureSpec
from geonew.model.batch import Batch
from geonew.model.encoder import FeedForward
from geonew.model.integrals import mass_measure
from geonew.problem import Problem

# Below this variance a column is constant over the domain: the root's slope stays bounded.
CONSTANT = 1e-12


class Residual(nn.Module):
    """Pre-norm residual feed-forward layer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.ffn = FeedForward(width)

    def forward(self, x: Float[Tensor, "*n d"]) -> Float[Tensor, "*n d"]:
        """The next features."""
        return x + self.ffn(self.norm(x))


def network(inputs: int, width: int, depth: int, outputs: int) -> nn.Sequential:
    """Linear, ``depth`` residual layers, norm, linear."""
    layers = [Residual(width) for _ in range(depth)]
    head = nn.Linear(width, outputs)
    return nn.Sequential(nn.Linear(inputs, width), *layers, nn.LayerNorm(width), head)


@dataclass(frozen=True)
class DeepONetConfig(BaselineConfig):
    """Sizes of a DeepONet.

    Args:
        basis: number p of basis functions.

    """

    basis: int = 128


class DeepONet(Baseline):
    """Branch on a summary of the geometry and its data, trunk on the nodes."""

    config_type: ClassVar[type[BaselineConfig]] = DeepONetConfig
    config: DeepONetConfig
    axes: Int[Tensor, "dim"]

    def __init__(
        self,
        problem: Problem,
        spec: FeatureSpec,
        columns: Sequence[str],
        config: DeepONetConfig | None = None,
    ) -> None:
        super().__init__(problem, spec, columns, config)
        own, F, G = self.config, problem.n_components, len(problem.groups)
        self.register_buffer("axes", self.coordinate_columns(), persistent=False)
        summary = 2 * self.input_width + 2 * problem.dim + 1 + 2 * F * G
        self.branch = network(summary, own.width, own.depth, F * own.basis)
        self.trunk = network(self.input_width, own.width, own.depth, own.basis)
        self.bias = nn.Parameter(torch.zeros(F))

    def summary(self, x: Float[Tensor, "B N I"], batch: Batch) -> Float[Tensor, "B s"]:
        """Means, standard deviations, extent, size, and data of the groups."""
        weight = mass_measure(batch)[..., None]
        mean = (weight * x).sum(1)
        variance = (weight * (x - mean[:, None]) ** 2).sum(1)
        place = x[..., self.axes]
        inside = batch.mask[..., None]
        low = torch.where(inside, place, torch.inf).amin(1)
        high = torch.where(inside, place, -torch.inf).amax(1)
        data = batch.group_value / self.field_scale[:, None]
        parts = (
            mean,
            (variance + CONSTANT).sqrt(),
            low,
            high,
            batch.volume.log()[:, None].to(x.dtype),
            data.flatten(1).to(x.dtype),
            batch.live.flatten(1).to(x.dtype),
        )
        return torch.cat(parts, dim=-1)

    def approximate(self, x: Float[Tensor, "B N I"], batch: Batch) -> Float[Tensor, "B N F"]:
        """Basis times coefficients."""
        b = self.branch(self.summary(x, batch)).unflatten(-1, (len(self.bias), -1))  # (B, F, p)
        return self.trunk(x) @ b.mT * self.config.basis**-0.5 + self.bias
