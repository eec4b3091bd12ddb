from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from robust_attn.models import load_model
from robust_attn.models.cache import sha256_of
from robust_attn.types import UserError

SIZES = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}


@pytest.fixture
def folder(tmp_path):
    load_model("bert", "random", seed=3, dtype=torch.float32, sizes=SIZES).module.save_pretrained(tmp_path / "saved")
    return tmp_path / "saved"


def test_weights_come_back_from_a_folder(folder):
    original = load_model("bert", "random", seed=3, dtype=torch.float32, sizes=SIZES)
    model = load_model("bert", str(folder), dtype=torch.float32)
    assert model.origin.label == f"folder:{folder}"
    assert model.origin.sha256 == {"model.safetensors": sha256_of(folder / "model.safetensors")}
    assert torch.equal(model.layer(1).value, original.layer(1).value)
    assert model.tokenizer is None


def test_a_sharded_folder_is_read_and_every_shard_recorded(folder, tmp_path):
    whole = load_model("bert", str(folder), dtype=torch.float32)
    whole.module.save_pretrained(tmp_path / "shards", max_shard_size="300KB")
    model = load_model("bert", str(tmp_path / "shards"), dtype=torch.float32)
    assert len(model.origin.sha256) > 1
    assert torch.equal(model.layer(1).value, whole.layer(1).value)
    next((tmp_path / "shards").glob("model-00001*")).unlink()
    with pytest.raises(UserError, match="shards that are not there"):
        load_model("bert", str(tmp_path / "shards"))


def test_another_architecture_is_refused_with_both_names(folder):
    with pytest.raises(UserError, match=r"another architecture: its model_type is 'bert', expected 'gpt2'"):
        load_model("gpt2", str(folder))


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(UserError, match="there is no folder"):
        load_model("bert", str(tmp_path / "absent"))


def test_a_folder_without_a_configuration(folder):
    (folder / "config.json").unlink()
    with pytest.raises(UserError, match=r"no config\.json"):
        load_model("bert", str(folder))


@pytest.mark.parametrize("content", ["{", "[]", "\xff"])
def test_a_configuration_that_is_none(folder, content):
    (folder / "config.json").write_text(content, encoding="latin-1")
    with pytest.raises(UserError, match=r"config\.json"):
        load_model("bert", str(folder))


def test_pickles_are_not_read(folder):
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(UserError, match="other formats are not read"):
        load_model("bert", str(folder))


@pytest.mark.parametrize("kept", [0, 100, 50_000])
def test_damaged_safetensors(folder, kept):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(UserError, match="damaged or not a safetensors file"):
        load_model("bert", str(folder))


def _rewritten(folder, change):
    path = folder / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, metadata={"format": "pt"})


def test_a_missing_weight_is_refused(folder):
    _rewritten(folder, lambda tensors: tensors.pop("encoder.layer.1.attention.self.key.weight"))
    with pytest.raises(UserError, match=r"lack 1 parameters .*layer\.1\.attention\.self\.key\.weight"):
        load_model("bert", str(folder))


def test_a_weight_of_another_shape_is_refused(folder):
    _rewritten(
        folder, lambda tensors: tensors.update({"encoder.layer.0.attention.self.key.weight": torch.ones(24, 20)})
    )
    with pytest.raises(UserError, match="the weights in"):
        load_model("bert", str(folder))


def test_a_weight_that_is_not_a_number_is_refused(folder):
    _rewritten(folder, lambda tensors: tensors["encoder.layer.0.attention.self.key.weight"].fill_(torch.nan))
    with pytest.raises(UserError, match="differs from the model's own forward pass by nan"):
        load_model("bert", str(folder))


def test_a_pooler_and_a_head_may_be_there_or_not(folder):
    _rewritten(folder, lambda tensors: tensors.update({"pooler.dense.weight": torch.ones(24, 24)}))
    assert load_model("bert", str(folder)).layers == 2


def test_a_folder_never_runs_code_it_brings(folder, tmp_path):
    content = json.loads((folder / "config.json").read_text())
    content["auto_map"] = {"AutoModel": "evil.Evil", "AutoConfig": "evil.Evil"}
    (folder / "config.json").write_text(json.dumps(content))
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'trace')!r}, 'w')")
    assert load_model("bert", str(folder)).layers == 2
    assert not (tmp_path / "trace").exists()
