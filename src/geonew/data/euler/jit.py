"""Compilation of the kernels of the Euler solver, cached where the user may write.

Compiled kernels are kept in ``NUMBA_CACHE_DIR`` if it is set, else under ``GEONEW_HOME`` and never
beside the sources, which may be read-only. Where neither can be written, every process compiles for
itself.

Floating point: multiplications and additions may be fused and reordered, but infinities and NaNs
keep their meaning, since the solver looks for them.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from typing import Any

import numba
from numba.core import config

from geonew.cache import default_folder

FASTMATH = {"contract", "reassoc", "arcp", "nsz"}


def _writable_folder() -> str | None:
    folder = default_folder() / "compiled"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return str(folder) if os.access(folder, os.W_OK) else None


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a kernel, which must be written for arrays and numbers alone."""
    # a run-time type checker may have wrapped the function; the compiler needs the function itself
    function = inspect.unwrap(function)
    chosen: str = getattr(config, "CACHE_DIR", "")
    folder = chosen or _writable_folder()
    # numba reads the setting when the function is decorated; others in this process keep theirs
    setattr(config, "CACHE_DIR", folder or "")  # noqa: B010
    try:
        return numba.njit(
            function, cache=folder is not None, fastmath=FASTMATH, error_model="numpy"
        )
    finally:
        setattr(config, "CACHE_DIR", chosen)  # noqa: B010
