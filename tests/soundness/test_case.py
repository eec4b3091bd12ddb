import json
import math

import pytest

from robust_attn.soundness.case import Case, case_from, drawn
from robust_attn.types import UserError

MANY = [drawn(seed) for seed in range(3000)]


def test_a_case_is_its_seed_and_survives_json():
    assert drawn(7) == drawn(7) != drawn(8)
    for case in MANY[:200]:
        assert case_from(json.loads(json.dumps(case.plain()))) == case


@pytest.mark.parametrize("values", [{}, {"seed": 1, "unheard_of": 2}])
def test_values_that_are_no_case_are_refused(values):
    with pytest.raises(UserError, match="fields"):
        case_from(values)


def test_every_kind_of_case_is_drawn():
    kinds = {
        "mask": {"none", "causal"},
        "rotary": {True, False},
        "weights": {"normal", "alike", "one_row", "zero"},
        "points": {"normal", "constant", "repeated", "adversarial", "one_far"},
        "masses": {"uniform", "unequal", "extreme", "padded"},
        "stored": {"float64", "float32", "bfloat16"},
        "budget": {"wasserstein", "frobenius", "per_token"},
        "support": {"none", "tokens"},
        "attack": {"move", "mass_split", "some_tokens", "sliver", "duplicate", "linear", "random", "PGDL2"},
    }
    for name, expected in kinds.items():
        assert {getattr(case, name) for case in MANY} == expected
    assert {case.tokens for case in MANY} == set(range(1, 13))
    assert any(case.sharing > 1 for case in MANY)
    assert any(case.tolerance is not None for case in MANY)
    assert any(case.radius == 0 for case in MANY)
    assert any(case.bias_size > 0 for case in MANY)


def test_radii_span_eight_decades_of_the_tokens_size():
    decades = {math.floor(math.log10(case.radius / case.token_size)) for case in MANY if case.radius > 0}
    assert decades == set(range(-7, 1))


def test_sizes_are_ordinary_mostly_and_extreme_now_and_then():
    extreme = sum(case.extreme for case in MANY)
    assert 0 < extreme < len(MANY) / 5
    assert Case(0, token_size=1e100).extreme
    assert Case(0, value_size=1e-9).extreme
    assert not Case(0, bias_size=0.0).extreme
