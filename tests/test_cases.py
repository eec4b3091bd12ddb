"""The cases that tests are run on: few, and no two properties of a layer are ever missed together."""

from collections import Counter
from dataclasses import fields
from itertools import combinations, product

import pytest

from robust_attn.attention.mask import Mask
from tests.cases import ADDED_CASES, CASES, MASSES, MORE_CASES, Case

VALUES = {"mask": tuple(Mask), "groups": (1, 2), "rotary": (False, True), "bias": (False, True), "masses": MASSES}
SECOND = MORE_CASES[len(CASES) :]


def met(cases: list[Case], *names: str) -> Counter[tuple[object, ...]]:
    return Counter(tuple(getattr(case, name) for name in names) for case in cases)


def test_every_property_of_a_case_is_a_factor():
    assert {field.name for field in fields(Case)} == {*VALUES, "position_bias", "sinks"}
    assert CASES[0] == Case()


@pytest.mark.parametrize("cases", [CASES, SECOND], ids=["first", "second"])
@pytest.mark.parametrize("names", list(combinations(VALUES, 2)), ids="-".join)
def test_every_pair_of_values_of_two_factors_occurs_equally_often(cases, names):
    found = met(cases, *names)
    assert set(found) == set(product(*(VALUES[name] for name in names)))
    assert len(set(found.values())) == 1


def test_what_is_added_to_logits_meets_every_value_of_the_other_factors():
    for other in ("mask", "rotary", "bias", "masses"):
        assert set(met(ADDED_CASES, "sinks", other)) == set(product((False, True), VALUES[other])), other
    for other in ("mask", "rotary", "sinks"):
        assert set(met(ADDED_CASES, "position_bias", other)) >= {(True, value) for value in VALUES.get(other, (0, 1))}
    assert met(ADDED_CASES, "sinks", "position_bias")[True, False]


def test_the_second_array_has_the_triples_with_rotation_and_masses_that_the_first_one_lacks():
    assert len(set(MORE_CASES)) == len(CASES) + len(SECOND)
    for other in ("mask", "groups", "bias"):
        names = ("rotary", "masses", other)
        assert len(met(CASES, *names)) == len(CASES)
        assert set(met(MORE_CASES, *names)) == set(product(*(VALUES[name] for name in names)))
