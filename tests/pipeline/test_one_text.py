"""`ra.flip_radius` and `ra.certified_prediction`: one text, from above and from below."""

import pytest

import robust_attn as ra
from robust_attn.pipeline import one_text
from tests.selection import at_first
from tests.through.cases import text_classifier

TEXT = "one two three four"


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(one_text, "classifier_of", lambda _: text_classifier())


@pytest.mark.parametrize("perturb", at_first(["all", "one_word"], 1))
def test_a_certified_radius_is_below_the_flip_radius(perturb):
    model = text_classifier().model
    flip = ra.flip_radius(model, TEXT, perturb=perturb, steps=4, accuracy=0.3)
    safe = ra.certified_prediction(model, TEXT, perturb=perturb, seed=1, samples=96)
    assert 0 < safe.radius < flip.radius
    assert safe.failure_probability == 1e-9
    assert {"first", "layer0.mlp"} <= set(safe.shares)
    assert safe.why_not is None
    assert flip.record.predicted == safe.record.predicted
    assert (flip.record.tokens, flip.record.budget.kind) == (4, "frobenius")
    assert flip.record.verdict is None
    assert safe.record.verdict is ra.Verdict.HOLDS
    assert "flips at" in repr(flip)
    assert "kept within" in repr(safe)


@pytest.mark.slow
def test_the_same_seed_repeats():
    first, again = (ra.certified_prediction(text_classifier().model, TEXT, seed=4, samples=96).radius for _ in range(2))
    assert first == again


def test_wrong_input_is_one_sentence():
    with pytest.raises(ra.UserError, match="perturb must be one of all, one_word, got 'some'"):
        one_text._way("some")
    with pytest.raises(ra.UserError, match="no tokens"):
        ra.certified_prediction(text_classifier().model, " ")
