"""Models with heads of their own are read as they read ids, and do not notice how a measure is written."""

import pytest
import torch

from robust_attn.attacks.model_loss import with_slivers
from robust_attn.attention.measure import TokenMeasure
from robust_attn.models import load_model, wrap
from robust_attn.models.heads import Head
from robust_attn.through.classifier import OwnHeadClassifier, classifier_of, exactly
from robust_attn.types import UserError
from tests.through.families import BERT, MODELS, TEXTS, batch, built, reader

MODERN = BERT | {"pad_token_id": 0, "cls_token_id": 1, "sep_token_id": 2, "bos_token_id": 1, "eos_token_id": 2}


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
@pytest.mark.parametrize("name", TEXTS)
def test_word_embeddings_are_read_as_ids(name, dtype, tolerance):
    classifier = reader(name, dtype)
    for row in batch(name):
        own = classifier.model.module(row[None]).logits
        own = own[:, -1] if classifier.head is Head.NEXT_TOKEN else own
        found = classifier.logits(classifier.measure(row[None]))
        torch.testing.assert_close(found, own, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", TEXTS)
def test_writing_tokens_as_several_atoms_changes_nothing(name):
    classifier = reader(name)
    assert classifier.refusal is None
    measure = classifier.measure(batch(name))
    with exactly(classifier.model):
        before = classifier.logits(measure)
        for written in (measure.split(3), with_slivers(measure, 0.1), with_slivers(measure, 1e-6)):
            torch.testing.assert_close(classifier.logits(written), before, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", TEXTS)
def test_layers_alone_do_what_they_do_in_the_model_that_reads_slivers(name):
    classifier = reader(name)
    measure = with_slivers(classifier.measure(batch(name, samples=1)), 0.2)
    with exactly(classifier.model):
        trace = classifier.trace(measure)
    assert len(trace.inputs) == classifier.model.layers
    for index, (arrived, left) in enumerate(zip(trace.inputs, trace.outputs, strict=True)):
        torch.testing.assert_close(classifier.model.layer(index)(arrived), left, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("name", TEXTS)
def test_padding_is_not_read(name):
    classifier = reader(name)
    long, short = batch(name)
    measure = classifier.measure(torch.stack([long, short]))
    padded = TokenMeasure.padded(measure.points, torch.tensor([7, 4]))
    expected = [classifier.logits(classifier.measure(ids[None])) for ids in (long, short[:4])]
    torch.testing.assert_close(classifier.logits(padded), torch.cat(expected))


def test_padding_at_the_end_of_a_text_is_skipped_as_the_model_does():
    module = built("LlamaForSequenceClassification", pad_token_id=2)
    classifier = classifier_of(wrap(module))
    ids = torch.tensor([[5, 2, 7, 9, 2, 2], [8, 5, 2, 4, 2, 2]])
    measure = classifier.measure(ids)
    assert measure.length == 4
    torch.testing.assert_close(classifier.logits(measure), module(ids).logits)
    with pytest.raises(UserError, match="llama reads texts that end in padding one by one"):
        classifier.measure(torch.tensor([[5, 2], [5, 4]]))


@pytest.mark.parametrize("name", MODELS)
def test_logits_can_be_differentiated_in_points_and_masses(name):
    classifier = reader(name)
    measure = classifier.measure(batch(name, samples=1))
    points = measure.points.clone().requires_grad_(True)
    masses = measure.masses.clone().requires_grad_(isinstance(classifier, OwnHeadClassifier))
    with torch.enable_grad():
        loss = classifier.logits(TokenMeasure(points, masses, measure.positions))[0].std()
        slopes = torch.autograd.grad(loss, [each for each in (points, masses) if each.requires_grad])
    assert all(bool(slope.isfinite().all()) and float(slope.abs().max()) > 0 for slope in slopes)


def test_dropout_is_off_and_the_module_is_left_as_it_was():
    module = built("BertForSequenceClassification").train()
    classifier = classifier_of(wrap(module))
    measure = classifier.measure(batch("BertForSequenceClassification"))
    torch.testing.assert_close(classifier.logits(measure), classifier.logits(measure), rtol=0, atol=0)
    assert module.training


def test_layers_with_different_windows_can_be_moved_and_not_split():
    sizes = {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}
    classifier = classifier_of(wrap(built("Qwen2ForCausalLM", **sizes)))
    measure = classifier.measure(batch("Qwen2ForCausalLM"))
    classifier.logits(measure.with_points(measure.points + 0.1))
    with pytest.raises(UserError, match="so mass cannot be split: its layers see different windows"):
        classifier.logits(measure.split(2))


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("CTRLLMHeadModel", {"n_embd": 8, "n_layer": 1, "n_head": 2, "dff": 8, "vocab_size": 40}),  # numbers positions
        ("ModernBertForSequenceClassification", MODERN | {"classifier_pooling": "mean"}),  # a mean without masses
    ],
)
def test_a_model_that_takes_no_masses_can_be_moved_and_not_split(name, sizes, monkeypatch):
    monkeypatch.setitem(MODELS, name, sizes)
    classifier = classifier_of(wrap(built(name)))
    measure = classifier.measure(batch(name))
    with exactly(classifier.model):
        logits = classifier.logits(measure)
        torch.testing.assert_close(logits, classifier.logits_of_ids(batch(name)), rtol=1e-10, atol=1e-10)
        moved = measure.with_points(measure.points.flip(-1))
        assert float((classifier.logits(moved) - logits).abs().max()) > 1e-3
    with pytest.raises(UserError, match="reads tokens of equal mass alone, so mass cannot be split: "):
        classifier.logits(measure.split(2))


@pytest.mark.parametrize(
    ("name", "sizes", "words"),
    [
        ("BertForSequenceClassification", {"num_labels": 1}, "bert is not a classifier: it has a single output"),
        ("BertForMaskedLM", {}, "bert of memory:BertForMaskedLM is not a classifier: a BertForMaskedLM has no head"),
        ("BertLMHeadModel", {}, "bert is not a classifier: its tokens see later ones"),
    ],
)
def test_what_is_no_classifier_is_one_sentence(name, sizes, words, monkeypatch):
    monkeypatch.setitem(MODELS, name, MODELS["BertForSequenceClassification"])
    with pytest.raises(UserError, match=words):
        classifier_of(wrap(built(name, **sizes)))


def test_a_classifier_in_a_folder_is_found_with_its_head(tmp_path):
    module = built("RobertaForSequenceClassification", torch.float32)
    module.save_pretrained(tmp_path)
    row = batch("RobertaForSequenceClassification")
    for model in (load_model(str(tmp_path)), load_model("roberta", str(tmp_path))):
        classifier = classifier_of(model)
        torch.testing.assert_close(classifier.logits(classifier.measure(row)).float(), module(row).logits)


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("gpt2", {"n_embd": 12, "n_layer": 1, "n_head": 2, "vocab_size": 40}),
        ("llama", {"hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1}),
    ],
)
def test_language_models_known_by_name_give_next_tokens(name, sizes):
    model = load_model(name, "random", sizes=sizes)
    classifier = classifier_of(model)
    row = torch.arange(5, 12)[None]
    expected = model.module(row).logits[:, -1]
    torch.testing.assert_close(classifier.logits(classifier.measure(row)), expected)
    assert expected.shape == (1, model.vocabulary)
