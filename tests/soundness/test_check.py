import math
from dataclasses import replace

from robust_attn.soundness import check as module
from robust_attn.soundness.case import Case, drawn
from robust_attn.soundness.check import CERTIFICATE, RADIUS, Comparison, check

SMALL = Case(1, attack="linear", tokens=3, width=2, out=2, radius=0.1)
ONE_TOKEN = replace(SMALL, attack="move", tokens=1)


def test_every_bound_is_compared_by_itself():
    names = {comparison.bound for comparison in check(SMALL).comparisons}
    assert {CERTIFICATE, "local.ball", "local.hull", "local.second_order", "local.second_order_deterministic"} <= names
    assert {"local.closed_form", "local.block_norm", "sharp.unified", "paper.discrete"} <= names
    assert {"split.hull", "split.local", "split.mean_field"} <= names
    assert not check(SMALL).violations


def test_one_token_is_an_affine_map_for_which_bounds_are_exact():
    closest = {comparison.bound: comparison.approach for comparison in check(ONE_TOKEN).comparisons}
    for name in (CERTIFICATE, "local.hull", "local.second_order", "local.second_order_deterministic"):
        assert 0.999 < closest[name] <= 1


def test_a_certified_radius_is_attacked():
    (found,) = check(replace(ONE_TOKEN, tolerance=0.5)).comparisons
    assert found.bound == RADIUS
    assert 0.99 < found.approach <= 1


def test_values_that_overflow_are_unknown():
    assert "finite" in check(replace(SMALL, value_size=1e200, token_size=1e200)).unknown[0]


def test_what_fails_on_the_way_is_unknown_not_sound(monkeypatch):
    def failing(*_, **__):
        raise RuntimeError("no\nconvergence")

    monkeypatch.setattr(module, "attack_records", failing)
    checked = check(SMALL)
    assert checked.comparisons == ()
    assert checked.unknown == ("RuntimeError: no convergence",)


def test_comparisons_follow_the_rule_of_verdicts():
    assert not Comparison("b", 0, 1.0 + 1e-9, 1e-8, 1.0).violated
    assert Comparison("b", 0, 1.0 + 1e-7, 1e-8, 1.0).violated
    assert Comparison("b", 0, 0.5, 0.0, 1.0).approach == 0.5
    assert Comparison("b", 0, 1e-3, 0.0, 0.0).approach == math.inf
    assert Comparison("b", 0, 1e-9, 1e-8, 0.0).approach == 0.0


def test_a_derivative_at_huge_logits_stays_below_the_exact_constant():
    """Seed 89 of the campaign: logits of 1e7, where weights that summed to one only up to 1e-9 gave 2.596 for 2.590."""
    checked = check(drawn(89))
    assert any(comparison.bound == "local.closed_form" for comparison in checked.comparisons)
    assert checked.violations == ()
