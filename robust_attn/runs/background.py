"""Work in a thread of its own, so that whoever waits for it can be interrupted at once: by Ctrl-C, or by SIGTERM."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from queue import SimpleQueue
from typing import TypeVar

Item = TypeVar("Item")
THREAD_NAME = "robust_attn background"


def in_background(items: Iterable[Item]) -> Iterator[Item]:
    """The same items, made by a background thread; what it raises is raised here, after the items before it.

    Python hands Ctrl-C to the main thread, and only between two of its instructions: a long operation of torch there
    would keep it waiting. Here the main thread does nothing but wait. After an interrupt the background thread is left
    to itself; see `work_under_way`.
    """
    line: SimpleQueue[tuple[Item] | BaseException | None] = SimpleQueue()

    def work() -> None:
        try:
            for item in items:
                line.put((item,))
            line.put(None)
        except BaseException as problem:
            line.put(problem)

    start_background(work)
    while (entry := line.get()) is not None:
        if isinstance(entry, BaseException):
            raise entry
        yield entry[0]


def start_background(work: Callable[[], None]) -> threading.Thread:
    """A thread that does not keep the process alive, running."""
    thread = threading.Thread(target=work, name=THREAD_NAME, daemon=True)
    thread.start()
    return thread


def work_under_way() -> bool:
    """Whether a background thread was left behind: the process should then end without taking Python down under it."""
    return any(thread.name == THREAD_NAME and thread.is_alive() for thread in threading.enumerate())


@contextlib.contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """Inside, SIGTERM raises KeyboardInterrupt as Ctrl-C does: a batch system or `kill` ends a run just as well.

    Where somebody else listens to it already (submitit does), and outside the main thread, all stays as it is.
    """
    free = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if not free or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
