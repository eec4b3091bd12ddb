"""A weights file and the model that its config.json describes: heads may be left out, layers may not."""

from __future__ import annotations

import json

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from robust_attn.models import load_model
from robust_attn.models.quiet import quiet_transformers
from robust_attn.types import UserError

ENCODER = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
TEXT = {**ENCODER, "vocab_size": 100}
IMAGES = {**ENCODER, "image_size": 8, "patch_size": 2, "num_channels": 1, "encoder_stride": 2}
DISTILLED = {"dim": 24, "n_layers": 2, "n_heads": 2, "hidden_dim": 32, "vocab_size": 100}
GPT2 = {"n_embd": 24, "n_layer": 2, "n_head": 2, "vocab_size": 100, "bos_token_id": 1, "eos_token_id": 1}
LLAMA = {**TEXT, "num_key_value_heads": 1}
HEADS = {
    "BertForMaskedLM": ("bert", transformers.BertConfig, TEXT),
    "BertForPreTraining": ("bert", transformers.BertConfig, TEXT),
    "BertForSequenceClassification": ("bert", transformers.BertConfig, TEXT),
    "RobertaForMaskedLM": ("roberta", transformers.RobertaConfig, TEXT),
    "DistilBertForSequenceClassification": ("distilbert", transformers.DistilBertConfig, DISTILLED),
    "GPT2LMHeadModel": ("gpt2", transformers.GPT2Config, GPT2),
    "GPT2ForSequenceClassification": ("gpt2", transformers.GPT2Config, GPT2),
    "LlamaForCausalLM": ("llama", transformers.LlamaConfig, LLAMA),
    "ViTForImageClassification": ("vit", transformers.ViTConfig, IMAGES),
    "ViTForMaskedImageModeling": ("vit", transformers.ViTConfig, IMAGES),
}
LAYERS = ("num_hidden_layers", "n_layers", "n_layer")


@pytest.fixture(params=sorted(HEADS))
def with_head(request, tmp_path):
    """The name of a model and a folder with one of its kind that has a head."""
    name, config, sizes = HEADS[request.param]
    with quiet_transformers():
        getattr(transformers, request.param)(config(**sizes)).save_pretrained(tmp_path)
    return name, tmp_path


def reconfigured(folder, **changes):
    path = folder / "config.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {name: value for name, value in changes.items() if name in content}))


def test_a_head_is_left_out_in_silence_and_a_layer_is_not(with_head):
    name, folder = with_head
    assert load_model(name, str(folder)).layers == 2
    reconfigured(folder, **dict.fromkeys(LAYERS, 1))
    with pytest.raises(UserError, match=r"leaves out \d+ tensors of the layers .*for example .*\b1\."):
        load_model(name, str(folder))


def test_more_layers_than_the_file_has_are_refused(with_head):
    name, folder = with_head
    reconfigured(folder, **dict.fromkeys(LAYERS, 3))
    with pytest.raises(UserError, match=r"lack \d+ parameters of the model, for example .*\b2\."):
        load_model(name, str(folder))


@pytest.fixture
def bert(tmp_path):
    with quiet_transformers():
        transformers.BertModel(transformers.BertConfig(**TEXT)).save_pretrained(tmp_path)
    return tmp_path


def test_a_tensor_of_another_shape_is_named_with_both_shapes(bert):
    reconfigured(bert, vocab_size=90)
    with pytest.raises(UserError) as caught:
        load_model("bert", str(bert))
    said = str(caught.value)
    assert "embeddings.word_embeddings.weight has shape [100, 24] in the file and [90, 24] in the model" in said
    assert "more tensors" not in said
    assert "above" not in said
    reconfigured(bert, vocab_size=100, intermediate_size=40)
    with pytest.raises(UserError, match=r"has shape \[32\] in the file and \[40\] in the model, and 5 more tensors"):
        load_model("bert", str(bert))


def with_tensors(folder, **more):
    path = folder / "model.safetensors"
    save_file({**load_file(path), **more}, path, metadata={"format": "pt"})


def test_a_part_of_a_layer_that_the_model_has_not_is_refused(bert):
    """Of a layer that was trained with more than its configuration says, another map would be left."""
    with_tensors(bert, **{"encoder.layer.0.attention.self.adapter.weight": torch.ones(3)})
    with pytest.raises(UserError, match=r"leaves out 1 tensors .*layer\.0\.attention\.self\.adapter\.weight"):
        load_model("bert", str(bert))


def test_constants_that_old_files_hold_are_no_weights(bert, tmp_path_factory):
    with_tensors(bert, **{"embeddings.position_ids": torch.arange(512)[None]})
    assert load_model("bert", str(bert)).layers == 2
    folder = tmp_path_factory.mktemp("gpt2")
    with quiet_transformers():
        transformers.GPT2Model(transformers.GPT2Config(**GPT2)).save_pretrained(folder)
    with_tensors(folder, **{"h.0.attn.bias": torch.ones(1, 1, 8, 8), "h.1.attn.masked_bias": torch.tensor(-1e4)})
    assert load_model("gpt2", str(folder)).layers == 2
