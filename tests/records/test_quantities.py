"""Numbers of records by name, and places in words."""

from robust_attn.records.quantities import compared_numbers, place_of
from tests.records.samples import attack_record, certify_record, constant_record, prediction_record, search_record


def test_the_numbers_by_which_runs_are_compared():
    prediction = prediction_record(certified_radius={"all": 0.001, "one_word": None})
    assert compared_numbers(prediction) == {
        "certified_radius.all": 0.001,
        "flip_radius.move": 0.062,
        "flip_radius.split": 1.6e-5,
        "margin": 4.7,
    }
    attacked = compared_numbers(attack_record())
    assert attacked["output_change.observed"] == 0.15
    assert attacked["output_change.certified"] == 0.2
    assert attacked["tightness"] == 0.15 / 0.2
    assert attacked["gain"] == 0.15 / 0.01
    assert (attacked["lipschitz.lower"], attacked["lipschitz.upper"]) == (18.0, 19.0)
    assert compared_numbers(certify_record())["certified_radius"] == 0.005
    assert "gain" not in compared_numbers(certify_record())
    assert set(compared_numbers(constant_record())) == {"lipschitz.lower", "lipschitz.upper"}
    assert compared_numbers(search_record())["tightness"] == 6 / 28


def test_a_place_is_told_by_row_where_there_are_rows():
    assert place_of(attack_record(3, 1)) == "layer 3, sample 1"
    assert place_of(certify_record(3, 2, 1)) == "layer 3, head 2, sample 1"
    assert place_of(prediction_record(4)) == "sample 4"
    assert place_of(prediction_record(4, row=17)) == "row 17"
