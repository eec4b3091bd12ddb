import dataclasses

import pytest
import torch

from robust_attn.data.source import Digits, Gaussian, ImageFolder, Prose, TextFile
from robust_attn.through.inputs import batch_of, ids_of
from robust_attn.types import UserError
from tests.through.cases import image_classifier, text_classifier


def test_text_is_cut_into_windows(tmp_path):
    (tmp_path / "text.txt").write_text("one two three four five six seven eight nine ten")
    batch = batch_of(TextFile(str(tmp_path / "text.txt")), text_classifier(), tokens=5, samples=2)
    assert batch.tolist() == [text_classifier().model.encode(half) for half in
                              ("one two three four five", "six seven eight nine ten")]  # fmt: skip
    assert batch_of(Prose(), text_classifier(), tokens=7, samples=3).shape == (3, 7)


class Tokenizer:
    def encode(self, text, *, add_special_tokens, **_):
        ids = [10 + len(word) for word in text.split()][:1000]
        return [1, *ids, 2] if add_special_tokens else ids


def framed_classifier():
    reader = text_classifier()
    return dataclasses.replace(reader, model=dataclasses.replace(reader.model, tokenizer=Tokenizer()))


def test_one_text_is_framed_and_cut_at_its_end():
    framed = framed_classifier()
    assert ids_of(framed, "one three").tolist() == [[1, 13, 15, 2]]
    assert ids_of(framed, "one three five", tokens=4).tolist() == [[1, 13, 15, 2]]
    assert ids_of(framed, "word " * 600).shape == (1, 512)
    with pytest.raises(UserError, match="the text has no tokens"):
        ids_of(framed, " ")
    with pytest.raises(UserError, match="tokens must be at least 3 for bert, got 2"):
        ids_of(framed, "one", tokens=2)


def test_the_ends_of_a_text_count_as_tokens():
    framed = framed_classifier()
    batch = batch_of(Prose(), framed, tokens=6, samples=2)
    assert batch.shape == (2, 6)
    assert batch[:, [0, -1]].tolist() == [[1, 2], [1, 2]]
    with pytest.raises(UserError, match="tokens must be at least 3 for bert, got 2"):
        batch_of(Prose(), framed, tokens=2, samples=1)


def test_images_are_read_by_image_models():
    batch = batch_of(Digits(), image_classifier(), tokens=99, samples=3)
    assert batch.shape == (3, 1, 8, 8)
    assert batch.dtype == torch.float32


def test_images_of_a_folder_are_made_by_the_models_image_processor(tmp_path):
    from PIL import Image

    Image.new("L", (8, 8), 51).save(tmp_path / "grey.png")

    def processor(image, *, return_tensors):
        assert (image.size, return_tensors) == ((8, 8), "pt")
        return {"pixel_values": torch.full((1, 1, 8, 8), 0.25)}

    plain = image_classifier()
    told = dataclasses.replace(plain, model=dataclasses.replace(plain.model, image_processor=processor))
    for reader, value in ((plain, 51 / 127.5 - 1), (told, 0.25)):
        found = batch_of(ImageFolder(str(tmp_path)), reader, tokens=1, samples=1)
        torch.testing.assert_close(found, torch.full((1, 1, 8, 8), value))


@pytest.mark.parametrize(
    ("source", "reader", "words"),
    [
        (Gaussian(), text_classifier, "as a whole reads text"),
        (Digits(), text_classifier, "as a whole reads text"),
        (Prose(), image_classifier, "as a whole reads images"),
        (Gaussian(), image_classifier, "as a whole reads images"),
    ],
)
def test_what_does_not_fit_is_one_sentence(source, reader, words):
    with pytest.raises(UserError, match=words):
        batch_of(source, reader(), tokens=5, samples=1)


def test_too_many_tokens():
    with pytest.raises(UserError, match="reads at most 512 tokens, got tokens=600"):
        batch_of(Prose(), text_classifier(), tokens=600, samples=1)
