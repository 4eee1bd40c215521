r"""The reduced space: a learned partition of unity with a lifted boundary.

Per component, with interior logits S_i(x) and a cut-off logit b(x), both from the network,

.. math::
    (\psi_1, \dots, \psi_P, c) = \mathrm{softmax}\big(S_1, \dots, S_P,\; b - \log(d/l)\big), \qquad
    \psi_g = c\, h_g, \qquad u_h = c\,E + \sum_i u_i \psi_i,

d the distance to the component's Dirichlet part, l the size of the domain, h_g the harmonic
extension of group g's indicator, E that of the data. Where a component relaxes to a learned
state E + s (:mod:`geonew.model.source`), the lift ends there: it is :math:`E + (1 - c)\,s`.

Identities kept: all rows are non-negative and sum to 1; interior rows vanish on the Dirichlet part,
where c = 1, so boundary values are exact for data of any sign; constants are reproduced.

The paper builds boundary rows from the values u_b/s, s their sum: 0/0 for no-slip, wrong for sign
changes, and dependent on the number of boundary nodes. The variant ``nodal`` (c = 1 on Dirichlet
nodes, 0 elsewhere) keeps its support for comparison.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from geonew.model.batch import Batch
from geonew.model.sample import FAR

Boundary = Literal["lifted", "nodal"]


@dataclass(frozen=True, eq=False)
class Relaxation:
    """A learned state on the nodes, and how strongly components are drawn to it.

    Args:
        state: E + s.
        rate: rho > 0 times mass.

    """

    state: Float[Tensor, "B N F"]
    rate: Float[Tensor, "B N F"]


@dataclass(frozen=True, eq=False)
class ReducedSpace:
    """The basis on the nodes, in float64.

    Args:
        trial: interior rows psi_1 .. psi_P and, last, the lift: c E, or E + (1 - c) s.
        cutoff: c.
        indicators: h_g.
        windows: number of windows, which the interior rows follow one by one.
        relaxation: to the state where the lift ends; none where it ends at zero.

    """

    trial: Float[Tensor, "B N F Q"]
    cutoff: Float[Tensor, "B N F"]
    indicators: Float[Tensor, "B N F G"]
    windows: int = 1
    relaxation: Relaxation | None = None

    @property
    def partitions(self) -> int:
        """Number of interior partitions P."""
        return self.trial.shape[-1] - 1

    @property
    def interior(self) -> Float[Tensor, "B N F P"]:
        """The interior rows psi_i."""
        return self.trial[..., :-1]

    @property
    def lift(self) -> Float[Tensor, "B N F"]:
        """The lift."""
        return self.trial[..., -1]

    @cached_property
    def group_rows(self) -> Float[Tensor, "B N F G"]:
        """The group rows psi_g = c h_g."""
        return self.cutoff[..., None] * self.indicators

    @cached_property
    def rows(self) -> Float[Tensor, "B N F V"]:
        """All rows: a partition of unity."""
        return torch.cat([self.interior, self.group_rows], dim=-1)

    @cached_property
    def components(self) -> tuple[Float[Tensor, "B N Q"], ...]:
        """Trial functions of each component.

        Unbound once: a gradient then meets the basis once, not once per use.
        """
        return self.trial.unbind(2)

    def on_nodes(self, which: slice) -> ReducedSpace:
        """The same on some of the nodes."""
        rows = self.trial[:, which], self.cutoff[:, which], self.indicators[:, which]
        return ReducedSpace(*rows, self.windows)

    def detached(self) -> ReducedSpace:
        """The same space without its graph; what is cached here must not come from there."""
        return replace(self, trial=self.trial.detach(), cutoff=self.cutoff.detach())

    def field(self, u: Float[Tensor, "B F P"]) -> Float[Tensor, "B N F"]:
        """u_h on the nodes, lift included."""
        return lifted_field(self.trial, u)


def lifted_field(
    trial: Float[Tensor, "B N f Q"], u: Float[Tensor, "B f P"]
) -> Float[Tensor, "B N f"]:
    """Fields of coefficients u in trial functions whose last is the lift."""
    coefficients = torch.cat([u, torch.ones_like(u[..., :1])], dim=-1)  # (B, f, P+1)
    return (trial * coefficients[:, None]).sum(-1)  # matrix products of one column take twice that


def tested(
    nodal: Float[Tensor, "B N f"], trial: Float[Tensor, "B N f Q"]
) -> Float[Tensor, "B f P"]:
    """Nodal values of each component, summed against its interior functions."""
    return (nodal[..., None] * trial).sum(1)[..., :-1]


class PartitionNetwork(nn.Module):
    r"""Logits of the partition of unity from node embeddings and context.

    .. math:: S = W_2\,(\mathrm{gelu}(y) + \alpha\, y), \qquad y = W_1 z + V \bar c,

    one hidden layer with a linear skip around its activation, which keeps early partitions apart
    (alpha starts at 1); the paper's skip goes past the hidden layer and costs one more product.

    Args:
        width: embedding width d.
        hidden: width of the hidden layer.
        components: number of components F.
        partitions: interior partitions per component P.
        boundary: ``"lifted"`` or ``"nodal"``.

    """

    # Spread of the initial logits: of this size they make partitions that overlap but differ.
    SPREAD = 2.0

    def __init__(
        self, width: int, hidden: int, components: int, partitions: int, boundary: Boundary
    ) -> None:
        super().__init__()
        self.components, self.partitions, self.boundary = components, partitions, boundary
        columns = components * (partitions + 1)
        self.hidden = nn.Linear(width, hidden)
        self.context = nn.Linear(width, hidden, bias=False)
        self.out = nn.Linear(hidden, columns)
        self.alpha = nn.Parameter(torch.ones(()))
        nn.init.zeros_(self.out.bias)
        nn.init.normal_(self.out.weight, std=self.SPREAD * hidden**-0.5)
        with torch.no_grad():  # the cut-off starts as a plain function of distance
            self.out.weight.view(components, partitions + 1, hidden)[:, -1] = 0

    def forward(
        self,
        z: Float[Tensor, "B N d"],
        context: Float[Tensor, "B c d"],
        batch: Batch,
        windows: Float[Tensor, "B N K"] | None = None,
        relaxation: Relaxation | None = None,
    ) -> ReducedSpace:
        """The reduced space of each sample.

        Args:
            z: node embeddings.
            context: context tokens; their mean enters every node.
            batch: distances, indicators and data extensions.
            windows: what every function is multiplied by; none for a single window.
            relaxation: to the state where the lift ends; none for zero.

        """
        inside = self.hidden(z) + self.context(context.mean(1, keepdim=True))
        logits = self.out(torch.addcmul(nn.functional.gelu(inside), self.alpha, inside))
        logits = logits.unflatten(-1, (self.components, self.partitions + 1))
        offset = batch.log_distance
        if self.boundary == "nodal":
            offset = torch.where(batch.fixed, -FAR, FAR).to(offset)
        logits[..., -1] -= offset.to(logits.dtype)
        trial, cutoff = _Lifted.apply(logits, batch.extension)  # type: ignore[misc]
        if windows is not None:
            inside = trial[..., None, :-1] * windows[:, :, None, :, None]  # (B, N, F, K, P)
            trial = torch.cat([inside.flatten(3), trial[..., -1:]], dim=-1)
        if relaxation is not None:
            lift = torch.addcmul(trial[..., -1], 1 - cutoff, relaxation.state)
            trial = torch.cat([trial[..., :-1], lift[..., None]], dim=-1)
        count = 1 if windows is None else windows.shape[-1]
        return ReducedSpace(trial, cutoff, batch.indicators, count, relaxation)


class _Lifted(torch.autograd.Function):
    r"""Logits of (psi, c) in any precision -> (psi, c E) and c in float64, rows summing to 1 there.

    A softmax whose exponentials are of the logits' precision and whose sums are of float64.
    """

    @staticmethod
    def forward(ctx, logits: Tensor, extension: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        trial = (logits - logits.amax(-1, keepdim=True)).exp_().to(torch.float64)
        trial /= trial.sum(-1, keepdim=True)
        cutoff = trial[..., -1].clone()
        trial[..., -1] *= extension
        ctx.save_for_backward(trial, cutoff, extension)
        ctx.dtype = logits.dtype
        return trial, cutoff

    @staticmethod
    def backward(ctx, trial_gradient: Tensor, cutoff_gradient: Tensor):  # type: ignore[override]
        trial, cutoff, extension = ctx.saved_tensors
        last = trial_gradient[..., -1]
        weights = trial.to(ctx.dtype, copy=True)
        weights[..., -1] = cutoff
        to_weights = trial_gradient.to(ctx.dtype, copy=True)
        to_weights[..., -1] = last * extension + cutoff_gradient
        mean = (weights * to_weights).sum(-1, keepdim=True)
        return weights * (to_weights - mean), last * cutoff
