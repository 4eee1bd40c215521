r"""The paper's edge law, as its appendix gives it, with its norms counted honestly.

.. math::
    F = H F', \qquad F'_{ij} = \beta A \xi_{ij} + \gamma C \tanh(B \xi_{ij}), \qquad
    \xi_{ij} = \big[\Pi^\top (u_i - u_j),\; \tfrac12 \Pi^\top (u_i + u_j)\big],

A, B, C from a base and a hypernetwork of the context, H = diagonal plus low rank over the edges,
symmetric positive definite, every factor normalised. Edges run from the lower to the higher node,
which is the paper's orientation sign on the mean.

``published``: the paper's own normalisation by the infinity norm, its bound zeta from a moving
average over training steps (a step's mean is that of all processes), and
:math:`\tau = C_L |K^{-1} d_0^\top| / \varepsilon` measured and reported: uniqueness is not
certified. (The paper has epsilon upside down, takes the infinity norm for a bound of the 2-norm and
leaves out the norm of xi itself.)

``certified``: 2-norms by Schur's test, and for each sample

.. math:: C_L \le \kappa\, \lambda_{\min}(\mathrm{sym}\, A_{II}) / |d_0|,

which makes the balance strongly monotone with margin (1 - kappa) lambda_min. It admits almost no
flux, since lambda_min is tiny for overlapping partitions; the certificate shows the number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
import torch.distributed as dist
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import softplus

from geonew.model.backbone import LinearSystem
from geonew.model.flux.law import Monotonicity, Partitions, finite_or_zero, schur_norm
from geonew.model.graph import FluxGraph


@dataclass(frozen=True)
class PaperConfig:
    """Settings of the paper's law.

    Args:
        mode: ``"published"`` or ``"certified"``.
        operator_width: columns o of the projection Pi.
        rank: rank of the low-rank part of H.
        gamma: initial logarithm of gamma (the paper's -2 to -4).
        contraction: kappa, or the paper's one half of its bound.
        momentum: of the moving average of zeta.

    """

    mode: Literal["published", "certified"] = "published"
    operator_width: int = 16
    rank: int = 4
    gamma: float = -2.0
    contraction: float = 0.5
    momentum: float = 0.99


@dataclass(frozen=True, eq=False)
class PaperFlux:
    """The law, conditioned."""

    partitions: Partitions
    mask: Float[Tensor, "B F E"]
    projection: Float[Tensor, "B o2 F2"]  # xi = projection [du; mean]
    linear: Float[Tensor, "B F o2"]  # beta Pb A
    inner: Float[Tensor, "B o2 o2"]  # B
    outer: Float[Tensor, "B F o2"]  # gamma Pb C
    hodge_diagonal: Float[Tensor, "B E"]
    hodge_factor: Float[Tensor, "B E r"]
    lipschitz: Float[Tensor, "B"]
    allowed: Float[Tensor, "B"]
    mode: str
    diffusion: float

    def linear_part(self) -> None:
        """None: H couples the edges, and the whole law is evaluated at once."""

    def nonlinear(self, u: Float[Tensor, "B F V"]) -> Float[Tensor, "B F E"]:
        """F on every edge."""
        xi = self._xi(u)
        return self._hodge(self.linear @ xi + self.outer @ torch.tanh(self.inner @ xi))

    def evaluate(self, u: Float[Tensor, "B F V"]) -> tuple[Tensor, Callable[[], Tensor]]:
        """The flux, with its derivative left to be asked for."""
        return self.nonlinear(u), lambda: self.linearise_nonlinear(u)[1]

    def linearise_nonlinear(
        self, u: Float[Tensor, "B F V"]
    ) -> tuple[Float[Tensor, "B F E"], Float[Tensor, "B F F P P"]]:
        """The flux and the dense derivative of the balances; H couples all edges."""
        xi = self._xi(u)
        th = torch.tanh(self.inner @ xi)
        flux = self._hodge(self.linear @ xi + self.outer @ th)
        inward = self.inner @ self.projection  # (B, 2o, 2F)
        outer = torch.einsum("bfo,bog->bfgo", self.outer, inward).flatten(1, 2)
        B, F, E = flux.shape
        local = (outer @ (1 - th**2)).view(B, F, 2 * F, E)
        local = local + (self.linear @ self.projection)[..., None]
        masked = local * self.mask[:, :, None] * torch.cat([self.mask, self.mask], 1)[:, None]
        graph = self.partitions.graph
        P = graph.partitions
        # dF'/du (B, F, F, E, P): by difference and by mean, then H over the edges.
        by_node = masked[:, :, :F, :, None] * graph.divergence[:, :P]
        by_node = by_node + 0.5 * masked[:, :, F:, :, None] * graph.magnitude[:, :P]
        spread = self.hodge_diagonal[:, None, None, :, None] * by_node
        low = torch.einsum("ber,bfgep->bfgrp", self.hodge_factor, by_node)
        spread = spread + torch.einsum("ber,bfgrp->bfgep", self.hodge_factor, low)
        return flux, graph.divergence[:, :P].mT @ spread

    def monotonicity(self, backbone: Float[Tensor, "B FP FP"]) -> Monotonicity:
        r"""Q = - C_L |d0| I where certified: the law may lower the margin by that much."""
        graph = self.partitions.graph
        B, F, _ = self.mask.shape
        reach = torch.linalg.matrix_norm(graph.divergence[:, : graph.partitions], 2)
        eye = torch.eye(graph.partitions, dtype=torch.float64, device=backbone.device)
        certified = self.mode == "certified"
        remark = "paper's law, certified bound"
        if not certified:
            tau = self.lipschitz * self._inverse_reach(backbone)
            largest = float(tau.max())
            remark = f"paper's law as published: uniqueness not certified, tau up to {largest:.3g}"
        return Monotonicity(
            form=-(self.lipschitz * reach)[:, None, None, None] * eye.expand(B, F, -1, -1),
            lipschitz=self.lipschitz,
            bound=self.allowed,
            certified=certified,
            remark=remark,
        )

    def tau(self, backbone: Float[Tensor, "B FP FP"]) -> Float[Tensor, "B"]:
        """C_L |A^-1 d0^T|: below 1 the solution would be unique."""
        return self.lipschitz * self._inverse_reach(backbone)

    def _inverse_reach(self, backbone: Tensor) -> Float[Tensor, "B"]:
        graph = self.partitions.graph
        F = self.mask.shape[1]
        inner = graph.divergence[:, : graph.partitions].mT.contiguous()
        wide = torch.block_diag(*[inner] * F)
        finite = finite_or_zero(backbone)
        solved = torch.linalg.lstsq(finite, wide.expand(len(backbone), -1, -1)).solution
        return _two_norm(solved)

    def _xi(self, u: Tensor) -> Float[Tensor, "B o2 E"]:
        graph = self.partitions.graph
        pair = torch.cat([graph.difference(u) * self.mask, graph.mean(u) * self.mask], dim=1)
        return self.projection @ pair

    def _hodge(self, flux: Tensor) -> Float[Tensor, "B F E"]:
        flux = flux * self.mask
        low = flux @ self.hodge_factor  # (B, F, r)
        return self.hodge_diagonal[:, None] * flux + low @ self.hodge_factor.mT


class PaperLaw(nn.Module):
    """Parameters of the paper's law."""

    zeta: Float[Tensor, ""]
    averaging: Bool[Tensor, ""]

    def __init__(
        self,
        width: int,
        contexts: int,
        components: int,
        graph: FluxGraph,
        config: PaperConfig,
        diffusion: float,
    ) -> None:
        super().__init__()
        self.config, self.components, self.diffusion = config, components, diffusion
        o2 = 2 * config.operator_width
        self.base = nn.Parameter(torch.eye(o2).repeat(3, 1, 1))
        self.hyper = nn.Linear(contexts * width, 3 * o2 * o2)
        nn.init.zeros_(self.hyper.weight)
        nn.init.zeros_(self.hyper.bias)
        self.project_in = nn.Parameter(torch.empty(config.operator_width, components))
        self.project_out = nn.Parameter(torch.empty(components, o2))
        nn.init.orthogonal_(self.project_in)
        nn.init.orthogonal_(self.project_out)
        self.hodge = nn.Linear(contexts * width, graph.edges * (1 + config.rank))
        nn.init.normal_(self.hodge.weight, std=0.01 * width**-0.5)
        self.beta = nn.Parameter(torch.full((), config.gamma))
        self.gamma = nn.Parameter(torch.full((), config.gamma))
        self.register_buffer("zeta", torch.ones((), dtype=torch.float64))
        self.register_buffer("averaging", torch.zeros((), dtype=torch.bool))  # from batch 1 on

    def condition(
        self,
        context: Float[Tensor, "B c d"],
        partitions: Partitions,
        linear: LinearSystem,
    ) -> PaperFlux:
        """The law for a batch; the bound is measured against the linear backbone."""
        config, graph = self.config, partitions.graph
        flat = context.flatten(1)
        norm = schur_norm if config.mode == "certified" else _row_norm
        operators = self.base + self.hyper(flat).unflatten(-1, self.base.shape)
        A, B, C = (_normalised(m, norm) for m in operators.double().unbind(1))
        into, out = (_normalised(m.double(), norm) for m in (self.project_in, self.project_out))
        projection = torch.block_diag(into, into).expand(len(flat), -1, -1)  # (B, 2o, 2F)
        raw = self.hodge(flat).double().unflatten(-1, (graph.edges, 1 + config.rank))
        diagonal, factor = softplus(raw[..., 0]) + 1e-3, raw[..., 1:]
        size = diagonal.amax(-1) + torch.linalg.matrix_norm(factor) ** 2  # >= |H|_2
        diagonal, factor = diagonal / size[:, None], factor / size.sqrt()[:, None, None]
        allowed = self._allowed(graph, linear)
        half = allowed / 2
        beta = torch.minimum(half, self.beta.double().exp())
        gamma = torch.minimum(half, self.gamma.double().exp())
        # |xi| <= |Pi| |[d0; mean]| |u|: the edge features have a norm of their own.
        features = torch.linalg.matrix_norm(
            torch.cat([graph.divergence, 0.5 * graph.magnitude])[:, : graph.partitions], 2
        )
        per_input = beta + gamma
        if config.mode == "certified":
            beta, gamma = beta / features, gamma / features
            lipschitz = per_input
        else:  # what the published bound amounts to in the 2-norm
            exact = _two_norm(out) * _two_norm(into) * features
            slope = beta * _two_norm(A) + gamma * _two_norm(C) * _two_norm(B)
            lipschitz = exact * slope
        return PaperFlux(
            partitions=partitions,
            mask=partitions.edge_mask(),
            projection=projection,
            linear=beta[:, None, None] * (out @ A),
            inner=B,
            outer=gamma[:, None, None] * (out @ C),
            hodge_diagonal=diagonal,
            hodge_factor=factor,
            lipschitz=lipschitz,
            allowed=allowed,
            mode=config.mode,
            diffusion=self.diffusion,
        )

    @torch.no_grad()
    def average(self, graph: FluxGraph, linear: LinearSystem | None) -> None:
        """Move zeta towards the mean bound of a batch, of which each process has a share.

        In training every process calls this once a step: the others wait for it.

        Args:
            graph: the flux graph.
            linear: the backbone of this process's samples; none where it has no samples.

        """
        if self.config.mode == "certified":
            return  # each sample has a bound of its own
        bounds = graph.divergence.new_zeros(0)
        if linear is not None:
            lowest, finite = _lowest(linear)
            bounds = lowest[finite] / _reach(graph)
        shared = torch.stack([bounds.sum(), bounds.new_tensor(len(bounds))])
        if dist.is_available() and dist.is_initialized():
            dist.all_reduce(shared)
        total, count = shared
        if count > 0:
            published = self.config.contraction * (total / count)
            share = 1 - self.config.momentum if self.averaging else 1.0
            self.zeta.lerp_(published.to(self.zeta.dtype), share)
            self.averaging.fill_(True)

    def _allowed(self, graph: FluxGraph, linear: LinearSystem) -> Float[Tensor, "B"]:
        """Largest Lipschitz constant allowed: per sample if certified, else the moving average."""
        if self.config.mode == "certified":  # a function of the weights: its derivative counts
            return self.config.contraction * _lowest(linear)[0] / _reach(graph)
        return self.zeta.expand(len(linear.matrix)).clone()


def _lowest(linear: LinearSystem) -> tuple[Float[Tensor, "B"], Bool[Tensor, "B"]]:
    """Smallest eigenvalue of the backbone's symmetric part, 0 if negative; which are finite."""
    backbone = linear.dense()
    symmetric = finite_or_zero((backbone + backbone.mT) / 2)
    lowest = torch.linalg.eigvalsh(symmetric)[:, 0].clamp_min(0.0)
    return lowest, torch.isfinite(backbone).flatten(1).all(1)


def _reach(graph: FluxGraph) -> Float[Tensor, ""]:
    """The norm of d0."""
    return torch.linalg.matrix_norm(graph.divergence[:, : graph.partitions], 2)


def _row_norm(matrix: Tensor) -> Tensor:
    """The infinity norm, which the paper takes for a bound of the 2-norm."""
    return matrix.abs().sum(-1).amax(-1)


def _normalised(matrix: Tensor, norm) -> Tensor:
    return matrix / norm(matrix).clamp_min(1e-6)[..., None, None]


def _two_norm(matrix: Tensor) -> Tensor:
    return torch.linalg.matrix_norm(finite_or_zero(matrix), 2)
