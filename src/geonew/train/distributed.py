r"""Several processes as one: torchrun starts them, torch's DistributedDataParallel joins gradients.

Every process knows all samples and takes every n-th of a global batch. With c the number of
converged samples of all processes and :math:`\ell_k` the loss of sample k, process r computes

.. math:: L_r = \frac{n}{c} \sum_{k \in r} \ell_k, \qquad
          \frac1n \sum_r \nabla L_r = \nabla\, \frac1c \sum_k \ell_k,

so that the mean over processes is the gradient of one process with the whole batch. Decisions
(skip a batch, stop, budget spent) come from sums over all processes: nobody waits for the others in
vain. So does what a law averages over steps (:mod:`geonew.model.flux.paper`), in which a process
without samples takes part as well. Only tensors travel, never pickled objects.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from geonew.errors import ConfigError


@dataclass(frozen=True)
class Team:
    """The processes of a run.

    Args:
        rank: number of this one.
        size: how many there are.
        device: where this one computes.

    """

    rank: int
    size: int
    device: torch.device

    @property
    def leads(self) -> bool:
        """Whether this process writes files and shows progress."""
        return self.rank == 0

    def sum(self, values: Sequence[float | int]) -> list[float]:
        """Sums of some numbers over all processes."""
        if self.size == 1:
            return [float(value) for value in values]
        total = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(total)
        return total.tolist()

    def sum_tensor(self, values: Tensor) -> Tensor:
        """Sum of an array over all processes."""
        if self.size > 1:
            values = values.to(self.device)
            dist.all_reduce(values)
        return values.cpu()

    def first(self, value: float) -> float:
        """What the leading process says."""
        return self.sum([value if self.leads else 0.0])[0]

    def wait(self) -> None:
        """Until all processes are here."""
        self.sum([0.0])

    def joined(self, module: nn.Module) -> nn.Module:
        """The module with gradients averaged over the processes."""
        return module if self.size == 1 else DistributedDataParallel(module)


@contextmanager
def team(device: str) -> Iterator[Team]:
    """The present process among those that torchrun started; alone without it.

    Args:
        device: ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"cuda:1"``.

    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1 or "RANK" not in os.environ:
        yield Team(0, 1, choose_device(device))
        return
    chosen = choose_device(device)
    if chosen.type == "cuda":
        chosen = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(chosen)
    dist.init_process_group("nccl" if chosen.type == "cuda" else "gloo")
    try:
        yield Team(dist.get_rank(), dist.get_world_size(), chosen)
    finally:
        dist.destroy_process_group()


def choose_device(name: str) -> torch.device:
    """The device of that name, if it is there."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"there is no device {name!r}", "use auto, cpu or cuda") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"device {name!r} is not available here", "use device cpu")
    return device
