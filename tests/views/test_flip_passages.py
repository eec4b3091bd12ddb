"""The nearest flips as text."""

from robust_attn.records.parts import FlipSearch, Motion, TypedFlip
from robust_attn.views.flip_passages import flip_passages, typed_table
from tests.records.samples import prediction_record


def moved(sample: int, radius: float | None, *rms: float, word: int | None = None, **fields: object):
    lists = {"rms": rms, "apart": (0.0,) * len(rms), "farthest": rms, "share": (1.0,) * len(rms)}
    motion = Motion(**lists, parts=(1,) * len(rms))
    radii = {"move": radius, "one_word": 0.3}
    return prediction_record(sample, flip_radius=radii, flip=FlipSearch(motion=motion, word=word), **fields)


def test_the_nearest_flips_come_first_with_their_words():
    near = moved(4, 0.01, 0.0, 0.2, word=1, row=9, spelled=("ignore", " all"))
    far = moved(5, 0.5, 0.1, 0.2, row=3)
    found = flip_passages([far, near])
    assert [passage.named for passage in found.every] == ["row 9", "row 3"]
    assert (found.whole, found.worded) == (True, True)
    assert [(token.text, token.strength) for token in found.every[0].tokens] == [("ignore", 0.0), ("all", 1.0)]
    assert found.every[0].attack == "flips at 0.0100 by moving all tokens, at 0.300 by moving “all” alone"
    assert [token.text for token in found.every[1].tokens] == ["0", "1"]
    assert [column.title for column in found.table.columns][:2] == ["Sample", "Place"]


def test_words_that_do_not_fit_the_motion_are_numbers():
    (passage,) = flip_passages([moved(0, 0.1, 0.1, 0.2, spelled=("only",))]).every
    assert [token.text for token in passage.tokens] == ["0", "1"]


def test_of_many_the_rest_is_counted_and_without_motion_there_is_nothing():
    assert flip_passages([moved(n, 0.1 + n, 0.1) for n in range(9)]).hidden == 3
    assert flip_passages([prediction_record()]) is None


def test_typed_flips_are_listed_where_they_were_looked_for():
    tried = prediction_record(row=2, typed=TypedFlip(edits=1, what=("repeat “all”",), text="all all", reads=40))
    (table,) = typed_table([prediction_record(), tried])
    assert [[cell.shown for cell in row] for row in table.rows] == [["row 2", "1", "repeat “all”", "all all", "40"]]
    assert typed_table([prediction_record()]) == ()
