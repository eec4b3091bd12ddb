from __future__ import annotations

import pytest
import torch

from robust_attn.attention.mask import Mask
from robust_attn.attention.measure import TokenMeasure
from robust_attn.models import load_model
from robust_attn.models.hooks import watch
from robust_attn.models.registry import adapter_for
from robust_attn.models.selfcheck import relative_difference, relative_differences
from robust_attn.types import UserError


def test_groups_are_shared_and_positions_are_rotary(small_sizes):
    model = load_model("llama", "random", sizes=small_sizes["llama"])
    layer = model.layer(0)
    assert (layer.heads, layer.groups, layer.mask) == (6, 2, Mask.CAUSAL)
    assert layer.rotary is not None
    batch = torch.arange(1, 12)[None]
    watched = watch(model.module, batch, sources=[model.attached[0].source], sinks=[model.attached[0].sink])
    measure = TokenMeasure.uniform(watched.inputs[0])
    elsewhere = TokenMeasure(measure.points, measure.masses, measure.positions.flip(-1).sort(-1).values * 3)
    assert relative_difference(layer(measure), watched.outputs[0]) < 1e-12
    assert relative_difference(layer(elsewhere), watched.outputs[0]) > 1e-3  # positions did matter


def test_biases_of_shared_values_reach_every_head_of_the_group(small_sizes):
    model = load_model("llama", "random", sizes={**small_sizes["llama"], "attention_bias": True})
    for block in model.module.model.layers:
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            torch.nn.init.normal_(getattr(block.self_attn, name).bias)
    attached = adapter_for("llama").taken_out(model.module).attached
    assert float(attached[0].weights.offset.norm()) > 1
    assert max(relative_differences(model.module, attached, torch.arange(1, 12)[None])) < 1e-12


@pytest.mark.parametrize("kind", ["linear", "yarn", "llama3"])
def test_scaled_rotary_embeddings_agree_with_the_model(kind, small_sizes):
    rope = {"rope_type": kind, "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 64}
    rope |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0} if kind == "llama3" else {}
    model = load_model("llama", "random", sizes={**small_sizes["llama"], "rope_parameters": rope})
    if kind == "yarn":
        assert model.layer(0).rotary.scaling != 1.0
    assert max(model.differences) < 1e-12


def test_rotary_embeddings_that_change_with_the_length_are_served_up_to_where_they_change(small_sizes):
    rope = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0}
    sizes = {**small_sizes["llama"], "rope_parameters": rope, "max_position_embeddings": 16}
    model = load_model("llama", "random", sizes=sizes)
    assert model.max_tokens == 16
    attached, batch = model.attached[:1], torch.arange(1, 41)[None]
    assert relative_differences(model.module, attached, batch[:, :16])[0] < 1e-12
    assert relative_differences(model.module, attached, batch)[0] > 1e-3  # beyond, it is another rotation
    with pytest.raises(UserError, match="at most 16 tokens"):
        model.inputs_at([0], batch)


def test_rotary_frequencies_stay_exact_in_bfloat16(small_sizes):
    exact = load_model("llama", "random", sizes=small_sizes["llama"]).layer(0).rotary
    coarse = load_model("llama", "random", dtype=torch.bfloat16, sizes=small_sizes["llama"]).layer(0).rotary
    assert torch.equal(exact.inverse_frequencies.float(), coarse.inverse_frequencies.float())
