"""Python's cyclic garbage collector, paused while passes run.

A module is one large web of cycles. While passes make operations, the collector walks all of it again and again, finds
next to nothing, and makes the time grow faster than the module: half of it at 100,000 operations.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused_collector() -> Iterator[None]:
    """Within, nothing in cycles is freed; afterwards the collector is as it was."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
