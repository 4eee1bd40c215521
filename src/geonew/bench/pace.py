"""What a minute of processor time is worth: whose it is, and how fast a fixed piece of work is.

    pace = steps of a small network's training, per second of processor time on one thread

Budgets are in minutes of processor time. Processors of one name can differ by half in speed, as
virtual machines do that share theirs with others; so every result has the pace beside the name, and
tables say when they mix what is not alike.
"""

from __future__ import annotations

import platform
import re
from contextlib import suppress
from pathlib import Path
from statistics import median
from time import process_time

import torch

# As in training on a processor: batches of 8 meshes with about 1,000 nodes, 64 columns.
NODES, WIDTH = 8000, 64
STEPS, REPEATS = 4, 9


def pace() -> float:
    """Steps per second: the median over a few repeats, about a second in all."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(NODES, WIDTH, generator=generator)
    wide = torch.randn(WIDTH, 4 * WIDTH, generator=generator).div(8).requires_grad_()
    narrow = torch.randn(4 * WIDTH, WIDTH, generator=generator).div(16).requires_grad_()

    def step() -> None:
        mixed = torch.nn.functional.gelu(inputs @ wide) @ narrow
        torch.nn.functional.layer_norm(inputs + mixed, (WIDTH,)).square().mean().backward()

    step()  # what is done once is not timed
    seconds = []
    for _ in range(REPEATS):
        start = process_time()
        for _ in range(STEPS):
            step()
        seconds.append(process_time() - start)
    return STEPS / median(seconds)


def processor() -> str:
    """The processor's name, and what torch uses of it."""
    name = platform.processor()
    with suppress(OSError):  # where Linux says more
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.M)
        name = found[1] if found else name
    return f"{name or platform.machine()}, {torch.backends.cpu.get_cpu_capability()}"
