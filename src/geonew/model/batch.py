r"""From NumPy to torch: several samples as one padded batch.

This is the one place where arrays become tensors and the only padding code. Node arrays are padded
to the longest sample; sparse fine operators become one block-diagonal CSR matrix each, whose
padding rows are empty. Hence padding carries no mass, no load and no matrix entry, and reduced
quantities, which are all sums over nodes with such weights, never see it.

Reduced algebra runs in float64 whatever the model's precision (K projected in float32 has negative
eigenvalues), so operators, lift and loads are float64 here; only tokens follow the model.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.sparse import block_diag, csr_array
from torch import Tensor

from geonew.model.anchors import mass_weighted_draw
from geonew.model.sample import FAR, Sample


@dataclass(frozen=True, eq=False)
class SparseOperator:
    """A constant block-diagonal matrix and its transpose, for products in both directions."""

    matrix: Tensor
    transpose: Tensor

    def __matmul__(self, x: Float[Tensor, "rows c"]) -> Float[Tensor, "rows c"]:
        return _SparseProduct.apply(self.matrix, self.transpose, x)  # type: ignore[return-value]

    def to(self, device: torch.device | str) -> SparseOperator:
        """The same matrix on another device."""
        matrix = self.matrix.to(device)
        symmetric = self.transpose is self.matrix
        return SparseOperator(matrix, matrix if symmetric else self.transpose.to(device))


class _SparseProduct(torch.autograd.Function):
    """A x with the gradient A^T g in x; A is a constant."""

    @staticmethod
    def forward(ctx, matrix: Tensor, transpose: Tensor, x: Tensor) -> Tensor:  # type: ignore[override]
        ctx.matrix, ctx.transpose = matrix, transpose
        return matrix @ x

    @staticmethod
    def backward(ctx, gradient: Tensor):  # type: ignore[override]
        # Written as the same product, so that it can be differentiated again.
        product = _SparseProduct.apply(ctx.transpose, ctx.matrix, gradient.contiguous())
        return None, None, product


@dataclass(frozen=True, eq=False)
class Batch:
    """Samples side by side; B samples, N nodes, F components, G groups.

    Args:
        tokens: node features.
        mask: which nodes are real.
        mass: lumped mass, 0 on padding.
        fixed: prescribed components.
        log_distance: log(d / l), d the distance to the component's Dirichlet part, l the size of
            the domain; ``-FAR`` on prescribed nodes, ``+FAR`` where nothing is prescribed.
        indicators: harmonic extensions h_g of the groups' indicators.
        extension: harmonic extension E of the data, in units of the reference values.
        group_value: mean of the data over each group's nodes.
        live: 1 where a group has data for a component.
        load: integrals of source and Neumann data against the fine basis, dimensionless.
        parameters: global parameters over their reference values.
        operators: fine matrices, in the order of ``Sample.matrices``.
        anchors: nodes that serve as anchors in each block.
        anchor_exists: which of them exist; none means all do.
        target: the solution over the reference values, where known.
        samples: what the batch was made of.

    """

    tokens: Float[Tensor, "B N C"]
    mask: Bool[Tensor, "B N"]
    mass: Float[Tensor, "B N"]
    fixed: Bool[Tensor, "B N F"]
    log_distance: Float[Tensor, "B N F"]
    indicators: Float[Tensor, "B N F G"]
    extension: Float[Tensor, "B N F"]
    group_value: Float[Tensor, "B F G"]
    live: Float[Tensor, "B F G"]
    load: Float[Tensor, "B N F"]
    parameters: Float[Tensor, "B p"]
    operators: tuple[SparseOperator, ...]
    anchors: Int[Tensor, "B L M"]
    anchor_exists: Bool[Tensor, "B 1 1 M"] | None = None
    target: Float[Tensor, "B N F"] | None = None
    samples: tuple[Sample, ...] = ()

    @property
    def size(self) -> int:
        """Number of samples B."""
        return self.tokens.shape[0]

    @property
    def log_mass(self) -> Float[Tensor, "B N"]:
        """Logarithm of the lumped mass over its mean; ``-FAR`` on padding."""
        mean = self.mass.sum(1, keepdim=True) / self.mask.sum(1, keepdim=True)
        log = torch.log(torch.where(self.mask, self.mass / mean, 1.0))
        return torch.where(self.mask, log, -FAR).to(self.tokens.dtype)

    @property
    def volume(self) -> Float[Tensor, "B"]:
        """Measure of each domain in reference lengths."""
        return self.mass.sum(1)

    def blanked(self, which: Bool[Tensor, "B"]) -> Batch:
        """The batch with the numbers of some samples replaced by harmless ones."""

        def blank(name: str, value: float = 0.0) -> Tensor:
            tensor = getattr(self, name)
            return torch.where(which.view(-1, *[1] * (tensor.ndim - 1)), value, tensor)

        names = ("tokens", "indicators", "extension", "group_value", "load")
        blanks = {name: blank(name) for name in names}
        return replace(self, **blanks, parameters=blank("parameters", 1.0))

    def to(self, device: torch.device | str) -> Batch:
        """The batch on another device."""
        moved = {
            f.name: value.to(device)
            for f in fields(self)
            if isinstance(value := getattr(self, f.name), Tensor)
        }
        return replace(self, **moved, operators=tuple(op.to(device) for op in self.operators))


def collate(
    samples: Sequence[Sample],
    blocks: int,
    anchors: int,
    *,
    dtype: torch.dtype = torch.float32,
    draw: tuple[int, int, Sequence[int]] | None = None,
) -> Batch:
    """Put samples side by side.

    Args:
        samples: what to batch; all of one problem.
        blocks: number of encoder blocks L.
        anchors: anchors per block M.
        dtype: precision of the tokens.
        draw: (seed, epoch, number of each sample) for random anchors; none takes the samples'
            farthest points.

    """
    n = max(s.n_nodes for s in samples)
    chosen = [_anchors(s, k, blocks, anchors, draw) for k, s in enumerate(samples)]
    width = max(c.shape[1] for c in chosen)
    exists = np.stack([np.arange(width) < c.shape[1] for c in chosen])
    targets = [s.target for s in samples]

    def padded(name: str, fill: float | bool = 0.0, kind: type = np.float64) -> Tensor:
        rows = [np.asarray(getattr(s, name)) for s in samples]
        block = np.full((len(rows), n, *rows[0].shape[1:]), fill, dtype=kind)
        for target, row in zip(block, rows, strict=True):
            target[: len(row)] = row
        return torch.from_numpy(block)

    return Batch(
        tokens=padded("tokens").to(dtype),
        mask=torch.from_numpy(np.stack([np.arange(n) < s.n_nodes for s in samples])),
        mass=padded("mass"),
        fixed=padded("fixed", fill=False, kind=np.bool_),
        log_distance=padded("log_distance", fill=FAR),
        indicators=padded("indicators"),
        extension=padded("extension"),
        group_value=torch.from_numpy(np.stack([s.group_value for s in samples])),
        live=torch.from_numpy(np.stack([s.live for s in samples])).to(torch.float64),
        load=padded("load"),
        parameters=torch.from_numpy(np.stack([s.parameters for s in samples])),
        operators=tuple(
            _block_diagonal([s.matrices[k] for s in samples], n)
            for k in range(len(samples[0].matrices))
        ),
        anchors=torch.from_numpy(
            np.stack([np.pad(c, ((0, 0), (0, width - c.shape[1]))) for c in chosen])
        ),
        anchor_exists=None if exists.all() else torch.from_numpy(exists)[:, None, None],
        target=None if any(t is None for t in targets) else padded("target"),
        samples=tuple(samples),
    )


def _anchors(
    sample: Sample,
    position: int,
    blocks: int,
    count: int,
    draw: tuple[int, int, Sequence[int]] | None,
) -> np.ndarray:
    """Anchor nodes of one sample for every block, (L, M)."""
    if draw is None:
        return np.tile(sample.anchors[:count], (blocks, 1))
    seed, epoch, numbers = draw
    return mass_weighted_draw(sample.mass, blocks, count, (seed, epoch, int(numbers[position])))


def _block_diagonal(matrices: Sequence[csr_array], n: int) -> SparseOperator:
    """One CSR tensor of B blocks of n rows each; the rows beyond a sample's own are empty."""
    padded = []
    for matrix in matrices:
        copy = csr_array(matrix, copy=True)
        copy.resize((n, n))
        padded.append(copy)
    joined = csr_array(block_diag(padded, format="csr"))
    transposed = csr_array(joined.T)
    same = joined.nnz == transposed.nnz and abs(joined - transposed).max() == 0
    forward = _csr_tensor(joined)
    return SparseOperator(forward, forward if same else _csr_tensor(transposed))


def _csr_tensor(matrix: csr_array) -> Tensor:
    matrix.sort_indices()
    with warnings.catch_warnings():  # torch calls its CSR support a beta; its products are tested
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state")
        return torch.sparse_csr_tensor(
            torch.from_numpy(matrix.indptr.astype(np.int64)),
            torch.from_numpy(matrix.indices.astype(np.int64)),
            torch.from_numpy(np.asarray(matrix.data, dtype=np.float64)),
            matrix.shape,
            check_invariants=False,  # scipy made the indices
        )
