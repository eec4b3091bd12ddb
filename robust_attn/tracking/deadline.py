"""Calls that may hang, given a limit."""

import threading
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


def within(seconds: float, call: Callable[[], Result]) -> Result:
    """The result of `call`, or what it raised; TimeoutError after `seconds`, when the call is left to a daemon thread.

    An abandoned thread cannot be stopped, but it does not keep the process from ending either.
    """
    results: list[Result] = []
    problems: list[BaseException] = []

    def work() -> None:
        try:
            results.append(call())
        except BaseException as problem:
            problems.append(problem)

    thread = threading.Thread(target=work, name="tracker", daemon=True)
    thread.start()
    thread.join(seconds)
    if problems:
        raise problems[0]
    if not results:
        raise TimeoutError(f"no answer within {seconds:g} s")
    return results[0]
