"""Calls that may hang or fail, done one after another by a thread of their own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

from robust_attn.runs.background import start_background


class Errands:
    """Does calls in the order in which they are given. Nobody waits for them but in `wait`, and there not for ever.

    A call that fails is told to `failed`, and those after it are done all the same. A call that hangs cannot be
    stopped, but it keeps neither its caller nor the process from going on.
    """

    def __init__(self, failed: Callable[[BaseException], None]) -> None:
        self._failed = failed
        self._line: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._open = True
        self._thread: threading.Thread | None = None  # made for the first call

    def give(self, call: Callable[[], None]) -> None:
        """Have `call` done some time."""
        self._line.put(call)
        if self._thread is None:
            self._thread = start_background(self._work)

    def wait(self, seconds: float) -> None:
        """Return when everything given so far is done; TimeoutError after `seconds`."""
        reached = threading.Event()
        self.give(reached.set)
        if not reached.wait(seconds):
            raise TimeoutError(f"no answer within {seconds:g} s")

    def close(self) -> None:
        """End the thread once everything given so far is done."""

        def last() -> None:
            self._open = False

        self.give(last)

    def _work(self) -> None:
        while self._open:
            try:
                self._line.get()()
            except BaseException as problem:  # wandb has raised SystemExit and its own BaseExceptions
                self._failed(problem)
