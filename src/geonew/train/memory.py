"""Memory that a step frees stays with the process.

A training step frees and asks for the same megabytes again and again. The C library gives them back
to the system in between, and every page comes back by a fault: a tenth of a step at the size that
one core trains. Where the library is glibc it is asked not to.
"""

from __future__ import annotations

import ctypes
import sys

# From malloc.h: give memory back to the system above this size, and map blocks above this size.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_SIZE = 1 << 30


def keep_freed_memory() -> bool:
    """Ask the C library to keep freed memory; whether it does."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        return False
    return bool(mallopt(_TRIM_THRESHOLD, _SIZE)) and bool(mallopt(_MMAP_THRESHOLD, _SIZE))
