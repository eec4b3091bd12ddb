from __future__ import annotations

import pytest
import torch
import transformers

from robust_attn.models import load_model
from robust_attn.models.build import pretrained_module, random_module, seeded, tokenizer_in
from robust_attn.models.catalog import spec_of
from robust_attn.types import UserError

SIZES = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}


def test_seeded_draws_the_same_numbers_and_puts_the_state_back_even_after_an_error():
    torch.manual_seed(1)
    before = torch.get_rng_state()
    with seeded(7):
        one = torch.rand(3)
    with seeded(7):
        assert torch.equal(torch.rand(3), one)
    with pytest.raises(ZeroDivisionError), seeded(7):
        torch.rand(1 // 0)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("name", ["toy", "bert"])
def test_the_global_random_state_is_untouched(name):
    sizes = {} if name == "toy" else SIZES
    torch.manual_seed(123)
    before = torch.get_rng_state()
    load_model(name, "random", seed=4, sizes=sizes)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_folder_does_not_touch_the_global_random_state_either(tmp_path):
    load_model("bert", "random", dtype=torch.float32, sizes=SIZES).module.save_pretrained(tmp_path)
    torch.manual_seed(123)
    before = torch.get_rng_state()
    load_model("bert", str(tmp_path))
    assert torch.equal(torch.get_rng_state(), before)


def test_the_seed_alone_decides_random_weights():
    torch.manual_seed(1)
    one = load_model("bert", "random", seed=9, sizes=SIZES)
    torch.manual_seed(2)
    same = load_model("bert", "random", seed=9, sizes=SIZES)
    other = load_model("bert", "random", seed=10, sizes=SIZES)
    assert one.origin.label == "random:9"
    assert torch.equal(one.layer(1).query, same.layer(1).query)
    assert not torch.equal(one.layer(1).query, other.layer(1).query)


def test_every_precision_has_the_same_random_weights():
    exact = load_model("bert", "random", dtype=torch.float64, sizes=SIZES)
    coarse = load_model("bert", "random", dtype=torch.float32, sizes=SIZES)
    assert (exact.dtype, coarse.dtype) == (torch.float64, torch.float32)
    assert torch.equal(exact.layer(0).query, coarse.layer(0).query.double())


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"hiden_size": 3}, "no size called hiden_size"),
        ({"hidden_size": "wide"}, "refuses the sizes|cannot be built"),
        ({"hidden_size": 25, "num_attention_heads": 2}, "refuses the sizes|cannot be built"),
        ({"hidden_size": -4}, "refuses the sizes|cannot be built"),
    ],
)
def test_sizes_that_a_model_refuses(sizes, message):
    with pytest.raises(UserError, match=message):
        load_model("bert", "random", sizes=sizes)
    with pytest.raises(UserError):
        load_model("toy", sizes={"heads": 3})


def test_a_size_may_be_given_under_either_of_its_names():
    spec = spec_of("gpt2")
    one = random_module(spec, {"hidden_size": 24, "n_layer": 1, "n_head": 2}, seed=0, dtype=torch.float32)
    two = random_module(spec, {"n_embd": 24, "num_hidden_layers": 1, "n_head": 2}, seed=0, dtype=torch.float32)
    assert one.config.n_embd == two.config.n_embd == 24
    assert torch.equal(one.transformer.wte.weight, two.transformer.wte.weight)


def test_modules_are_ready_to_be_watched_and_not_to_be_trained():
    module = random_module(spec_of("llama"), {**SIZES, "num_key_value_heads": 2}, seed=0, dtype=torch.float64)
    assert not module.training
    assert not any(parameter.requires_grad for parameter in module.parameters())
    assert {parameter.dtype for parameter in module.parameters()} == {torch.float64}
    assert module.model.rotary_emb.inv_freq.dtype == torch.float32
    assert module.config.use_cache is False


def test_a_folder_comes_back_in_the_precision_asked_for(tmp_path):
    saved = random_module(spec_of("bert"), SIZES, seed=3, dtype=torch.float32)
    saved.save_pretrained(tmp_path)
    module = pretrained_module(tmp_path, dtype=torch.float64, spec=spec_of("bert"))
    weight = module.embeddings.word_embeddings.weight
    assert torch.equal(weight, saved.embeddings.word_embeddings.weight.double())
    assert tokenizer_in(tmp_path) is None


def test_a_tokenizer_that_cannot_be_read_is_a_users_error(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(UserError, match=r"the tokenizer in .* cannot be loaded"):
        tokenizer_in(tmp_path)


def test_a_folder_of_nothing_is_a_users_error(tmp_path):
    with pytest.raises(UserError, match="cannot be loaded"):
        pretrained_module(tmp_path, dtype=torch.float32, spec=spec_of("bert"))


def test_the_image_processor_of_a_folder_comes_with_its_model(tmp_path):
    sizes = SIZES | {"num_hidden_layers": 1, "image_size": 8, "patch_size": 4}
    model = load_model("vit", "random", dtype=torch.float32, sizes=sizes)
    model.module.save_pretrained(tmp_path)
    assert load_model("vit", str(tmp_path)).image_processor is None
    channels, height, width = model.image_shape
    made = transformers.ViTImageProcessorPil(size={"height": height, "width": width}, image_mean=[0.25] * channels)
    made.save_pretrained(tmp_path)
    found = load_model("vit", str(tmp_path)).image_processor
    assert (found.size["height"], list(found.image_mean)) == (height, [0.25] * channels)
    (tmp_path / "preprocessor_config.json").write_text("{")
    with pytest.raises(UserError, match=r"the image processor in .* cannot be loaded"):
        load_model("vit", str(tmp_path))
