"""Interrupts that wait: Ctrl-C while a compiled library is loaded.

An exception that passes through a library's own initialisation ends the process with a crash
(``SIGABRT``) in place of a word and an exit code. So loading is finished first, a second or two at
most, and the interrupt is raised then.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def held_interrupts() -> Iterator[None]:
    """Raise a SIGINT that comes inside when leaving; a no-op outside of the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread receives signals
        return
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        raise KeyboardInterrupt
