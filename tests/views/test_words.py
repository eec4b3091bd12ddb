"""Words for numbers."""

import pytest

from robust_attn.views.words import (
    counted,
    counted_names,
    covering,
    duration,
    family,
    joint_confidence,
    listed,
    odds,
    part_of,
    share,
)


@pytest.mark.parametrize(
    ("probability", "words"),
    [
        (1e-18, "10¹⁵"),
        (4.9e-8, "20 million"),
        (0.03, "1 in 33"),
        (0.251, "26 in 100"),
        (1e-3, "1 thousand"),
        (1e-9, "1 billion"),
    ],
)
def test_odds_are_never_smaller_than_the_probability(probability, words):
    assert words in odds(probability)


def test_confidence_is_not_claimed_where_it_is_not_recorded():
    assert "no confidence can be stated" in joint_confidence([1e-9, None], "promise")
    assert "deterministic" in joint_confidence([0.0], "promise")
    assert "no confidence" in joint_confidence([0.6, 0.6], "promise")
    assert "nothing to be confident about" in joint_confidence([], "promise")
    assert "even one of the 2 promises" in joint_confidence([1e-9, 1e-9], "promise")


def test_plurals_and_shares():
    assert (counted(1, "check"), counted(2, "check"), counted(2, "search")) == ("1 check", "2 checks", "2 searches")
    assert (counted(1, "quantity"), counted(0, "quantity")) == ("1 quantity", "0 quantities")
    assert [share(*pair, "check") for pair in ((1, 1), (2, 2), (4, 4), (2, 4))] == [
        "the only check",
        "both checks",
        "all 4 checks",
        "2 of 4 checks",
    ]


def test_heads_are_not_printed_as_decimals():
    assert (part_of(0, 1), part_of(0, 10), part_of(3, None)) == ("layer 0, head 1", "layer 0, head 10", "layer 3")


def test_one_unknown_promise_leaves_no_promise_for_all():
    assert covering([1.0, 3.0]) == 3.0
    assert covering([1.0, None]) is None
    assert covering([]) is None


def test_long_lists_and_spans_of_time():
    assert listed(range(10), 3) == "0, 1, 2 and 7 more"
    assert [duration(seconds) for seconds in (None, 1.25, 100, 9000)] == [
        "unknown",
        "1.2 s",
        "1 min 40 s",
        "2 h 30 min",
    ]


@pytest.mark.parametrize("name", ["paper.discrete", "sharp.unified", "local.ball", "split.hull", "comparator.nair"])
def test_every_family_of_bounds_has_words(name):
    assert family(name)


def test_names_in_a_row_as_a_person_lists_them():
    assert counted_names([3], "layer") == "layer 3"
    assert counted_names([0, 3], "layer") == "layers 0 and 3"
    assert counted_names([0, 1, 2, 3], "layer") == "layers 0 to 3"
    assert counted_names([0, 1, 5], "layer") == "layers 0, 1 and 5"
    assert counted_names(range(0, 40, 2), "layer") == "layers 0, 2, 4, 6, 8, 10, 12 and 13 more"
