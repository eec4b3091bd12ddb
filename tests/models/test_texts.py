from __future__ import annotations

import pytest
import torch
import transformers

from robust_attn.models import load_model
from robust_attn.models.texts import Ends, ends_of, equal_lengths
from robust_attn.types import UserError

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "some", "words", "of", "text")
SIZES = {"hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 20}


@pytest.fixture(scope="module")
def tokenizer():
    return transformers.BertTokenizer(vocab={word: number for number, word in enumerate(WORDS)})


@pytest.fixture(scope="module")
def model(tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    tokenizer.save_pretrained(folder)
    return load_model("bert", "random", tokenizer=str(folder), sizes=SIZES)


def test_ends_are_what_the_tokenizer_adds(tokenizer):
    assert ends_of(tokenizer, "some text") == Ends((2,), (3,))
    assert ends_of(tokenizer, "[CLS] some [SEP]") == Ends((2,), (3,))
    assert ends_of(None, "some text") == Ends()


@pytest.mark.parametrize("most", [3, 4, 5, 6, 9])
def test_a_text_is_cut_as_the_tokenizer_cuts_it(tokenizer, most):
    text = "some words of text"
    bare = tokenizer.encode(text, add_special_tokens=False)
    cut = tokenizer.encode(text, truncation=True, max_length=most)
    assert ends_of(tokenizer, text).around(bare, most) == cut


def test_there_must_be_room_for_a_token_between_them():
    ends = Ends((1,), (2, 3))
    assert (ends.count, ends.room(4), ends.around([7, 8], 4)) == (3, 1, [1, 7, 2, 3])
    with pytest.raises(UserError, match=r"at least 4, because the tokenizer adds 3 special tokens .* got 3"):
        ends.around([7], 3)


def test_a_tokenizer_that_reads_otherwise_beside_special_tokens_is_refused():
    class Odd:
        def encode(self, text, *, add_special_tokens, **_):
            return [9, 8, 7] if add_special_tokens else [len(text)]

    with pytest.raises(UserError, match="reads the text itself differently"):
        ends_of(Odd(), "text")


def test_a_text_is_read_as_its_tokenizer_has_it_read(model, tokenizer):
    text = "some words of text"
    assert model.read(text) == tokenizer.encode(text)
    assert model.read(text, special_tokens=False) == model.encode(text)
    with pytest.raises(UserError, match="no tokens"):
        model.read(" ")


def test_no_token_types_are_those_of_a_text_alone(model, tokenizer):
    """The tokenizer says type 0 throughout, which is what the model takes by itself."""
    given = tokenizer("some words", return_tensors="pt")
    assert not given["token_type_ids"].any()
    assert torch.equal(model.module(**given)[0], model.module(given["input_ids"])[0])


def test_places_by_length():
    assert equal_lengths([[1, 2], [3], [4, 5], []]) == {2: [0, 2], 1: [1], 0: [3]}
