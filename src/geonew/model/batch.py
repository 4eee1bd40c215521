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
from weakref import WeakKeyDictionary

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.sparse import csr_array
from torch import Tensor

from geonew.model.anchors import mass_weighted_draw
from geonew.model.sample import FAR, Sample
from geonew.model.windows import window_centres

_NUMPY: dict[torch.dtype, type] = {torch.float32: np.float32, torch.float64: np.float64}


@dataclass(frozen=True, eq=False)
class SparseOperator:
    """A constant block-diagonal matrix and its transpose, for products in both directions."""

    matrix: Tensor
    transpose: Tensor

    def __matmul__(self, x: Float[Tensor, "rows c"]) -> Float[Tensor, "rows c"]:
        return _SparseProduct.apply(self.matrix, self.transpose, x)  # type: ignore[return-value]

    @property
    def mT(self) -> SparseOperator:
        """The transpose."""
        return SparseOperator(self.transpose, self.matrix)

    def rounded(self, dtype: torch.dtype) -> SparseOperator:
        """The same in another precision, for products that need no gradient."""
        matrix = self.matrix.to(dtype)
        return SparseOperator(matrix, matrix if self.transpose is self.matrix else self.transpose)

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
        product = torch.empty_like(x)
        return torch.addmm(product, matrix, x, beta=0, out=product)  # `@` would fill it with zeros

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
        operators: fine matrices, by their position in ``Sample.matrices``.
        anchors: nodes that serve as anchors in each block.
        anchor_exists: which of them exist; none means all do.
        points, centres: nodes and window centres in reference lengths; none for a single window.
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
    operators: dict[int, SparseOperator]
    anchors: Int[Tensor, "B L M"]
    anchor_exists: Bool[Tensor, "B 1 1 M"] | None = None
    points: Float[Tensor, "B N d"] | None = None
    centres: Float[Tensor, "B K d"] | None = None
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
        return replace(
            self, **moved, operators={k: op.to(device) for k, op in self.operators.items()}
        )


def collate(
    samples: Sequence[Sample],
    blocks: int,
    anchors: int,
    *,
    dtype: torch.dtype = torch.float32,
    draw: tuple[int, int, Sequence[int]] | None = None,
    matrices: Sequence[int] = (),
    windows: int = 1,
) -> Batch:
    """Put samples side by side.

    Args:
        samples: what to batch; all of one problem.
        blocks: number of encoder blocks L.
        anchors: anchors per block M.
        dtype: precision of the tokens.
        draw: (seed, epoch, number of each sample) for random anchors; none takes the samples'
            farthest points.
        matrices: positions of the fine matrices that are wanted.
        windows: windows of every sample; see :mod:`geonew.model.windows`.

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
        tokens=padded("tokens", kind=_NUMPY[dtype]),
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
        operators=_operators(samples, n, matrices),
        anchors=torch.from_numpy(
            np.stack([np.pad(c, ((0, 0), (0, width - c.shape[1]))) for c in chosen])
        ),
        anchor_exists=None if exists.all() else torch.from_numpy(exists)[:, None, None],
        points=padded("points") if windows > 1 else None,
        centres=torch.from_numpy(
            np.stack([window_centres(s.points, s.mass, s.farthest(windows)) for s in samples])
        )
        if windows > 1
        else None,
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
        return np.tile(sample.farthest(count), (blocks, 1))
    seed, epoch, numbers = draw
    return mass_weighted_draw(sample.mass, blocks, count, (seed, epoch, int(numbers[position])))


@dataclass(frozen=True, eq=False)
class _Pattern:
    """Where a sparse matrix has entries: CSR without the leading zero of its row pointer."""

    ends: Int[np.ndarray, "n"]
    columns: Int[np.ndarray, "z"]


@dataclass(frozen=True, eq=False)
class _Stored:
    """A matrix and its transpose, ready to be joined; a symmetric one has one for both."""

    pattern: _Pattern
    values: Float[np.ndarray, "z"]
    mirrored: _Stored | None


# What is constant per sample and costs to make; it goes with its sample.
_STORED: WeakKeyDictionary[Sample, dict[int, _Stored]] = WeakKeyDictionary()


def _stored(sample: Sample, position: int) -> _Stored:
    """One of the sample's matrices for joining; equal patterns are one object."""
    known = _STORED.setdefault(sample, {})
    if position not in known:
        patterns = [
            part.pattern
            for stored in known.values()
            for part in (stored, stored.mirrored)
            if part is not None
        ]

        def store(matrix: csr_array) -> tuple[_Pattern, np.ndarray]:
            matrix.sort_indices()
            ends, columns = matrix.indptr[1:].astype(np.int32), matrix.indices.astype(np.int32)
            for pattern in patterns:
                if np.array_equal(pattern.ends, ends) and np.array_equal(pattern.columns, columns):
                    return pattern, matrix.data
            patterns.append(_Pattern(ends, columns))
            return patterns[-1], matrix.data

        matrix = sample.matrix(position)
        pattern, values = store(csr_array(matrix, dtype=np.float64, copy=True))
        across, mirrored = store(csr_array(csr_array(matrix, dtype=np.float64).T))
        same = across is pattern and np.array_equal(mirrored, values)
        other = None if same else _Stored(across, mirrored, None)
        known[position] = _Stored(pattern, values, other)
    return known[position]


def _operators(
    samples: Sequence[Sample], n: int, matrices: Sequence[int]
) -> dict[int, SparseOperator]:
    """Block-diagonal operators of B blocks of n rows; rows beyond a sample's own are empty."""
    joined: dict[tuple[int, ...], tuple[Tensor, Tensor]] = {}

    def join(blocks: Sequence[_Stored]) -> Tensor:
        key = tuple(id(b.pattern) for b in blocks)
        if key not in joined:
            joined[key] = _joined_pattern([b.pattern for b in blocks], n)
        return _csr_tensor(*joined[key], np.concatenate([b.values for b in blocks]))

    operators = {}
    for position in matrices:
        blocks = [_stored(sample, position) for sample in samples]
        matrix = join(blocks)
        if all(b.mirrored is None for b in blocks):
            operators[position] = SparseOperator(matrix, matrix)
        else:
            transpose = join([b.mirrored or b for b in blocks])
            operators[position] = SparseOperator(matrix, transpose)
    return operators


def _joined_pattern(patterns: Sequence[_Pattern], n: int) -> tuple[Tensor, Tensor]:
    """Row pointer and columns of the block-diagonal matrix.

    In 32 bits, which are enough for what fits in memory: MKL would convert 64 in every product.
    """
    total = sum(len(p.columns) for p in patterns)
    pointer, columns = np.zeros(len(patterns) * n + 1, np.int32), np.empty(total, np.int32)
    before = 0
    for k, pattern in enumerate(patterns):
        rows, entries = len(pattern.ends), len(pattern.columns)
        first = k * n + 1
        np.add(pattern.ends, before, out=pointer[first : first + rows])
        np.add(pattern.columns, k * n, out=columns[before : before + entries])
        before += entries
        pointer[first + rows : first + n] = before
    return torch.from_numpy(pointer), torch.from_numpy(columns)


def _csr_tensor(pointer: Tensor, columns: Tensor, values: np.ndarray) -> Tensor:
    size = len(pointer) - 1
    with warnings.catch_warnings():  # torch calls its CSR support a beta; its products are tested
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state")
        return torch.sparse_csr_tensor(
            pointer,
            columns,
            torch.from_numpy(values),
            (size, size),
            check_invariants=False,  # made above, from scipy's
        )
