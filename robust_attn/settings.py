"""Settings: frozen dataclasses whose fields carry their default, their limits and one line that says what they are.

Everything that speaks of a setting derives from its field: Hydra's schemas, checks, `--help`, docs/settings.md.
Nothing slow is imported here, so a wrong value is told before torch is loaded.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from numbers import Integral, Real
from types import UnionType
from typing import Any, ClassVar, TypeVar, Union, get_args, get_origin, get_type_hints

from robust_attn.types import FieldError

_KEY = "setting"


@dataclass(frozen=True)
class Limits:
    """What a field is for, in one line, and what it may be: a number within limits, or one of a few words.

    `least` and `most` are allowed, `above` and `below` are not; `whole` leaves out fractions. With `words` a text must
    be one of them; numbers are then allowed beside them only if some limit speaks of numbers. Every entry of a list
    counts; None is fine. `form` says what a value looks like where all that does not.
    """

    help: str
    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None
    whole: bool = False
    form: str = ""
    words: tuple[str, ...] = ()

    def problem(self, value: Any) -> str | None:
        """What is wrong with a value, as the end of a sentence that begins with its name; None if nothing is."""
        if value is None:
            return None
        if isinstance(value, Sequence) and not isinstance(value, str):
            return next((problem for entry in value if (problem := self.problem(entry))), None)
        if isinstance(value, str) and not self.words and not value.strip():
            return f"is empty: expected {self.help}."
        return None if self._allows(value) else f"must be {self.expected_of(value)}, got {value!r}."

    def _allows(self, value: Any) -> bool:
        if isinstance(value, Real) and not isinstance(value, bool):
            return _finite(value) and self._within(value) and (self._numeric or not self.words)
        if isinstance(value, str) and self.words:
            return value in self.words
        return not (self.words or self._numeric)

    def expected_of(self, value: Any) -> str:
        """The allowed values in words, with what is wrong about a number that is none."""
        endless = isinstance(value, Real) and not isinstance(value, bool) and not _finite(value)
        return f"finite and {self.expected}" if endless and self._numeric and not self.words else self.expected

    @property
    def expected(self) -> str:
        """The allowed values in words."""
        if self.form:
            return self.form
        choices = (
            [f"one of {', '.join(self.words)}" if len(self.words) > 1 else repr(self.words[0])] if self.words else []
        )
        return " or ".join([*choices, *([self._span] if self._numeric or not self.words else [])])

    @property
    def limiting(self) -> bool:
        """Whether there is anything to say about what a value may be."""
        return bool(self.words or self._numeric or self.form)

    @property
    def _numeric(self) -> bool:
        return any(limit is not None for limit in (self.least, self.most, self.above, self.below))

    def _within(self, value: Any) -> bool:
        return (
            (self.least is None or value >= self.least)
            and (self.most is None or value <= self.most)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
            and not (self.whole and value != int(value))
        )

    @property
    def _span(self) -> str:
        kind = "a whole number " if self.whole else ""
        if self.least is not None and self.most is not None:
            return f"{kind}from {_number(self.least)} to {_number(self.most)}"
        if self.above is not None and self.below is not None:
            return f"between {_number(self.above)} and {_number(self.below)}"
        named = (("at least", self.least), ("above", self.above), ("at most", self.most), ("below", self.below))
        parts = [f"{word} {_number(limit)}" for word, limit in named if limit is not None]
        return kind + " and ".join(parts) if parts else "a finite number"


def _number(limit: float) -> str:
    return str(limit) if isinstance(limit, int) else f"{limit:g}"


def _finite(value: Any) -> bool:
    """Whether it is a number that a float can hold."""
    return abs(value) <= sys.float_info.max


def setting(default: Any, help: str, **limits: Any) -> Any:
    """A dataclass field with its description and limits (see `Limits`); a list becomes a tuple."""
    metadata = {_KEY: Limits(help, **limits)}
    if isinstance(default, list):
        return field(default_factory=lambda: frozen(default), metadata=metadata)
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


T = TypeVar("T", bound=Settings)


def read(kind: type[T], values: Mapping[str, Any]) -> T:
    """Settings from values of whatever type, as files and command lines have them."""
    hints, given = get_type_hints(kind), {name: frozen(value) for name, value in values.items()}
    for entry in settings_of(kind):
        if not fits(given[entry.name], hints[entry.name]):
            expected, came = limits_of(entry).expected, listed(given[entry.name])
            raise FieldError(entry.name, f"must be {expected}, got {came!r}.")
    return kind(**given)


def settings_of(kind: type[Settings]) -> Iterator[Field[Any]]:
    """The fields of a choice, in order."""
    yield from (entry for entry in fields(kind) if entry.init)


def frozen(value: Any) -> Any:
    """The same value with every list a tuple, as settings keep it."""
    return tuple(map(frozen, value)) if isinstance(value, list | tuple) else value


def listed(value: Any) -> Any:
    """The same value with every tuple a list, as files and people write it."""
    return list(map(listed, value)) if isinstance(value, list | tuple) else value


def called(kind: type[Settings]) -> str:
    """How a choice is called on the command line: one that stands for many, told apart by `name`, by its `suite`."""
    return str(getattr(kind, "suite", kind.name))


def summary_of(kind: type[Settings]) -> str:
    """The first paragraph of a choice's docstring, in one line."""
    return " ".join((kind.__doc__ or "").partition("\n\n")[0].split())


def fits(value: Any, hint: Any) -> bool:
    """Whether a value has the type of a field: scalars, tuples and names with values, each perhaps one of several."""
    parts = get_args(hint)
    if get_origin(hint) in (Union, UnionType):
        return any(fits(value, part) for part in parts)
    if get_origin(hint) is tuple:
        return isinstance(value, tuple) and all(fits(entry, parts[0]) for entry in value)
    if get_origin(hint) is Mapping:
        return isinstance(value, Mapping) and all(fits(key, parts[0]) for key in value)
    if hint in (int, float):
        return isinstance(value, Integral if hint is int else Real) and not isinstance(value, bool)
    return hint is Any or isinstance(value, hint)
