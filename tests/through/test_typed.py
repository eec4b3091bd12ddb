"""Flips by typing: every text is one that was really read, and edits are what they say."""

import dataclasses
from types import SimpleNamespace

import torch

from robust_attn.through.typed import Typist
from tests.through.cases import ids, text_classifier

READER, TEXT = text_classifier(), ids(1)[0]
LABEL = int(READER.logits(READER.measure(TEXT[None])).argmax())


def margin(text):
    logits = READER.logits(READER.measure(text[None]))[0]
    others = torch.cat([logits[:LABEL], logits[LABEL + 1 :]])
    return float(logits[LABEL] - others.max())


def edited():
    return list(Typist(READER, LABEL, reads=25)._edited(TEXT))


def test_margins_are_those_of_the_texts_and_edits_are_one_edit_away():
    found = edited()
    assert {each.edit.split()[0] for each in found} == {"repeat", "insert", "swap"}
    for each in found:
        assert abs(each.margin - margin(each.ids)) < 1e-9
        if each.edit.startswith("swap"):
            assert int((each.ids != TEXT).sum()) == 1
        else:
            shorter = [torch.cat([each.ids[:k], each.ids[k + 1 :]]) for k in range(len(each.ids))]
            assert any(torch.equal(text, TEXT) for text in shorter)


def test_every_repetition_is_read_and_the_rest_is_limited():
    found = edited()
    assert sum(each.edit.startswith("repeat") for each in found) == len(TEXT)
    assert len(found) == 25


def test_a_flip_is_real_and_its_edits_are_counted():
    flip = Typist(READER, LABEL, edits=3).flip(TEXT)
    assert flip.ids is not None
    assert margin(flip.ids) < 0
    assert 1 <= len(flip.edits) <= 3
    alone = Typist(READER, LABEL, edits=1).flip(TEXT)
    assert len(flip.edits) == 1 or alone.ids is None


def test_the_gradient_finds_what_reading_every_swap_finds():
    """50 tokens at 5 places: of all 250 swaps the best is at least nearly among those that were ranked first."""
    every = []
    for place in range(len(TEXT)):
        texts = TEXT.repeat(50, 1)
        texts[:, place] = torch.arange(50)
        every += [margin(text) for text in texts]
    ranked = [each.margin for each in Typist(READER, LABEL, reads=105)._edited(TEXT) if each.edit.startswith("swap")]
    assert len(ranked) == 50
    assert min(every) - 1e-9 <= min(ranked) <= min(every) + 0.25 * (margin(TEXT) - min(every))


def test_texts_that_read_back_as_other_tokens_are_left_out():
    """A tokenizer that knows tokens below 25 alone: nothing above is typed."""
    tokenizer = SimpleNamespace(
        decode=lambda tokens: " ".join(map(str, tokens)),
        encode=lambda text, **_: [token for token in map(int, filter(str.isdigit, text.split())) if token < 25],
        all_special_ids=[3],
    )
    model = dataclasses.replace(READER.model, tokenizer=tokenizer)
    reader = dataclasses.replace(READER, model=model)
    text = TEXT % 25
    found = [each for each in Typist(reader, LABEL, reads=30)._edited(text) if not each.edit.startswith("repeat")]
    assert found
    assert all(int(each.ids.max()) < 25 for each in found)
    assert not any(each.edit.endswith(" 3") for each in found)
