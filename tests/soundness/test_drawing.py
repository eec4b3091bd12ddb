import math

from robust_attn.soundness.case import AGAINST_START, CANCELLING, SHIFTED, Case
from robust_attn.soundness.check import FUNCTIONS
from robust_attn.soundness.drawing import TWISTS, drawn, usual

MANY = [drawn(seed) for seed in range(3000)]
KINDS = {
    "function": {*FUNCTIONS},
    "judged": {"floats", "exact"},
    "mask": {"none", "causal"},
    "rotary": {True, False},
    "weights": {"normal", "alike", "one_row", "zero", "sparse", "blind", *CANCELLING, *AGAINST_START},
    "points": {"normal", "constant", "repeated", "adversarial", "one_far", *SHIFTED},
    "masses": {"uniform", "unequal", "extreme", "padded"},
    "stored": {"float64", "float32", "bfloat16"},
    "budget": {"wasserstein", "frobenius", "per_token"},
    "support": {"none", "tokens", "number"},
    "scale": {"usual", "negative", "zero"},
    "attack": {"move", "mass_split", "best_split", "some_tokens", "sliver", "duplicate", "linear", "random", "PGDL2"},
}


def where(**values) -> list[Case]:
    return [case for case in MANY if all(getattr(case, name) == value for name, value in values.items())]


def test_a_case_is_its_seed():
    assert drawn(7) == drawn(7) != drawn(8)


def test_every_kind_of_case_is_drawn():
    for name, expected in KINDS.items():
        assert {getattr(case, "called" if name == "function" else name) for case in MANY} == expected
    assert {case.tokens for case in MANY} == set(range(1, 13))
    assert any(case.sharing > 1 for case in MANY)
    assert any(case.radius == 0 for case in MANY)
    assert any(case.bias_size > 0 for case in MANY)
    assert any(case.deterministic for case in MANY)


def test_every_kind_comes_up_within_three_hundred_seeds():
    rare = {"repeat_tokens", "through_model", "head_lipschitz", "largest_singular_value", AGAINST_START[1]}
    for name, expected in KINDS.items():
        found = {getattr(case, "called" if name == "function" else name) for case in MANY[:300]}
        assert expected - found <= rare


def test_radii_span_eight_decades_of_the_tokens_size():
    usual_ones = [usual(seed) for seed in range(1000)]
    decades = {math.floor(math.log10(case.radius / case.token_size)) for case in usual_ones if case.radius > 0}
    assert decades == set(range(-7, 1))


def test_sizes_are_ordinary_mostly_and_extreme_now_and_then():
    assert 0 < sum(case.extreme for case in MANY) < len(MANY) / 2
    plain = [case for case in MANY if case.judged == "floats"]
    assert sum(case.extreme for case in plain) < 0.3 * len(plain)


def test_supports_reach_from_the_tokens_to_a_hundred_times_as_far():
    for chosen in (where(function="certify_measures", support="number"), where(attack="sliver", support="number")):
        decades = {math.floor(2 * math.log10(case.support_times)) for case in chosen}
        assert decades >= {0, 1, 2, 3}
    assert {case.support for case in where(function="certify_measures")} == {"none", "tokens", "number"}


def test_every_function_of_the_library_gets_every_precision_and_every_scale():
    for function in ("certify", "certified_radius", "certify_measures", "local_lipschitz", "split_lipschitz"):
        chosen = where(function=function)
        assert {case.stored for case in chosen} == {"float64", "float32", "bfloat16"}
        assert {case.scale for case in chosen} == {"usual", "negative", "zero"}


def test_one_case_in_eight_is_judged_exactly_and_is_small():
    exact = where(judged="exact")
    assert len(exact) > len(MANY) / 8
    assert max(case.tokens * case.width * case.heads for case in exact) <= 24
    functions = {case.function for case in exact}
    assert functions >= {"certify", "certify_measures", "certified_radius", "local_lipschitz", "observe", "head_norms"}


def test_far_points_and_cancelling_weights_are_judged_exactly_through_the_library():
    for case in MANY:
        if case.points in SHIFTED or case.weights in CANCELLING:
            assert case.judged == "exact"
            assert case.function in FUNCTIONS
            assert not case.rotary
    ratios = [case.distance / case.token_size for case in MANY if case.points in SHIFTED]
    assert min(ratios) < 1e5
    assert max(ratios) > 1e15
    assert max(case.cancelling_size for case in MANY) > 5e8


def test_weights_against_a_start_have_more_dimensions_than_lanczos_has_steps():
    for case in MANY:
        if case.weights in AGAINST_START:
            assert case.tokens * case.width > 64
            assert case.stored == "float64"


def test_whole_models_are_one_case_in_fifty():
    assert sum(case.function in ("through_model", "repeat_tokens") for case in MANY) < len(MANY) / 30
    assert sum(part for part, _ in TWISTS) < 0.5
