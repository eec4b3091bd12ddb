"""One's own model, in memory or in a folder, through attack and certificate."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import robust_attn as ra
from robust_attn.models import load_model, wrap
from robust_attn.models.load import expect_model, expect_name
from robust_attn.models.selfcheck import TOLERANCES
from tests.models.small import KINDS, small


def state(module: nn.Module) -> list[object]:
    """Everything about a module that must be as before."""
    parts = [
        (
            part.training,
            len(part._forward_hooks),
            len(part._forward_pre_hooks),
            getattr(part, "config", None) is not None,
        )
        for part in module.modules()
    ]
    tensors = [
        (name, each.dtype, each.device, each.data_ptr(), each.requires_grad, float(each.detach().double().sum()))
        for name, each in (*module.named_parameters(), *module.named_buffers())
    ]
    configs = [getattr(part, "config", None) for part in module.modules()]
    return [parts, tensors, [getattr(each, "_attn_implementation", None) for each in configs]]


def interface() -> list[str]:
    from transformers import AttentionInterface, AttentionMaskInterface

    return [*AttentionInterface._global_mapping, *AttentionMaskInterface._global_mapping]


def batch_of(model: ra.AttentionModel) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    if model.image_shape is not None:
        return torch.randn(1, *model.image_shape, generator=generator)
    return torch.randint(5, model.vocabulary, (1, 9), generator=generator)


def holds(model: ra.AttentionModel) -> bool:
    """What the verdict HOLDS says of the last layer: an attack moved it, and within a certificate below the hull."""
    index, budget = model.layers - 1, ra.Wasserstein(0.01)
    measure = model.inputs_at([index], batch_of(model))[index].sample(0).to(torch.float64)
    layer = model.layer(index).to(torch.float64)
    found = ra.Move(steps=5)(layer, measure, budget, generator=torch.Generator().manual_seed(0))
    observed = ra.observe(layer, measure, found.measure.points, budget)
    certificate = ra.certify(layer, measure, budget)
    within = 0 < float(observed.output_change) <= certificate.output_change
    return within and "hull" not in str(certificate.bound)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_model_in_memory_is_attacked_certified_and_left_as_it_was(kind):
    module = small(kind)
    assert module.training
    before, names, random = state(module), interface(), torch.get_rng_state()
    model = wrap(module)
    assert model.module is module
    assert model.layers == 2
    assert max(model.differences) <= TOLERANCES[torch.float32]
    assert holds(model)
    assert state(module) == before
    assert interface() == names
    assert torch.equal(torch.get_rng_state(), random)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_saved_model_is_found_by_its_folder_alone(kind, tmp_path):
    module = small(kind)
    module.save_pretrained(tmp_path)
    model = load_model(str(tmp_path))
    assert type(model.module) is type(module)  # with its head
    assert model.architecture == module.config.model_type
    assert model.origin.label.startswith("folder:")
    tolerance = TOLERANCES[torch.float32] if "rounds to float32" in (model.origin.note or "") else 1e-10
    assert max(model.differences) <= tolerance
    memory = wrap(module)
    for index in range(2):
        assert torch.equal(model.layer(index).query, memory.layer(index).query.double())
        assert torch.equal(model.layer(index).offset.float(), memory.layer(index).offset)
    assert holds(model)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_a_module_is_wrapped_in_its_own_precision(dtype):
    module = small("Qwen2ForCausalLM").to(dtype)
    before = state(module)
    model = wrap(module)
    assert model.dtype is dtype
    assert model.attached[0].weights.dtype is dtype
    assert state(module) == before


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_the_attention_implementation_is_as_it_was(implementation):
    module = small("MistralForCausalLM")
    module.set_attn_implementation(implementation)
    wrap(module)
    assert module.config._attn_implementation == implementation


def test_a_failed_wrap_leaves_the_module_as_it_was(monkeypatch):
    module = small("GPT2LMHeadModel")
    before, names = state(module), interface()
    calls = []

    def failing(*args, **kwargs):
        calls.append(1)
        if len(calls) > 1:
            raise RuntimeError("out of memory")
        return right(*args, **kwargs)

    right = module.transformer.h[1].attn.c_attn.forward
    monkeypatch.setattr(module.transformer.h[1].attn.c_attn, "forward", failing)
    with pytest.raises(ra.UserError, match="cannot be run on arbitrary inputs: out of memory"):
        wrap(module)
    assert calls == [1, 1]  # the first pass went well, the second did not
    assert state(module) == before
    assert interface() == names


def test_a_model_that_is_refused_says_why_and_is_left_as_it_was():
    from tests.models.small import SHARED, drawn, library

    module = drawn(library.Gemma2ForCausalLM, library.Gemma2Config(**SHARED, head_dim=6))
    before = state(module)
    with pytest.raises(ra.UserError, match=r"gemma2 has no attention layers .*2 of 2 .*capped \(softcap\)"):
        wrap(module)
    assert state(module) == before


def test_text_needs_the_models_own_tokenizer():
    with pytest.raises(ra.UserError, match="no tokenizer"):
        wrap(small("BertForSequenceClassification")).tokens_at(0, "some text")


def test_tokens_are_read_by_the_tokenizer_given():
    class Letters:
        def encode(self, text, **_):
            return [5 + ord(letter) % 90 for letter in text]

    model = wrap(small("BertForSequenceClassification"), Letters())
    assert model.tokens_at(1, "abcd").points.shape == (4, 24)


@pytest.mark.parametrize("thing", [nn.Linear(2, 2), "bert", None], ids=str)
def test_something_else_than_a_model_is_refused(thing):
    with pytest.raises(ra.UserError, match="expected a model of transformers"):
        expect_model(thing)


@pytest.mark.parametrize("thing", [nn.Linear(2, 2), 3], ids=str)
def test_a_module_is_not_a_name(thing):
    with pytest.raises(ra.UserError, match=r"in memory by wrap\(module, tokenizer\)"):
        expect_name(thing)


def test_a_folder_says_which_weights_are_meant(tmp_path):
    with pytest.raises(ra.UserError, match="already says which weights"):
        load_model(str(tmp_path), "random")
    for weights in ("auto", "random", "pretrained"):
        with pytest.raises(ra.UserError, match="model=auto is whatever its weights are"):
            load_model("auto", weights)
