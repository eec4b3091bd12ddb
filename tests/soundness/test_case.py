import json

import pytest

from robust_attn.soundness.case import KINDS, Case, case_from
from robust_attn.soundness.drawing import drawn
from robust_attn.types import UserError


def test_a_case_survives_json():
    for case in map(drawn, range(200)):
        assert case_from(json.loads(json.dumps(case.plain()))) == case


@pytest.mark.parametrize("values", [{}, {"seed": 1, "unheard_of": 2}])
def test_values_that_are_no_case_are_refused(values):
    with pytest.raises(UserError, match="fields"):
        case_from(values)


def test_what_an_older_case_does_not_say_is_as_it_was():
    case = case_from({"seed": 3, "tokens": 2, "tolerance": 0.1})
    assert case.called == "certified_radii"
    assert case_from({"seed": 3}).called == "attack_records"
    assert (case.judged, case.scale, case.distance, case.support_times) == ("floats", "usual", 0.0, 1.0)


def test_cases_are_counted_by_every_kind():
    assert Case(0).kinds.keys() == set(KINDS)
    assert Case(0, tolerance=1.0).kinds["function"] == "certified_radii"


@pytest.mark.parametrize(
    ("values", "extreme"),
    [
        ({"token_size": 1e100}, True),
        ({"value_size": 1e-9}, True),
        ({"bias_size": 0.0}, False),
        ({"weights": "cancelling_logits"}, True),
        ({"points": "shifted_line"}, True),
        ({"radius": 1e-6}, False),
        ({"radius": 1e-6, "logit_size": 100.0}, True),
        ({"radius": 1e-6, "logit_size": 100.0, "scale": "zero"}, False),
        ({"radius": 1e-13}, True),
        ({"masses": "extreme"}, True),
        ({"masses": "extreme", "budget": "per_token"}, False),
    ],
)
def test_unknown_is_a_right_answer_where_numbers_are_extreme_or_drown_in_rounding(values, extreme):
    assert Case(0, **values).extreme is extreme
