r"""Inducing points: the encoder of Geo-NeW with a linear head in place of the solve.

    u(x_n) = H z_n + b,   z = AnchorTransformer(x)

The comparison that isolates what the reduced space and the balance law bring: everything up to the
node embeddings is the same module with the same anchors. Like it, it can encode one mesh and
evaluate on another of the same geometry.

Paper: "Inducing Point (baseline)" of its tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor, nn

from geonew.baselines.harness import Baseline, BaselineConfig, Direct
from geonew.features import FeatureSpec
from geonew.model.batch import Batch
from geonew.model.encoder import AnchorTransformer
from geonew.problem import Problem


@dataclass(frozen=True)
class InducingConfig(BaselineConfig):
    """Sizes of the encoder, as in :class:`geonew.model.config.ModelConfig`.

    Args:
        heads: attention heads.
        anchors: anchors per block M.
        exchanges: times the anchors attend to each other in a block.

    """

    heads: int = 2
    anchors: int = 64
    exchanges: int = 2


class Inducing(Baseline):
    """Anchor transformer with a linear head."""

    config_type: ClassVar[type[BaselineConfig]] = InducingConfig
    config: InducingConfig

    def __init__(
        self,
        problem: Problem,
        spec: FeatureSpec,
        columns: Sequence[str],
        config: InducingConfig | None = None,
    ) -> None:
        super().__init__(problem, spec, columns, config)
        c = self.config
        self.encoder = AnchorTransformer(self.input_width, c.width, c.depth, c.heads, c.exchanges)
        self.head = nn.Linear(c.width, problem.n_components)

    @property
    def anchors(self) -> tuple[int, int]:
        """As many as the configuration says, in every block."""
        return self.config.depth, self.config.anchors

    def approximate(self, x: Float[Tensor, "B N I"], batch: Batch) -> Float[Tensor, "B N F"]:
        """Embed and read off."""
        nodes, _ = self.encoder(x, batch.anchors, batch.anchor_exists)
        return self.head(nodes)

    def transfer(self, known: Batch, batch: Batch) -> Direct:
        """Encoded on one batch, evaluated on other meshes of the same geometries.

        Args:
            known: the meshes that are encoded.
            batch: the meshes whose nodes are asked for, in the same order.

        """
        x, sound, known = self._sound_inputs(known)
        y, also_sound, batch = self._sound_inputs(batch)
        _, memory = self.encoder(x, known.anchors, known.anchor_exists)
        nodes = self.encoder.evaluate(y, memory, known.anchor_exists)
        return self._output(self.head(nodes), sound & also_sound, batch)
