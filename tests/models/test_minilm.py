"""The pretrained sentence encoder out of its wheel; downloaded once, kept in the user's cache."""

from __future__ import annotations

import socket

import pytest
import torch

from robust_attn.models import load_model


@pytest.fixture(scope="module")
def model():
    return load_model("minilm", "pretrained", dtype=torch.float32)


def test_the_real_weights_agree(model):
    print(f"minilm float32: largest relative difference {max(model.differences):.1e}")
    exact = load_model("minilm", "pretrained", dtype=torch.float64)
    print(f"minilm float64: largest relative difference {max(exact.differences):.1e}")
    assert (model.layers, model.layer(0).heads, model.layer(0).width) == (6, 12, 384)
    assert "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db" in model.origin.sha256.values()
    assert max(exact.differences) < 1e-12


def test_its_tokenizer_reads_text_without_special_tokens(model):
    assert model.tokenizer.convert_ids_to_tokens(model.encode("Attention layers, naïvely")) == [
        "attention",
        "layers",
        ",",
        "naive",
        "##ly",
    ]


def test_it_knows_which_sentences_are_alike(model):
    """Trained weights, not random ones: the mean of the last layer puts paraphrases closer than strangers."""

    def embedding(text: str) -> torch.Tensor:
        ids = torch.tensor([[101, *model.encode(text), 102]])
        return torch.nn.functional.normalize(model.module(ids).last_hidden_state[0].mean(0), dim=0)

    cat, kitten, tax = (
        embedding(text) for text in ("A cat sits outside.", "A kitten is sitting in the garden.", "Taxes went up.")
    )
    assert float(cat @ kitten) > 0.5
    assert float(cat @ tax) < 0.3


def test_what_is_kept_needs_no_network(model, monkeypatch):
    attempts = []
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **_: attempts.append(args) or [])
    monkeypatch.setattr(socket.socket, "connect", lambda _, address: attempts.append(address))
    again = load_model("minilm", "auto", dtype=torch.float32)
    assert again.origin == model.origin
    assert attempts == []


def test_its_tokens_are_spelled_as_they_are_read(model):
    text = "Debugging works."
    assert model.spelled(text, model.encode(text), [slice(0, 3), slice(3, 5)]) == [
        ["de", "##bu", "##gging"],
        ["works", "."],
    ]
