"""Two runs side by side, as a reader meets them."""

import csv

import pytest

from robust_attn.types import UserError, Verdict
from robust_attn.views.pairs import comparison_of, pairs_csv, pairs_notes, pairs_view
from tests.records.samples import attack_record, prediction_record

from .runs import run_of


def flips(*radii: float, first: int = 0, **fields: object):
    records = (prediction_record(n, row=n, flip_radius={"move": r}, **fields) for n, r in enumerate(radii, first))
    return run_of(*records, config={"model": {"name": "injection", "weights": "auto"}})


def shown(view, name: str) -> list[list[str]]:
    return [[cell.shown for cell in row] for table in view.every_table if table.name == name for row in table.rows]


def test_a_difference_that_every_sample_shows_is_told_with_its_interval():
    view = pairs_view(comparison_of(flips(0.1, 0.2, 0.3, 0.4), flips(0.2, 0.31, 0.4, 0.51)))
    assert view.statement.headline.title == "1 of 2 quantities differ"
    row = dict(zip([c.title for c in view.tables[0].columns], shown(view, "difference-table")[0], strict=True))
    assert (row["Quantity"], row["Pairs"], row["B\u00a0−\u00a0A"], row["More"]) == (
        "flip_radius.move",
        "4",
        "+0.105",
        "4",
    )
    assert row["Interval"] == "+0.1 to +0.11"
    assert row["Differs"] == "yes"
    assert "flip_radius.move: +0.105 on average" in view.statement.promises[0]
    assert "B has more" in view.statement.promises[0]
    assert "seed 0" in view.tables[0].note
    assert shown(view, "difference-table")[1][-1] == "the same"


def test_a_difference_that_changes_its_sign_is_not_told():
    view = pairs_view(comparison_of(flips(0.1, 0.2, 0.3, 0.4), flips(0.2, 0.1, 0.5, 0.3)))
    assert view.statement.headline.title == "No difference can be told"
    assert "cannot be told from no difference" in view.statement.promises[0]


def test_unpaired_samples_are_counted_and_named():
    view = pairs_view(comparison_of(flips(0.1, 0.2, 0.3), flips(0.2, 0.3, 0.4, first=1)))
    assert shown(view, "unpaired-table") == [["A", "row 0"], ["B", "row 3"]]
    assert [tile.number for tile in view.tiles[:3]] == ["2", "1", "1"]


def test_settings_that_differ_are_listed_and_no_others():
    other = flips(0.2)
    other.config["model"]["weights"] = "hardened"
    other.config["tracker"] = {"name": "none"}
    view = pairs_view(comparison_of(flips(0.1), other))
    assert shown(view, "settings-table") == [["model.weights", "auto", "hardened"]]
    same = pairs_view(comparison_of(flips(0.1), flips(0.1)))
    assert shown(same, "settings-table") == []


def test_every_pair_is_in_the_table_in_the_file_and_in_a_figure():
    compared = comparison_of(flips(0.3, 0.1), flips(0.25, 0.2))
    view = pairs_view(compared)
    assert shown(view, "pairs-table")[:2] == [
        ["row 0", "flip_radius.move", "0.3", "0.25", "−0.05"], ["row 1", "flip_radius.move", "0.1", "0.2", "+0.1"],
    ]  # fmt: skip
    rows = list(csv.DictReader(pairs_csv(compared).splitlines()))
    assert [(row["place"], float(row["a"]), float(row["b"])) for row in rows[:2]] == [
        ("row 0", 0.3, 0.25),
        ("row 1", 0.1, 0.2),
    ]
    assert view.panels[0].categories == ("row 1", "row 0")
    assert view.panels[0].lines["B"] == ((0.0, 0.2), (1.0, 0.25))


def test_what_makes_a_comparison_doubtful_is_said_first():
    other = flips(0.2, text="another text", verdict=Verdict.VIOLATED)
    notes = pairs_notes(comparison_of(flips(0.1), other))
    assert any("1 certificate of this run did not hold" in note and note.startswith("B: ") for note in notes)
    assert any("1 pair read different inputs" in note and "row 0" in note for note in notes)
    assert pairs_notes(comparison_of(flips(0.1), flips(0.1))) == ()


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (run_of(attack_record()), "(prediction) has a number that one of run (attack) has too"),
        (flips(0.1, first=5), "for the same row or sample"),
        (run_of(), "no readable record"),
    ],
)
def test_runs_without_anything_in_common_are_one_sentence(other, words):
    with pytest.raises(UserError) as caught:
        comparison_of(flips(0.1), other)
    assert words in str(caught.value)
