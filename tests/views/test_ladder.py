"""Bounds from the smallest to the largest; what bounds nothing here stands apart."""

import math

import pytest

from robust_attn.records.parts import BoundPart
from robust_attn.types import Scope, Side
from robust_attn.views.ladder import ladder_of, ladder_panel, ladder_table, paper_log10
from robust_attn.views.panel import Role
from tests.records.samples import attack_record, search_record


def test_rungs_climb_then_come_those_at_the_tokens_then_those_that_do_not_apply():
    ladder = ladder_of(attack_record())
    assert [rung.bound.name for rung in ladder] == [
        "local.second_order",
        "sharp.unified",
        "local.hull",
        "paper.discrete",
        "paper.mean_field",
        "local.closed_form",
        "paper.discrete_lower",
    ]
    assert [rung.role for rung in ladder][:2] == [Role.CERTIFIED, Role.BOUND]
    assert ladder[5].role is Role.TANGENT
    assert ladder[6].why_not == "it is stated for V = I"


def test_a_value_at_the_tokens_is_never_shown_as_an_upper_bound():
    """In a budget the output may move further than a constant at the tokens times the radius."""
    ladder = ladder_of(attack_record(change=0.6))
    table = ladder_table("t", "t", ladder, "Output change", "")
    (row,) = [row for row in table.rows if row[0].shown == "local.closed_form"]
    assert "no bound" in row[1].shown
    assert not row[3].shown.startswith("≤")
    panel = ladder_panel("p", "p", ladder, "change", 0.6)
    assert panel.look("local.closed_form").role is Role.TANGENT
    assert all("≤" in row[3].shown for row in table.rows if row[0].shown.startswith("sharp"))


def test_a_bound_known_by_its_logarithm_alone_is_put_on_the_scale_of_output_changes():
    (rung,) = [rung for rung in ladder_of(attack_record()) if rung.bound.name == "paper.mean_field"]
    assert rung.log10 == pytest.approx(498.0)
    alone = attack_record(bounds=(BoundPart(name="a", log10=400.0),))
    assert ladder_of(alone)[0].log10 == pytest.approx(400.0 + math.log10(0.01))


def test_the_gains_of_a_ball_need_no_scale():
    ladder = ladder_of(search_record(bounds=(BoundPart(name="sharp.unified", log10=2.0),)))
    assert ladder[0].log10 == 2.0
    assert ladder[0].promises


def test_the_paper_is_represented_by_its_smallest_upper_bound():
    assert paper_log10(attack_record()) == pytest.approx(2.0)
    assert paper_log10(attack_record(bounds=())) is None


def test_bounds_that_are_zero_negative_or_unknown_are_survived():
    bounds = (
        BoundPart(name="zero", output_change=0.0),
        BoundPart(name="negative", output_change=-1.0),
        BoundPart(name="unknown", scope=Scope.BALL),
    )
    ladder = ladder_of(attack_record(bounds=bounds))
    assert [rung.log10 for rung in ladder] == [-math.inf, None, None]
    assert ladder_panel("p", "p", ladder, "change", None) is None
    assert len(ladder_table("t", "t", ladder, "change", "").rows) == 3


def test_lower_bounds_are_rounded_down():
    below = BoundPart(name="paper.discrete_lower", side=Side.LOWER, output_change=1.2345)
    (rung,) = ladder_of(attack_record(bounds=(below,)))
    assert (rung.role, rung.shown) == (Role.LOWER, "≥ 1.23")
