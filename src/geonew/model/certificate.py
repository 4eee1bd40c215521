r"""The certificate: what is known for sure about one prediction.

Algebra, per sample: how the solve ended; the margin

.. math:: \lambda_{\min}\big(\mathrm{sym}\,A_{II} + Q\big),

A the linear backbone (known terms, eps K), Q the flux law's guarantee (structured law:
:math:`(a_0 - \mathrm{Lip}(R)\,\bar q_f) L_{h,f}`): positive means exactly one solution
(Browder-Minty); with a known quadratic term the statement is local and gives lambda_min of the
Jacobian at the solution. Without a flux law everything depends on u by its field u_h alone, and
learned functions may be all but linearly dependent: then coefficients say little, and what counts
is the field margin

.. math:: \min_v \frac{\langle J v, v\rangle}{\int |v_h|^2 / |\Omega|}

over the fields of the space that float64 resolves. Further: conservation (fluxes cancel in pairs,
each partition's balance closes); the defect of boundary values before they are written, and of the
partition of unity.

Physics, apart from that and never under the same name: integrals of u.n over each group and the
norm of the divergence for vector fields, and for known equations the flux or force through each
group, from the equation tested with the fine basis. A reduced solution satisfies these only as
well as its space resolves the flow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from geonew.fem.derived import cell_gradients
from geonew.fem.loads import group_normals
from geonew.model.flux.law import edge_flux
from geonew.model.newton import Status
from geonew.model.reactions import nodal_reactions
from geonew.model.sample import Sample

if TYPE_CHECKING:
    from geonew.model.batch import Batch
    from geonew.model.geonew import Output
    from geonew.model.space import ReducedSpace

Uniqueness = Literal["unique", "local", "not certified"]
UNIQUE: Uniqueness = "unique"
LOCAL: Uniqueness = "local"

# Smallest mean square of a field, over that of its coefficients' functions, that counts.
RESOLVED = 1e-7


@dataclass(frozen=True)
class PhysicalBalance:
    """Balances of the predicted fields themselves, in the user's units.

    Args:
        outflow: vector field -> group -> integral of u.n.
        divergence: vector field -> root mean square of div u, over root mean square of grad u.
        reaction: field -> group -> flux (scalar) or force (vector) from the known equation.

    """

    outflow: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    divergence: Mapping[str, float] = field(default_factory=dict)
    reaction: Mapping[str, Mapping[str, tuple[float, ...]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Certificate:
    """What holds for one prediction; see the module docstring.

    Args:
        status: how the Newton solve ended.
        advice: what to do if it did not converge.
        steps: Newton steps.
        residual: over the size of the data.
        uniqueness: ``unique``, ``local`` or ``not certified``.
        margin: smallest eigenvalue guaranteed for the symmetric part of the Jacobian.
        field_margin: the same relative to the mean square of the field; none with a flux law.
        reason: why that uniqueness.
        antisymmetry: sum of all fluxes over the sum of their sizes.
        balance_defect: largest partition balance over the size of the data.
        boundary_defect: largest error of a prescribed value before it is written, in units of the
            last place of the field's largest value.
        partition_defect: largest deviation of the rows' sum from 1.
        physical: balances of the fields, in the user's units.

    """

    status: str
    advice: str
    steps: int
    residual: float
    uniqueness: Uniqueness
    margin: float
    field_margin: float | None
    reason: str
    antisymmetry: float
    balance_defect: float
    boundary_defect: float
    partition_defect: float
    physical: PhysicalBalance

    @property
    def converged(self) -> bool:
        """Whether the solve converged."""
        return self.status == "converged"

    def to_dict(self) -> dict:
        """Plain numbers and strings, for JSON."""
        return asdict(self)

    @property
    def decisive_margin(self) -> float:
        """The margin that the statement about uniqueness rests on."""
        return self.margin if self.field_margin is None else max(self.margin, self.field_margin)

    def __str__(self) -> str:
        lines = [
            f"solve         {self.status} in {self.steps} steps, residual {self.residual:.1e}",
            f"uniqueness    {self.uniqueness}, margin {self.decisive_margin:.2e} ({self.reason})",
            f"conservation  fluxes cancel to {self.antisymmetry:.1e}, "
            f"balances close to {self.balance_defect:.1e}",
            f"boundary      exact; {self.boundary_defect:.1f} ulp before writing",
            f"partition     sums to 1 within {self.partition_defect:.1e}",
        ]
        if self.advice:
            lines.insert(1, f"advice        {self.advice}")
        for name, by_group in self.physical.outflow.items():
            parts = ", ".join(f"{group} {value:.4g}" for group, value in by_group.items())
            lines.append(f"physics       outflow of {name}: {parts}; divergence "
                         f"{self.physical.divergence[name]:.1e} of its gradient")  # fmt: skip
        for name, reactions in self.physical.reaction.items():
            parts = ", ".join(
                f"{group} ({', '.join(f'{v:.4g}' for v in value)})"
                for group, value in reactions.items()
            )
            lines.append(f"physics       reaction of {name}: {parts}")
        return "\n".join(lines)


@torch.no_grad()
def certify(output: Output, batch: Batch) -> tuple[Certificate, ...]:
    """Certificates of all samples of a batch."""
    balance, solution, space = output.balance, output.solution, output.space
    margin, of_field, uniqueness, reason = _uniqueness(output, batch)
    residual = balance.residual(output.u).flatten(1)
    size = balance.scale().clamp_min(torch.finfo(torch.float64).tiny)
    defect = residual.abs().amax(1) / size
    antisymmetry = torch.zeros_like(size)
    if balance.flux is not None:
        flux = edge_flux(balance.flux, balance.nodes(output.u))
        gross = flux.abs().sum((1, 2)).clamp_min(torch.finfo(torch.float64).tiny)
        antisymmetry = balance.graph.balance(flux).sum((1, 2)).abs() / gross
    covered = batch.fixed.any(1)  # components that have group rows at all
    rows = space.interior.sum(-1) + torch.where(covered[:, None], space.group_rows.sum(-1), 0.0)
    pou = torch.where(batch.mask[..., None], (rows - 1).abs(), 0.0).amax((1, 2))
    fields = output.fields.cpu().numpy()
    certificates = []
    for k, sample in enumerate(batch.samples):
        status = Status(int(solution.status[k]))
        certificates.append(
            Certificate(
                status=status.name.lower(),
                advice=status.advice,
                steps=int(solution.steps[k]),
                residual=float(solution.residual[k]),
                uniqueness=uniqueness[k],
                margin=float(margin[k]),
                field_margin=None if of_field is None else float(of_field[k]),
                reason=reason,
                antisymmetry=float(antisymmetry[k]),
                balance_defect=float(defect[k]),
                boundary_defect=_boundary_defect(sample, fields[k, : sample.n_nodes]),
                partition_defect=float(pou[k]),
                physical=PhysicalBalance(),
            )
        )
    return tuple(certificates)


def certified_margin(output: Output) -> Float[Tensor, "B"]:
    """The margin of the module docstring: a lower bound of lambda_min(sym J(u)) for every u."""
    balance = output.balance
    A = balance.linear.dense()
    symmetric = (A + A.mT) / 2
    if balance.flux is not None:
        form = balance.flux.monotonicity(A).form  # (B, F, P, P)
        P = form.shape[-1]
        for f in range(form.shape[1]):
            part = slice(f * P, (f + 1) * P)
            symmetric[:, part, part] += (form[:, f] + form[:, f].mT) / 2
    return _lowest(symmetric)


def _lowest(symmetric: Float[Tensor, "B n n"]) -> Float[Tensor, "B"]:
    """A lower bound of the smallest eigenvalue, round-off included."""
    finite = torch.isfinite(symmetric).all(-1).all(-1)
    lowest = torch.linalg.eigvalsh(torch.where(finite[:, None, None], symmetric, 0.0))[:, 0]
    # eigvalsh is exact up to a few ulp of the largest eigenvalue: claim no more than that.
    size = symmetric.abs().sum(-1).amax(-1)
    slack = size * symmetric.shape[-1] * torch.finfo(symmetric.dtype).eps
    return torch.where(finite, lowest - slack, -torch.inf)


def field_margin(
    symmetric: Float[Tensor, "B n n"], space: ReducedSpace, batch: Batch
) -> Float[Tensor, "B"]:
    """A lower bound of the form over the mean square of its field, round-off included.

    Fields whose mean square is below ``RESOLVED`` of what their coefficients promise cannot be told
    from zero and are left out; they are the roughest, where diffusion is strongest.
    """
    F, P = space.trial.shape[2], space.partitions
    weight = (batch.mass / batch.volume[:, None])[:, :, None]
    result = torch.full_like(batch.volume, -torch.inf)
    for k in range(batch.size):
        if not torch.isfinite(symmetric[k]).all():
            continue
        rows = [component[k, :, :P] for component in space.components]
        mass = torch.block_diag(*[(weight[k] * row).mT @ row for row in rows])
        unit = mass.diagonal().clamp_min(torch.finfo(mass.dtype).tiny).rsqrt()
        size, direction = torch.linalg.eigh(unit[:, None] * mass * unit)
        kept = size > RESOLVED
        basis = unit[:, None] * direction[:, kept] * size[kept].rsqrt()
        scaled = unit[:, None] * symmetric[k] * unit
        slack = torch.linalg.norm(scaled) * F * P * torch.finfo(mass.dtype).eps / size[kept].min()
        result[k] = torch.linalg.eigvalsh(basis.mT @ symmetric[k] @ basis)[0] - slack
    return result


def _uniqueness(
    output: Output, batch: Batch
) -> tuple[Tensor, Tensor | None, list[Uniqueness], str]:
    balance = output.balance
    certified, kind, reason = True, UNIQUE, "linear terms alone"
    if balance.convection:
        _, symmetric = balance.with_exact_jacobian().linearise(output.u)
        margin = _lowest((symmetric + symmetric.mT) / 2)
        kind, reason = LOCAL, "a known quadratic term: at the solution"
    else:
        symmetric = balance.linear.dense()
        margin = certified_margin(output)
        if balance.flux is not None:
            guarantee = balance.flux.monotonicity(symmetric)
            certified, reason = guarantee.certified, guarantee.remark
    of_field, best = None, margin
    if balance.flux is None:
        of_field = field_margin((symmetric + symmetric.mT) / 2, output.space, batch)
        best = torch.maximum(margin, of_field)
    positive = [certified and m > 0 for m in best.tolist()]
    if certified and not all(positive):
        reason = "the margin is not above round-off"
    return margin, of_field, [kind if p else "not certified" for p in positive], reason


def _boundary_defect(sample: Sample, fields: Float[ndarray, "N F"]) -> float:
    """Largest error of a prescribed value in ulp of the component's largest value."""
    fixed = sample.values.fixed
    exact = sample.values.value / np.array(sample.problem.references)
    error = np.where(fixed, np.abs(fields - exact), 0.0).max(axis=0)
    largest = np.where(fixed, np.abs(exact), 0.0).max(axis=0)
    return float((error / np.spacing(np.maximum(largest, np.finfo(float).tiny))).max())


def physical_balance(sample: Sample, fields: Float[ndarray, "N F"]) -> PhysicalBalance:
    """Balances of the final fields, given in the user's axes and units."""
    problem, mesh = sample.problem, sample.mesh
    outflow: dict[str, dict[str, float]] = {}
    divergence: dict[str, float] = {}
    for f in problem.fields:
        if f.rank != "vector":
            continue
        values = fields[:, problem.columns(f.name)]
        outflow[f.name] = {
            group: float(
                (values[mesh.facets_of(group)].mean(axis=1) * group_normals(mesh, group)).sum()
            )
            for group in mesh.groups
        }
        slopes = cell_gradients(mesh, values)
        div = np.trace(slopes, axis1=1, axis2=2)
        total = float(mesh.volumes @ (slopes**2).sum(axis=(1, 2)))
        divergence[f.name] = float(
            np.sqrt(mesh.volumes @ div**2 / max(total, np.finfo(float).tiny))
        )
    return PhysicalBalance(outflow, divergence, _reactions(sample, fields))


def _reactions(
    sample: Sample, fields: Float[ndarray, "N F"]
) -> dict[str, dict[str, tuple[float, ...]]]:
    """Flux or force through each group (:mod:`geonew.model.reactions`)."""
    mesh = sample.mesh
    return {
        name: {
            group: tuple(float(v) for v in forces[mesh.nodes_of(group)].sum(axis=0))
            for group in mesh.groups
        }
        for name, forces in nodal_reactions(sample, fields).items()
    }
