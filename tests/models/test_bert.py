from __future__ import annotations

import pytest
import torch

from robust_attn.attention.mask import Mask
from robust_attn.attention.measure import TokenMeasure
from robust_attn.models import load_model
from robust_attn.models.hooks import watch
from robust_attn.models.registry import adapter_for
from robust_attn.models.selfcheck import relative_difference


def _ids(model, samples, tokens):
    return torch.randint(1, model.vocabulary, (samples, tokens), generator=torch.Generator().manual_seed(0))


def test_padding_of_the_model_is_mass_zero_of_the_measure(small_sizes):
    model = load_model("bert", "random", sizes=small_sizes["bert"])
    lengths = torch.tensor([5, 9, 2])
    mask = (torch.arange(9) < lengths[:, None]).long()
    watched = watch(
        model.module,
        _ids(model, 3, 9),
        sources=[layer.source for layer in model.attached],
        sinks=[layer.sink for layer in model.attached],
        options={"attention_mask": mask},
    )
    for layer, points, output in zip(model.attached, watched.inputs, watched.outputs, strict=True):
        present = mask.bool()
        ours = layer.weights(TokenMeasure.padded(points, lengths))[present]
        without = layer.weights(TokenMeasure.uniform(points))[present]
        assert relative_difference(ours, output[present]) < 1e-12
        assert relative_difference(without, output[present]) > 1e-4  # the padding did matter


def test_a_decoder_is_causal(small_sizes):
    sizes = {**small_sizes["bert"], "is_decoder": True}
    model = load_model("bert", "random", sizes=sizes)  # the self-check has compared it with the model
    assert {model.layer(index).mask for index in range(model.layers)} == {Mask.CAUSAL}
    assert load_model("bert", "random", sizes=small_sizes["bert"]).layer(0).mask is Mask.NONE


def test_offset_is_the_bias_of_values_through_the_output_plus_the_bias_of_the_output(small_sizes):
    model = load_model("bert", "random", sizes=small_sizes["bert"])
    attention = model.module.encoder.layer[1].attention
    torch.nn.init.normal_(attention.self.value.bias)
    torch.nn.init.normal_(attention.output.dense.bias)
    expected = attention.output.dense(attention.self.value.bias)
    torch.testing.assert_close(adapter_for("bert").taken_out(model.module).attached[1].weights.offset, expected)


@pytest.mark.slow
def test_the_base_model_has_the_published_sizes():
    model = load_model("bert", "random", dtype=torch.float32)
    layer = model.layer(11)
    assert (model.layers, layer.heads, layer.width, layer.query.shape[1]) == (12, 12, 768, 64)
    assert (model.vocabulary, model.max_tokens) == (30522, 512)
    print(f"bert base float32: largest relative difference {max(model.differences):.1e}")
