from __future__ import annotations

import pytest
import torch

from robust_attn.data.prose import passages, prose
from robust_attn.data.rows import Origin, Row
from robust_attn.data.settings import Digits, Gaussian, HubText, ImageFolder, Prose, Rows, Sphere, TextFile
from robust_attn.data.source import expect_readable, read_groups, read_inputs, read_row
from robust_attn.types import UserError


def _inputs(source, model, *, layers=(0, 2), tokens=7, samples=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return read_inputs(source, model, layers=layers, tokens=tokens, samples=samples, generator=generator).measures


def test_prose_becomes_the_input_of_each_layer(bert):
    inputs = _inputs(Prose(), bert)
    assert set(inputs) == {0, 2}
    for measure in inputs.values():
        assert measure.points.shape == (3, 7, 24)
        assert measure.points.dtype is torch.float64
        assert measure.is_uniform
    assert torch.equal(inputs[2].points, _inputs(Prose(), bert, layers=[2])[2].points)
    assert not torch.equal(inputs[0].points[0], inputs[0].points[1])


def test_a_file_is_read_through_the_model(bert, tmp_path):
    text = " ".join(f"wörd{index}" for index in range(10))
    (tmp_path / "text.txt").write_text(text, encoding="utf-8")
    found = _inputs(TextFile(str(tmp_path / "text.txt")), bert, tokens=10, samples=1)[0]
    assert torch.equal(found.points[0], bert.tokens_at(0, text).points)
    with pytest.raises(UserError, match="has 10 tokens, but 3 samples of 7 tokens need 21"):
        _inputs(TextFile(str(tmp_path / "text.txt")), bert)


def test_the_tokens_of_a_text_are_spelled_in_the_order_of_the_samples(bert, tmp_path):
    (tmp_path / "text.txt").write_text("one two, <b>three</b>", encoding="utf-8")
    source, generator = TextFile(str(tmp_path / "text.txt")), torch.Generator()
    found = read_inputs(source, bert, layers=[0], tokens=5, samples=2, generator=generator)
    assert found.spelled == [["one", "two", ",", "<", "b"], [">", "three", "<", "/", "b"]]
    assert found.measures[0].points.shape == (2, 5, 24)
    assert torch.equal(found.measures[0].points, _inputs(source, bert, tokens=5, samples=2)[0].points)


@pytest.mark.parametrize("source", [Gaussian(), Sphere(1.0)])
def test_drawn_tokens_have_no_spelling(bert, source):
    found = read_inputs(source, bert, layers=[0], tokens=3, samples=1, generator=torch.Generator())
    assert found.spelled is None


def test_the_models_limit_is_said(bert):
    with pytest.raises(UserError, match="bert reads at most 512 tokens, got tokens=513"):
        _inputs(Prose(), bert, tokens=513)
    assert _inputs(Gaussian(), bert, tokens=513, samples=1)[0].length == 513


def test_text_and_images_are_not_mixed_up(bert, vit):
    for source in (Prose(), TextFile("any"), HubText("any"), Rows("any.csv")):
        with pytest.raises(UserError, match="vit reads images, not text"):
            _inputs(source, vit, layers=[0])
    for source in (Digits(), ImageFolder("any")):
        with pytest.raises(UserError, match="bert reads text, not images"):
            _inputs(source, bert)


def test_images_have_the_models_own_number_of_tokens(vit):
    assert _inputs(Digits(), vit, layers=[1], tokens=3)[1].points.shape == (3, 17, 24)


def test_gaussian_points_depend_on_the_seed_but_not_on_the_other_layers(bert):
    alone = _inputs(Gaussian(2.0), bert, layers=[2])[2].points
    assert torch.equal(alone, _inputs(Gaussian(2.0), bert, layers=[0, 1, 2])[2].points)
    assert torch.equal(alone, 2 * _inputs(Gaussian(), bert, layers=[2])[2].points)
    assert not torch.equal(alone, _inputs(Gaussian(2.0), bert, layers=[2], seed=1)[2].points)


def test_the_generator_moves_on(bert):
    generator = torch.Generator().manual_seed(0)
    asked = {"layers": [0], "tokens": 4, "samples": 1, "generator": generator}
    first, second = (read_inputs(Gaussian(), bert, **asked).measures[0].points for _ in range(2))
    assert not torch.equal(first, second)


def test_a_sphere_has_the_layers_radius_unless_told(bert):
    radius = bert.layer(2).input_radius
    assert float(_inputs(Sphere(), bert)[2].radius.max()) == pytest.approx(radius, rel=1e-12)
    assert float(_inputs(Sphere(0.5), bert)[2].radius.max()) == pytest.approx(0.5, rel=1e-12)


@pytest.mark.parametrize("source", [Prose(), Gaussian(), Sphere()])
def test_counts_and_layers_are_checked(source, bert):
    with pytest.raises(UserError, match="at least 1"):
        _inputs(source, bert, samples=0)
    with pytest.raises(UserError, match="its layers are 0 to 2"):
        _inputs(source, bert, layers=[3])


TABLE = "text,label\none two,0\none two three four five,LABEL_1\nthree,other\nfour five,1\n"


@pytest.fixture
def table(tmp_path):
    (tmp_path / "rows.csv").write_text(TABLE)
    return str(tmp_path / "rows.csv")


def _groups(source, model, *, tokens=5, samples=4, shown=0):
    asked = {"tokens": tokens, "samples": samples, "shown": shown, "generator": torch.Generator()}
    return read_groups(source, model, layers=[0, model.layers - 1], **asked)


def test_rows_of_equal_length_are_read_together_each_as_if_alone(reader, table):
    groups = _groups(Rows(table, label="label"), reader)
    assert [group.spelled for group in groups] == [
        [["[CLS]", "one", "two", "[SEP]"], ["[CLS]", "four", "five", "[SEP]"]],
        [["[CLS]", "one", "two", "three", "[SEP]"]],
        [["[CLS]", "three", "[SEP]"]],
    ]
    assert [group.origins for group in groups] == [
        (Origin(0, 0, 0, 0), Origin(3, 3, 1, 0)),
        (Origin(1, 1, 1, 2),),  # "four five" does not fit; the model calls its class 1 LABEL_1
        (Origin(2, 2, "other", 0),),
    ]
    texts = [row.split(",")[0] for row in TABLE.splitlines()[1:]]
    texts[1] = "one two three"
    for group in groups:
        for place, origin in enumerate(group.origins):
            alone = reader.tokens_at(2, texts[origin.row], special_tokens=True)
            torch.testing.assert_close(group.measures[2].sample(place).points, alone.points, rtol=0, atol=1e-12)
        assert group.measures[2].is_uniform  # nothing is padded


def test_rows_begin_at_the_first_one_asked_for_and_special_tokens_can_be_left_out(reader, table):
    (group, other) = _groups(Rows(table, first=2, special_tokens=False), reader, samples=2)
    assert (group.spelled, group.origins) == ([["three"]], (Origin(0, 2, None, 0),))
    assert (other.spelled, other.origins) == ([["four", "five"]], (Origin(1, 3, None, 0),))


def test_rows_that_were_looked_at_whole_do_not_come_again_with_more_room(reader, table):
    """Four tokens each but for row 1 with 7 and row 2 with 3: at length 4 all but row 1 are whole."""
    rows = [origin.row for group in _groups(Rows(table), reader, tokens=6, shown=4) for origin in group.origins]
    assert rows == [1]
    assert not _groups(Rows(table), reader, tokens=9, shown=7)
    assert len([origin for group in _groups(Rows(table), reader, tokens=3, shown=7) for origin in group.origins]) == 3


def test_rows_that_cannot_be_read_are_named(reader, table, tmp_path):
    with pytest.raises(UserError, match=r"rows\.csv has 4 rows, but 5 samples were asked for"):
        _groups(Rows(table), reader, samples=5)
    with pytest.raises(
        UserError, match=r"^tokens must be at least 3, because the tokenizer adds 2 special tokens .* got 2"
    ):
        _groups(Rows(table), reader, tokens=2)
    with pytest.raises(UserError, match="bert reads at most 512 tokens"):
        _groups(Rows(table), reader, tokens=600)
    (tmp_path / "odd.csv").write_text("text\none\n\x01\n")
    with pytest.raises(UserError, match="row 1 has no tokens"):
        _groups(Rows(str(tmp_path / "odd.csv")), reader, samples=2)


def test_a_row_knows_what_was_cut(reader):
    read = read_row(Row(7, "one two three four", "label_0"), reader, tokens=4)
    assert (read.index, read.ids, read.cut, read.label) == (7, (2, 5, 6, 3), 2, 0)
    assert read_row(Row(7, "one two"), reader, tokens=4, special_tokens=False).ids == (5, 6)


def test_files_by_a_pattern_are_one_sample_each(reader, tmp_path):
    for name, text in (("b.txt", "three"), ("a.txt", "one two"), ("c.md", "five")):
        (tmp_path / name).write_text(text)
    groups = _groups(TextFile(str(tmp_path / "*.txt")), reader, samples=2)
    assert [group.spelled for group in groups] == [[["[CLS]", "one", "two", "[SEP]"]], [["[CLS]", "three", "[SEP]"]]]
    assert [origin.row for group in groups for origin in group.origins] == [0, 1]
    with pytest.raises(UserError, match="has 2 rows, but 3 samples"):
        _groups(TextFile(str(tmp_path / "*.txt")), reader, samples=3)
    with pytest.raises(UserError, match=r"no file matches .*\*\.rst"):
        _groups(TextFile(str(tmp_path / "*.rst")), reader)


def test_running_text_has_special_tokens_unless_they_are_left_out(reader, tmp_path):
    (tmp_path / "text.txt").write_text("one two three four")
    path = str(tmp_path / "text.txt")
    bare = _groups(TextFile(path, special_tokens=False), reader, tokens=2, samples=2)[0]
    whole = _groups(TextFile(path), reader, tokens=4, samples=2)[0]
    assert bare.spelled == [["one", "two"], ["three", "four"]]
    assert whole.spelled == [["[CLS]", "one", "two", "[SEP]"], ["[CLS]", "three", "four", "[SEP]"]]
    batch = torch.tensor([[2, 5, 6, 3], [2, 7, 8, 3]])
    assert torch.equal(whole.measures[0].points, reader.inputs_at([0], batch)[0].points)
    assert not bare.origins


def test_windows_of_prose_begin_with_a_paragraph_and_lie_between_special_tokens(reader, bert):
    (found,) = _groups(Prose(), reader, tokens=6, samples=3)
    assert all((each[0], each[-1], len(each)) == ("[CLS]", "[SEP]", 6) for each in found.spelled)
    (words,) = _groups(Prose(), bert, tokens=6, samples=3)  # random weights without a tokenizer: no special tokens
    beginnings = [passage.split()[0] for passage in passages(prose(), 3)]
    assert [each[0] for each in words.spelled] == beginnings


def test_more_prose_than_there_is_is_refused(bert):
    with pytest.raises(UserError, match=r"400 passages of prose have no 512 tokens each \(one has \d+\)"):
        _groups(Prose(), bert, tokens=512, samples=400)


def test_an_image_of_a_folder_is_a_row_with_its_sub_folder_as_label(vit, tmp_path):
    from PIL import Image

    for place in ("LABEL_1/b.png", "LABEL_1/a.png", "other/c.png"):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        Image.new("L", (8, 8), 255 if "a" in place.split("/")[1] else 0).save(tmp_path / place)
    (group,) = _groups(ImageFolder(str(tmp_path)), vit, samples=3)[:1]
    assert group.origins == (Origin(0, 0, 1), Origin(1, 1, 1), Origin(2, 2, "other"))
    points = group.measures[0].points
    assert torch.equal(points[1], points[2])
    assert not torch.equal(points[0], points[1])


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (lambda folder: Rows(f"{folder}/none.csv"), r"there is no file .*none\.csv"),
        (lambda folder: Rows(f"{folder}/rows.csv", text="words"), "no column 'words'; its columns are text"),
        (lambda folder: Rows(f"{folder}/rows.csv"), "has 1 rows, but 2 samples were asked for"),
        (lambda folder: TextFile(f"{folder}/none.txt"), r"none\.txt"),
        (lambda folder: ImageFolder(f"{folder}/none"), "folder of images .* cannot be read"),
    ],
    ids=["no file", "no column", "too few", "no text", "no images"],
)
def test_data_that_cannot_be_read_are_told_of_without_a_model(source, words, tmp_path):
    (tmp_path / "rows.csv").write_text("text\none two\n")
    with pytest.raises(UserError, match=words):
        expect_readable(source(tmp_path), 2)


def test_what_is_there_or_drawn_is_readable(tmp_path):
    (tmp_path / "rows.csv").write_text("text\none two\n")
    for source in (Rows(str(tmp_path / "rows.csv")), Prose(), Gaussian(), Digits(), HubText("any")):
        expect_readable(source, 1)
