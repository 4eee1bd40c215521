r"""Transformers over nodes: embedding, pre-norm residual blocks, linear head.

.. math::
    x \leftarrow x + \mathrm{Mix}(\mathrm{LN}\,x), \qquad
    x \leftarrow x + \mathrm{FFN}(\mathrm{LN}\,x)

What the methods differ in is the mixing of nodes, which sees the node weights of a measure: the
counting measure where the paper sums over points, the mass where it means an integral. Both are 0
on padding, which is all the masking that a sum over nodes needs.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor, nn

from geonew.baselines.harness import Baseline, BaselineConfig, counting_measure
from geonew.features import FeatureSpec
from geonew.model.batch import Batch
from geonew.model.integrals import Block
from geonew.problem import Problem


class NodeTransformer(Baseline):
    """A stack of blocks whose mixers a subclass makes."""

    def __init__(
        self,
        problem: Problem,
        spec: FeatureSpec,
        columns: Sequence[str],
        config: BaselineConfig | None = None,
    ) -> None:
        super().__init__(problem, spec, columns, config)
        d = self.config.width
        self.embed = nn.Linear(self.input_width, d)
        self.blocks = nn.ModuleList(Block(d, self.mixer()) for _ in range(self.config.depth))
        self.norm = nn.LayerNorm(d)
        self.head = nn.Linear(d, problem.n_components)

    @abstractmethod
    def mixer(self) -> nn.Module:
        """A new mixer, from the configuration."""

    def measure(self, batch: Batch) -> Float[Tensor, "B N"]:
        """Weights of the nodes; the counting measure unless a subclass says otherwise."""
        return counting_measure(batch)

    def approximate(self, x: Float[Tensor, "B N I"], batch: Batch) -> Float[Tensor, "B N F"]:
        """Embed, mix, read off."""
        x, weight = self.embed(x), self.measure(batch)
        for block in self.blocks:
            x = block(x, weight)
        return self.head(self.norm(x))
