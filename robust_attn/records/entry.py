"""What records are made of: frozen dataclasses that know how to be JSON and back, each field described where it stands.

A number that is not finite is unknown, and unknown is None: that is seen to when an entry is made, so nothing that
reads a record meets a NaN.
"""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from enum import Enum
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

_HELP = "help"
Json = dict[str, Any]
Kind = TypeVar("Kind", bound="Entry")
_HINTS: dict[type, dict[str, Any]] = {}


class NotARecordError(ValueError):
    """What was read does not have the form of a record; the message says where it departs from it."""


def fact(help: str, default: Any = MISSING) -> Any:
    """A field of an entry, with the sentence that describes it; without a default it must be given."""
    metadata = {_HELP: help}
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=metadata)
    return field(metadata=metadata) if default is MISSING else field(default=default, metadata=metadata)


def help_of(entry: Field[Any]) -> str:
    """The sentence that describes a field."""
    return str(entry.metadata.get(_HELP, ""))


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A part of a record. Sequences are kept as tuples, numbers that are not finite as None."""

    def __post_init__(self) -> None:
        for entry in fields(self):
            object.__setattr__(self, entry.name, known(getattr(self, entry.name)))

    @classmethod
    def of(cls: type[Kind], source: object) -> Kind:
        """With what `source` has under the names of the fields."""
        return cls(**{entry.name: getattr(source, entry.name) for entry in fields(cls)})

    def to_json(self) -> Json:
        """Plain values, in the order of the fields."""
        return {entry.name: plain(getattr(self, entry.name)) for entry in fields(self)}

    @classmethod
    def from_json(cls: type[Kind], values: object) -> Kind:
        """What `to_json` gave. Names that are not known are left out; a missing field takes its default."""
        if not isinstance(values, Mapping):
            raise NotARecordError(f"{cls.__name__} must be an object, got {values!r:.40}")
        hints = hints_of(cls)
        given = {entry.name: entry for entry in fields(cls) if entry.name in values}
        missing = [entry.name for entry in fields(cls) if entry.name not in given and not has_default(entry)]
        if missing:
            raise NotARecordError(f"{cls.__name__} lacks {missing[0]}")
        return cls(**{name: decoded(hints[name], values[name], name) for name in given})


def finite(value: object) -> float | None:
    """The number if it is one and finite; text, booleans, NaN and infinities are None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def known(value: Any) -> Any:
    """The value with every number in it that is not finite as None, and every sequence as a tuple."""
    if isinstance(value, float):
        return finite(value)
    if isinstance(value, list | tuple):
        return tuple(known(item) for item in value)
    return {key: known(item) for key, item in value.items()} if isinstance(value, Mapping) else value


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, Entry):
        return value.to_json()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, tuple | list) else value


def has_default(entry: Field[Any]) -> bool:
    """Whether a field may be left out."""
    return entry.default is not MISSING or entry.default_factory is not MISSING


def hints_of(kind: type[Entry]) -> dict[str, Any]:
    """The types of the fields, resolved once for every class."""
    if kind not in _HINTS:
        _HINTS[kind] = get_type_hints(kind)
    return _HINTS[kind]


def alternatives(hint: Any) -> tuple[Any, ...]:
    """The members of a union, or the type itself."""
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def decoded(hint: Any, value: Any, place: str) -> Any:
    """A JSON value as the type asks for it; NotARecordError where it is something else."""
    for option in alternatives(hint):
        if _fits(option, value):
            return _made(option, value, place)
    raise NotARecordError(f"{place} has the value {value!r:.40}")


def _fits(option: Any, value: Any) -> bool:
    """Whether a JSON value is of the kind that a type is written as."""
    origin = get_origin(option) or option
    if origin is Any:
        return True
    if option is types.NoneType or option is None:
        return value is None
    if origin in (int, float, bool):
        return _is_number(origin, value)
    if origin is tuple:
        return isinstance(value, list | tuple)
    if isinstance(origin, type) and issubclass(origin, Mapping | Entry):
        return isinstance(value, Mapping)
    return isinstance(value, str)


def _is_number(kind: type, value: Any) -> bool:
    if kind is bool or isinstance(value, bool):
        return kind is bool and isinstance(value, bool)
    return isinstance(value, int) or (kind is float and isinstance(value, float))


def _made(option: Any, value: Any, place: str) -> Any:
    origin = get_origin(option) or option
    if origin is tuple:
        inner = get_args(option)[0]
        return tuple(decoded(inner, item, place) for item in value)
    if isinstance(origin, type) and issubclass(origin, Entry):
        return origin.from_json(value)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        inner = (*get_args(option), Any, Any)[1]
        return {str(key): decoded(inner, item, f"{place}.{key}") for key, item in value.items()}
    if isinstance(origin, type) and issubclass(origin, Enum):
        if value not in {member.value for member in origin}:
            raise NotARecordError(f"{place} has the value {value!r:.40}")
        return origin(value)
    return finite(value) if origin is float else value
