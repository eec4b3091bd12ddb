"""What is taken out of small models, and why the rest is refused."""

from __future__ import annotations

import pytest
import torch

from robust_attn.attention.mask import Mask, Window
from robust_attn.attention.rotary import Rotary
from robust_attn.models.generic import extract
from robust_attn.models.generic import layer as layers
from robust_attn.models.generic.refusal import Reason
from tests.models.small import SHARED, TEXT, drawn, library, small


def feed(samples, dtype):  # noqa: ARG001
    return {"input_ids": torch.randint(5, 99, (samples, 12), generator=torch.Generator().manual_seed(0))}


def taken(kind, **changes):
    name, sizes = kind
    module = drawn(getattr(library, f"{name}Model"), getattr(library, f"{name}Config")(**{**sizes, **changes}))
    return module, extract(module, feed)


def test_grouped_keys_and_a_window_longer_than_the_text():
    module, found = taken(("Mistral", SHARED), sliding_window=50)
    assert found.whole
    assert max(found.differences) <= 1e-12
    first = found.attached()[0].weights
    assert (first.heads, first.groups, first.mask) == (4, 2, Window(49, 0))
    attention = module.layers[0].self_attn
    assert torch.equal(first.query.flatten(0, 1), attention.q_proj.weight)
    assert first.query.data_ptr() == attention.q_proj.weight.data_ptr()


def test_windows_to_both_sides_and_rounding_inside_are_told_apart_from_another_map():
    _, found = taken(("ModernBert", {**TEXT, "cls_token_id": 1, "sep_token_id": 2}), local_attention=6)
    assert found.rounds
    assert max(found.differences) <= 1e-12
    assert [each.mask for each in found.found] == [Mask.NONE, Window(3, 3)]


@pytest.mark.parametrize("factor", [0.5, 1.0])
def test_partial_rotations_leave_the_other_coordinates_at_angle_zero(factor):
    _, found = taken(("Phi", {**TEXT, "num_attention_heads": 3}), partial_rotary_factor=factor)
    rotary = found.attached()[0].weights.rotary
    assert isinstance(rotary, Rotary)
    assert int((rotary.inverse_frequencies != 0).sum()) == int(4 * factor)
    assert max(found.differences) <= 1e-12


def test_neighbouring_coordinates_as_planes_are_put_in_the_order_of_halves():
    module, found = taken(("Cohere", SHARED))
    assert max(found.differences) <= 1e-12
    first = found.attached()[0].weights
    stored = module.layers[0].self_attn.q_proj.weight.view(4, 6, 24)
    assert torch.equal(first.query, stored[:, [0, 2, 4, 1, 3, 5]])


def test_layers_that_share_a_module_are_told_apart():
    _, found = taken(("Albert", {**TEXT, "embedding_size": 12}), num_hidden_layers=3)
    assert [each.source.call for each in found.found] == [0, 1, 2]
    assert max(found.differences) <= 1e-12


def test_queries_scaled_before_the_call_are_scaled_in_the_layer():
    module, found = taken(("OPT", {**TEXT, "ffn_dim": 32, "word_embed_proj_dim": 24}))
    first = found.attached()[0].weights
    assert first.scale == pytest.approx(12**-0.5, rel=1e-15)
    assert torch.equal(first.query.flatten(0, 1), module.decoder.layers[0].self_attn.q_proj.weight)


def test_of_an_encoder_and_a_decoder_cross_attention_is_left_out():
    sizes = {"d_model": 24, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "vocab_size": 99}
    sizes |= {"decoder_attention_heads": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
    _, found = taken(("Bart", sizes))
    assert [each.reason for each in found.refused] == [Reason.CROSS]
    assert found.whole  # of self-attention
    assert [each.mask for each in found.found] == [Mask.NONE, Mask.CAUSAL]


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (("Gemma2", {**SHARED, "head_dim": 6}), Reason.SOFTCAP),
        (("BitNet", SHARED), Reason.OUTPUT),
        (("DebertaV2", {**TEXT, "relative_attention": True, "pos_att_type": ["c2p", "p2c"]}), Reason.BIAS),
        (("Longformer", {**TEXT, "attention_window": 4}), Reason.BYPASS),
        (("MiniCPM3", {**TEXT, "num_key_value_heads": 2}), Reason.LATENT),
        (("FNet", TEXT), Reason.NO_ATTENTION),
    ],
    ids=lambda each: each[0] if isinstance(each, tuple) else "",
)
def test_every_refusal_has_its_reason(kind, reason):
    _, found = taken(kind)
    assert not found.found
    assert {each.reason for each in found.refused} == {reason}


def test_the_comparison_with_the_model_has_the_last_word(monkeypatch):
    monkeypatch.setattr(layers, "mask_kind", lambda *_: Mask.NONE)
    _, found = taken(("GPT2", {"n_embd": 24, "n_layer": 2, "n_head": 2, "vocab_size": 99}))
    assert not found.found
    assert {each.reason for each in found.refused} == {Reason.DIFFERS}


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_without_a_mask_the_implementation_decides_as_the_model_does(implementation):
    module = small("ViTForImageClassification")
    module.set_attn_implementation(implementation)
    pixels = torch.randn(8, 1, 8, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = extract(module, lambda samples, _: {"pixel_values": pixels[:samples]})
    assert {each.mask for each in found.found} == {Mask.NONE}
    assert found.tokens == 5


def test_experts_that_float64_cannot_group_are_run_one_by_one_and_the_setting_is_kept():
    module = drawn(library.MixtralModel, library.MixtralConfig(**SHARED, num_local_experts=2))
    before = module.config._experts_implementation
    found = extract(module, feed)
    assert found.whole
    assert module.config._experts_implementation == before
