"""Values in the grammar of Hydra's command line, and what to say of a value that is not in it."""

from __future__ import annotations

import re
import shlex

NAME = re.compile(r"[~+]*[A-Za-z_][\w./@:$-]*", re.ASCII)


def quoted(text: str, mark: str = "'") -> str:
    """Text as a quoted value, in which a backslash counts only before a quote, that at the end among them."""
    inside = re.sub(rf"(\\*){mark}", rf"\1\1\\{mark}", text)
    last = len(inside) - len(inside.rstrip("\\"))
    return mark + inside + "\\" * last + mark


def unreadable(override: str, reason: str) -> str:
    """A sentence about what was typed and the grammar does not take; it shows the value in quotes, which it does."""
    name, equals, value = override.partition("=")
    shown = override if override.isprintable() else ascii(override)
    if not equals or not NAME.fullmatch(name):
        return f"{shown} is no setting: expected name=value, such as tokens=32."
    because = f" ({reason})" if reason and reason.isprintable() else ""
    typed = shlex.quote(f"{name}={quoted(value, chr(34))}") if override.isprintable() else f"""'{name}="..."'"""
    return f"{shown} cannot be read{because}; if its value is text, put it in quotes: {typed}"
