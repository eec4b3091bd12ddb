"""Settings: frozen dataclasses whose fields carry their default, their limits and one line that says what they are.

Everything that speaks of a setting derives from its field: Hydra's schemas, checks, `--help`, the README's table.
Nothing slow is imported here, so a wrong value is told before torch is loaded.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, ClassVar

from robust_attn.types import FieldError

_KEY = "setting"


@dataclass(frozen=True)
class Limits:
    """What a field is for, in one line, and what it may be: a number within limits, or one of a few words.

    `least` and `most` are allowed, `above` and `below` are not. With `words` a text must be one of them; numbers
    are then allowed beside them only if some limit speaks of numbers. Every entry of a list counts; None is fine.
    """

    help: str
    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None
    words: tuple[str, ...] = ()

    def problem(self, value: Any) -> str | None:
        """What is wrong with a value, as the end of a sentence that begins with its name; None if nothing is."""
        if value is None:
            return None
        if isinstance(value, Sequence) and not isinstance(value, str):
            return next((problem for entry in value if (problem := self.problem(entry))), None)
        if isinstance(value, bool):
            return None if not (self.words or self._numeric) else f"must be {self.expected}, got {value!r}."
        if isinstance(value, int | float):
            allowed = math.isfinite(value) and self._within(value) and (self._numeric or not self.words)
            return None if allowed else f"must be {self.expected}, got {value}."
        return f"must be {self.expected}, got {value!r}." if self.words and value not in self.words else None

    @property
    def expected(self) -> str:
        """The allowed values in words."""
        choices = [f"one of {', '.join(self.words)}"] if self.words else []
        return " or ".join([*choices, *([self._span] if self._numeric or not self.words else [])])

    @property
    def _numeric(self) -> bool:
        return any(limit is not None for limit in (self.least, self.most, self.above, self.below))

    def _within(self, value: float) -> bool:
        return (
            (self.least is None or value >= self.least)
            and (self.most is None or value <= self.most)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )

    @property
    def _span(self) -> str:
        named = (("at least", self.least), ("above", self.above), ("at most", self.most), ("below", self.below))
        parts = [f"{word} {limit:g}" for word, limit in named if limit is not None]
        return " and ".join(parts) if parts else "a finite number"


def setting(default: Any, help: str, **limits: Any) -> Any:
    """A dataclass field with its description and limits (see `Limits`); a list becomes a tuple."""
    metadata = {_KEY: Limits(help, **limits)}
    if isinstance(default, list):
        return field(default_factory=lambda: tuple(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def required(help: str, **limits: Any) -> Any:
    """The same for a field that must be given."""
    return field(metadata={_KEY: Limits(help, **limits)})


def limits_of(entry: Field[Any]) -> Limits:
    """The limits of a field; a field made without `setting` has a name and nothing else to say."""
    found = entry.metadata.get(_KEY)
    return found if isinstance(found, Limits) else Limits("")


def default_of(entry: Field[Any]) -> Any:
    """The default of a field, dataclasses.MISSING where it must be given."""
    return entry.default_factory() if entry.default_factory is not MISSING else entry.default


@dataclass(frozen=True)
class Settings:
    """The settings of one choice: of an attack, a budget, a task, a data source. They are checked when they are made.

    `name` is how the choice is called on the command line. `implementation`, as "module:name", is the class that does
    the work where that is another one: it has the same fields, by inheritance, and may be slow to import.
    """

    name: ClassVar[str]
    implementation: ClassVar[str | None] = None

    def __post_init__(self) -> None:
        for entry in settings_of(type(self)):
            problem = limits_of(entry).problem(getattr(self, entry.name))
            if problem is not None:
                raise FieldError(entry.name, problem)

    def made(self) -> Any:
        """The object that these settings describe."""
        if self.implementation is None:
            return self
        module, _, name = self.implementation.partition(":")
        kind = getattr(importlib.import_module(module), name)
        return kind(**{entry.name: getattr(self, entry.name) for entry in settings_of(type(self))})


def settings_of(kind: type[Settings]) -> Iterator[Field[Any]]:
    """The fields of a choice, in order."""
    yield from (entry for entry in fields(kind) if entry.init)
