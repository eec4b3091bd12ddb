from __future__ import annotations

import pytest
import torch
import transformers

from robust_attn.models import load_model


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def bert():
    return load_model("bert", "random", sizes={"hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 2})


@pytest.fixture(scope="session")
def vit():
    return load_model("vit", "random", sizes={"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2})


@pytest.fixture(scope="session")
def reader(tmp_path_factory):
    """A small model with a tokenizer that begins texts with [CLS] (2) and ends them with [SEP] (3)."""
    words = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "one", "two", "three", "four", "five")
    folder = tmp_path_factory.mktemp("tokenizer")
    transformers.BertTokenizer(vocab={word: number for number, word in enumerate(words)}).save_pretrained(folder)
    sizes = {"hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 2, "vocab_size": 20}
    return load_model("bert", "random", tokenizer=str(folder), sizes=sizes)
