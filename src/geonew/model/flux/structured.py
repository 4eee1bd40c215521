r"""The structured law: monotone, energy-neutral and small parts, certified for every sample.

.. math::
    F_{ij} = h_{ij} D \big[ A D\,\delta + B^\top c\, s(B D\,\delta)
             + R(D\,\delta, D\,\bar u) \big] + T_{ij}\,\bar u,
    \qquad \delta = u_i - u_j,\; \bar u = (u_i + u_j)/2,

D the mask of components that both ends carry, and

- h > 0 with a floor, symmetric, from partition embeddings;
- A symmetric, A >= a0 I; :math:`B^\top c\, s(B\,\cdot)`, c >= 0, the gradient of a convex
  potential: monotone, of any size;
- T antisymmetric in (i, j), symmetric across components, projected so that its sum over j vanishes
  at interior nodes: energy-neutral (advection, first-order coupling), of any size;
- R the paper's general part, with Lipschitz constant at most :math:`\rho = \kappa a_0 / q`.

Identity kept (strong monotonicity): for v = u - w that vanishes on group nodes,

.. math:: \langle F(u) - F(w), v \rangle \ge (1 - \kappa)\, a_0\, v^\top L_h v,
          \qquad q_f^2 = 3/4 + \lambda_{\max}(D_h, L_h)/2,

L_h the h-weighted Laplacian, D_h its diagonal; hence one and only one solution on every geometry.

Three choices of our own. The sigmoid is algebraic, :math:`s(x) = x / \sqrt{1 + x^2}`: odd, bounded
and of slope at most 1 as tanh is, and four times cheaper in float64. R is well-balanced:
:math:`R(\delta, \bar u) = \rho[\beta \hat A \delta +
\gamma \hat C (s(\hat B_d \delta + \hat B_m \bar u) - s(\hat B_m \bar u))]` vanishes
with the difference, so constant states carry no flux and constant data return the constant; it is
odd, as the paper's. And 1/lambda_max(D_h, L_h) = 1 - rho(D_h^{-1} H), H the interior weights, is
bounded by the Collatz-Wielandt quotient :math:`\rho(D_h^{-1} H) \le \max_i (D_h^{-1} H x)_i / x_i`
of a positive vector x after a few power steps: rigorous, cheap, and differentiable without an
eigenvector.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import softplus

from geonew.model.backbone import LinearSystem
from geonew.model.flux.law import EdgeJacobian, Monotonicity, Partitions, contract, schur_norm

# Power steps on the positive vector: each makes the bound tighter, none is needed for its validity.
POWER_STEPS = 4


@dataclass(frozen=True)
class StructuredConfig:
    """Sizes and constants of the structured law.

    Args:
        channels: sigmoid channels m of the monotone part, and of R.
        key_width: width of the embeddings' products in h and T.
        rank: number of antisymmetric matrices in T.
        floor: a0, the smallest eigenvalue of A.
        contraction: kappa < 1, the part of the monotone floor that R may use up.
        weight_floor: smallest h, relative to the law's strength.
        strength: initial size of the law. Where known terms carry the physics it is the closure
            and starts small; a wholly learned law wants about 1.

    """

    channels: int = 8
    key_width: int = 16
    rank: int = 4
    floor: float = 0.1
    contraction: float = 0.9
    weight_floor: float = 0.01
    strength: float = 0.05


@dataclass(frozen=True, eq=False)
class StructuredFlux:
    r"""The law, conditioned: everything that does not depend on u.

    Nonlinear parts are sigmoid channels of the pair :math:`(D\delta, D\bar u)`: those of the convex
    potential, those of R, and those of R at rest, stacked so that one product serves all.
    """

    partitions: Partitions
    mask: Float[Tensor, "B F E"]  # diagonal of D
    weighted_mask: Float[Tensor, "B F E"]  # h D
    pair_mask: Float[Tensor, "B F2 E"]  # D for difference and mean; 0 for means that float
    linear: Float[Tensor, "B F F"]  # A + rho beta A^
    neutral: Float[Tensor, "B F F E"]  # T
    channels: Float[Tensor, "B k F2"]  # [B, 0], [B^_d, B^_m], [0, B^_m]
    mixing: Float[Tensor, "B F k"]  # B^T c, rho gamma C^, - rho gamma C^
    floor: float  # a0
    lipschitz: Float[Tensor, "B"]  # of R, bounded from its factors
    allowed: Float[Tensor, "B"]  # rho
    q: Float[Tensor, "B F"]

    def linear_part(self) -> EdgeJacobian:
        """The law's slope at rest, on the difference, and T, on the mean.

        All channels with their slope at 0: the rest is cubic in u, so the solution of the linear
        part is a good first iterate.
        """
        F = self.linear.shape[-1]
        slope = self.linear + self.mixing @ self.channels[..., :F]  # those on the mean cancel
        by_difference = slope[..., None] * (self.weighted_mask[:, :, None] * self.mask[:, None])
        return EdgeJacobian(by_difference, self.neutral)

    def nonlinear(self, u: Float[Tensor, "B F V"]) -> Float[Tensor, "B F E"]:
        """The sigmoid channels' part of F_ij, without its slope at rest."""
        return self.evaluate(u)[0]

    def linearise_nonlinear(
        self, u: Float[Tensor, "B F V"]
    ) -> tuple[Float[Tensor, "B F E"], EdgeJacobian]:
        """The same and its derivatives by difference and mean."""
        flux, derivative = self.evaluate(u)
        return flux, derivative()

    def evaluate(self, u: Float[Tensor, "B F V"]) -> tuple[Tensor, Callable[[], EdgeJacobian]]:
        """The same with the derivatives left to be asked for; both share their root."""
        x = self._arguments(u)
        root = torch.rsqrt(torch.addcmul(x.new_ones(()), x, x))  # s = x root, s' = root^3

        def derivative() -> EdgeJacobian:
            B, F, E = flux.shape
            slopes = (self._outer @ (root * root * root - 1)).view(B, F, 2 * F, E) * self._gate
            return EdgeJacobian(slopes[:, :, :F], slopes[:, :, F:])

        flux = self.weighted_mask * (self.mixing @ (x * (root - 1)))
        return flux, derivative

    def _arguments(self, u: Tensor) -> Float[Tensor, "B k E"]:
        return self.channels @ (self.partitions.graph.pair(u) * self.pair_mask)

    @cached_property
    def _outer(self) -> Float[Tensor, "B FF2 k"]:
        """Per channel, the outer product that its slope multiplies in the derivative."""
        return torch.einsum("bfk,bkg->bfgk", self.mixing, self.channels).flatten(1, 2)

    @cached_property
    def _gate(self) -> Float[Tensor, "B F F2 E"]:
        return self.weighted_mask[:, :, None] * self.pair_mask[:, None]

    def monotonicity(self, backbone: Float[Tensor, "B FP FP"]) -> Monotonicity:
        r"""Coefficient of L_h: :math:`a_0 - \mathrm{Lip}(R)(q + q_f^2/q)/2`, q the largest q_f.

        R couples components, so its share is bounded by
        :math:`\sqrt{\sum_f a_f} \sqrt{\sum_f q_f^2 a_f} \le \sum_f (q + q_f^2/q)/2\, a_f`,
        :math:`a_f = v_f^\top L_f v_f`, which is at most q for every component.
        """
        largest = self.q.amax(1, keepdim=True)
        share = self.lipschitz[:, None] * (largest + self.q**2 / largest) / 2
        laplacian = self.partitions.graph.laplacian(self.weighted_mask)  # (B, F, P, P)
        return Monotonicity(
            form=(self.floor - share)[..., None, None] * laplacian,
            lipschitz=self.lipschitz,
            bound=self.floor / self.q.amax(1),
            certified=True,
            remark="structured law: strongly monotone by construction",
        )


class StructuredLaw(nn.Module):
    """Parameters of the structured law.

    Args:
        width: embedding width d.
        contexts: number of context tokens.
        components: number of components F.
        config: sizes and constants.

    """

    def __init__(
        self, width: int, contexts: int, components: int, config: StructuredConfig
    ) -> None:
        super().__init__()
        self.config, self.components = config, components
        F, m, r, k = components, config.channels, config.rank, config.key_width
        self.norm = nn.LayerNorm(width)
        # h from sums and products of keys; T from r antisymmetric products.
        self.keys = nn.Linear(width, 2 * k + 2 * r * k)
        self.weight_bias = nn.Parameter(torch.full((), 0.5))
        self.strength = nn.Parameter(torch.full((), float(config.strength)).log())
        self.coupling = nn.Parameter(torch.randn(r, F, F) * 0.3)
        self.shapes = {
            "spread": (F, F),
            "potential": (m, F),
            "slope": (m, 1),
            "linear": (F, F),
            "by_difference": (m, F),
            "by_mean": (m, F),
            "general": (F, m),
        }
        self.hyper = nn.Linear(contexts * width, sum(a * b for a, b in self.shapes.values()))
        self.shares = nn.Parameter(torch.zeros(2))  # of the linear and the sigmoid part of R
        nn.init.zeros_(self.hyper.weight)
        with torch.no_grad():
            self.hyper.bias.normal_(std=F**-0.5)
            self._views(self.hyper.bias)["spread"].copy_(torch.eye(F))
            self._views(self.hyper.bias)["slope"].fill_(-2.0)  # softplus: a mild start

    def _views(self, flat: Float[Tensor, "*B n"]) -> dict[str, Tensor]:
        """Named matrices inside one flat vector."""
        sizes = [a * b for a, b in self.shapes.values()]
        parts = flat.split(sizes, dim=-1)
        return {
            name: part.unflatten(-1, shape)
            for (name, shape), part in zip(self.shapes.items(), parts, strict=True)
        }

    def condition(
        self, context: Float[Tensor, "B c d"], partitions: Partitions, linear: LinearSystem
    ) -> StructuredFlux:
        """The law for a batch of samples.

        Args:
            context: context tokens of the flux.
            partitions: the flux graph's nodes.
            linear: the backbone, which this law does not need to know.

        """
        config = self.config
        hyper = self._views(self.hyper(context.flatten(1)).double())
        h, neutral = self._pair_terms(partitions)
        graph, mask = partitions.graph, partitions.edge_mask()
        weight = h[:, graph.tail, graph.head]
        q = ground_ratio(partitions, h)
        allowed = config.contraction * config.floor / q.amax(1)
        beta, gamma = (0.5 * torch.sigmoid(self.shares.double())).unbind()
        odd, general = contract(hyper["linear"]), contract(hyper["general"])
        size = torch.sqrt(
            schur_norm(hyper["by_difference"]) ** 2 + schur_norm(hyper["by_mean"]) ** 2
        )
        shrink = size.clamp_min(1.0)[:, None, None]
        by_difference, by_mean = hyper["by_difference"] / shrink, hyper["by_mean"] / shrink
        curved_share = schur_norm(general) * size / shrink[:, 0, 0]
        spread = hyper["spread"]
        identity = torch.eye(self.components, dtype=torch.float64, device=spread.device)
        rho = allowed[:, None, None]
        potential, general = hyper["potential"], rho * gamma * general
        nothing = torch.zeros_like(potential)
        slope = softplus(hyper["slope"])  # (B, m, 1)
        rest = torch.cat([torch.zeros_like(by_mean), by_mean], dim=-1)
        return StructuredFlux(
            partitions=partitions,
            mask=mask,
            weighted_mask=weight[:, None] * mask,
            pair_mask=torch.cat([mask, mask * (1 - partitions.floating)[..., None]], dim=1),
            linear=config.floor * identity + spread @ spread.mT + rho * beta * odd,
            neutral=neutral,
            channels=torch.cat(
                [
                    torch.cat([potential, nothing], dim=-1),
                    torch.cat([by_difference, by_mean], dim=-1),
                    rest,
                ],
                dim=1,
            ),
            mixing=torch.cat([(slope * potential).mT, general, -general], dim=-1),
            floor=config.floor,
            lipschitz=allowed * (beta * schur_norm(odd) + gamma * curved_share),
            allowed=allowed,
            q=q,
        )

    def _pair_terms(
        self, partitions: Partitions
    ) -> tuple[Float[Tensor, "B V V"], Float[Tensor, "B F F E"]]:
        """The symmetric weights h, and the antisymmetric, projected couplings T on the edges."""
        config, graph = self.config, partitions.graph
        k, r = config.key_width, config.rank
        keys = self.keys(self.norm(partitions.embedding.to(self.keys.weight.dtype))).double()
        a, b, rest = keys.split([k, k, 2 * r * k], dim=-1)
        strength = self.strength.double().exp()
        product = a @ b.mT * k**-0.5
        logits = product + product.mT + self.weight_bias.double()
        weight = strength * (config.weight_floor + softplus(logits))
        left, right = rest.unflatten(-1, (2, r, k)).permute(2, 0, 3, 1, 4)  # (B, r, P+G, k)
        skew = left @ right.mT * (strength * k**-0.5)
        skew = skew - skew.mT
        coupling = self.coupling.double()
        coupling = coupling + coupling.mT
        F, n = self.components, skew.shape[-1]
        full = (coupling.view(r, F * F).T @ skew.flatten(2)).view(-1, F, F, n, n)
        return weight, project_neutral(full, partitions)[..., graph.tail, graph.head]


def project_neutral(
    skew: Float[Tensor, "B F F n n"], partitions: Partitions
) -> Float[Tensor, "B F F n n"]:
    r"""Mask T to live, linked nodes, then project it: :math:`\sum_j T_{ij} = 0` at interior nodes.

    On the live subgraph of a pair of components and a window, with n nodes, n_b of them groups, and
    :math:`d_i = \sum_j T_{ij}`: subtract :math:`(t_i - t_j)/n` with t = d inside and
    :math:`-\sum_{interior} d / n_b` on group nodes. (Masking last would break the sums.)
    """
    graph = partitions.graph
    P, K = graph.partitions, graph.windows
    both = partitions.live[:, :, None] * partitions.live[:, None]  # (B, F, F, n)
    pair = both[..., :, None] * both[..., None, :] * partitions.links()[:, None, None]
    skew = skew * pair
    inside = skew.sum(-1)[..., :P]
    count = 1 + pair[..., :P, :].sum(-1)  # of the nodes in a partition's window
    groups = pair[..., :P, P:].sum(-1).clamp_min(1.0)
    total = (
        inside.unflatten(-1, (K, -1)).sum(-1, keepdim=True).expand(*inside.shape[:-1], K, P // K)
    )
    share = total.flatten(-2) / groups
    within = (inside[..., :, None] - inside[..., None, :]) / count[..., None]
    outward = ((inside + share) / count)[..., None].expand(*inside.shape, graph.groups)
    nothing = within.new_zeros(*within.shape[:-2], graph.groups, graph.groups)
    correction = torch.cat(
        [torch.cat([within, outward], -1), torch.cat([-outward.mT, nothing], -1)], -2
    )
    return skew - correction * pair


def ground_ratio(partitions: Partitions, weight: Float[Tensor, "B V V"]) -> Float[Tensor, "B F"]:
    r"""q_f with :math:`q_f^2 = 3/4 + \lambda_{\max}(D_h, L_h)/2`, bounded from above.

    Floating components, whose mean never enters R, have q = 1.
    """
    P = partitions.graph.partitions
    linked = weight * partitions.links()
    inner = linked[:, :P, :P]
    degree = inner.sum(-1)[:, None] + partitions.live[..., P:] @ linked[:, :P, P:].mT  # (B, F, P)
    x = torch.ones_like(degree)
    for _ in range(POWER_STEPS):
        x = (x @ inner) / degree
    radius = ((x @ inner) / (degree * x)).amax(-1)
    # What a sum of P terms may have lost to round-off counts against the gap; it stays positive.
    eps = torch.finfo(radius.dtype).eps
    gap = (1 - radius - 4 * P * eps).clamp_min(eps)
    gap = torch.where(partitions.floating > 0, torch.ones_like(gap), gap)
    q = torch.sqrt(0.75 + 0.5 / gap)
    return torch.where(partitions.floating > 0, torch.ones_like(q), q)
