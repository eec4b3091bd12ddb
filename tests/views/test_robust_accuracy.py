"""Accuracy against radius: what counts as right, and that no curve promises more than its records."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robust_attn.records.parts import SmoothedPart
from robust_attn.views.panel import Role
from robust_attn.views.robust_accuracy import accuracies, accuracy_panel, accuracy_table, told_radii
from tests.records.samples import prediction_record

RADII = st.none() | st.floats(1e-6, 10.0)


def record(sample: int = 0, *, move: float | None = 0.1, proved: float | None = 0.01, **fields: object):
    radii = {"flip_radius": {"move": move}, "certified_radius": {"all": proved}}
    return prediction_record(sample, **(radii | fields))


def curve(records, name: str, title: str = "any tokens"):
    (found,) = [part for part in accuracies(records) if part.title == title]
    return next(each for each in found.curves if each.name == name)


def test_curves_by_hand():
    """Three samples, one of them wrong from the start: two thirds are right, and fall at their own radii."""
    records = [
        record(0, label=0, move=0.1, proved=0.01),
        record(1, label=0, move=None, proved=None),
        record(2, label=1, move=0.5, proved=0.2),
    ]
    clean, attacked, proved = (curve(records, name) for name in ("clean", "under attack (moving)", "certified"))
    assert [clean.at(radius) for radius in (0.0, 10.0)] == [2 / 3, 2 / 3]
    assert [attacked.at(radius) for radius in (0.0, 0.099, 0.1, 10.0)] == [2 / 3, 2 / 3, 1 / 3, 1 / 3]
    assert [proved.at(radius) for radius in (0.0, 0.009, 0.01)] == [1 / 3, 1 / 3, 0.0]


def test_labels_count_where_every_sample_has_one_and_it_is_said_which():
    labelled = [record(0, label=1), record(1, label=0)]
    assert accuracies(labelled)[0].against == "the labels of the data"
    assert curve(labelled, "clean").at(0.0) == 0.5
    own = [record(0), record(1)]
    assert accuracies(own)[0].against == "the model's own predictions"
    assert curve(own, "clean").at(0.0) == 1.0
    mixed = [record(0, label=1), record(1)]
    assert accuracies(mixed)[0].against.endswith("because not every sample has a label")
    assert curve(mixed, "clean").at(0.0) == 1.0
    assert "the labels of the data" in accuracy_panel(accuracies(labelled)[0]).caption


@given(st.lists(st.tuples(RADII, RADII, st.sampled_from([None, 0, 1])), min_size=1, max_size=8), st.floats(0, 12))
def test_no_curve_says_more_than_its_records_and_none_rises(samples, radius):
    records = [record(n, move=move, proved=proved, label=label) for n, (move, proved, label) in enumerate(samples)]
    for found in accuracies(records):
        for each in found.curves:
            values = [each.at(place) for place in sorted((0.0, radius, *found.radii))]
            assert all(later <= earlier for earlier, later in pairwise(values))
            assert each.at(radius) <= curve(records, "clean").at(0.0)
        for each in (one for one in found.curves if one.look.role is Role.CERTIFIED):
            promised = sum((one.certified_radius["all"] or 0.0) >= radius for one in records) / len(records)
            assert each.at(radius) <= promised


@given(st.lists(st.tuples(st.floats(1e-5, 1.0), st.floats(1e-5, 1.0)), min_size=1, max_size=6))
def test_steps_as_they_are_drawn_never_exceed_the_certificate(samples):
    """A step keeps its value up to the next place: anywhere in between at least as many are certified."""
    records = [record(n, move=move, proved=proved) for n, (move, proved) in enumerate(samples)]
    panel = accuracy_panel(accuracies(records)[0])
    assert panel.steps
    for (place, share), (after, _) in pairwise(panel.lines["certified"]):
        for radius in (place, math.nextafter(after, 0.0)):
            assert share <= sum((one.certified_radius["all"] or 0.0) >= radius for one in records) / len(records)


def test_one_word_and_smoothing_are_kept_apart():
    smooth = SmoothedPart(label=1, sigma=0.1, samples=100, failure_probability=0.001)
    radii = {"all": 0.01, "one_word": 0.05, "smoothing": 0.02}
    records = [prediction_record(flip_radius={"move": 0.1, "one_word": 0.3}, certified_radius=radii, smoothed=smooth)]
    any_tokens, one_word = accuracies(records)
    assert [each.name for each in any_tokens.curves] == [
        "clean", "under attack (moving)", "certified", "certified, smoothed classifier",
    ]  # fmt: skip
    assert [each.name for each in one_word.curves] == ["clean", "under attack (one word)", "certified"]
    assert any_tokens.curves[-1].at(0.0) == 0.0  # the smoothed classifier gives class 1, this one class 0
    assert "another classifier" in accuracy_panel(any_tokens).caption
    assert "noise 0.1" in accuracy_panel(any_tokens).caption
    assert "another classifier" not in accuracy_panel(one_word).caption


def test_a_baseline_far_to_the_left_is_told_and_not_drawn():
    records = [record(certified_radius={"all": 0.01, "product": 1e-9, "interval": 0.008})]
    panel = accuracy_panel(accuracies(records)[0])
    assert "certified by intervals" in panel.lines
    assert "certified by products" not in panel.lines
    assert "“certified by products” ends at 1.00·10⁻⁹" in panel.caption


def test_without_any_radius_there_is_no_picture():
    assert accuracies([]) == ()
    assert accuracies([record(move=None, proved=None)]) == ()


def test_the_table_begins_at_nothing_and_has_round_radii():
    table = accuracy_table(accuracies([record()])[0])
    assert [row[0].shown for row in table.rows] == ["0", "0.01", "0.03", "0.1"]
    assert [cell.shown for cell in table.rows[1]][1:] == ["100 %", "100 %", "0 %"]


@pytest.mark.parametrize("radii", [(1e-9, 1.0), (0.5,), (0.01, 0.02), (1e-300, 1e300)])
def test_told_radii_are_few_and_span_the_range(radii):
    told = told_radii(radii)
    assert 1 <= len(told) <= 9
    assert list(told) == sorted(told)
    assert told[0] > radii[0] / 4
