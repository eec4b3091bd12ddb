from __future__ import annotations

import pytest
import torch

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
