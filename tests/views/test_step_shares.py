"""Which step ends a certificate."""

import pytest

from robust_attn.views.step_shares import STEPS_DRAWN, mean_shares, shares_panel, worst_step
from tests.records.samples import prediction_record


def test_shares_are_parts_of_what_is_taken_from_each_sample():
    """1 of 4 and 30 of 40 are a quarter and three quarters: half on the mean, whatever the margins are."""
    records = [
        prediction_record(0, shares={"first": 1.0, "layers.0.attention": 3.0}),
        prediction_record(1, shares={"first": 30.0, "layers.0.attention": 10.0}),
        prediction_record(2, shares={"first": None, "layers.0.attention": 1.0}),
        prediction_record(3),
    ]
    assert mean_shares(records) == {"first": 0.5, "layers.0.attention": 0.5}
    assert "mean over 2 predictions" in shares_panel(records).caption


def test_the_steps_that_take_most_are_drawn_in_the_order_of_the_model():
    shares = {f"layers.{n}.attention": float(n + 1) for n in range(STEPS_DRAWN + 3)}
    panel = shares_panel([prediction_record(shares=shares)])
    assert panel.categories == tuple(f"layers {n} attention" for n in range(3, STEPS_DRAWN + 3))
    assert panel.bars
    assert "3 more steps take 3.92 % together" in panel.caption
    assert sum(y for line in panel.lines.values() for _, y in line) == pytest.approx(1 - 6 / 153)


def test_the_worst_step_is_named():
    shares = {"first": 6.0, "second": 1.0, "layers.0.mlp": 1.0, "head": 2.0}
    assert worst_step([prediction_record(shares=shares)]) == "head (20.0 %)"
    assert worst_step([prediction_record(shares={"first": 1.0})]) is None
    assert worst_step([prediction_record()]) is None
    assert shares_panel([prediction_record()]) is None
    assert shares_panel([prediction_record(shares={"first": 0.0})]) is None
