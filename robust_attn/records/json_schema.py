"""The JSON Schema of a line of records.jsonl, from the dataclasses: `python -m robust_attn.records.json_schema`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import fields
from enum import Enum
from typing import Any, get_args, get_origin

from robust_attn.records.entry import Entry, Json, alternatives, has_default, help_of, hints_of
from robust_attn.records.kinds import KINDS, SCHEMA, Record

_SIMPLE: dict[Any, str] = {int: "integer", float: "number", bool: "boolean", str: "string", type(None): "null"}


def json_schema() -> Json:
    """One schema for every kind of record, with the description of every field."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A line of records.jsonl",
        "oneOf": [_object(kind) for kind in KINDS.values()],
    }


def schema_text() -> str:
    """As docs/records.schema.json holds it."""
    return json.dumps(json_schema(), indent=1) + "\n"


def _object(kind: type[Entry]) -> Json:
    hints = hints_of(kind)
    properties: Json = {
        entry.name: _type(hints[entry.name]) | {"description": help_of(entry)} for entry in fields(kind)
    }
    required = [entry.name for entry in fields(kind) if not has_default(entry)]
    if issubclass(kind, Record):
        properties = {"schema": {"const": SCHEMA}, "kind": {"const": kind.kind}} | properties
        required = ["schema", "kind", *required]
    return {
        "title": kind.__name__,
        "description": (kind.__doc__ or "").split("\n")[0],
        "type": "object",
        "properties": properties,
        "required": required,
    }


def _type(hint: Any) -> Json:
    options = [_option(option) for option in alternatives(hint)]
    simple = [option["type"] for option in options if set(option) == {"type"}]
    if len(simple) == len(options):
        return {"type": simple[0] if len(simple) == 1 else simple}
    return options[0] if len(options) == 1 else {"anyOf": options}


def _option(option: Any) -> Json:
    origin = get_origin(option) or option
    if option in _SIMPLE:
        return {"type": _SIMPLE[option]}
    if origin is tuple:
        return {"type": "array", "items": _type(get_args(option)[0])}
    if isinstance(origin, type) and issubclass(origin, Entry):
        return _object(origin)
    if isinstance(origin, type) and issubclass(origin, Enum):
        return {"enum": [member.value for member in origin]}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _type(get_args(option)[1])}
    return {}


if __name__ == "__main__":
    sys.stdout.write(schema_text())
