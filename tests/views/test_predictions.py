"""Flips: how many, how near, what is promised."""

from dataclasses import replace

import pytest

from robust_attn.records.parts import Attacked, BudgetPart, Scale
from robust_attn.types import Verdict
from robust_attn.views.predictions import predictions_view, smallest_radii, was_flipped
from robust_attn.views.view import Tone
from tests.records.samples import layer_record, prediction_record

from .runs import run_of

KEPT = Attacked(predicted=0, margin=1.0, flipped=False)


def kept(sample: int = 0, **fields: object):
    return prediction_record(sample, attacked=KEPT, flip_radius={"move": None}, **fields)


def headline(*records):
    return predictions_view(run_of(*records)).statement.headline


def test_flipped_predictions_are_counted_with_the_nearest_flip_by_moving_and_by_splitting():
    found = headline(prediction_record(0), prediction_record(1, flip_radius={"move": 0.05, "split": 2e-5}), kept(2))
    assert found.tone is Tone.FLIPPED
    assert found.title == "2 of 3 predictions were flipped"
    assert "0.0500 by moving tokens" in found.detail
    assert "1.60·10⁻⁵ by splitting tokens" in found.detail
    assert "splitting needs 3130 times less" in found.detail


def test_radii_are_told_as_shares_of_the_tokens():
    """A flip at 0.5 of tokens of norm 10 moves them by 5 %; 0.02 is certified: 0.2 %."""
    certified = {"all": 0.02}
    near = kept(0, scale=Scale(tokens=10.0), certified_radius=certified, verdict=Verdict.HOLDS)
    said = predictions_view(run_of(replace(near, flip_radius={"move": 0.5}))).statement.scale
    assert said == (
        "In the same norm the embedded tokens measure 10. Nearest flips found, as shares of that: 5.00 % by moving "
        "tokens. Certified: at least 0.200 % of it."
    )
    assert predictions_view(run_of(kept())).statement.scale == ""


def test_without_a_certificate_nothing_is_promised_whether_the_attack_succeeds_or_not():
    for record in (prediction_record(), kept()):
        promise = predictions_view(run_of(record)).statement.promises[0]
        assert promise.startswith("Nothing is promised about this prediction")
    assert headline(kept()).tone is Tone.MEASURED
    assert headline(kept()).title == "No prediction was flipped"


@pytest.mark.parametrize(("radius", "tone"), [(0.06, Tone.HOLDS), (0.04, Tone.MEASURED), (None, Tone.MEASURED)])
def test_only_a_certificate_for_the_whole_budget_is_a_success(radius, tone):
    record = kept(certified_radius={"all": radius}, verdict=Verdict.HOLDS, failure_probability=1e-6)
    view = predictions_view(run_of(record))
    assert view.statement.headline.tone is tone
    if radius is not None:
        assert f"{radius:.4f} (all)" in view.statement.promises[0]
        assert "1 in 1 million" in view.statement.confidence


def test_in_short_what_is_proved_what_was_found_and_that_the_rest_is_unknown():
    proved = [
        kept(n, certified_radius={"all": radius, "one_word": 9.0, "smoothing": 9.0}, verdict=Verdict.HOLDS)
        for n, radius in enumerate((0.003, 0.002))
    ]
    both = [replace(record, flip_radius={"move": 0.3, "split": 1e-5}) for record in proved]
    assert headline(*both).detail == (
        "Proved: no motion of tokens up to 0.00200 flips any of the 2 predictions. Found: flips from 0.300 by moving "
        "tokens, 1.00·10⁻⁵ by splitting tokens, which no proof covers: splitting needs 30\u202f000 times less. "
        "What lies between is unknown. Radii: root mean square over the tokens."
    )
    assert headline(*both).title == "No prediction was flipped within the budget"
    alone = headline(proved[0], kept(5, certified_radius={"all": None}))
    assert alone.detail.startswith("Proved: no motion of tokens up to 0.00300 flips 1 of 2 predictions. Found: no flip")
    assert headline(kept()).detail == "Proved: nothing. Found: no flip, though a stronger attack may find one."


@pytest.mark.parametrize("name", ["one_word", "smoothing"])
def test_a_proof_about_one_word_or_about_the_smoothed_classifier_is_none_for_the_budget(name):
    record = kept(certified_radius={name: 1.0}, verdict=Verdict.HOLDS, failure_probability=1e-6)
    assert headline(record).tone is Tone.MEASURED
    assert headline(record).detail.startswith("Proved: nothing.")
    promise = predictions_view(run_of(record)).statement.promises[0]
    assert promise.startswith("Nothing is promised") == (name == "smoothing")


def test_a_split_that_flips_within_the_budget_leaves_no_success_to_a_proof_about_motion():
    record = kept(certified_radius={"all": 0.06}, verdict=Verdict.HOLDS)
    assert headline(record).tone is Tone.HOLDS
    assert headline(replace(record, flip_radius={"split": 0.01})).tone is Tone.MEASURED


def test_the_page_leads_with_accuracy_and_names_the_step_that_ends_the_certificate():
    record = kept(certified_radius={"all": 0.01}, shares={"first": 1.0, "layers.3.mlp": 4.0}, verdict=Verdict.HOLDS)
    view = predictions_view(run_of(record))
    assert [panel.name for panel in view.panels][:2] == ["accuracy-any-tokens", "shares"]
    assert view.leading == 1
    said = "The step whose error takes most of the margin: layers 3 mlp (80.0 %) of all that is taken."
    assert said in view.statement.promises
    assert list(view.files) == ["predictions.csv"]


def test_predictions_are_told_from_the_least_certain_on():
    records = [kept(n, row=n, certified_radius={"all": radius}) for n, radius in enumerate((0.3, 0.1, 0.2))]
    table = predictions_view(run_of(*records)).tables[0]
    assert table.columns[0].title == "Row"
    assert [row[0].shown for row in table.rows] == ["1", "2", "0"]
    assert table.rest == "predictions.csv"


def test_a_flip_nearer_than_certified_is_a_broken_promise():
    found = headline(prediction_record(certified_radius={"all": 1.0}, verdict=Verdict.VIOLATED))
    assert (found.tone, found.title) == (Tone.VIOLATED, "A certified prediction was flipped")


def test_an_attack_that_was_not_tried_is_judged_by_the_search():
    assert was_flipped(prediction_record(attacked=None))
    assert not was_flipped(prediction_record(attacked=None, flip_radius={}))


def test_the_table_has_a_column_for_every_way_and_every_certificate():
    records = [prediction_record(), prediction_record(1, certified_radius={"one_word": 0.001}, verdict=Verdict.HOLDS)]
    table = predictions_view(run_of(*records)).tables[0]
    titles = [column.title for column in table.columns]
    assert {"Flips by moving at", "Flips by splitting at", "Certified (one word)", "Verdict"} <= set(titles)
    assert "1 FLIPPED" in [cell.shown for cell in table.rows[0]]
    assert "Label" not in titles
    labelled = predictions_view(run_of(prediction_record(label=1, row=7))).tables[0]
    assert [cell.shown for cell in labelled.rows[0]][:2] == ["7", "1"]


def test_the_way_through_the_layers_is_told():
    view = predictions_view(run_of(prediction_record(), layer_record(0), layer_record(1, verdict=Verdict.HOLDS)))
    assert "no layer moved its output further than certified" in view.statement.promises[1]
    assert "no better than the trivial limit in 1 of 2 checks" in view.statement.promises[1]
    assert view.tables[1].name == "way-table"


def test_the_figure_compares_every_way_with_the_budget():
    records = [prediction_record(n, budget=BudgetPart(kind="wasserstein", radius=0.05)) for n in range(2)]
    accuracy, panel = predictions_view(run_of(*records)).panels
    assert accuracy.name == "accuracy-any-tokens"
    assert (panel.name, panel.level, panel.categories) == ("flips", 0.05, ("sample 0", "sample 1"))
    assert list(panel.lines) == ["flips by moving tokens", "flips by splitting tokens"]


def test_radii_that_are_not_known_are_left_out():
    assert smallest_radii([kept(), prediction_record()], lambda r: r.flip_radius) == {"move": 0.062, "split": 1.6e-5}


def test_long_texts_do_not_swell_the_page():
    view = predictions_view(run_of(*(replace(prediction_record(n), text="word " * 9999) for n in range(40))))
    (texts,) = [table for table in view.details if table.name == "text-table"]
    assert len(texts.rows) < 10
    assert max(len(cell.shown) for row in texts.rows for cell in row) <= 400


def test_without_an_attack_within_a_budget_no_budget_is_spoken_of():
    record = prediction_record(attacked=None, attack="none", certified_radius={"smoothing": 0.02})
    view = predictions_view(run_of(record))
    assert view.tiles[0].meaning == "predictions, at some radius"
    assert "attack" not in view.tables[0].note
    (flips,) = [panel for panel in view.panels if panel.name == "flips"]
    assert flips.level is None
    assert "budget of the attack" not in flips.caption
    assert view.statement.confidence == ""  # what smoothing promises is about another classifier
    attacked = predictions_view(run_of(prediction_record()))
    assert attacked.tiles[0].meaning == "predictions, within wasserstein 0.05"
    assert "within wasserstein 0.05" in attacked.tables[0].note


def test_the_certified_share_of_the_nearest_flip_is_told_row_by_row_and_as_a_median():
    records = [
        prediction_record(n, certified_radius={"all": radius}, flip_radius={"move": 0.5}, verdict=Verdict.HOLDS)
        for n, radius in enumerate((0.001, 0.005, 0.02))
    ]
    view = predictions_view(run_of(*records, prediction_record(3, flip_radius={"move": None})))
    (tile,) = [tile for tile in view.tiles if tile.label == "Certified / flip"]
    assert (tile.number, tile.meaning) == ("1.00 %", "median over 3 predictions")
    place = [column.title for column in view.tables[0].columns].index("Certified / flip")
    assert [row[place].shown for row in view.tables[0].rows] == ["—", "0.200 %", "1.00 %", "4.00 %"]
