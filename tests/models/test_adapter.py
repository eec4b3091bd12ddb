"""Claims that hold for every architecture alike."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.rounding import evaluation_error
from robust_attn.models import load_model
from robust_attn.models.hooks import watch
from robust_attn.models.reading import body_of
from robust_attn.models.selfcheck import TOLERANCES, relative_differences

ARCHITECTURES = ["bert", "roberta", "distilbert", "gpt2", "llama", "vit", "toy"]


def scrambled(model: Any, seed: int = 1) -> None:
    """Every parameter, biases and norms too, away from its initial value, in place."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.module.parameters():
        parameter.data += 0.3 * torch.randn(parameter.shape, generator=generator).to(parameter)


def batch_for(model: Any, samples: int = 3, tokens: int = 9) -> torch.Tensor:
    generator = torch.Generator().manual_seed(2)
    if model.takes_images:
        return torch.randn((samples, *model.image_shape), generator=generator).to(model.dtype)
    return torch.randint(3, model.vocabulary, (samples, tokens), generator=generator)


def rebuilt_layers(model: Any) -> Any:
    from robust_attn.models.registry import adapter_for

    return adapter_for(model.architecture).taken_out(model.module).attached


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_layers_agree_with_the_real_model_also_with_all_biases_away_from_zero(name, dtype, small_sizes):
    model = load_model(name, "random", dtype=dtype, sizes=small_sizes[name])
    scrambled(model)
    differences = relative_differences(model.module, rebuilt_layers(model), batch_for(model))
    print(f"{name} {dtype}: largest relative difference {max(differences):.1e}")
    assert len(differences) == 3
    assert max(differences) <= TOLERANCES[dtype]


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_bfloat16_agrees_within_its_tolerance(name, small_sizes):
    model = load_model(name, "random", dtype=torch.bfloat16, sizes=small_sizes[name])
    print(f"{name} bfloat16: largest relative difference {max(model.differences):.1e}")
    assert model.dtype is torch.bfloat16
    assert max(model.differences) <= TOLERANCES[torch.bfloat16]


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_bfloat16_model_hands_out_its_weights_and_tokens_unrounded(name, small_sizes):
    model = load_model(name, "random", dtype=torch.bfloat16, sizes=small_sizes[name])
    layer, own = model.layer(1), model.attached[1].weights
    assert own.dtype is torch.bfloat16
    assert layer.dtype is torch.float32
    assert torch.equal(layer.query, own.query.float())
    points = model.inputs_at([1], batch_for(model))[1].points
    assert points.dtype is torch.float32
    assert torch.equal(points, points.bfloat16().float())


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_bfloat16_model_computes_the_exact_map_up_to_the_error_stated(name, small_sizes):
    """What docs/trust.md says of models in their own precision: at most `evaluation_error` in every row."""
    model = load_model(name, "random", dtype=torch.bfloat16, sizes=small_sizes[name])
    scrambled(model)
    attached = rebuilt_layers(model)
    sources, sinks = [layer.source for layer in attached], [layer.sink for layer in attached]
    watched = watch(model.module, batch_for(model), sources=sources, sinks=sinks)
    for layer, points, output in zip(attached, watched.inputs, watched.outputs, strict=True):
        tokens = TokenMeasure.uniform(points.double())
        exact = layer.weights.to(torch.float64)(tokens)
        error = (exact - output.double()).norm(dim=-1).amax(-1)
        coarse = evaluation_error(layer.weights, TokenMeasure.uniform(points))
        assert (error <= coarse.double()).all()
        assert (error > 0).all()


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_weights_are_views_of_the_models_parameters(name, small_sizes):
    model = load_model(name, "random", sizes=small_sizes[name])
    owned = {parameter.untyped_storage().data_ptr() for parameter in model.module.parameters()}
    layer = model.layer(1)
    for tensor in (layer.query, layer.key, layer.value, layer.output):
        assert tensor.untyped_storage().data_ptr() in owned
        assert not tensor.requires_grad


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_no_input_of_a_layer_leaves_its_radius(name, dtype, small_sizes):
    model = load_model(name, "random", dtype=dtype, sizes=small_sizes[name])
    scrambled(model)
    attached = rebuilt_layers(model)
    watched = watch(model.module, batch_for(model, samples=8), sources=[layer.source for layer in attached])
    ratios = [
        float(points.double().norm(dim=-1).max()) / layer.weights.input_radius
        for points, layer in zip(watched.inputs, attached, strict=True)
    ]
    print(f"{name}: largest norm / radius {max(ratios):.3f}")
    assert max(ratios) <= 1.0
    assert min(ratios) > 0.1  # a radius of another place in the model, or of no use, would be far off


FEEDING_LAYER_1 = {
    "bert": "encoder.layer.0.output.LayerNorm",
    "roberta": "encoder.layer.0.output.LayerNorm",
    "distilbert": "transformer.layer.0.output_layer_norm",
    "gpt2": "h.1.ln_1",
    "llama": "layers.1.input_layernorm",
    "vit": "layers.1.layernorm_before",
    "toy": "norms.1",
}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_radius_is_that_of_the_norm_which_feeds_the_layer(name, small_sizes):
    model = load_model(name, "random", sizes=small_sizes[name])
    before = [model.layer(index).input_radius for index in range(3)]
    body_of(model.module).get_submodule(FEEDING_LAYER_1[name]).weight.mul_(100)
    after = [layer.weights.input_radius for layer in rebuilt_layers(model)]
    assert after[1] > 50 * before[1]
    assert (after[0], after[2]) == (before[0], before[2])
    assert float(model.inputs_at([1], batch_for(model))[1].radius.max()) > 20 * before[1]
