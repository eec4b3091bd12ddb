from __future__ import annotations

import zlib

import pytest
import torch

from robust_attn.models import load_model
from robust_attn.types import UserError

SIZES = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}


@pytest.fixture(scope="module")
def model():
    return load_model("bert", "random", sizes=SIZES)


def test_inputs_are_what_the_modules_are_given(model):
    ids = torch.arange(1, 13).view(2, 6)
    inputs = model.inputs_at([1, 0], ids)
    states = model.module(ids, output_hidden_states=True).hidden_states
    assert list(inputs) == [1, 0]
    for index in (0, 1):
        assert torch.equal(inputs[index].points, states[index])
        assert inputs[index].is_uniform
    assert torch.equal(inputs[0].positions, torch.arange(6).expand(2, 6))


def _hooks(model):
    """transformers leaves hooks of its own in a model once asked for hidden states, so they are counted, not denied."""
    return [(len(module._forward_pre_hooks), len(module._forward_hooks)) for module in model.module.modules()]


def test_the_whole_model_runs_once_and_keeps_no_hooks(model):
    calls = []
    hooks = _hooks(model)
    handle = model.module.register_forward_hook(lambda *_: calls.append(1))
    model.inputs_at([0, 1], torch.ones(1, 4, dtype=torch.int64))
    handle.remove()
    assert calls == [1]
    assert _hooks(model) == hooks


def test_an_unknown_layer_is_refused_with_those_that_exist(model):
    for index in (2, -1):
        with pytest.raises(UserError, match=f"no layer {index}; its layers are 0 to 1"):
            model.layer(index)
        with pytest.raises(UserError, match="its layers are 0 to 1"):
            model.inputs_at([index], torch.ones(1, 4, dtype=torch.int64))


def test_text_without_a_tokenizer_is_words_and_marks_by_their_checksum(model):
    words = ["Plain", "words", ",", "naïve", "你好", "!"]
    expected = [1 + zlib.crc32(word.encode()) % 30521 for word in words]
    assert model.encode("Plain  words, naïve\n你好!") == expected


def test_tokens_of_a_text_are_one_sample(model):
    measure = model.tokens_at(1, "four words of text")
    assert measure.points.shape == (4, 24)
    ids = torch.tensor([model.encode("four words of text")])
    assert torch.equal(measure.points, model.inputs_at([1], ids)[1].points[0])


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (torch.ones(1, 513, dtype=torch.int64), "at most 512 tokens, got 513"),
        (torch.tensor([[1, 30522]]), "below the vocabulary of 30522, got 30522"),
        (torch.tensor([[-1, 5]]), "vocabulary"),
        (torch.ones(1, 5), "reads token ids"),
        (torch.ones(1, 1, 8, 8), "reads token ids"),
    ],
)
def test_batches_that_the_model_cannot_read(model, batch, message):
    with pytest.raises(UserError, match=message):
        model.inputs_at([0], batch)


def test_text_without_tokens_is_refused(model):
    with pytest.raises(UserError, match="no tokens"):
        model.tokens_at(0, " \n")


def test_texts_of_different_lengths_are_padded_with_atoms_of_no_mass(model):
    texts = ["four words of text", "two words", "one more text here"]
    inputs = model.inputs_at([0, 1], texts)
    assert inputs[1].points.shape == (3, 4, 24)
    assert torch.equal(inputs[1].present.sum(-1), torch.tensor([4, 2, 4]))
    for place, text in enumerate(texts):
        alone, own = model.tokens_at(1, text), inputs[1].sample(place)
        torch.testing.assert_close(own.points[own.present], alone.points, rtol=0, atol=1e-12)
        torch.testing.assert_close(own.masses[own.present], alone.masses)
        layer = model.layer(1)
        torch.testing.assert_close(layer(own)[own.present], layer(alone), rtol=0, atol=1e-12)
    assert torch.equal(model.inputs_at(1, texts)[1].points, inputs[1].points)
    assert torch.equal(model.inputs_at(1, texts[1])[1].points, model.inputs_at(1, texts[1:2])[1].points)
    for given, message in (([], "at least one text"), (["a", " "], "no tokens")):
        with pytest.raises(UserError, match=message):
            model.inputs_at(1, given)
