"""Progress of slow steps on standard error: nothing for a step under a second, its name and time for the others."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def step(name: str, *, after: float = 1.0) -> Generator[None, None, None]:
    """Say ``name`` once the body has run for ``after`` seconds, and how long it took when it ends."""
    shown = threading.Event()

    def show() -> None:
        shown.set()
        print(f"{name} …", file=sys.stderr, flush=True)

    timer = threading.Timer(after, show)
    timer.daemon = True
    start = time.perf_counter()
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if shown.is_set():
            print(f"{name}: {time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)
