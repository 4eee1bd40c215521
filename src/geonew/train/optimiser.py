r"""The optimiser, its learning rate over the run, and the average of the weights.

.. math:: \eta(t, s) = \eta_0 \min\big(1, \tfrac{s + 1}{s_w}\big)
          \big[ r + (1 - r) \tfrac12 (1 + \cos \pi t) \big]

s the step, s_w the warm-up, t in [0, 1] the part of the budget used, r the final part of the rate.
SOAP is Adam in the eigenbasis of Shampoo's preconditioner. Weight decay is decoupled, and zero
unless asked for: logits and flux law have scales of their own, which nothing should pull to zero.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import cos, pi
from typing import Any, Literal

import torch
from pytorch_optimizer import SOAP
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from geonew.errors import ConfigError


@dataclass(frozen=True)
class OptimiserConfig:
    """Settings of the optimiser.

    Args:
        name: ``"soap"`` or ``"adamw"``.
        learning_rate: the largest one.
        weight_decay: decoupled, per step and learning rate.
        warm_up: steps over which the rate rises.
        final: last learning rate over the largest.
        clip: largest norm of a gradient.
        precondition_frequency: steps between new eigenbases of SOAP.
        average: decay of the exponential moving average of the weights; none keeps no average.

    """

    name: Literal["soap", "adamw"] = "soap"
    learning_rate: float = 3e-3
    weight_decay: float = 0.0
    warm_up: int = 30
    final: float = 0.0
    clip: float = 1.0
    precondition_frequency: int = 10
    average: float | None = None

    def __post_init__(self) -> None:
        for name, low, high in (
            ("learning_rate", 0.0, 10.0),
            ("weight_decay", 0.0, 10.0),
            ("warm_up", 0, 10**9),
            ("final", 0.0, 1.0),
            ("precondition_frequency", 1, 10**9),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                raise ConfigError(
                    f"optimiser.{name} is {value}; it must lie between {low} and {high}"
                )
        if not self.clip > 0:
            raise ConfigError(f"optimiser.clip is {self.clip}; it must be positive")
        if self.average is not None and not 0 < self.average < 1:
            raise ConfigError(f"optimiser.average is {self.average}; a decay lies between 0 and 1")


class SteadySOAP(SOAP):
    """SOAP whose eigenbases are determined where gradients have no part.

    A gradient of low rank leaves the rest of the basis to round-off, so that one process and two,
    whose gradients differ in the last bit, would take different paths. A diagonal far below every
    part that matters, and far above round-off in float64, decides instead.
    """

    TILT = 1e-7

    @classmethod
    def _tilted(cls, matrices: list[Any]) -> list[Any]:
        return [
            m + torch.diag(cls.TILT * m.trace() * torch.linspace(0, 1, len(m)).to(m))
            if len(m)
            else m
            for m in matrices
        ]

    @staticmethod
    def get_orthogonal_matrix(mat: Any) -> list[Any]:
        """Eigenbases of the first gradient."""
        return SOAP.get_orthogonal_matrix(SteadySOAP._tilted(mat))  # type: ignore[arg-type]

    def get_orthogonal_matrix_qr(
        self, state: Any, max_precondition_dim: int = 10000, merge_dims: bool = False
    ) -> Any:
        """Eigenbases after one more power step."""
        plain = state["GG"]
        state["GG"] = self._tilted(plain)
        try:
            return super().get_orthogonal_matrix_qr(state, max_precondition_dim, merge_dims)
        finally:
            state["GG"] = plain


def build_optimiser(
    config: OptimiserConfig, parameters: Iterable[nn.Parameter]
) -> torch.optim.Optimizer:
    """The optimiser of a model's parameters; those without entries are left out."""
    kept = [p for p in parameters if p.requires_grad and p.numel()]
    if config.name == "soap":
        return SteadySOAP(
            kept,
            lr=config.learning_rate,
            weight_decay=config.weight_decay,
            precondition_frequency=config.precondition_frequency,
        )
    return torch.optim.AdamW(kept, lr=config.learning_rate, weight_decay=config.weight_decay)


def learning_rate(config: OptimiserConfig, step: int, spent: float) -> float:
    """The rate of a step.

    Args:
        config: settings.
        step: its number, from 0.
        spent: part of the budget used, in [0, 1].

    """
    rise = min(1.0, (step + 1) / config.warm_up) if config.warm_up else 1.0
    fall = config.final + (1 - config.final) * 0.5 * (1 + cos(pi * min(1.0, spent)))
    return config.learning_rate * rise * fall


def averaged(model: nn.Module, decay: float) -> AveragedModel:
    """A copy of the model that follows its weights slowly; buffers are those of the model."""
    return AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(decay))
