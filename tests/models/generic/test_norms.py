"""Norms of queries and keys, biases by position and sinks out of real models, with the model's own numbers."""

from __future__ import annotations

import pytest
import torch

import robust_attn as ra
from robust_attn.certificates.layer import verdict
from robust_attn.models.generic import extract
from robust_attn.models.generic.watching import pools_tokens
from tests.cases import generator
from tests.models.small import SHARED, TEXT, drawn, library

T5 = {"d_model": 24, "d_kv": 12, "d_ff": 32, "num_heads": 2, "num_layers": 2, "vocab_size": 99}
MODELS = {
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", {**SHARED, "head_dim": 6}),
    "gemma3": ("Gemma3ForCausalLM", "Gemma3TextConfig", {**SHARED, "head_dim": 6}),
    "olmo2": ("Olmo2ForCausalLM", "Olmo2Config", SHARED),
    "persimmon": ("PersimmonForCausalLM", "PersimmonConfig", TEXT),
    "t5": ("T5EncoderModel", "T5Config", T5),
    "gpt_oss": (
        "GptOssForCausalLM",
        "GptOssConfig",
        {**SHARED, "head_dim": 6, "num_local_experts": 2, "num_experts_per_tok": 1},
    ),
}


def model(name: str):
    made, config, sizes = MODELS[name]
    return drawn(getattr(library, made), getattr(library, config)(**sizes))


@pytest.fixture(scope="module", params=sorted(MODELS))
def wrapped(request):
    """The model in memory, as a user wraps it, and its name."""
    return request.param, ra.wrap(model(request.param))


def feed(samples: int, dtype: torch.dtype):
    del dtype
    return {"input_ids": torch.randint(0, 99, (samples, 9), generator=generator(0))}


def test_an_attack_stays_within_the_certificate(wrapped):
    _, found = wrapped
    layer = found.layer(0).to(torch.float64)
    measure = ra.TokenMeasure.uniform(torch.randn(6, layer.width, generator=generator(1), dtype=torch.float64))
    budget = ra.Wasserstein(1e-3)
    seen = ra.Move(steps=10)(layer, measure, budget, generator=generator(2)).observation
    certificate = ra.certify(layer, measure, budget)
    assert 0 < float(seen.output_change) <= certificate.output_change
    assert verdict(float(seen.output_change), float(seen.rounding), certificate) is ra.Verdict.HOLDS


def test_what_each_model_has_is_found(wrapped):
    name, found = wrapped
    layer = found.layer(0)
    assert (layer.position_bias is not None) == (name == "t5")
    assert (layer.sinks is not None) == (name == "gpt_oss")
    assert layer.normed == (name not in ("t5", "gpt_oss"))
    if layer.normed:
        assert layer.query_norm.across == layer.key_norm.across == (name == "olmo2")


def test_gains_are_those_that_the_model_stores():
    module = model("qwen3")
    layer = extract(module, feed).attached()[0].weights
    norm = module.model.layers[0].self_attn.q_norm
    assert torch.equal(layer.query_norm.gain, norm.weight.expand(4, -1))
    assert layer.query_norm.eps == norm.variance_epsilon
    assert torch.equal(layer.query.flatten(0, 1), module.model.layers[0].self_attn.q_proj.weight)


def test_a_gain_of_one_more_than_the_weight_is_told_apart():
    module = model("gemma3")
    layer = extract(module, feed).attached()[0].weights
    assert torch.equal(layer.key_norm.gain, (1 + module.model.layers[0].self_attn.k_norm.weight).expand(2, -1))


def test_a_layer_norm_centres_in_the_projection():
    layer = extract(model("persimmon"), feed).attached()[0].weights
    assert layer.query.double().mean(1).abs().max() <= 1e-7
    assert layer.query_norm.shift.abs().max() > 0


def test_a_sink_counts_from_the_bias_of_the_values():
    module = model("gpt_oss")
    layer = extract(module, feed).attached()[0].weights
    own = module.model.layers[0].self_attn
    assert torch.equal(layer.sinks.logit, own.sinks)
    assert torch.equal(layer.sinks.value, -own.v_proj.bias.view(2, -1).repeat_interleave(2, dim=0))


@pytest.mark.parametrize(
    ("query", "keys", "pools"),
    [((2, 1, 8), (2, 5, 8), True), ((2, 5, 8), (2, 5, 8), False), ((2, 3, 8), (2, 5, 8), False)],
)
def test_one_query_of_its_own_is_told_from_self_attention(query, keys, pools):
    module = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    assert pools_tokens(module, (torch.zeros(query), torch.zeros(keys)), None) is pools


def test_a_head_that_makes_one_vector_of_all_tokens_pools_and_a_layer_does_not():
    module, tokens = torch.nn.Identity(), torch.zeros(2, 5, 8)
    assert pools_tokens(module, (tokens,), torch.zeros(2, 8))
    assert pools_tokens(module, (tokens,), (torch.zeros(2, 1, 8), None))
    assert not pools_tokens(module, (tokens,), (tokens, None))
    assert not pools_tokens(module, (tokens[:, :1],), torch.zeros(2, 8))
