"""docs/records.schema.json is what the dataclasses say, and describes every field."""

from dataclasses import fields
from pathlib import Path

from robust_attn.records.entry import Entry, help_of
from robust_attn.records.json_schema import json_schema, schema_text
from robust_attn.records.kinds import KINDS

FILE = Path(__file__).parents[2] / "docs" / "records.schema.json"


def test_the_file_is_current():
    assert FILE.read_text(encoding="utf-8") == schema_text(), "python -m robust_attn.records.json_schema > " + str(FILE)


def test_every_kind_is_in_it():
    assert [entry["properties"]["kind"]["const"] for entry in json_schema()["oneOf"]] == list(KINDS)


def test_every_field_of_every_part_is_described():
    kinds: list[type[Entry]] = [Entry]
    for kind in kinds:
        kinds += kind.__subclasses__()
        assert all(help_of(entry) for entry in fields(kind)), kind


def test_types_by_hand():
    attack = json_schema()["oneOf"][0]["properties"]
    assert attack["layer"]["type"] == ["integer", "null"]
    assert attack["convergence"] == {
        "type": "array",
        "items": {"type": ["number", "null"]},
        "description": "the output change after every step of the attack",
    }
    assert attack["verdict"]["enum"] == ["HOLDS", "VIOLATED", "VACUOUS", "UNKNOWN"]
    assert attack["bounds"]["items"]["required"] == ["name"]
