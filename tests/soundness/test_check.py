import json
import math
from dataclasses import replace

import pytest

import robust_attn
from robust_attn.soundness import recorded
from robust_attn.soundness.case import Case
from robust_attn.soundness.check import FUNCTIONS, NO_PROMISE, WHOLE_MODELS, check, reproducer, saved_case, shrunk
from robust_attn.soundness.comparison import CERTIFICATE, Checked, Comparison, together
from robust_attn.soundness.drawing import usual
from robust_attn.soundness.promises import RADIUS
from robust_attn.types import UserError

SMALL = Case(1, attack="linear", tokens=3, width=2, out=2, radius=0.1)
ONE_TOKEN = replace(SMALL, attack="move", tokens=1)


def test_every_public_name_is_attacked_or_promises_nothing():
    """A new public function has to be put into the table, with the way it is attacked, or into the list beside it."""
    assert set(robust_attn.__all__) <= set(FUNCTIONS) | NO_PROMISE | WHOLE_MODELS
    assert set(robust_attn.__all__) >= NO_PROMISE
    assert not set(FUNCTIONS) & NO_PROMISE
    assert not WHOLE_MODELS & (set(FUNCTIONS) | NO_PROMISE)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_of_the_table_is_compared(name):
    case = replace(SMALL, function=name, groups=2, support="tokens", logit_size=0.5)
    if name in ("certified_radius", "certified_radii"):
        case = replace(case, tolerance=0.1, support="none")
    checked = check(case)
    assert checked.comparisons
    assert checked.unknown == ()
    assert not checked.violations


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) & set(robust_attn.__all__) - {"largest_singular_value"}))
def test_functions_of_the_library_are_judged_exactly_too(name):
    case = replace(SMALL, function=name, judged="exact", attack="move", support="tokens")
    if name == "certified_radius":
        case = replace(case, tolerance=0.1, support="none")
    checked = check(case)
    assert checked.exact > 0 or name == "head_norms"
    assert checked.unknown == ()
    assert not checked.violations


def test_every_bound_is_compared_by_itself():
    names = {comparison.bound for comparison in check(SMALL).comparisons}
    assert {CERTIFICATE, "local.ball", "local.hull", "local.second_order", "local.second_order_deterministic"} <= names
    assert {"local.closed_form", "local.block_norm", "sharp.unified", "paper.discrete"} <= names
    assert {"split.hull", "split.local", "split.mean_field"} <= names
    exact = replace(SMALL, function="certify", judged="exact", attack="move")
    names = {comparison.bound for comparison in check(exact).comparisons}
    assert {
        CERTIFICATE,
        "local.ball",
        "local.hull",
        "local.second_order",
        "local.closed_form",
        "sharp.unified",
    } <= names


@pytest.mark.parametrize("function", ["attack_records", "certify"])
def test_one_token_is_an_affine_map_for_which_bounds_are_exact(function):
    closest = {each.bound: each.approach for each in check(replace(ONE_TOKEN, function=function)).comparisons}
    for name in (CERTIFICATE, "local.hull", "local.second_order", "local.second_order_deterministic"):
        assert 0.999 < closest[name] <= 1


@pytest.mark.parametrize("function", ["certified_radii", "certified_radius"])
@pytest.mark.parametrize("judged", ["floats", "exact"])
def test_a_certified_radius_is_attacked(function, judged):
    (found,) = check(replace(ONE_TOKEN, tolerance=0.5, function=function, judged=judged)).comparisons
    assert found.bound == RADIUS
    assert found.exact is (judged == "exact")
    assert 0.99 < found.approach <= 1


def test_measures_without_a_support_are_refused_or_attacked_from_afar(monkeypatch):
    """certify_measures refuses; were it to certify something, slivers would go a hundred times as far as tokens are."""
    from robust_attn.budget import TokenRadius
    from robust_attn.soundness import promises

    case = replace(SMALL, function="certify_measures", attack="sliver", logit_size=0.5)
    assert check(case) == Checked(())
    sound = promises.certify_measures

    def certain(layer, measure, budget, **chosen):
        supported = replace(budget, support=TokenRadius()) if budget.support is None else budget
        return sound(layer, measure, supported, **chosen)

    monkeypatch.setattr(promises, "certify_measures", certain)
    assert check(case).violations


def test_values_that_overflow_are_unknown():
    assert "finite" in check(replace(SMALL, value_size=1e200, token_size=1e200)).unknown[0]


LARGE = {"logit_size": 1e97, "stored": "bfloat16"}, {"value_size": 1e97, "stored": "bfloat16"}, {"logit_size": 1e158}


@pytest.mark.parametrize("change", LARGE, ids=str)
@pytest.mark.parametrize("name", ["certify", "observe", "local_lipschitz", "head_norms", "largest_singular_value"])
def test_weights_that_their_precision_does_not_hold_are_unknown_for_a_reason_and_not_by_an_accident(name, change):
    """Found by the campaign (seed 52000353): infinite weights have no exact value, and products may have no float."""
    checked = check(replace(SMALL, function=name, judged="exact", attack="move", **change))
    assert checked.unknown
    assert not any("Error" in reason for reason in checked.unknown)
    assert not checked.violations


def test_what_fails_on_the_way_is_unknown_not_sound(monkeypatch):
    def failing(*_, **__):
        raise RuntimeError("no\nconvergence")

    monkeypatch.setattr(recorded, "attack_records", failing)
    checked = check(SMALL)
    assert checked.comparisons == ()
    assert checked.unknown == ("RuntimeError: no convergence",)


def test_comparisons_follow_the_rule_of_verdicts():
    assert not Comparison("b", 0, 1.0 + 1e-9, 1e-8, 1.0).violated
    assert Comparison("b", 0, 1.0 + 1e-7, 1e-8, 1.0).violated
    assert Comparison("b", 0, math.nextafter(1.0, 2.0), 0.0, 1.0, exact=True).violated
    assert Comparison("b", 0, 0.5, 0.0, 1.0).approach == 0.5
    assert Comparison("b", 0, 1e-3, 0.0, 0.0).approach == math.inf
    assert Comparison("b", 0, 1e-9, 1e-8, 0.0).approach == 0.0


def test_samples_are_put_together():
    first, second = Comparison("b", 0, 1.0, 0.0, 2.0), Comparison("b", 1, 1.0, 0.0, 2.0, exact=True)
    whole = together((Checked((first,), ("why",)), Checked((second,))))
    assert whole == Checked((first, second), ("why",))
    assert whole.exact == 1


def test_a_derivative_at_huge_logits_stays_below_the_exact_constant():
    """Seed 89 of the campaign: logits of 1e7, where weights that summed to one only up to 1e-9 gave 2.596 for 2.590."""
    checked = check(usual(89))
    assert any(comparison.bound == "local.closed_form" for comparison in checked.comparisons)
    assert checked.violations == ()


EXCEEDED = Comparison("planted", 2, 2.0, 0.0, 1.0)
LARGE = replace(usual(0), samples=(0, 1, 2, 3), tokens=11, width=5, groups=3, sharing=2, out=4, tolerance=None)


def violated_if(rule):
    return lambda case: Checked((EXCEEDED,) if rule(case) else ())


def test_what_does_not_matter_is_left_out():
    smallest, shown = shrunk(LARGE, EXCEEDED, check=violated_if(lambda case: case.tokens >= 3 and case.groups >= 2))
    assert (smallest.tokens, smallest.groups) == (3, 2)
    assert (smallest.width, smallest.sharing, smallest.out, smallest.head_width) == (1, 1, 1, 2)
    assert smallest.samples == (2,)
    assert (smallest.mask, smallest.rotary, smallest.weights, smallest.attack) == ("none", False, "normal", "linear")
    assert (smallest.radius, smallest.token_size, smallest.logit_size) == (1.0, 1.0, 1.0)
    assert shown == EXCEEDED


def test_a_case_that_is_violated_no_more_when_simpler_stays():
    assert shrunk(LARGE, EXCEEDED, check=violated_if(lambda case: case == LARGE)) == (LARGE, EXCEEDED)


def test_another_bound_does_not_count():
    other = Checked((replace(EXCEEDED, bound="other"),))
    assert shrunk(LARGE, EXCEEDED, check=lambda case: other)[0] == LARGE  # noqa: ARG005


def test_a_reproducer_is_read_back(tmp_path):
    path = tmp_path / "found.json"
    path.write_text(json.dumps(reproducer(Case(5), EXCEEDED, drawn_from=LARGE)))
    assert saved_case(path) == Case(5)


def test_a_reproducer_saved_before_there_were_other_functions_is_read(tmp_path):
    path = tmp_path / "old.json"
    old = {"seed": 5, "tokens": 3, "tolerance": 0.5, "samples": [0], "stored": "float32"}
    path.write_text(json.dumps({"schema": 1, "case": old, "bound": "certified_radius"}))
    assert saved_case(path) == Case(5, tokens=3, tolerance=0.5, stored="float32")
    assert saved_case(path).called == "certified_radii"


def test_new_kinds_are_made_simpler_too():
    far = replace(LARGE, function="certify", scale="negative", support="number", support_times=31.0, distance=500.0)
    smallest, _ = shrunk(far, EXCEEDED, check=violated_if(lambda case: case.support == "number"))
    assert (smallest.scale, smallest.support_times, smallest.distance) == ("usual", 1.0, 1.0)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"case": 3}', '{"case": {"seed": 1, "x": 2}}', "{", "\x00"])
def test_what_is_no_reproducer_is_refused(tmp_path, text):
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(UserError):
        saved_case(path)
    with pytest.raises(UserError, match="no reproducer"):
        saved_case(tmp_path / "missing.json")
