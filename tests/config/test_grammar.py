"""Quoted values, and the sentence about a value that should have been quoted, as Hydra's own parser reads them."""

import shlex

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import OverrideParseException
from hypothesis import given
from hypothesis import strategies as st

from robust_attn.config.grammar import quoted, unreadable


def parsed(override: str) -> object:
    return OverridesParser.create().parse_override(override).value()


@pytest.mark.parametrize("mark", ["'", '"'])
@given(text=st.text(st.characters(codec="utf-8", exclude_categories=("C",))) | st.text("\\'\"é ", max_size=8))
def test_a_quoted_value_is_read_as_it_is(mark, text):
    assert parsed(f"data.path={quoted(text, mark)}") == text


@pytest.mark.parametrize("value", ["/tmp/é.txt", "/tmp/你好", "a(b.txt", 'it"s', "back\\slash(", "x=(", "]", "a'b"])
def test_a_value_that_cannot_be_read_is_shown_as_it_can_be_typed(value):
    with pytest.raises(OverrideParseException):
        OverridesParser.create().parse_overrides([f"data.path={value}"])
    sentence = unreadable(f"data.path={value}", "")
    typed = sentence.rpartition("put it in quotes: ")[2]
    assert parsed(shlex.split(typed)[0]) == value  # what the shell hands on
    assert sentence.startswith(f"data.path={value} cannot be read; ")


def test_the_reason_is_told_where_there_is_one():
    assert unreadable("a=(", "mismatched input '('").startswith("a=( cannot be read (mismatched input '('); if its")


@pytest.mark.parametrize("override", ["é=3", "tokens", "=3", "(=3"])
def test_what_has_no_name_is_no_setting(override):
    assert unreadable(override, "x") == f"{override} is no setting: expected name=value, such as tokens=32."


def test_what_cannot_be_printed_is_still_one_line():
    sentence = unreadable("data.path=a\nb\u202e", "no\nreason")
    assert sentence.isprintable()
    assert "'data.path=\"...\"'" in sentence
