"""Steps are not trusted: they are compared with the classifier, and refused where they give other logits."""

import dataclasses

import pytest
import torch

from robust_attn.models import load_model
from robust_attn.predictions.networks import bert, decoders
from robust_attn.predictions.scalar_functions import Relu, Silu
from robust_attn.through.classifier import classifier_of
from robust_attn.through.inputs import ids_of
from robust_attn.through.network import network_of
from robust_attn.types import UserError
from tests.through.families import batch, reader


def first_points(name, dtype=torch.float64):
    return reader(name, dtype).measure(batch(name)).points[0]


@pytest.mark.parametrize(
    ("name", "module", "part", "wrong"),
    [
        ("BertForSequenceClassification", bert, "activation_of", lambda _: Relu()),
        ("GPT2LMHeadModel", decoders, "activation_of", lambda _: Silu()),
        ("LlamaForCausalLM", decoders, "_visible", lambda length, _: torch.ones(length, length, dtype=torch.bool)),
        ("MistralForCausalLM", decoders, "_visible", lambda length, _: torch.ones(length, length).tril() > 0),
    ],
)
def test_other_steps_are_refused(name, module, part, wrong, monkeypatch):
    points = first_points(name)
    network_of(reader(name), points)
    monkeypatch.setattr(module, part, wrong)
    with pytest.raises(UserError, match=r"give logits that differ from its own by .* refusing to certify it"):
        network_of(reader(name), points)


def test_in_float32_the_weights_are_the_same_and_the_steps_in_float64():
    name = "BertForSequenceClassification"
    network = network_of(reader(name, torch.float32), first_points(name, torch.float32))
    assert network.tape(first_points(name)).logits.dtype == torch.float64


def test_bfloat16_is_too_coarse():
    classifier = reader("BertForSequenceClassification")
    module = classifier.model.module
    coarse = dataclasses.replace(classifier.model, module=type(module)(module.config).bfloat16())
    with pytest.raises(UserError, match=r"computes in torch\.bfloat16, too coarse to be certified"):
        network_of(dataclasses.replace(classifier, model=coarse), first_points("BertForSequenceClassification"))


@pytest.mark.slow
def test_thirty_layers_of_a_real_language_model():
    model = load_model("smollm2", "pretrained")
    classifier = classifier_of(model)
    assert classifier.refusal is None
    points = classifier.measure(ids_of(classifier, "The capital of France is")).points[0]
    logits = network_of(classifier, points).tape(points).logits
    assert model.tokenizer.decode([int(logits.argmax())]) == " Paris"
