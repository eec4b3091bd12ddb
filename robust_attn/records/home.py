"""Paths as others may see them: the home folder, which names a person, is written as ~."""

from __future__ import annotations

import os
import re
from typing import Any


def without_home(value: Any) -> Any:
    """The same nested plain values, with the home folder in every string written as ~."""
    home = os.path.expanduser("~").rstrip("/")  # noqa: PTH111  # Path.home() fails where there is none
    if len(home) < 2 or home == "~":
        return value
    return _replaced(value, re.compile(r"(?<![\w.-])" + re.escape(home) + r"(?![\w.-])"))


def _replaced(value: Any, home: re.Pattern[str]) -> Any:
    if isinstance(value, str):
        return home.sub("~", value)
    if isinstance(value, dict):
        return {key: _replaced(item, home) for key, item in value.items()}
    return [_replaced(item, home) for item in value] if isinstance(value, list) else value
