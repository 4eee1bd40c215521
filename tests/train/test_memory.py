"""Freed memory stays: the second round of large blocks costs no page faults."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

ROUNDS = """
import resource, numpy as np, sys
from geonew.train.memory import keep_freed_memory
assert not {keep} or keep_freed_memory()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def work():
    blocks = [np.ones(4_000_000) for _ in range(4)]  # 128 MB
work(); before = faults(); work(); print(faults() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be asked")
def test_freed_memory_is_kept() -> None:
    def faults(keep: bool) -> int:
        code = ROUNDS.format(keep=keep)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return int(done.stdout)

    assert faults(keep=True) < 0.1 * faults(keep=False)
