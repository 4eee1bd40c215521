r"""Mirror images on a structured mesh: the encoder of a scalar problem sees both alike.

.. math:: z = \tfrac12\,\big(e(t) + M e(M t)\big), \qquad (M t)_n = \pm\, t_{\bar n},

M the reflection in the frame's first axis: node n takes the place of its image on the grid, whose
rows run the other way, and components along the second axis change their sign. In training one of
the two images is drawn for each sample, so that a step costs what it did; predictions take the
mean.

Identity kept: :math:`z(M t) = M z(t)` for any weights, so a mirrored geometry has the mirrored
prediction. Vector fields have components that change their sign as well, which embeddings do not
say: they are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from geonew.errors import ConfigError
from geonew.mesh.grid import Grid
from geonew.model.sample import Sample
from geonew.problem import Problem

Encode = Callable[[Float[Tensor, "B N C"]], Float[Tensor, "B N d"]]


class Mirror(nn.Module):
    """The reflection M.

    Args:
        problem: whose fields are scalars.
        columns: names of the token columns.
        grid: shape of all meshes.

    """

    sign: Float[Tensor, "C"]
    image: Int[Tensor, "N"]

    def __init__(self, problem: Problem, columns: Sequence[str], grid: Grid) -> None:
        super().__init__()
        vectors = [field.name for field in problem.fields if field.rank == "vector"]
        if vectors:
            raise ConfigError(
                f"`mirror` is for scalar fields; {vectors} of {problem.name!r} are vectors",
                "leave `mirror` out",
            )
        self.columns = tuple(columns)
        signs = [-1.0 if is_odd(name) else 1.0 for name in columns]
        self.register_buffer("sign", torch.tensor(signs), persistent=False)
        self.register_buffer("image", torch.from_numpy(grid.mirrored), persistent=False)

    def check(self, samples: Iterable[Sample]) -> None:
        """Refuse meshes whose groups lie elsewhere in the mirror: their rows are not reversed."""
        labels = [k for k, name in enumerate(self.columns) if name.startswith("label:")]
        image = self.image.numpy(force=True)
        for sample in samples:
            own = sample.tokens[:, labels]
            moved = np.flatnonzero((own != own[image]).any(axis=0))
            if len(moved):
                raise ConfigError(
                    f"in the mirror {self.columns[labels[moved[0]]]!r} lies elsewhere: reversing "
                    "the rows of this grid is no reflection",
                    "leave `mirror` out",
                )

    def forward(self, tokens: Float[Tensor, "B N C"], encode: Encode) -> Float[Tensor, "B N d"]:
        """Embeddings by an encoder that sees both images, or in training one of them."""
        if not self.training:
            mirrored = tokens[:, self.image] * self.sign
            return (encode(tokens) + encode(mirrored)[:, self.image]) / 2
        # From the step's seed: the same draw again when a batch is encoded twice in a step.
        generator = torch.Generator().manual_seed(torch.initial_seed() % 2**63)
        turned = (torch.rand(len(tokens), 1, generator=generator) < 0.5).to(tokens.device)
        places = torch.where(turned, self.image, torch.arange(len(self.image)).to(self.image))
        rows = (places + len(self.image) * torch.arange(len(tokens)).to(places)[:, None]).flatten()
        sign = torch.where(turned[..., None], self.sign, torch.ones_like(self.sign))
        z = encode(_rows(tokens, rows) * sign)
        return _rows(z, rows)  # the reflection is its own inverse


def _rows(x: Float[Tensor, "B N c"], rows: Int[Tensor, "BN"]) -> Float[Tensor, "B N c"]:
    """Nodes of all samples in another order."""
    return x.flatten(0, 1).index_select(0, rows).view_as(x)


def is_odd(column: str) -> bool:
    """Whether a token changes its sign in the mirror: a component along the second axis."""
    return (
        column == "x2"
        or column.startswith("d2 ")
        or (column.startswith("parameter:") and column.endswith(":2"))
    )
