import threading
import time

import pytest

from robust_attn.tracking.deadline import within


def test_results_and_errors_come_through() -> None:
    assert within(5, lambda: 42) == 42
    assert within(5, lambda: None) is None
    with pytest.raises(ZeroDivisionError):
        within(5, lambda: 1 / 0)
    with pytest.raises(SystemExit):
        within(5, lambda: exit(3))  # noqa: PLR1722


def test_a_call_that_hangs_is_left_behind() -> None:
    forever = threading.Event()
    started = time.perf_counter()
    with pytest.raises(TimeoutError, match="no answer"):
        within(0.05, forever.wait)
    assert time.perf_counter() - started < 2.0
    forever.set()
