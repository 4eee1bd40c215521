r"""What all baselines share: the inputs, the normalisation, the output; only the map is their own.

    batch --inputs--> x (B, N, I) --approximate--> fields / scale (B, N, F) --> Direct

Every baseline sees per node exactly what Geo-NeW is given, nothing else: the tokens, the prescribed
boundary values where a component is fixed (0 elsewhere) with the indicator of being fixed, and, for
problems with sources or Neumann data, the load per lumped mass. It returns fields at the nodes,
directly: nothing is solved, prescribed values are not written into the result, and its error on
the boundary is its own.

Fields are divided by their root mean square over the training samples (scaled, never shifted), as
the targets of all these methods are in their papers; loads likewise; tokens have zero mean and unit
variance.

Identities kept: padding is 0 on input, weighted 0 in every sum over nodes and 0 on output; a
sample's fields do not depend on its batch mates. A sample with numbers that are not finite is
blanked before the network and reported as not ``converged``, so that it reaches no gradient.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from torch import Tensor, nn

from geonew.errors import ConfigError, FeatureError
from geonew.features import FeatureSpec
from geonew.model.batch import Batch, collate
from geonew.model.sample import Sample, check_columns
from geonew.model.scaling import TokenScaling
from geonew.problem import Problem


@dataclass(frozen=True)
class BaselineConfig:
    """Sizes that every baseline has; the defaults are those of the comparison in the paper.

    Args:
        width: embedding width d.
        depth: number of blocks L.

    """

    width: int = 128
    depth: int = 4

    def __post_init__(self) -> None:
        sizes = {f.name: getattr(self, f.name) for f in fields(self)}
        for name, size in sizes.items():
            if type(size) is int and size < 1:
                raise ConfigError(f"baseline setting {name!r} is {size}; it must be at least 1")
        heads = sizes.get("heads", 1)
        if self.width % heads:
            raise ConfigError(
                f"width {self.width} is not a multiple of {heads} heads",
                "choose a width that the heads divide",
            )


@dataclass(frozen=True, eq=False)
class Direct:
    """What a baseline predicts.

    Args:
        fields: on the nodes in the frame, over the reference values; NaN for samples with bad
            numbers, 0 on padding.
        converged: which samples have finite fields; a loss uses these alone.

    """

    fields: Float[Tensor, "B N F"]
    converged: Bool[Tensor, "B"]


class Baseline(nn.Module, ABC):
    """A model that maps node inputs to node fields.

    Args:
        problem: what it predicts.
        spec: which mesh features it reads.
        columns: names of the token columns these make.
        config: sizes and choices; the defaults of its kind where none are given.

    """

    config_type: ClassVar[type[BaselineConfig]]

    load_scale: Float[Tensor, "F"]
    field_scale: Float[Tensor, "F"]

    def __init__(
        self,
        problem: Problem,
        spec: FeatureSpec,
        columns: Sequence[str],
        config: BaselineConfig | None = None,
    ) -> None:
        super().__init__()
        config = self.config_type() if config is None else config
        if type(config) is not self.config_type:
            raise ConfigError(
                f"{type(self).__name__} was given a {type(config).__name__}",
                f"give it a {self.config_type.__name__}",
            )
        self.problem, self.spec, self.columns, self.config = problem, spec, tuple(columns), config
        self.loaded = bool(problem.sources or problem.neumann)
        self.scaling = TokenScaling(len(self.columns))
        self.register_buffer("load_scale", torch.ones(problem.n_components))
        self.register_buffer("field_scale", torch.ones(problem.n_components))

    @property
    def input_width(self) -> int:
        """Number I of inputs per node: tokens, values, indicators, loads where there are any."""
        return len(self.columns) + self.problem.n_components * (3 if self.loaded else 2)

    @abstractmethod
    def approximate(self, x: Float[Tensor, "B N I"], batch: Batch) -> Float[Tensor, "B N F"]:
        """Fields over their scales; rows of padding are arbitrary.

        Args:
            x: what :meth:`inputs` makes of the batch, finite.
            batch: for masks, masses and anchors.

        """

    # -- the arrows --------------------------------------------------------------------------------

    def inputs(self, batch: Batch) -> Float[Tensor, "B N I"]:
        """Normalised tokens, prescribed values, their indicators, loads; 0 on padding."""
        dtype = batch.tokens.dtype
        value = torch.where(batch.fixed, batch.extension / self.field_scale, 0.0)
        parts = [
            self.scaling(batch.tokens),
            value.to(dtype),
            batch.fixed.to(dtype),
        ]
        if self.loaded:
            mass = torch.where(batch.mask, batch.mass, 1.0)[..., None]
            parts.append((batch.load / mass / self.load_scale).to(dtype))
        return torch.where(batch.mask[..., None], torch.cat(parts, dim=-1), 0.0)

    def forward(self, batch: Batch) -> Direct:
        """Predict a batch; the differentiable entry."""
        x, sound, batch = self._sound_inputs(batch)
        return self._output(self.approximate(x, batch), sound, batch)

    # -- for users ---------------------------------------------------------------------------------

    def collate(
        self, samples: Sequence[Sample], draw: tuple[int, int, Sequence[int]] | None = None
    ) -> Batch:
        """A batch for this model, on its device; ``draw`` as in :mod:`geonew.model.batch`."""
        check_columns(samples, self.columns)
        blocks, anchors = self.anchors
        # No baseline reads fine matrices; anchors are drawn only where there are some.
        batch = collate(
            samples,
            blocks,
            max(anchors, 1),
            dtype=self.scaling.mean.dtype,
            draw=draw if anchors else None,
        )
        device = self.scaling.mean.device
        return batch if device.type == "cpu" else batch.to(device)

    @property
    def anchors(self) -> tuple[int, int]:
        """Blocks with anchors, and anchors in each; none by default."""
        return 1, 0

    def normalise_tokens(self, samples: Sequence[Sample]) -> None:
        """Scales from training samples: tokens, loads, and fields where targets are known.

        Loads and fields that vanish everywhere keep the scale 1.
        """
        self.scaling.fit(samples)
        densities = np.concatenate([s.load / s.mass[:, None] for s in samples])
        self.load_scale.copy_(torch.from_numpy(_root_mean_square(densities)))
        targets = [s.target for s in samples if s.target is not None]
        if targets:
            scale = _root_mean_square(np.concatenate(targets))
            self.field_scale.copy_(torch.from_numpy(scale))

    # -- for subclasses ----------------------------------------------------------------------------

    def _sound_inputs(
        self, batch: Batch
    ) -> tuple[Float[Tensor, "B N I"], Bool[Tensor, "B"], Batch]:
        """Inputs with bad samples blanked, which samples are good, and the batch blanked alike."""
        x = self.inputs(batch)
        sound = x.isfinite().all(-1).all(-1) & batch.group_value.isfinite().all(-1).all(-1)
        if not sound.all():
            # Blanked before the network: 0 times NaN is NaN on a gradient's way back.
            x, batch = torch.where(sound[:, None, None], x, 0.0), batch.blanked(~sound)
        return x, sound, batch

    def _output(
        self, values: Float[Tensor, "B N F"], sound: Bool[Tensor, "B"], batch: Batch
    ) -> Direct:
        """Scaled back, in double precision, 0 on padding and NaN for bad samples."""
        fields = torch.where(batch.mask[..., None], values.double() * self.field_scale, 0.0)
        fields = torch.where(sound[:, None, None], fields, torch.nan)
        return Direct(fields, fields.isfinite().all(-1).all(-1))

    def coordinate_columns(self) -> Int[Tensor, "d"]:
        """Positions of the columns x1, x2, ... among the tokens; refused where they are missing."""
        names = [f"x{axis + 1}" for axis in range(self.problem.dim)]
        missing = [name for name in names if name not in self.columns]
        if missing:
            raise FeatureError(
                f"{type(self).__name__} reads coordinates; the tokens have no columns {missing}",
                "use FeatureSpec(coordinates=True) and a problem whose frame is well defined",
            )
        return torch.tensor([self.columns.index(name) for name in names])


def counting_measure(batch: Batch) -> Float[Tensor, "B N"]:
    """Every node the same weight, their sum 1."""
    return batch.mask.to(batch.tokens.dtype) / batch.mask.sum(1, keepdim=True)


def _root_mean_square(rows: Float[ndarray, "n F"]) -> Float[ndarray, "F"]:
    size = np.sqrt(np.mean(rows**2, axis=0))
    return np.where(size > 0, size, 1.0)
