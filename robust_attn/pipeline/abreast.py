"""Several jobs at a time, a thread for each: small products do not fill a processor, several of them do."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TypeVar

import torch

from robust_attn.runs.background import start_background

Item = TypeVar("Item")
Job = Callable[[], Iterable[Item]]


def abreast(jobs: Sequence[Job[Item]], workers: int) -> Iterator[Iterable[Item]]:
    """What each job makes, in the order of the jobs, of which `workers` are worked on at a time.

    What a job raises is raised here after what the jobs before it made. Whoever asks for no more leaves jobs that were
    begun to themselves, and no other is begun.
    """
    if workers < 2 or len(jobs) < 2:
        yield from (job() for job in jobs)
        return
    results: list[SimpleQueue[list[Item] | BaseException]] = [SimpleQueue() for _ in jobs]
    todo, taking, ended = iter(range(len(jobs))), threading.Lock(), threading.Event()

    def work() -> None:
        while not ended.is_set():
            with taking:
                index = next(todo, None)
            if index is None:
                return
            try:
                results[index].put(list(jobs[index]()))
            except BaseException as problem:
                results[index].put(problem)

    for _ in range(min(workers, len(jobs))):
        start_background(work)
    try:
        for line in results:
            found = line.get()
            if isinstance(found, BaseException):
                raise found
            yield found
    finally:
        ended.set()


@contextmanager
def one_thread_each(active: bool) -> Iterator[int]:
    """Inside, torch uses one thread for each of ours, so that results do not depend on how many there are.

    It gives the number that torch had. Where it is not `active` that is one of ours, and torch keeps all of its own.
    """
    threads = torch.get_num_threads()
    if not active:
        yield 1
        return
    torch.set_num_threads(1)
    try:
        yield threads
    finally:
        torch.set_num_threads(threads)
