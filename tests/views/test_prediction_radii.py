"""Which radii speak of the same thing, and the file of all of them."""

import csv

from robust_attn.types import Verdict
from robust_attn.views.prediction_radii import least_certain_first, predictions_csv, proved_radius
from tests.records.samples import prediction_record


def test_only_what_holds_for_any_tokens_of_this_classifier_is_proved():
    assert proved_radius(prediction_record(certified_radius={"one_word": 0.5, "smoothing": 0.4})) is None
    radii = {"all": 0.01, "interval": 0.02, "product": None, "one_word": 0.5, "smoothing": 0.4}
    assert proved_radius(prediction_record(certified_radius=radii)) == 0.02


def test_the_least_certain_come_first():
    records = [
        prediction_record(0, certified_radius={"all": 0.02}),
        prediction_record(1, certified_radius={"all": 0.01}, flip_radius={"move": None}),
        prediction_record(2, certified_radius={"all": 0.01}, flip_radius={"move": 0.2}),
        prediction_record(3, certified_radius={}),
    ]
    assert [record.sample for record in least_certain_first(records)] == [3, 2, 1, 0]


def test_the_file_has_every_digit_and_no_text():
    radius = 0.1 + 0.2
    records = [
        prediction_record(0, row=5, label=1, flip_radius={"move": radius}, verdict=Verdict.HOLDS, text="=cmd()"),
        prediction_record(1, certified_radius={"all": 1e-17}),
    ]
    first, second = csv.DictReader(predictions_csv(records).splitlines())
    assert (first["row"], first["label"], first["verdict"]) == ("5", "1", "HOLDS")
    assert float(first["flip_radius.move"]) == radius
    assert (first["flip_radius.split"], first["certified_radius.all"]) == ("", "")
    assert float(second["certified_radius.all"]) == 1e-17
    assert "cmd" not in predictions_csv(records)
