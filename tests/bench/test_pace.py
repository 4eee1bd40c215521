"""What a minute of processor time is worth."""

from __future__ import annotations

import torch

from geonew.bench import pace as module
from geonew.bench.pace import pace, processor


def test_the_pace_counts_steps_by_processor_time(monkeypatch):
    clock = iter(range(0, 1000, 2))  # every repeat takes two seconds
    monkeypatch.setattr(module, "process_time", lambda: next(clock))
    assert pace() == module.STEPS / 2


def test_measuring_the_pace_changes_no_training():
    before = torch.get_rng_state()
    assert pace() > 0
    assert torch.equal(torch.get_rng_state(), before)


def test_the_processor_is_named_with_what_torch_uses_of_it():
    name, used = processor().rsplit(", ", 1)
    assert name
    assert used == torch.backends.cpu.get_cpu_capability()
