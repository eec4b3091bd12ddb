"""Nested records as flat ones."""

from robust_attn.records.flat import flat

from .samples import attack_record


def test_names_are_dotted_and_lists_of_named_things_go_by_their_names():
    values = flat(attack_record().to_json())
    assert values["observed.output_change"] == 0.15
    assert values["bounds.local.second_order.log10"] == 1.3
    assert values["convergence"] == [0.1, 0.15]
    assert not [name for name, value in values.items() if isinstance(value, dict)]


def test_the_separator_is_a_choice():
    assert flat({"a": {"b": 1}}, separator="/") == {"a/b": 1}


def test_lists_without_names_or_with_equal_ones_stay_lists():
    assert flat({"a": [{"name": "x"}, {"name": "x"}], "b": [1], "c": {}}) == {
        "a": [{"name": "x"}, {"name": "x"}],
        "b": [1],
        "c": {},
    }
