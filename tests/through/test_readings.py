"""Inputs one by one: rows keep their numbers, labels and lengths; images have labels where the data do."""

from robust_attn.data.settings import Digits, Prose, Rows
from robust_attn.models.digits import HELD_OUT, digit_images
from robust_attn.through.readings import readings, readings_of
from tests.through.cases import ids, image_classifier, text_classifier


def test_rows_are_read_as_they_are_and_cut_at_their_end(tmp_path):
    file = tmp_path / "rows.csv"
    file.write_text("said,kind\none two three four five six,1\nseven,0\neight nine,2\n")
    source = Rows(str(file), "said", "kind", first=1)
    first, second = readings_of(source, text_classifier(), tokens=5, samples=2)
    assert [(each.origin.sample, each.origin.row, each.origin.label) for each in (first, second)] == [
        (0, 1, 0),
        (1, 2, 2),
    ]
    assert (first.ids.tolist(), second.ids.tolist()) == (
        text_classifier().model.encode("seven"),
        text_classifier().model.encode("eight nine"),
    )
    (cut,) = readings_of(Rows(str(file), "said"), text_classifier(), tokens=4, samples=1)
    assert (len(cut.ids), cut.origin.cut, cut.origin.label) == (4, 2, None)


def test_windows_of_running_text_have_one_length_and_no_row():
    found = readings_of(Prose(), text_classifier(), tokens=7, samples=3)
    assert [len(each.ids) for each in found] == [7, 7, 7]
    assert [(each.origin.sample, each.origin.row) for each in found] == [(0, None), (1, None), (2, None)]


def test_digits_have_the_label_of_the_image():
    found = readings_of(Digits(), image_classifier(), tokens=1, samples=3)
    images, labels = digit_images()
    for each in found:
        assert each.ids is None
        same = (images[-HELD_OUT:] == each.batch.float()).flatten(1).all(1).nonzero()[:, 0]
        assert each.origin.label in labels[-HELD_OUT:][same].tolist()


def test_a_batch_sample_by_sample():
    found = readings(ids(2))
    assert [each.batch.shape for each in found] == [(1, 5), (1, 5)]
    assert [each.origin.sample for each in found] == [0, 1]
