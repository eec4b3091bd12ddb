"""Which of many alike are tried by default; CI tries all of them (`-m slow`)."""

from collections.abc import Iterable
from typing import Any

import pytest


def at_first(values: Iterable[Any], count: int) -> list[Any]:
    """All of the values, only the first so many of them by default."""
    return [value if turn < count else pytest.param(value, marks=pytest.mark.slow) for turn, value in enumerate(values)]
