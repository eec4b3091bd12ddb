from __future__ import annotations

import json

import pytest
import torch
import transformers
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


def test_a_configuration_without_a_model_type_is_refused_for_that(folder):
    content = json.loads((folder / "config.json").read_text())
    del content["model_type"]
    (folder / "config.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match=r'config\.json has no model_type, .*expected "model_type": "bert"') as caught:
        load_model("bert", str(folder))
    assert "another architecture" not in str(caught.value)


def test_trained_weights_without_a_tokenizer_read_no_text(folder):
    """Ids of hashed words would mean nothing to them; everything but text still works."""
    model = load_model("bert", str(folder), dtype=torch.float32)
    assert model.inputs_at([1], torch.tensor([[3, 4, 5]]))[1].length == 3
    for read in (model.encode, lambda text: model.tokens_at(0, text)):
        with pytest.raises(UserError, match=r"no tokenizer, .*model\.tokenizer=FOLDER.*data=gaussian"):
            read("some words of text")


@pytest.fixture
def tokenizer(tmp_path):
    words = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "some", "words", "of", "text")
    saved = transformers.BertTokenizer(vocab={word: number for number, word in enumerate(words)})
    saved.save_pretrained(tmp_path / "tokenizer")
    return tmp_path / "tokenizer"


def test_a_tokenizer_may_come_from_another_folder(folder, tokenizer):
    model = load_model("bert", str(folder), tokenizer=str(tokenizer), dtype=torch.float32)
    assert model.encode("some text of words") == [5, 8, 7, 6]
    assert model.origin.note == f"text is read through the tokenizer in {tokenizer}"
    assert load_model("bert", "random", tokenizer=str(tokenizer), sizes=SIZES).encode("of text") == [7, 8]


def test_a_tokenizer_from_another_folder_comes_before_that_of_the_weights(folder, tokenizer):
    (folder / "tokenizer.json").write_text("{")
    with pytest.raises(UserError, match="cannot be loaded"):
        load_model("bert", str(folder))
    assert load_model("bert", str(folder), tokenizer=str(tokenizer)).encode("words") == [6]


def test_a_tokenizer_that_is_not_there_is_said_in_one_sentence(folder, tokenizer, tmp_path):
    for given, words in (
        (tmp_path / "absent", "there is no folder .*absent to take a tokenizer from"),
        (folder, r"has no tokenizer: it has none of the files tokenizer\.json, vocab\.txt, vocab\.json"),
        ("", "got nothing"),
    ):
        with pytest.raises(UserError, match=words):
            load_model("bert", str(folder), tokenizer=str(given))
    with pytest.raises(UserError, match="vit reads images, so it takes no tokenizer"):
        load_model("vit", "random", tokenizer=str(tokenizer), sizes={**SIZES, "num_hidden_layers": 1})


def test_a_vocabulary_alone_says_not_of_which_kind_it_is(folder, tmp_path):
    (tmp_path / "vocabulary").mkdir()
    (tmp_path / "vocabulary" / "vocab.txt").write_text("[UNK]\nsome")
    with pytest.raises(UserError, match=r"cannot be loaded: .*[^:] \(save_pretrained writes"):
        load_model("bert", str(folder), tokenizer=str(tmp_path / "vocabulary"))


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


def test_a_type_that_is_known_by_its_own_code_alone_is_refused_by_name(folder):
    content = json.loads((folder / "config.json").read_text())
    content |= {"model_type": "my_own", "auto_map": {"AutoModel": "modeling_my_own.Mine"}}
    (folder / "config.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match=r"type 'my_own' that brings its own code .* never run"):
        load_model(str(folder))
