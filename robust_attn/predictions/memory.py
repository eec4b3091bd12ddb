"""Freed memory kept for the next tensor: fresh pages cost several times what is computed in them."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

TRIM_THRESHOLD, TOP_PAD, MMAP_MAX = -1, -2, -4
"""Parameters of glibc's mallopt (malloc.h)."""
USUAL = {TRIM_THRESHOLD: 128 * 1024, TOP_PAD: 128 * 1024, MMAP_MAX: 65536}
KEPT = {TRIM_THRESHOLD: 2**31 - 1, TOP_PAD: 64 * 2**20, MMAP_MAX: 0}
_inside: ContextVar[bool] = ContextVar("inside", default=False)


@contextmanager
def kept_memory() -> Iterator[None]:
    """Inside, what is freed stays with the process; afterwards it is returned. Nothing where there is no glibc."""
    library = _library()
    if library is None or _inside.get():
        yield
        return
    token = _inside.set(True)
    try:
        for parameter, value in KEPT.items():
            library.mallopt(parameter, value)
        yield
    finally:
        for parameter, value in USUAL.items():
            library.mallopt(parameter, value)
        library.malloc_trim(0)
        _inside.reset(token)


@cache
def _library() -> ctypes.CDLL | None:
    """The C library of this process, if it is glibc."""
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "mallopt") and hasattr(library, "malloc_trim") else None
