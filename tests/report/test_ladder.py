import math

import pytest

from robust_attn.report.ladder import best_upper, ladder_of

from .sample_runs import bound, record


def test_rungs_climb_and_those_that_do_not_apply_come_last() -> None:
    ladder = ladder_of(record())
    known = [rung.log10 for rung in ladder if rung.log10 is not None]
    assert known == sorted(known)
    assert ladder[-1].name == "paper.mean_field_masked"
    assert ladder[-1].why_not == "the layer has no causal mask"
    assert [rung.name for rung in ladder if rung.certifies] == ["local.second_order"]


def test_a_bound_known_by_its_logarithm_alone_is_put_on_the_scale_of_output_changes() -> None:
    rung = next(rung for rung in ladder_of(record()) if rung.name == "paper.mean_field")
    assert rung.log10 == pytest.approx(312.4 + math.log10(0.01))


def test_logarithms_that_already_are_output_changes_are_taken_as_such() -> None:
    bounds = [bound("a", 100.0, "local", log10=2.0), bound("b", None, "local", log10=400.0)]
    assert ladder_of(record(bounds=bounds))[-1].log10 == pytest.approx(400.0)


def test_the_paper_is_represented_by_its_smallest_upper_bound() -> None:
    rung = best_upper(ladder_of(record()), prefix="paper.")
    assert rung is not None
    assert rung.name == "paper.discrete"


@pytest.mark.parametrize("bounds", [None, [], "x", [None, 3], [{}], [{"name": "a", "output_change": None}]])
def test_missing_and_odd_bounds_are_survived(bounds: object) -> None:
    assert all(rung.log10 is None for rung in ladder_of(record(bounds=bounds)))
