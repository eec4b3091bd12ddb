"""Annotations of shapes are checked in every test, at some calls: all of them took most of an ascent's time."""

import functools
from collections import Counter
from collections.abc import Callable
from typing import Any

import jaxtyping
from jaxtyping import install_import_hook

BEARTYPE = "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"
FIRST = 4
_jaxtyped = jaxtyping.jaxtyped
_calls: Counter[object] = Counter()
"""Of the test that runs, by the code of the function: one that is defined inside another is made again and again."""


def check_some_calls(packages: list[str]) -> None:
    """Of every function of these packages, before they are imported: calls 1 to 4, 8, 16, 32 ... in each test."""
    jaxtyping.jaxtyped = _jaxtyped_at_some_calls  # the name that the hook puts above every function and class
    install_import_hook(packages, BEARTYPE)


def next_test() -> None:
    """Calls are counted anew."""
    _calls.clear()


def _jaxtyped_at_some_calls(*, typechecker: Any) -> Callable[[Any], Any]:
    def decorate(given: Any) -> Any:
        if not isinstance(given, type):
            return _at_some_calls(given, given.__code__, lambda: _jaxtyped(given, typechecker=typechecker))
        plain = given.__init__
        checked = _jaxtyped(given, typechecker=typechecker).__init__  # another one in dataclasses
        if checked is not plain:
            given.__init__ = _at_some_calls(plain, given, lambda: checked)
        return given

    return decorate


def _at_some_calls(plain: Callable[..., Any], key: object, checked: Callable[[], Any]) -> Callable[..., Any]:
    made = functools.cache(checked)  # not before it is called: beartype writes code for every function

    @functools.wraps(plain)
    def called(*arguments: Any, **options: Any) -> Any:
        calls = _calls[key] = _calls[key] + 1
        some = calls <= FIRST or calls & (calls - 1) == 0
        return (made() if some else plain)(*arguments, **options)

    return called
