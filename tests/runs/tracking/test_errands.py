import threading

import pytest

from robust_attn.runs.tracking.errands import Errands


def test_calls_are_done_in_order_and_failures_are_told() -> None:
    done: list[object] = []
    problems: list[BaseException] = []
    errands = Errands(problems.append)
    for call in (lambda: done.append(1), lambda: exit(3), lambda: done.append(2)):  # noqa: PLR1722
        errands.give(call)
    errands.wait(30)
    assert done == [1, 2]
    assert [type(problem) for problem in problems] == [SystemExit]


def test_nobody_waits_longer_than_asked_for_a_call_that_hangs() -> None:
    forever, later = threading.Event(), threading.Event()
    errands = Errands(lambda _: None)
    errands.give(lambda: forever.wait() and None)
    errands.give(later.set)
    with pytest.raises(TimeoutError, match=r"no answer within 0.05 s"):
        errands.wait(0.05)
    assert not later.is_set()
    forever.set()
    errands.wait(30)
    assert later.is_set()


def test_a_closed_thread_ends_when_everything_is_done() -> None:
    before = threading.active_count()
    done = threading.Event()
    errands = Errands(lambda _: None)
    errands.give(done.set)
    errands.close()
    for thread in threading.enumerate()[before:]:
        thread.join(30)
    assert done.is_set()
    assert threading.active_count() == before
