from __future__ import annotations

import pytest
import torch

from robust_attn.models import load_model
from robust_attn.types import UserError


def test_the_token_limit_leaves_out_the_positions_before_the_first_token(small_sizes):
    model = load_model("roberta", "random", sizes={**small_sizes["roberta"], "max_position_embeddings": 20})
    assert model.max_tokens == 18
    ids = torch.full((1, 18), 7)
    assert model.inputs_at([0], ids)[0].length == 18
    with pytest.raises((IndexError, RuntimeError)):
        model.module(torch.full((1, 19), 7))  # the model itself has no position for one more
    with pytest.raises(UserError, match="at most 18 tokens"):
        model.inputs_at([0], torch.full((1, 19), 7))


def test_text_never_becomes_the_padding_token(small_sizes):
    model = load_model("roberta", "random", sizes={**small_sizes["roberta"], "vocab_size": 8})
    ids = model.encode(" ".join(f"word{index}" for index in range(200)))
    assert set(ids) == {2, 3, 4, 5, 6, 7}
