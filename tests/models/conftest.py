from __future__ import annotations

import pytest
import torch

SMALL = {
    "bert": {"hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 64},
    "roberta": {"hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 64},
    "distilbert": {"hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4, "hidden_dim": 64},
    "gpt2": {"hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4},
    "llama": {"hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 6, "num_key_value_heads": 2},
    "vit": {"hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4},
    "toy": {"layers": 3, "width": 12, "heads": 3},
}


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def small_sizes() -> dict[str, dict[str, int]]:
    """Sizes at which every architecture is built in a moment."""
    return SMALL


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """No hub: the variable counts as unreachable at once."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture
def empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory):
    """A cache of our own with nothing in it."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("ROBUST_ATTN_CACHE", str(folder))
    return folder
