import pytest
import torch

from robust_attn.models import load_model
from robust_attn.models.generic.as_found import floating_tensors
from robust_attn.models.heads import Head, head_named, head_on
from robust_attn.models.reading import body_of
from tests.through.families import built


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("BertForSequenceClassification", Head.SEQUENCE),
        ("GPT2LMHeadModel", Head.NEXT_TOKEN),
        ("MistralForCausalLM", Head.NEXT_TOKEN),
        ("ViTForImageClassification", Head.IMAGE),
        ("BertForMaskedLM", None),
        ("BertModel", None),
    ],
)
def test_heads_are_known_by_the_class(name, head):
    assert head_named([name]) is head


def test_a_derived_class_has_the_head_of_the_one_it_comes_from():
    module = built("BertForSequenceClassification")
    module.__class__ = type("Mine", (type(module),), {})
    assert head_on(module) is Head.SEQUENCE
    assert head_on(torch.nn.Linear(2, 2)) is None


def test_tied_heads_share_the_embeddings(small_sizes):
    module = load_model("gpt2", "random", sizes=small_sizes["gpt2"]).module
    assert module.lm_head.weight is module.transformer.wte.weight
    assert not any(tensor.is_meta for tensor in floating_tensors(module))
    ids = torch.arange(5)[None]
    hidden = body_of(module)(ids).last_hidden_state
    torch.testing.assert_close(module(ids).logits, hidden @ module.transformer.wte.weight.T)


def test_other_heads_are_drawn_by_the_seed_after_the_body(small_sizes):
    one, two, other = (
        load_model("llama", "random", sizes=small_sizes["llama"], seed=seed).module for seed in (1, 1, 2)
    )
    assert torch.equal(one.lm_head.weight, two.lm_head.weight)
    assert not torch.equal(one.lm_head.weight, other.lm_head.weight)
    assert one.lm_head.weight is not one.model.embed_tokens.weight
